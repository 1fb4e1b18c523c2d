"""Workers of upkeep that are stopped, killed and paused: one at a time works on a table, another one takes over, and no
reader misses a file.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.catalog.store.database import Database
from frazil.client import FrazilCatalog
from frazil.config import UpkeepSettings
from frazil.processes import wait_until
from frazil.write.files.partitioning import partition_spec
from tests.conftest import Campaign
from tests.contract.upkeep_lake import Kept
from tests.faults.sink_processes import PROCESSES
from tests.faults.test_upkeep_with_writers import (
    PROPERTIES,
    Program,
    assert_whole,
    has_expired_snapshots,
    reached_by,
    travel,
)
from tests.faults.upkeep_workers import WorkerCommand, maintain_and_pause, maintain_forever, read_forever
from tests.faults.upkeep_writers import SCHEMA, Meeting, append_rows, replace_rows
from tests.kit.fixtures import database, postgres
from tests.kit.upkeep import make_worker, own_database, owners, run_of, status_of

__all__ = ["database", "postgres"]  # fixtures
SLOW = {"bytes_per_second": 1}  # a compaction that pauses for hours, until it is ended


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[EmbeddedCatalog]:
    with running_catalog(tmp_path, database=database) as running:
        FrazilCatalog("lake", **running.properties).create_namespace("lake")
        yield running


@pytest.fixture
def opened(server: EmbeddedCatalog, database: str) -> Iterator[Database]:
    with own_database(database) as other:
        yield other


@pytest.fixture
def command(server: EmbeddedCatalog, database: str, tmp_path: Path) -> Iterator[Callable[..., WorkerCommand]]:
    """Starts `frazil upkeep` with settings."""
    commands: list[WorkerCommand] = []

    def start(**settings: object) -> WorkerCommand:
        log = tmp_path / f"upkeep-{len(commands)}.log"
        commands.append(WorkerCommand(log, server.uri, database, settings).start())
        return commands[-1]

    yield start
    for each in commands:
        each.end()


def small_files(server: EmbeddedCatalog, name: str) -> Kept:
    kept = Kept(FrazilCatalog("lake", **server.properties), name).create("day")
    for number in range(6):
        kept.append(number)
    return kept


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_sigterm_during_a_compaction_ends_the_worker_and_leaves_nothing(
    server: EmbeddedCatalog, opened: Database, command: Callable[..., WorkerCommand]
) -> None:
    kept = small_files(server, "lake.t")
    before = kept.on_disk()
    worker = command(**SLOW, stop_seconds=600)
    worker.wait_for("rewrite 6 data files")
    worker.process.terminate()
    assert worker.process.wait(60) == 0, worker.said
    assert (owners(opened), kept.on_disk(), len(kept.paths())) == ([], before, 6)
    run = run_of(opened, "lake.t")
    assert run is not None
    assert (run["outcome"], run["message"]) == ("stopped", "SIGTERM")


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_worker_ends_within_seconds_of_sigterm_while_a_run_is_under_way(
    server: EmbeddedCatalog, opened: Database, command: Callable[..., WorkerCommand]
) -> None:
    """With the default of `upkeep.stop_seconds`."""
    kept = small_files(server, "lake.t")
    worker = command(**SLOW)
    worker.wait_for("rewrite 6 data files")
    start = time.monotonic()
    worker.process.terminate()
    assert worker.process.wait(60) == 0, worker.said
    assert time.monotonic() - start < 2 * UpkeepSettings().stop_seconds
    assert (owners(opened), len(kept.paths())) == ([], 6)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_worker_whose_work_does_not_end_is_ended_and_gives_its_lease_back(
    server: EmbeddedCatalog, opened: Database
) -> None:
    small_files(server, "lake.t")
    hanging = threading.Event()
    worker = make_worker(opened, server.properties)
    worker.on_step = lambda step: hanging.wait() and None if step == "compact begins" else None
    thread = threading.Thread(target=worker.run, daemon=True, kwargs={"once": True})
    thread.start()
    assert wait_until(lambda: owners(opened) == [("lake.t", worker.owner)], 60)
    worker.stop()
    worker.abandon()
    assert owners(opened) == []
    hanging.set()
    thread.join(60)
    assert run_of(opened, "lake.t") is None


HANGING = """
import sys, threading
from frazil.catalog import run_until_signal
from frazil.config import UpkeepSettings

class Hanging:
    settings = UpkeepSettings(stop_seconds=0.1)
    def run(self, *, once): print("working", flush=True); threading.Event().wait()
    def stop(self, reason): print(reason, flush=True)
    def abandon(self): print("abandoned", flush=True); sys.argv[1] == "away" and threading.Event().wait()

