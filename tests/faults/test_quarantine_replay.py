"""A replay is killed between any two steps, loses replies, wakes up as a zombie, while sinks quarantine more rows and
snapshots expire.

Every row is in the table or in the quarantine, once: ids are compared, not counted. And the audit agrees.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

import frazil.sinks
from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from frazil.sinks.audit import audit, audit_delta
from frazil.sinks.delta.target import create_delta_table
from tests.conftest import Campaign
from tests.faults.replayer import FENCED, Replay, replay
from tests.kit.lossy_proxy import lossy_proxy

PROCESSES = multiprocessing.get_context("forkserver")
# a child imports what the tests were started with, too
PROCESSES.set_forkserver_preload(["tests.faults.replayer", "pytest"])
SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "note", StringType()))
ROWS = 10
MOST_STEPS = 30


@dataclass
class ReplayedTable:
    """A table whose sink quarantines rows: of ten, one is good, one is bad for good, and eight pass the
    replay's rules.
    """

    job: Replay
    catalog: FrazilCatalog | None = None
    written: list[int] = field(default_factory=list)

    def fill(self) -> None:
        start = len(self.written)
        notes = ["good", *["bad"] * (ROWS - 2), "lost"]
        rows = pa.table({"id": range(start, start + ROWS), "note": notes})
        options = {"name": "s", "bad_rows": "quarantine", "checks": ["note = 'good'"], "threads": 1}
        opened = frazil.sinks.open("lake.events", catalog=self.catalog, **options) if self.catalog else None  # type: ignore[arg-type]
        with opened or frazil.sinks.open(self.job.place, **options) as sink:  # type: ignore[arg-type]
            sink.write(rows, position=start + ROWS)
        self.written += range(start, start + ROWS)

    def ids(self) -> tuple[list[int], list[int]]:
        """What is in the table and in the quarantine."""
        raw = self._read("events__quarantine")["raw"].to_pylist()
        return sorted(self._read("events")["id"].to_pylist()), sorted(json.loads(item)["id"] for item in raw)

    def expected(self) -> tuple[list[int], list[int]]:
        """The ids, once everything that passes was replayed."""
        lost = [number for number in self.written if number % ROWS == ROWS - 1]
        return [number for number in self.written if number not in lost], lost

    def _read(self, name: str) -> pa.Table:
        if self.catalog is not None:
            return self.catalog.load_table(("lake", name)).scan().to_arrow()
        return pa.table(DeltaTable(self.job.place.removesuffix("events") + name).to_pyarrow_table())

    def problems(self) -> tuple[str, ...]:
        return (
            audit(self.catalog.load_table("lake.events").metadata).problems
            if self.catalog
            else audit_delta(self.job.place).problems
        )

    def expire(self) -> None:
        """All history goes; on Delta, the log's old entries do."""
        for name in ("events", "events__quarantine"):
            if self.catalog is None:
                table = DeltaTable(self.job.place.removesuffix("events") + name)
                table.create_checkpoint()
                continue
            live = self.catalog.load_table(("lake", name))
            current = live.current_snapshot()
            old = [
                snapshot.snapshot_id
                for snapshot in live.snapshots()
                if current and snapshot.snapshot_id != current.snapshot_id
            ]
            if old:
                live.maintenance.expire_snapshots().by_ids(old).commit()


@contextlib.contextmanager
def lake_of(kind: str, folder: Path) -> Iterator[ReplayedTable]:
    if kind == "delta":
        place = str(folder / "events")
        create_delta_table(place, SCHEMA)
        yield ReplayedTable(Replay("delta", place))
        return
    with running_catalog(folder) as server:
        catalog = FrazilCatalog("lake", **server.properties)
        catalog.create_namespace("lake")
        catalog.create_table("lake.events", SCHEMA)
        yield ReplayedTable(Replay("iceberg", server.uri), catalog)


