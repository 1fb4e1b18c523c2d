"""The first snapshot that fails a check, on a real catalog: appends, deletes, rewrites, rollbacks, expired history."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.types import LongType

from frazil.errors import CheckError, HistoryError, QueryError
from frazil.history import FoundRow, LandingFile, OffsetRange, Origins, Run
from tests.conftest import Campaign
from tests.contract.history_lake import Past, rows
from tests.kit.committed_deletes import delete_from
from tests.kit.raising import raises
from tests.kit.real_tables import MadeDelete

CHECK = "id < 100"


def file_paths(past: Past) -> list[str]:
    return [file["file_path"] for file in past.live.inspect.files().to_pylist()]


def local(path: str) -> Path:
    return Path(path.removeprefix("file://"))


def test_the_first_snapshot_with_a_bad_row_is_found_in_a_logarithm_of_checks(past: Past) -> None:
    ids = [past.append(number) for number in range(5)]
    bad = past.append(200, 5)
    for number in range(6, 10):
        past.append(number)
    steps = []
    result = past.table.bisect(CHECK, on_step=steps.append)
    assert result.culprit is not None
    assert (result.outcome, result.culprit.entry.snapshot_id, result.good and result.good.snapshot_id) == (
        "found",
        bad,
        ids[-1],
    )
    assert (result.culprit.bad_rows, [sample.values for sample in result.culprit.samples]) == (
        1,
        [{"id": 200, "name": "n200"}],
    )
    assert [step.number for step in steps] == [5, 8, 6]
    assert result.commands() == (
        f"frazil diff {past.name} {ids[-1]} {bad}",
        f"frazil rollback {past.name} --at {ids[-1]}",
        f"frazil blame {past.name} --at {bad} --where 'NOT (id < 100)'",
    )


def test_one_bad_commit_among_a_thousand_is_found_in_ten_checks(past: Past, campaign: Campaign) -> None:
    """127 snapshots, and 7 checks, in the short form."""
    commits, most = campaign.size(short=127, full=1000), campaign.size(short=7, full=10)
    culprit = campaign.random().randrange(commits)
    with past.sink("orders") as sink:
        for number in range(commits):
            sink.write(rows(200 if number == culprit else 1), position=number + 1)
            sink.commit()
    line = [entry for entry in past.table.history() if entry.added_rows][::-1]
    result = past.table.bisect(CHECK, good=line[0].snapshot_id)
    assert result.culprit is not None
    assert (result.snapshots, result.culprit.entry.snapshot_id) == (commits, line[culprit].snapshot_id)
    assert (result.effort.snapshots <= most, result.effort.files_read) == (True, 1)  # for the row that it shows


def test_files_that_statistics_decide_are_not_opened(past: Past) -> None:
    """All files are taken away: reading one fails."""
    past.append(1)
    past.append(2)
    bad = past.append(200, 201)
    past.append(3)
    for path in file_paths(past):
        local(path).unlink()
    result = past.table.bisect(CHECK, samples=0)
    assert result.culprit is not None
    assert (result.culprit.entry.snapshot_id, result.culprit.bad_rows, result.effort.files_read) == (bad, 2, 0)


def test_a_file_is_read_once_however_many_snapshots_have_it(past: Past) -> None:
    for number in range(4):
        past.append(number)
    bad = past.append(1000)
    for number in range(4, 8):
        past.append(number)
    result = past.table.bisect("length(name) < 4", samples=0)
    assert result.culprit is not None
    assert result.culprit.entry.snapshot_id == bad
    assert (result.effort.files_read, result.effort.known, result.effort.by_statistics) == (5, 5, 0)


def test_a_bad_row_that_is_deleted_does_not_count(past: Past) -> None:
    """Merge-on-read: the file with the row is in both snapshots."""
    past.append(1)
    bad = past.append(2, 200)
    (path, *_) = [path for path in file_paths(past) if b"n200" in local(path).read_bytes()]
    delete_from(past.live, [MadeDelete("positions", PartitionSpec(), (), 0, positions={path: [1]})])
    repaired = past.head()
    past.append(3)
    assert past.table.bisect(CHECK).outcome == "passes"
    everything = past.table.bisect(CHECK, all=True)
    assert everything.flips is not None
    assert [(flip.entry.snapshot_id, flip.fails) for flip in everything.flips] == [(bad, True), (repaired, False)]


def test_equality_deletes_take_bad_rows_away(past: Past) -> None:
    past.append(1)
    bad = past.append(2, 200, 300)
    delete_from(past.live, [MadeDelete("equality", PartitionSpec(), (), 0, columns=("id",), values=[{"id": 200}])])
    deleted = past.head()
    for check, expected in ((CHECK, [(bad, True)]), ("id <> 200", [(bad, True), (deleted, False)])):
        flips = past.table.bisect(check, all=True).flips or ()
        assert [(flip.entry.snapshot_id, flip.fails) for flip in flips] == expected
    assert past.table.bisect(CHECK, bad=deleted, good=deleted).culprit.bad_rows == 1  # type: ignore[union-attr]


def test_what_was_rolled_back_is_not_searched(past: Past) -> None:
    first = past.append(1)
    undone = past.append(200)
    past.table.rollback(first)
    past.append(2)
    assert past.table.bisect(CHECK).outcome == "passes"
    assert past.table.bisect(CHECK, bad=undone).culprit.entry.snapshot_id == undone  # type: ignore[union-attr]
    with raises(HistoryError, problem="not-an-ancestor", snapshot=undone):
        past.table.bisect(CHECK, good=undone)


def test_a_branch_is_searched_along_its_own_line(past: Past) -> None:
    past.append(1)
    past.table.create_branch("dev")
    bad = past.append(200, branch="dev")
    past.append(2)
    result = past.table.bisect(CHECK, ref="dev")
    assert result.culprit is not None
    assert result.culprit.entry.snapshot_id == bad
    assert f"frazil rollback {past.name} --at {result.good.snapshot_id} --ref dev" in result.commands()  # type: ignore[union-attr]
    assert past.table.bisect(CHECK).outcome == "passes"


def test_the_first_snapshot_of_a_table_can_be_the_culprit(past: Past) -> None:
    bad = past.append(200)
    result = past.table.bisect(CHECK)
    assert (result.outcome, result.good, result.effort.snapshots) == ("found", None, 1)
    assert result.culprit is not None
    assert result.culprit.entry.snapshot_id == bad


def test_expired_history_is_reported_and_not_guessed(past: Past) -> None:
    first = past.append(1)
    bad = past.append(200)
    runs = pa.table({"run_id": ["r1"], "pipeline": ["daily"], "snapshot_id": [bad]})
    past.catalog.create_table(f"{past.name}__runs", runs.schema).append(runs)
    ledger = pa.table({"pipeline": ["daily"], "path": ["landing/a.csv"], "size": [7], "run_id": ["r1"]})
    past.catalog.create_table(f"{past.name}__ledger", ledger.schema).append(ledger)
    oldest = past.append(2)
    past.append(3)
    past.expire([first, bad])
    result = past.table.bisect(CHECK)
    assert result.culprit is not None
    assert (result.outcome, result.culprit.entry.snapshot_id, result.commands()) == ("older", oldest, ())
    assert [(source.snapshot_id, source.is_kept, source.origins) for source in result.sources] == [
        (bad, False, Origins(run=Run("daily", "r1"), files=(LandingFile("landing/a.csv", 7),)))
    ]
    assert result.notes[-1] == f"run r1 of daily made snapshot {bad}, which has expired"


def test_the_sink_that_made_the_culprit_is_named_with_its_offsets(past: Past) -> None:
    with past.sink("orders") as sink:
        past.fill(sink, 3, 5)
    result = past.table.bisect("id < 4")
    assert result.culprit is not None
    assert (result.culprit.entry.by, result.culprit.origins) == (
        "orders/part-0 commit 2",
        Origins(part="orders/part-0", commit=2, offsets=(OffsetRange("0", 3, 5),)),
    )


def test_a_query_finds_what_no_single_row_shows(past: Past) -> None:
    past.append(1, 2)
    past.append(3)
    bad = past.append(2)
    past.append(4)
    result = past.table.bisect("SELECT id, count(*) AS copies FROM {table} GROUP BY id HAVING count(*) > 1")
    assert result.culprit is not None
    assert (result.culprit.entry.snapshot_id, result.culprit.bad_rows) == (bad, 1)
    assert result.culprit.samples == (FoundRow({"id": 2, "copies": 2}),)


def test_snapshots_from_before_a_column_came_pass(past: Past) -> None:
    past.append(1)
    with past.live.update_schema() as update:
        update.add_column("extra", LongType())
    arrow = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("extra", pa.int64())])
    past.live.append(pa.table({"id": [2], "name": ["n"], "extra": [7]}, schema=arrow))
    for check in ("extra < 5", "SELECT * FROM {table} WHERE extra >= 5"):
        assert past.table.bisect(check).culprit.entry.snapshot_id == past.head()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("check", "error", "facts"),
    [
        ("nope < 3", CheckError, {"column": "nope"}),
        ("id < NULL", CheckError, {"problem": "always-null"}),
        ("id <", CheckError, {"problem": "syntax"}),
        ("id < 3; DROP TABLE x", CheckError, {"problem": "unsupported"}),
        ("id < 3) OR (1 = 1", CheckError, {"problem": "syntax"}),
        ("id < (SELECT max(id) FROM lake.t)", CheckError, {"problem": "unsupported"}),
        ("name", CheckError, {"problem": "not-boolean"}),
        ("SELECT 1", CheckError, {"problem": "no-table"}),
        ("SELECT 1 FROM {table}; DROP TABLE x", CheckError, {"problem": "several-statements"}),
        ("SELECT nope FROM {table}", QueryError, {}),
        ("SELECT * FROM {table}, read_text('/etc/passwd')", QueryError, {}),
    ],
)
def test_a_check_that_makes_no_sense_is_refused(
    past: Past, check: str, error: type[Exception], facts: dict[str, object]
) -> None:
    past.append(1)
    with raises(error, **facts):  # type: ignore[arg-type]
        past.table.bisect(check)


def test_huge_numbers_are_compared_and_an_empty_table_is_an_error(past: Past) -> None:
    with raises(HistoryError, table=past.name):
        past.table.bisect(CHECK)
    past.append(2**62)
    assert past.table.bisect("id < 99999999999999999999").outcome == "passes"
    assert past.table.bisect("id > -1e30 AND id < 1e15").outcome == "found"
    with raises(HistoryError, ref="nope"):
        past.table.bisect(CHECK, ref="nope")


@pytest.mark.parametrize("seed", [1, 2])
def test_a_bisection_finds_what_a_look_at_every_snapshot_finds(past: Past, seed: int) -> None:
    """A history of appends, deletes, upserts, compactions and rollbacks, against the rows that a scan gives."""
    choose = random.Random(seed)
    past.append(0)
    for number in range(1, 12):
        match choose.choice(["append", "append", "delete", "upsert", "compact", "rollback"]):
            case "append":
                past.append(number, number + choose.choice([20, 200]), name=choose.choice(["n", "long name "]))
            case "delete":
                past.table.delete(f"id = {choose.randrange(12)} OR id > {choose.choice([150, 1000])}")
            case "upsert":
                past.table.upsert(rows(choose.randrange(12), name="changed"), key="id")
            case "compact":
                past.table.maintain("compact", dry_run=False, rewrite_all=True)
            case "rollback":
                past.table.rollback(choose.choice(past.table.history()[1:] or past.table.history()).snapshot_id)
    line = [entry.snapshot_id for entry in reversed(past.table.history())]
    for check, filter in (
        (CHECK, "id >= 100"),
        ("length(name) < 8", "name LIKE 'long name%' OR name LIKE 'changed%'"),
    ):
        failing = [past.table.count(filter, at=snapshot_id) > 0 for snapshot_id in line]
        expected = [
            (at, now) for at, (before, now) in zip(line, pairwise([False, *failing]), strict=True) if before != now
        ]
        flips = past.table.bisect(check, all=True).flips or ()
        assert [(flip.entry.snapshot_id, flip.fails) for flip in flips] == expected
        if len(expected) == 1:
            culprit = past.table.bisect(check).culprit
            assert culprit is not None
            assert culprit.entry.snapshot_id == expected[0][0]