run_until_signal(Hanging())
"""


@pytest.mark.parametrize("database_is", ["there", "away"])
def test_sigterm_ends_a_process_whose_work_does_not_end(database_is: str) -> None:
    """Also if the lease cannot be given back, because the database does not answer."""
    command = [sys.executable, "-c", HANGING, database_is]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "working\n"
        process.terminate()
        assert process.wait(60) == 0
        assert process.stdout.read() == "SIGTERM\nabandoned\n"


def test_two_workers_share_the_tables_and_one_takes_over_from_a_killed_one(
    server: EmbeddedCatalog, opened: Database, command: Callable[..., WorkerCommand]
) -> None:
    first = small_files(server, "lake.a")
    slow = command(**SLOW, lease_seconds=2)
    slow.wait_for("rewrite 6 data files")
    second = small_files(server, "lake.b")
    other = command(lease_seconds=2)
    other.wait_for("lake.b: upkeep: done")
    assert (len(first.paths()), len(second.paths())) == (6, 1)
    ((table, owner),) = owners(opened)
    assert (table, f":{slow.process.pid}:" in owner) == ("lake.a", True)
    slow.end()
    other.wait_for("lake.a: upkeep: done")
    assert (len(first.paths()), first.ids()) == (1, list(range(6)))
    run = run_of(opened, "lake.a")
    assert run is not None
    assert f":{other.process.pid}:" in run["owner"]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("step", ["files written", "before commit"])
def test_a_paused_worker_that_goes_on_after_its_lease_does_no_harm(
    server: EmbeddedCatalog, opened: Database, database: str, tmp_path: Path, step: str
) -> None:
    """It has written its files; another worker has the lease, and compacts and expires what they were made from."""
    kept = small_files(server, "lake.t")
    rules = {"history.expire.max-snapshot-age-ms": "0", "write.metadata.delete-after-commit.enabled": "true"}
    kept.live.transaction().set_properties(rules).commit_transaction()
    meeting = Meeting(dict(server.properties), "lake.t", tmp_path / "over")
    settings = {"lease_seconds": 1.0}
    zombie = PROCESSES.Process(target=maintain_and_pause, args=(meeting, database, settings, step), daemon=True)
    zombie.start()
    assert zombie.pid is not None
    assert wait_until(lambda: _is_stopped(zombie.pid or 0), 120)
    for number in range(6, 30):
        kept.append(number)
    other = make_worker(opened, server.properties)
    assert wait_until(lambda: other.run(once=True) is None and len(kept.paths()) == 1, 120)
    compacted = kept.paths()
    os.kill(zombie.pid, signal.SIGCONT)
    zombie.join(120)
    assert zombie.exitcode == 0
    assert (kept.paths(), kept.ids()) == (compacted, list(range(30)))
    assert reached_by(kept.live) <= kept.on_disk()
    assert (status_of(opened, "lake.t")["last_run"]["owner"], owners(opened)) == (other.owner, [])


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_killed_workers_cost_no_reader_a_file_and_no_writer_a_row(tmp_path: Path, campaign: Campaign) -> None:
    kills, chance = campaign.size(short=3, full=50), campaign.random()
    with running_catalog(tmp_path) as server:
        meeting = _meeting(server, tmp_path)
        url = f"sqlite:///{tmp_path}/catalog.db"
        settings = {"lease_seconds": 0.5, "poll_seconds": 0.05}

        programs = [Program(run, meeting) for run in (append_rows, replace_rows, read_forever)]
        worker = PROCESSES.Process(target=maintain_forever, args=(meeting, url, settings), daemon=True)
        for program in programs:
            program.start()
        worker.start()
        catalog, travels, compactions, expired = meeting.catalog(), 0, set[int](), False
        with own_database(url) as opened:
            while kills or travels < 5 or len(compactions) < 3 or not expired:
                for program in programs:
                    program.check()
                if kills and any(f":{worker.pid}:" in owner for _, owner in owners(opened)):
                    time.sleep(chance.uniform(0, 0.5))  # any moment of its work
                    worker.kill()
                    worker.join()
                    kills -= 1
                    worker = PROCESSES.Process(target=maintain_forever, args=(meeting, url, settings), daemon=True)
                    worker.start()
                assert worker.exitcode is None
                table = catalog.load_table(meeting.name)
                expired = expired or has_expired_snapshots(table)
                compactions |= {
                    snapshot.snapshot_id
                    for snapshot in table.metadata.snapshots
                    if snapshot.summary and snapshot.summary.get("frazil.upkeep") == "compact"
                }
                travels += travel(table, chance.random())
        meeting.end.touch()
        for program in programs:
            program.process.join(300)
            program.check()
        worker.join(300)
        assert worker.exitcode == 0
        assert_whole(catalog.load_table(meeting.name))


def _meeting(server: EmbeddedCatalog, folder: Path) -> Meeting:
    catalog = FrazilCatalog("lake", **server.properties)
    catalog.create_namespace("lake")
    spec = partition_spec(SCHEMA, ["part"])
    catalog.create_table("lake.busy", SCHEMA, partition_spec=spec, properties=PROPERTIES)
    return Meeting(dict(server.properties), "lake.busy", folder / "over")