@pytest.fixture(params=["iceberg", "delta"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ReplayedTable]:
    with lake_of(request.param, tmp_path) as result:
        yield result


def start(job: Replay) -> ForkServerProcess:
    process = PROCESSES.Process(target=replay, args=(job,), daemon=True)
    process.start()
    return process


def run(job: Replay) -> int | None:
    process = start(job)
    process.join(timeout=300)
    return process.exitcode


def wait_until_stopped(process: ForkServerProcess) -> None:
    """Until the process has stopped itself, or ended."""
    stat = Path(f"/proc/{process.pid}/stat")
    try:
        while process.is_alive() and stat.read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.01)
    except (FileNotFoundError, ProcessLookupError):
        process.join(timeout=300)  # it ended while it was looked at


def end(zombie: ForkServerProcess) -> int | None:
    if zombie.is_alive():
        assert zombie.pid is not None
        os.kill(zombie.pid, signal.SIGCONT)
    zombie.join(timeout=300)
    return zombie.exitcode


def test_killed_at_any_step_a_replay_brings_each_row_in_once(lake: ReplayedTable) -> None:
    for step in range(1, MOST_STEPS):
        lake.fill()
        code = run(replace(lake.job, fault="kill", at_step=step))
        if code == -signal.SIGKILL:
            assert run(lake.job) == 0
        assert lake.ids() == lake.expected(), f"killed at step {step}"
        if code == 0:  # it has no more steps
            break
    else:
        pytest.fail("it never came to its end")
    assert lake.problems() == ()


def test_a_replay_that_wakes_up_after_another_has_done_its_work_brings_nothing_in(
    lake: ReplayedTable, campaign: Campaign
) -> None:
    for step in range(2, MOST_STEPS, campaign.size(short=4, full=1)):
        lake.fill()
        zombie = start(replace(lake.job, fault="stop", at_step=step))
        wait_until_stopped(zombie)
        stopped = zombie.is_alive()
        assert run(lake.job) == 0
        assert end(zombie) in (0, FENCED)
        assert lake.ids() == lake.expected(), f"stopped at step {step}"
        if not stopped:
            break


def test_a_campaign_of_faults_repeats_and_loses_no_row(lake: ReplayedTable, campaign: Campaign) -> None:
    chance = campaign.random()
    for _ in range(campaign.size(short=3, full=150)):
        lake.fill()
        fault = chance.choice(["kill", "stop", "lose reply", "lose request"])
        process = start(replace(lake.job, fault=fault, at_step=chance.randint(1, 16)))
        _meanwhile(lake, process, fault, chance)
        assert run(lake.job) == 0
        assert end(process) in (0, FENCED, -signal.SIGKILL)
        assert lake.ids() == lake.expected()
    assert lake.problems() == ()


def _meanwhile(lake: ReplayedTable, process: ForkServerProcess, fault: str, chance: random.Random) -> None:
    if fault == "stop":
        wait_until_stopped(process)
    else:
        process.join(timeout=300)
    chance.choice([lake.fill, lake.expire, lambda: None])()


def test_requests_and_replies_that_are_lost_on_the_wire(tmp_path: Path) -> None:
    with lake_of("iceberg", tmp_path) as lake, lossy_proxy(lake.job.place) as proxy:
        for lose in (proxy.lose_reply, proxy.lose_request, proxy.lose_reply):
            lake.fill()
            lose(b"POST ")
            assert run(replace(lake.job, place=proxy.uri)) == 0
            assert lake.ids() == lake.expected()


@pytest.mark.parametrize(("kind", "broken"), [("iceberg", "one commit"), ("delta", "plan")])
def test_without_the_rule_the_tests_see_it(kind: str, broken: str, tmp_path: Path) -> None:
    """In a build that lacks the rule, a kill at some step brings rows in twice: if this finds nothing, the tests above
    prove nothing.
    """
    with lake_of(kind, tmp_path) as lake:
        for step in range(4, MOST_STEPS):  # before, nothing is committed
            lake.fill()
            run(replace(lake.job, fault="kill", at_step=step, broken=broken))
            run(replace(lake.job, broken=broken))
            if lake.ids() != lake.expected():
                return
    pytest.fail("no row came in twice")
