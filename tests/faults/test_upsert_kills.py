"""Writers of upserts are killed (-9) in the midst of it, wake up as zombies, and lose their state and their table's
history in between.

After all of it the table has the rows of a dictionary that was given the same changes, and the quarantine has each bad
one once. On Spark, the JVM that merges dies with its driver.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from frazil.catalog.embedded import running_catalog
from tests.conftest import Campaign
from tests.faults.sink_processes import end_of, let_go_on, run, start, wait_until_stopped, wake, zombie
from tests.faults.sink_stack import Servers
from tests.faults.sink_topic import Topic
from tests.faults.sink_writer import FENCED, Job
from tests.faults.upsert_writer import RIVAL, UpsertLake, expected, make_change
from tests.kit.stack import Project

ROWS_A_ROUND = 40
MOST_STEPS = 30
MOST_SPARK_STEPS = 16  # of two batches: a take-over has four, a batch six
LONGEST_BATCH_SECONDS = 3.0
COW, MOR = "copy-on-write", "merge-on-read"
FORMATS = {COW: (COW, "2"), "position deletes": (MOR, "2"), "deletion vectors": (MOR, "3")}


@pytest.fixture
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[UpsertLake]:
    mode, version = FORMATS[getattr(request, "param", COW)]
    with running_catalog(tmp_path / "catalog") as server:
        upsert_lake = UpsertLake(Job("iceberg", server.uri, 0, connection=server.properties, merge_mode=mode))
        upsert_lake.create([], **{"format-version": version})
        yield upsert_lake


def one_fault(lake: UpsertLake, job: Job, chance: random.Random) -> None:
    fault = chance.choice(["kill", "kill", "any time", "zombie", "expire", "lose reply"])
    job = replace(
        job, at_step=chance.randint(1, MOST_STEPS), batch_rows=chance.randint(1, 17), flush_rows=chance.randint(5, 40)
    )
    if fault == "any time":
        writer = start(replace(job, flush_rows=4))  # many commits, so that it is always in the midst of one
        time.sleep(chance.uniform(0, 0.6))
        writer.kill()
        writer.join(300)
    elif fault == "zombie":
        zombie(job)
    elif fault == "lose reply":
        assert run(replace(job, fault=fault)) == 0
    else:
        assert run(replace(job, fault="kill")) in (0, -signal.SIGKILL)
        if fault == "expire":
            lake.expire()


@pytest.mark.timeout(0)
@pytest.mark.requirement("sink.exactly-once")
@pytest.mark.parametrize("lake", FORMATS, indirect=True)
def test_whatever_happens_to_its_writers_the_sink_leaves_the_rows_of_a_dictionary(
    lake: UpsertLake, campaign: Campaign
) -> None:
    chance, faults = campaign.random(), campaign.size(short=8 if lake.job.merge_mode == COW else 4, full=300)
    for number in range(1, faults + 1):
        one_fault(lake, replace(lake.job, until=number * ROWS_A_ROUND), chance)
    assert run(replace(lake.job, until=faults * ROWS_A_ROUND)) == 0
    assert lake.rows() == expected(faults * ROWS_A_ROUND)
    assert lake.problems() == ()


@pytest.mark.parametrize(
    ("lake", "rule", "is_right"),
    [
        (COW, "", True),
        (COW, "guard", False),
        (COW, "fence", False),
        ("position deletes", "", True),
        ("deletion vectors", "guard", False),
    ],
    indirect=["lake"],
)
def test_a_zombie_in_a_build_without_a_rule_is_seen_to_bring_changes_in_again(
    lake: UpsertLake, rule: str, is_right: bool
) -> None:
    # the first commit was the take-over
    job = replace(lake.job, until=ROWS_A_ROUND, fault="stop", step_name="before commit", at_step=2)
    sleeper = start(replace(job, broken=rule))
    assert wait_until_stopped(sleeper)
    assert run(replace(lake.job, until=ROWS_A_ROUND)) == 0
    assert (wake(sleeper) == FENCED) is is_right
    assert (lake.rows() == expected(ROWS_A_ROUND)) is is_right


# --- on Spark --------------------------------------------------------------------------------------------------------


class SparkUpserts:
    """Two tables, written in two ways, that take their changes from one topic."""

    def __init__(self, servers: Servers, place: str, connection: dict[str, str], folder: Path) -> None:
        self.folder = folder
        self.topic = Topic(servers.brokers, make_change)
        self.topic.create()
        job = Job(
            "iceberg", place, 0, host="spark", connection=connection, brokers=servers.brokers, topic=self.topic.name
        )
        self.lakes = [
            UpsertLake(replace(job, table=f"lake.t{n}", merge_mode=mode)) for n, mode in enumerate((COW, MOR))
        ]
        for lake in self.lakes:
            lake.create([])

    def job(self, lake: UpsertLake, **more: object) -> Job:
        """The job that brings all in. Its state is a new folder: what a driver before has left is lost."""
        state = self.folder / f"state-{time.monotonic_ns()}"
        state.mkdir()
        return replace(lake.job, state=str(state), flush_rows=ROWS_A_ROUND // 2, **more)

    def send_more(self) -> None:
        self.topic.send(self.topic.sent + ROWS_A_ROUND)

    def kill_once(self, lake: UpsertLake, chance: random.Random, *, at_any_time: bool) -> bool:
        """A driver is killed, at a step of its own or at any time; False if it was done before that."""
        audit = chance.choice(["", "SELECT id FROM {table} GROUP BY id HAVING count(*) > 1"])
        if at_any_time:
            writer = start(self.job(lake, audit=audit, fault="stop", step_name="after commit", at_step=1))
            wait_until_stopped(writer)  # it is up, and has taken over
            let_go_on(writer)
            time.sleep(chance.uniform(0, LONGEST_BATCH_SECONDS))
            writer.kill()
            ended = end_of(writer)
        else:
            ended = run(self.job(lake, fault="kill", at_step=chance.randint(5, MOST_SPARK_STEPS), audit=audit))
        assert ended in (0, -signal.SIGKILL)
        return ended != 0


@pytest.fixture
def upserts(fault_stack: Project, tmp_path: Path) -> Iterator[SparkUpserts]:
    with running_catalog(tmp_path / "catalog") as server:
        yield SparkUpserts(Servers(fault_stack), server.uri, server.properties, tmp_path)


@pytest.mark.soak  # `make test` kills streams in test_stream_kills, and upserts at every step in test_upsert_spark
@pytest.mark.timeout(0)
@pytest.mark.requirement("spark.upsert")
@pytest.mark.requirement("sink.exactly-once")
def test_a_stream_of_upserts_killed_at_random_moments_leaves_the_rows_of_a_dictionary(
    upserts: SparkUpserts, campaign: Campaign
) -> None:
    chance, kills = campaign.random(), campaign.size(short=2, full=40)
    killed = 0
    for number in range(3 * kills):
        upserts.send_more()
        lake = upserts.lakes[number % 2]
        killed += upserts.kill_once(lake, chance, at_any_time=number % 3 == 1)
        if number % 3 == 0:
            lake.expire()
        if killed == kills:
            break
    assert killed == kills
    for lake in upserts.lakes:
        assert run(upserts.job(lake)) == 0
        assert (lake.rows(), lake.problems(), lake.stages()) == (expected(upserts.topic.sent), (), [])


WITHOUT_A_RULE = [pytest.param(rule, False, marks=pytest.mark.soak) for rule in ("guard", "fence")]


@pytest.mark.timeout(0)
@pytest.mark.parametrize(("rule", "is_right"), [("", True), *WITHOUT_A_RULE])
def test_a_zombie_of_a_stream_in_a_build_without_a_rule_is_seen_to_spoil_the_table(
    upserts: SparkUpserts, rule: str, is_right: bool
) -> None:
    upserts.send_more()
    lake = upserts.lakes[1]
    # the first commit was the take-over
    ended = run(upserts.job(lake, broken=rule, fault=RIVAL, step_name="before commit", at_step=2))
    assert (ended == FENCED) is is_right
    assert (lake.rows() == expected(ROWS_A_ROUND)) is is_right
