"""Fault campaigns over every host and both targets, on the real catalog, SeaweedFS and Kafka.

Writers are killed, stopped, cut off and overtaken; tables are expired, disturbed and rolled back; servers go away.
Whatever happens: every row of the topic is in the table or in its quarantine exactly once (ids are compared, not
counted), and the audit finds nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Campaign
from tests.faults.sink_faults import FAULTS, Fault, Trial, a_catalog_that_is_away_for_a_minute, sees_a_row_twice
from tests.faults.sink_stack import Servers
from tests.kit.stack import Project

HOSTS, TARGETS = ("python", "bytewax", "spark"), ("iceberg", "delta")
# faults for each target. Plain Python has more of them on local files (test_sink_campaign); a driver of Spark takes
# long to start
SHORT = {"python": 2, "bytewax": 3, "spark": 1}
FULL = {"python": 300, "bytewax": 150, "spark": 150}
CHAPTER = 25  # faults per table: with more, reading the table takes longer than the faults
LOOK_EVERY = 5  # in a full run, for the same reason


@pytest.fixture
def say(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Prints a line though pytest captures: a long campaign shows that it goes on."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def print_now(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(line, flush=True)

    return print_now


def deal(host: str, target: str, campaign: Campaign, chance: random.Random) -> Iterator[Fault]:
    """Which faults happen: in a short run from half of the list, the rest with the other target; in a full run all,
    over and over.
    """
    if not campaign.full:
        first = (HOSTS.index(host) + TARGETS.index(target)) % 2
        yield from chance.sample(FAULTS[first::2], SHORT[host])
        return
    for start in range(0, FULL[host], len(FAULTS)):
        yield from chance.sample(FAULTS, len(FAULTS))[: FULL[host] - start]


@pytest.mark.requirement("sink.exactly-once")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("host", HOSTS)
def test_every_row_is_in_exactly_once_whatever_happens(
    host: str, target: str, fault_stack: Project, campaign: Campaign, tmp_path: Path, say: Callable[[str], None]
) -> None:
    servers, chance = Servers(fault_stack), campaign.random()
    faults = [*deal(host, target, campaign, chance), *([a_catalog_that_is_away_for_a_minute] if campaign.full else [])]
    for first in range(0, len(faults), CHAPTER):
        topic = servers.new_topic()
        trial = Trial(servers, servers.new_lake(host, target, topic), topic, chance, tmp_path)
        for number, fault in enumerate(faults[first : first + CHAPTER], start=first):
            began = time.monotonic()
            fault(trial)
            print(f"fault {number}: {fault.__name__}, {time.monotonic() - began:.1f} s", flush=True)
            if not campaign.full or number % LOOK_EVERY == 0:
                trial.check()
        trial.finish()
        if campaign.full:
            say(f"{host} into {target}: {number + 1} of {len(faults)} faults, every row once (seed {campaign.seed})")


# Plain Python has such a test next to its campaign on local files; a driver of Spark takes long to start.
BROKEN = [("bytewax", target, rule) for target in TARGETS for rule in ("guard", "fence")] + [
    ("spark", "iceberg", "guard")
]


@pytest.mark.timeout(0)
@pytest.mark.parametrize(("host", "target", "rule"), BROKEN)
def test_a_build_that_lacks_a_rule_is_seen_to_repeat_rows(
    host: str, target: str, rule: str, fault_stack: Project, campaign: Campaign, tmp_path: Path
) -> None:
    servers = Servers(fault_stack)
    topic = servers.new_topic()
    trial = Trial(servers, servers.new_lake(host, target, topic), topic, campaign.random(), tmp_path)
    job = trial.next_job(broken=rule, parts=1)
    successor = replace(job, broken="", state=trial.new_state())
    assert sees_a_row_twice(trial.lake, job, successor, at_step=2)  # the first commit was the take-over
