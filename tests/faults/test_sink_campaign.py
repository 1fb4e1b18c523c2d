"""Writers are killed between any two steps, lose replies, wake up as zombies; between them snapshots expire and
strangers write.

After all of it, every row is in the table or in the quarantine exactly once: ids are compared, not counted.
"""

from __future__ import annotations

import contextlib
import random
import re
import signal
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from frazil.catalog.embedded import running_catalog
from tests.conftest import Campaign
from tests.faults.sink_faults import sees_a_row_twice
from tests.faults.sink_lake import WrittenLake, make_lake
from tests.faults.sink_processes import run, start, zombie
from tests.faults.sink_writer import FAILED, PARTITION_BY, Job, expected_ids
from tests.kit.lossy_proxy import lossy_proxy

ROWS_A_ROUND = 24
MOST_STEPS = 25
LOOK_EVERY = 5  # reading thousands of small files takes longer than the faults


@contextlib.contextmanager
def lake_of(kind: str, folder: Path) -> Iterator[WrittenLake]:
    if kind == "delta":
        yield make_lake(Job("delta", str(folder / "events"), 0), PARTITION_BY)
        return
    # Appends are rebased where they may be, those of sinks included: no fault may bring a row in twice.
    with running_catalog(folder, rebase_appends=True) as server:
        yield make_lake(Job("iceberg", server.uri, 0, connection=server.properties), PARTITION_BY)


def rebases(uri: str) -> float:
    """How many commits the catalog has rebased."""
    with urllib.request.urlopen(f"{uri}/metrics") as reply:
        (count,) = re.findall(r'^frazil_rebases_total\{outcome="rebased"\} (\S+)$', reply.read().decode(), re.M)
    return float(count)


@pytest.fixture(params=["iceberg", "delta"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WrittenLake]:
    with lake_of(request.param, tmp_path) as result:
        yield result


@pytest.fixture
def iceberg(tmp_path: Path) -> Iterator[WrittenLake]:
    with lake_of("iceberg", tmp_path) as result:
        yield result


def one_fault(lake: WrittenLake, job: Job, chance: random.Random) -> None:
    fault = chance.choice(["kill", "kill", "kill", "zombie", "lose reply", "lose request", "expire", "disturb"])
    job = replace(
        job, at_step=chance.randint(1, MOST_STEPS), batch_rows=chance.randint(1, 17), flush_rows=chance.randint(1, 40)
    )
    if fault == "kill":
        assert run(replace(job, fault="kill")) in (0, -signal.SIGKILL)
    elif fault == "zombie":
        zombie(job)
    elif fault == "expire":
        run(replace(job, fault="kill"))
        lake.expire()
    elif fault == "disturb":
        writer = start(replace(job, fault="kill"))
        lake.disturb()
        writer.join(300)
    else:
        assert run(replace(job, fault=fault)) == 0


@pytest.mark.requirement("sink.exactly-once")
@pytest.mark.timeout(0)
def test_whatever_happens_to_its_writers_every_row_is_in_exactly_once(lake: WrittenLake, campaign: Campaign) -> None:
    chance = campaign.random()
    faults = campaign.size(short=6, full=300)
    for number in range(1, faults + 1):
        one_fault(lake, replace(lake.job, until=number * ROWS_A_ROUND), chance)
        if number % LOOK_EVERY:
            continue
        table, quarantine = lake.ids()
        for item, possible in zip((table, quarantine), expected_ids(number * ROWS_A_ROUND), strict=True):
            assert len(item) == len(set(item)), f"fault {number}: a row is in twice"
            assert set(item) <= set(possible), f"fault {number}: a row is in the wrong table"
    assert run(replace(lake.job, until=faults * ROWS_A_ROUND)) == 0
    assert lake.ids() == expected_ids(faults * ROWS_A_ROUND)


@pytest.mark.requirement("sink.parallel")
@pytest.mark.requirement("sink.conflict")
def test_parts_that_write_at_the_same_time_and_are_killed_lose_and_repeat_nothing(
    lake: WrittenLake, campaign: Campaign
) -> None:
    chance = campaign.random()
    until = campaign.size(short=3, full=30) * ROWS_A_ROUND
    # Commits small enough for some to have no bad row: one that quarantines is of two tables, and never rebased.
    each = replace(lake.job, until=until, batch_rows=3, flush_rows=6)
    for _ in range(campaign.size(short=3, full=30)):
        jobs = [replace(each, part=part, fault="kill", at_step=chance.randint(5, 60)) for part in range(3)]
        for writer in [start(job) for job in jobs]:
            writer.join(300)
    for writer in [start(replace(each, part=part)) for part in range(3)]:
        writer.join(300)
        assert writer.exitcode == 0
    assert lake.ids() == expected_ids(until, parts=3)
    assert not campaign.full or lake.job.kind != "iceberg" or rebases(lake.job.place) > 0


@pytest.mark.requirement("sink.exactly-once")
def test_replies_and_requests_lost_on_the_wire_repeat_nothing(iceberg: WrittenLake, campaign: Campaign) -> None:
    chance = campaign.random()
    rounds = campaign.size(short=4, full=40)
    with lossy_proxy(iceberg.job.place) as proxy:
        for number in range(1, rounds + 1):
            for _ in range(chance.randint(1, 4)):
                chance.choice([proxy.lose_reply, proxy.lose_request])(chance.choice([b"POST ", b"GET "]))
            # A writer that loses its very first questions does not begin; the next one makes up for it.
            assert run(replace(iceberg.job, place=proxy.uri, until=number * ROWS_A_ROUND)) in (0, FAILED)
    assert run(replace(iceberg.job, until=rounds * ROWS_A_ROUND)) == 0
    assert iceberg.ids() == expected_ids(rounds * ROWS_A_ROUND)


@pytest.mark.parametrize("broken", ["guard", "fence"])
def test_without_the_guard_or_the_fence_the_campaign_sees_it(lake: WrittenLake, broken: str) -> None:
    """The same zombie, in a build that lacks a rule: if this finds nothing wrong, the tests above prove nothing."""
    job = replace(lake.job, until=ROWS_A_ROUND)
    assert sees_a_row_twice(lake, replace(job, broken=broken), job, at_step=2)  # the first commit was the take-over
