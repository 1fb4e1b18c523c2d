"""Upkeep by the catalog: a worker does what tables need, by their own policies, and leaves alone what it must not
touch.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from frazil.catalog.embedded import EmbeddedCatalog
from frazil.catalog.store.database import Database
from frazil.catalog.upkeep.scores import Scores
from frazil.catalog.upkeep.table_run import TableRun
from frazil.catalog.upkeep.worker import UpkeepWorker
from frazil.cli.main import cli
from frazil.client import FrazilCatalog
from frazil.config import UpkeepSettings
from frazil.upkeep import Debt, Halt, now_ms
from tests.contract.upkeep_lake import Kept, with_deleted_rows
from tests.kit.upkeep import connector, make_worker, own_database, run_of, status_of


@pytest.fixture
def database(tmp_path: Path) -> str:
    """SQLite alone: what differs between databases is in catalog/test_upkeep_leases.py."""
    return f"sqlite:///{tmp_path}/catalog.db"


@pytest.fixture
def lake(server: EmbeddedCatalog) -> FrazilCatalog:
    catalog = FrazilCatalog("lake", **server.properties)
    catalog.create_namespace("lake")
    return catalog


@pytest.fixture
def opened(server: EmbeddedCatalog, database: str) -> Iterator[Database]:
    with own_database(database) as other:
        yield other


def small_files(lake: FrazilCatalog, name: str = "lake.t", **properties: str) -> Kept:
    kept = Kept(lake, name).create("day", properties=properties)
    for number in range(6):
        kept.append(number)
    return kept


def work(server: EmbeddedCatalog, database: Database, **settings: Any) -> UpkeepWorker:
    """A worker that has ended, because no table is due."""
    worker = make_worker(database, server.properties, **settings)
    worker.run(once=True)
    return worker


def test_small_files_are_compacted_and_the_debt_is_gone(
    server: EmbeddedCatalog, lake: FrazilCatalog, opened: Database
) -> None:
    kept = small_files(lake)
    worker = work(server, opened)
    assert (len(kept.paths()), kept.ids()) == (1, list(range(6)))
    status = status_of(opened, "lake.t")
    assert (status["state"], status["reasons"], status["lease"]) == ("fine", ["6 commits"], None)
    run = status["last_run"]
    assert (run["outcome"], run["owner"], run["saved_files"]) == ("done", worker.owner, 5)
    head = kept.head()
    work(server, opened)
    assert kept.head() == head


def test_the_status_says_that_a_debt_is_as_of_an_older_commit(
    server: EmbeddedCatalog, lake: FrazilCatalog, opened: Database
) -> None:
    kept = small_files(lake)
    states = [status_of(opened, "lake.t")]
    scores = Scores(opened, connector(server.properties))
    for change in (scores.update, lambda: kept.append(9), scores.update):
        change()
        states.append(status_of(opened, "lake.t"))
    assert [(state["score"] is None, state["outdated"]) for state in states] == [
        (True, False), (False, False), (False, True), (False, False)
    ]  # fmt: skip


def test_the_table_of_the_status_says_so_too(
    server: EmbeddedCatalog, lake: FrazilCatalog, opened: Database, database: str
) -> None:
    kept = small_files(lake)
    Scores(opened, connector(server.properties)).update()
    shown = [show_status(database), kept.append(9) and show_status(database)]
    assert ["as of an older commit" in text for text in shown] == [False, True]
    assert all("6 commits" in text for text in shown)


def show_status(database: str) -> str:
    """What `frazil upkeep status` prints."""
    environment = {"FRAZIL_SERVER__DATABASE": database, "COLUMNS": "400"}
    printed = CliRunner().invoke(cli, ["upkeep", "status"], env=environment, catch_exceptions=False)
    assert printed.exit_code == 0
    return printed.output


def test_deleted_rows_and_old_snapshots_leave_by_the_tables_policy(
    server: EmbeddedCatalog, lake: FrazilCatalog, opened: Database
) -> None:
    kept = with_deleted_rows(lake)
    short = {"history.expire.max-snapshot-age-ms": "0", "upkeep.enabled": "true"}
    kept.live.transaction().set_properties(short).commit_transaction()
    for number in range(20, 40):
        kept.append(number)
    work(server, opened, tables="enabled")
    assert kept.ids() == [*range(6), *range(20, 40)]
    assert (len(kept.paths()), kept.delete_files(), len(kept.live.metadata.snapshots)) == (1, set(), 1)
    run = run_of(opened, kept.name)
    assert run is not None
    assert run["expired_snapshots"] > 20


@pytest.mark.parametrize(("tables", "properties"), [("all", {"upkeep.enabled": "false"}), ("enabled", {})])
def test_a_table_that_is_not_enabled_is_left_alone(
    server: EmbeddedCatalog, lake: FrazilCatalog, opened: Database, tables: str, properties: dict[str, str]
) -> None:
    kept = small_files(lake, **properties)
    work(server, opened, tables=tables)
    assert (len(kept.paths()), status_of(opened, "lake.t")["state"]) == (6, "off")


HOSTILE = {
    "write.target-file-size-bytes": "-1",
    "upkeep.compact.min-input-files": "9" * 5000,
    "history.expire.max-snapshot-age-ms": "soon",
    "history.expire.min-snapshots-to-keep": "\u00b2",
    "upkeep.orphans.older-than-ms": "1e9",
    "upkeep.enabled": "maybe",
    "upkeep.orphans.enabled": "",
}


def test_hostile_policies_are_named_in_the_status_and_stop_no_other_table(
    server: EmbeddedCatalog, lake: FrazilCatalog, opened: Database
) -> None:
    wrong = [small_files(lake, f"lake.w{number}", **{key: HOSTILE[key]}) for number, key in enumerate(HOSTILE)]
    good = small_files(lake)
    work(server, opened)
    assert [len(kept.paths()) for kept in (*wrong, good)] == [6] * len(wrong) + [1]
    for kept, key in zip(wrong, HOSTILE, strict=True):
        status = status_of(opened, kept.name)
        assert (status["state"], f"'{key}'" in status["error"]) == ("error", True)
    lake.load_table("lake.w0").transaction().remove_properties(next(iter(HOSTILE))).commit_transaction()
    work(server, opened)
    assert (len(wrong[0].paths()), status_of(opened, "lake.w0")["error"]) == (1, None)


def test_without_gc_no_file_is_removed(server: EmbeddedCatalog, lake: FrazilCatalog, opened: Database) -> None:
    kept = small_files(lake, **{"gc.enabled": "false", "history.expire.max-snapshot-age-ms": "0"})
    for number in range(6, 30):
        kept.append(number)
    data = {path for path in kept.on_disk() if path.endswith(".parquet")}
    work(server, opened)
    assert (len(kept.paths()), data - kept.on_disk()) == (1, set())


@pytest.mark.parametrize(
    ("setting", "properties", "removed"),
    [
        (False, {}, False),
        (True, {}, True),
        (False, {"upkeep.orphans.enabled": "true"}, True),
        (True, {"upkeep.orphans.enabled": "false"}, False),
    ],
)
def test_orphans_are_removed_only_if_the_table_or_the_operator_says_so(
    server: EmbeddedCatalog,
    lake: FrazilCatalog,
    opened: Database,
    setting: bool,
    properties: dict[str, str],
    removed: bool,
) -> None:
    kept = small_files(lake, **properties)
    orphan = kept.folder / "data" / "left.parquet"
    orphan.write_bytes(b"left")
    week_ago = time.time() - 7 * 86_400
    os.utime(orphan, (week_ago, week_ago))
    work(server, opened, orphans=setting)
    assert (len(kept.paths()), orphan.exists()) == (1, not removed)


def test_a_run_that_finds_nothing_to_do_waits_for_twice_the_debt(
    server: EmbeddedCatalog, lake: FrazilCatalog, opened: Database
) -> None:
    """One file for each of many partitions: many small files, and none that could be merged."""
    kept = Kept(lake, "lake.t").create("day")
    for day in range(6):
        kept.append(day, day=day)
    work(server, opened)
    run = run_of(opened, "lake.t")
    assert run is not None
    assert (run["outcome"], run["memory"]["factor"]) == ("nothing", 2)
    for day in range(6, 12):
        kept.append(day, day=day)
    work(server, opened)
    assert run_of(opened, "lake.t") == run
    for number in range(12, 18):
        kept.append(number, day=0)
    work(server, opened)
    assert len(kept.paths()) == 12


def test_tables_of_every_warehouse_are_maintained(
    server: EmbeddedCatalog, lake: FrazilCatalog, opened: Database
) -> None:
    cold = FrazilCatalog("lake", **server.properties, warehouse="cold")
    cold.create_namespace("lake")
    kept = small_files(cold, "lake.c")
    work(server, opened)
    assert len(kept.paths()) == 1


def test_a_stopped_worker_commits_nothing_more_and_gives_the_lease_back(
    server: EmbeddedCatalog, lake: FrazilCatalog, opened: Database
) -> None:
    """A budget of one byte per second: the worker pauses in the middle of the compaction, for hours if it must."""
    kept = small_files(lake)
    before = kept.on_disk()
    worker, rewriting = make_worker(opened, server.properties, bytes_per_second=1), threading.Event()
    worker.on_step = lambda step: rewriting.set() if step == "compact begins" else None
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    assert rewriting.wait(60)
    assert status_of(opened, "lake.t")["lease"]["owner"] == worker.owner
    worker.stop()
    thread.join(60)
    assert not thread.is_alive()
    status = status_of(opened, "lake.t")
    assert (status["lease"], status["state"], status["last_run"]["outcome"]) == (None, "due", "stopped")
    assert (kept.on_disk(), len(kept.paths())) == (before, 6)


def test_a_run_that_writers_overtake_again_and_again_gives_way(
    server: EmbeddedCatalog, lake: FrazilCatalog, opened: Database
) -> None:
    """Between reading and committing, a file that is compacted is deleted and another one is added."""
    kept, worker = small_files(lake), make_worker(opened, server.properties, table_seconds=3600)
    rounds: list[int] = []

    def write(step: str) -> None:
        if step == "files written":
            kept.live.delete(f"id = {len(rounds)}")
            kept.append(6 + len(rounds))
            rounds.append(kept.head())

    worker.on_step = write
    worker.run(once=True)
    run = run_of(opened, "lake.t")
    assert run is not None
    assert (run["outcome"], run["saved_files"], run["problems"], len(rounds)) == ("yielded", 0, [], 3)
    assert (kept.ids(), len(kept.paths()), kept.head()) == (list(range(3, 9)), 6, rounds[-1])
    assert (status_of(opened, "lake.t")["state"], run["memory"]["backoff"]) == ("waiting", 1)


def expiring(lake: FrazilCatalog, **properties: str) -> Kept:
    """Small files, and snapshots that may all expire."""
    kept = small_files(lake, **{"history.expire.max-snapshot-age-ms": "0"}, **properties)
    for number in range(20, 40):
        kept.append(number)
    return kept


def at_first(step: str, action: Callable[[], object]) -> Callable[[str], None]:
    """Does something when a worker comes to a step for the first time."""
    actions = [action]

    def on_step(reached: str) -> None:
        if reached == step and actions:
            actions.pop()()

    return on_step


def test_a_table_that_is_turned_off_in_the_middle_of_a_run_keeps_its_snapshots(
    server: EmbeddedCatalog, lake: FrazilCatalog, opened: Database
) -> None:
    kept, worker = expiring(lake), make_worker(opened, server.properties)
    off = {"upkeep.enabled": "false"}
    worker.on_step = at_first(
        "compact begins", lambda: kept.live.transaction().set_properties(off).commit_transaction()
    )
    worker.run(once=True)
    assert (len(kept.live.metadata.snapshots), status_of(opened, "lake.t")["state"]) == (27, "off")
    run = run_of(opened, "lake.t")
    assert run is not None
    assert (run["outcome"], run["message"]) == ("stopped", "upkeep of the table was turned off")


def test_a_run_goes_on_with_no_other_table_that_has_taken_the_name(
    server: EmbeddedCatalog, lake: FrazilCatalog, opened: Database
) -> None:
    kept, worker = expiring(lake), make_worker(opened, server.properties)

    def recreate() -> None:
        lake.rename_table("lake.t", "lake.old")
        expiring(lake, **{"upkeep.enabled": "false"})

    worker.on_step = at_first("after commit", recreate)
    worker.run(once=True)
    assert len(kept.live.metadata.snapshots) == 26
    assert (status_of(opened, "lake.old")["last_run"] or {})["message"] == "lake.t: another table has this name by now"
    assert status_of(opened, "lake.t")["state"] == "off"


@pytest.mark.parametrize("hours", [-24 * 365, 24 * 365])
def test_snapshots_expire_only_when_they_are_old_by_both_clocks(
    server: EmbeddedCatalog, lake: FrazilCatalog, hours: int
) -> None:
    kept = small_files(lake)
    work = TableRun(
        connector(server.properties)("default"),
        kept.identifier,
        UpkeepSettings(),
        Halt(),
        clock_ms=lambda: now_ms() + hours * 3_600_000,
    )
    run = work.run(Debt(steps={"expire": 1.0}))
    assert (run.outcome, len(kept.live.metadata.snapshots)) == ("nothing", 6)


def test_tables_that_share_a_uuid_are_scored_once(overlapping: EmbeddedCatalog, opened: Database) -> None:
    lake = FrazilCatalog("lake", **overlapping.properties)
    lake.create_namespace("lake")
    kept = small_files(lake)
    lake.register_table("lake.copy", kept.live.metadata_location)
    kept.append(9)
    scores = Scores(opened, connector(overlapping.properties))
    assert [scores.update(), scores.update()] == [2, 0]
    assert [status_of(opened, name)["state"] for name in ("lake.t", "lake.copy")] == ["error", "error"]
