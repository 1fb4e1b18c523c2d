"""Upkeep while writers are running, all of them killed now and then: nothing is lost, nothing doubled, and what kills
left behind is found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from pyiceberg.table import Table

from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from frazil.sinks.audit import audit
from frazil.upkeep.policy import HOUR_MS
from frazil.upkeep.steps import Keeper, now_ms
from frazil.write.files.partitioning import partition_spec
from tests.conftest import Campaign
from tests.faults.sink_processes import PROCESSES
from tests.faults.upkeep_writers import SCHEMA, Meeting, append_rows, expected_ids, look_after, replace_rows

KEPT_MS = 15_000  # the retention: snapshots of the last fifteen seconds can be read
SLACK_MS = 9_000  # a snapshot may expire while it is being read: those at the edge are not asked for
PROPERTIES = {
    "history.expire.max-snapshot-age-ms": str(KEPT_MS),
    "upkeep.compact.min-input-files": "3",
    "write.target-file-size-bytes": "20000",
    "upkeep.orphans.older-than-ms": str(HOUR_MS),
}


@pytest.fixture
def meeting(tmp_path: Path) -> Iterator[Meeting]:
    with running_catalog(tmp_path) as server:
        catalog = FrazilCatalog("lake", **server.properties)
        catalog.create_namespace("lake")
        catalog.create_table(
            "lake.busy", SCHEMA, partition_spec=partition_spec(SCHEMA, ["part"]), properties=PROPERTIES
        )
        yield Meeting(dict(server.properties), "lake.busy", tmp_path / "over")


@dataclass
class Program:
    """A program that is started again whenever it was killed; that it ends by itself before its time is a failure."""

    run: Callable[[Meeting], None]
    meeting: Meeting
    kills: int = 0
    process: PROCESSES.Process = field(init=False)  # type: ignore[name-defined]

    def start(self) -> None:
        self.process = PROCESSES.Process(target=self.run, args=(self.meeting,), daemon=True)
        self.process.start()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.kills += 1
        self.start()

    def check(self) -> None:
        code = self.process.exitcode
        assert code is None or (code == 0 and self.meeting.is_over()), f"{self.run.__name__} failed for good: {code}"


@pytest.mark.requirement("spark.maintain")
def test_maintenance_while_writers_run_loses_nothing(meeting: Meeting, campaign: Campaign) -> None:
    least_seconds, most_seconds, chance = (
        campaign.size(short=10, full=600),
        campaign.size(short=400, full=1200),
        campaign.random(),
    )
    programs = [Program(run, meeting) for run in (append_rows, replace_rows, look_after)]
    for program in programs:
        program.start()
    catalog, travels, next_kill, compactions = meeting.catalog(), 0, time.time() + 4, set[int]()
    start, expired = time.time(), False
    while True:
        seconds = time.time() - start
        killed = min(program.kills for program in programs)
        if seconds > least_seconds and travels >= 10 and len(compactions) >= 3 and killed >= 2 and expired:
            break
        assert seconds < most_seconds, (
            f"{travels} travels, {len(compactions)} compactions, {killed} kills, expired: {expired}"
        )
        for program in programs:
            program.check()
        table = catalog.load_table(meeting.name)
        expired = has_expired_snapshots(table)
        compactions |= {
            snapshot.snapshot_id
            for snapshot in table.metadata.snapshots
            if snapshot.summary and snapshot.summary.get("frazil.upkeep") == "compact"
        }
        travels += travel(table, chance.random())
        if time.time() >= next_kill:
            min(programs, key=lambda item: (item.kills, chance.random())).kill()
            next_kill = time.time() + chance.uniform(2, 5)
        time.sleep(0.3)
    meeting.end.touch()
    for program in programs:
        program.process.join(300)
        program.check()
    table = catalog.load_table(meeting.name)
    assert_whole(table)
    assert_orphans_are_found(catalog, meeting, table)


def travel(table: Table, where: float) -> int:
    """Reads a snapshot inside the retention: it must hold what its progress says. Gives how many were read."""
    young = [
        snapshot for snapshot in table.metadata.snapshots if snapshot.timestamp_ms > now_ms() - (KEPT_MS - SLACK_MS)
    ]
    on_main = {entry.snapshot_id for entry in table.history()}
    chosen = [snapshot for snapshot in young if snapshot.snapshot_id in on_main]
    if not chosen:
        return 0
    snapshot = chosen[int(where * len(chosen))]
    expected = expected_ids(table.metadata, snapshot)
    rows = sorted(table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()["id"].to_pylist())
    assert expected is not None
    assert rows == expected
    return 1


def assert_whole(table: Table) -> None:
    """Every row once, the audit agrees, and snapshots have expired meanwhile."""
    head = table.current_snapshot()
    assert head is not None
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == expected_ids(table.metadata, head)
    assert audit(table.metadata).problems == ()
    assert has_expired_snapshots(table)


def has_expired_snapshots(table: Table) -> bool:
    return len(table.metadata.snapshots) < table.metadata.last_sequence_number


def assert_orphans_are_found(catalog: FrazilCatalog, meeting: Meeting, table: Table) -> None:
    """Two hours later: exactly what nothing leads to is removed, by another reading of the table than upkeep's own."""
    keeper = Keeper(catalog, meeting.identifier, clock_ms=lambda: now_ms() + 2 * HOUR_MS)
    reachable, before = reached_by(table), on_disk(table)
    assert reachable <= before
    report = keeper.perform(keeper.plan("orphans"))
    assert on_disk(table) == reachable
    assert report.files == len(before - reachable) > 0
    assert_whole(catalog.load_table(meeting.name))


def reached_by(table: Table) -> set[str]:
    """Every file that the table leads to, as PyIceberg reads it."""
    reached = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    for snapshot in table.metadata.snapshots:
        reached.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            reached.add(manifest.manifest_path)
            reached |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    return {unquote(urlparse(path).path) for path in reached}


def on_disk(table: Table) -> set[str]:
    return {str(path) for path in Path(unquote(urlparse(table.location()).path)).rglob("*") if path.is_file()}
