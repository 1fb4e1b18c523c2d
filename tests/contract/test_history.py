"""A table's past on a real catalog: its log, the points in it, and what differs between two of them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import IntegerType, LongType

from frazil.errors import HistoryError, NoSuchTable
from frazil.history.rows import RowChange
from tests.contract.history_lake import Past, rows, tick
from tests.kit.raising import raises


def now() -> datetime:
    tick()
    result = datetime.now(UTC)
    tick()
    return result


# --- log -------------------------------------------------------------------------------------------------------------


def test_the_log_tells_what_each_snapshot_did_and_who_made_it(past: Past) -> None:
    with past.sink("orders") as sink:
        past.fill(sink, 3, 5)
    past.live.delete("id = 0")
    past.table.create_tag("v1")
    result = [
        (e.operation, e.added_rows, e.removed_rows, e.total_rows, e.total_files, e.by, e.refs)
        for e in past.table.history()
    ]
    assert result == [
        ("overwrite", 2, 3, 4, 2, "", ("main", "tag: v1")),
        ("append", 2, 0, 5, 2, "orders/part-0 commit 2", ()),
        ("append", 3, 0, 3, 1, "orders/part-0 commit 1", ()),
        ("append", 0, 0, 0, 0, "a writer took over", ()),
    ]


def test_the_log_of_a_branch_ends_where_the_branch_is(past: Past) -> None:
    first = past.append(1)
    past.table.create_branch("dev")
    past.append(2)
    on_dev = past.append(3, branch="dev")
    assert [entry.snapshot_id for entry in past.table.history(ref="dev")] == [on_dev, first]
    assert [entry.snapshot_id for entry in past.table.history(limit=1)] == [past.head()]


def test_all_shows_what_is_on_no_line_any_more(past: Past) -> None:
    first, second = past.append(1), past.append(2)
    past.table.rollback(first)
    assert [(entry.snapshot_id, entry.is_ancestor) for entry in past.table.history(all=True)] == [
        (past.head(), True),
        (second, False),
        (first, True),
    ]
    assert [entry.snapshot_id for entry in past.table.history()] == [past.head(), first]


def test_a_table_without_snapshots_has_an_empty_log(past: Past) -> None:
    assert past.table.history() == []


def test_an_unknown_table_is_named_with_those_that_are_near(past: Past) -> None:
    with pytest.raises(NoSuchTable) as caught:
        past.lake.table(past.name[:-1]).history()
    assert past.name in (caught.value.hint or "")
    with raises(NoSuchTable, hint=re.compile("did you mean")):
        past.lake.table(f"elsewhere.{past.name.partition('.')[2]}").history()


# --- points ----------------------------------------------------------------------------------------------------------


def test_a_table_is_read_at_an_id_a_time_a_branch_and_a_tag(past: Past) -> None:
    first = past.append(1)
    between = now()
    past.append(2)
    past.table.create_tag("v1", at=first)
    past.table.create_branch("dev", at=between)
    past.append(9, branch="dev")
    points = [first, str(first), between, between.isoformat(), "v1", "dev", "main"]
    assert [past.ids(point) for point in points] == [[1], [1], [1], [1], [1], [1, 9], [1, 2]]


def test_a_time_after_a_rollback_still_finds_what_was_there_then(past: Past) -> None:
    first = past.append(1)
    past.append(2)
    before = now()
    past.table.rollback(first)
    assert (past.ids(before), past.ids(now())) == ([1, 2], [1])


def test_an_old_point_is_read_with_its_own_columns(past: Past) -> None:
    first = past.append(1)
    with past.live.update_schema() as update:
        update.rename_column("name", "label")
        update.add_column("extra", IntegerType())
    past.table.create_tag("v1", at=first)
    assert past.table.scan(at="v1").schema.names == ["id", "name"]
    assert past.table.scan().schema.names == ["id", "label", "extra"]
    assert past.table.scan().to_arrow().to_pylist() == [{"id": 1, "label": "n1", "extra": None}]


@pytest.mark.parametrize(
    ("point", "facts"),
    [
        (17, {"snapshot": 17, "hint": re.compile("expired")}),
        ("mian", {"ref": "mian", "hint": re.compile(r"\bmain\b")}),
        ("2001-01-01", {"ref": "main", "problem": "too-early", "hint": re.compile(r"oldest snapshot .* 20\d\d")}),
    ],
)
def test_a_point_that_is_not_there_is_an_error_that_helps(past: Past, point: Any, facts: dict[str, object]) -> None:
    past.append(1)
    with raises(HistoryError, **facts):
        past.ids(point)


def test_a_time_whose_snapshot_has_expired_is_not_answered_with_another(past: Past) -> None:
    first = past.append(1)
    then = now()
    past.append(2)
    past.expire([first])
    with raises(HistoryError, ref="main", problem=re.compile("^(expired|too-early)$")):
        past.ids(then)


# --- diff ------------------------------------------------------------------------------------------------------------


def test_a_diff_tells_schema_partitioning_files_and_rows(past: Past) -> None:
    first = past.append(1, 2)
    with past.live.update_schema() as update:
        update.add_column("extra", IntegerType())
    with past.live.update_spec() as spec:
        spec.add_identity("name")
    past.append(3)
    past.live.delete("id = 1")
    diff = past.table.diff(first)
    assert [str(change) for change in (*diff.schema, *diff.partitioning)] == [
        "+ column extra int",
        "+ partition spec 1: name",
    ]
    assert [(file.sign, file.rows, file.partition, file.deletes) for file in diff.files] == [
        *sorted(
            [("+", 1, "name=n2", False), ("+", 1, "name=n3", False)], key=lambda item: past_order(diff.files, item[2])
        ),
        ("-", 2, "", False),
    ]
    assert (diff.rows_before, diff.rows_after, diff.is_empty) == (2, 2, False)


def past_order(files: tuple[object, ...], partition: str) -> int:
    """Files are listed by path, which is random."""
    return [getattr(file, "partition", "") for file in files].index(partition)


def test_files_of_a_rewritten_manifest_are_no_difference(past: Past) -> None:
    with past.live.transaction() as change:
        change.set_properties({"commit.manifest.min-count-to-merge": "2"})
    with past.sink() as sink:
        first, *_, last = past.fill(sink, 2, 4, 6)
    diff = past.table.diff(first, last)
    assert (diff.sum("+").files, diff.sum("+").rows, diff.sum("-").files) == (2, 4, 0)
    assert past.table.diff(last, last).is_empty


def test_rows_are_compared_by_key_with_the_columns_that_changed(past: Past) -> None:
    first = past.append(1, 2, 3)
    past.live.overwrite(pa.concat_tables([rows(1), rows(2, name="x"), rows(4)]))
    diff_rows = past.table.diff_rows(first, key=["id"])
    assert (diff_rows.added, diff_rows.removed, diff_rows.changed) == (1, 1, 1)
    assert diff_rows.rows == (
        RowChange("~", {"id": 2}, {"id": 2, "name": "n2"}, {"id": 2, "name": "x2"}, ("name",)),
        RowChange("-", {"id": 3}, {"id": 3, "name": "n3"}, None),
        RowChange("+", {"id": 4}, None, {"id": 4, "name": "n4"}),
    )
    assert past.table.diff_rows(first, key=["id"], limit=1).rows == diff_rows.rows[:1]


def test_only_files_that_differ_are_read(past: Past) -> None:
    """The shared file is taken away: reading it fails."""
    first = past.append(1, 2)
    (shared,) = (file["file_path"] for file in past.live.inspect.files().to_pylist())
    past.append(3)
    Path(shared.removeprefix("file://")).unlink()
    diff_rows = past.table.diff_rows(first, key=["id"])
    assert (diff_rows.added, diff_rows.removed, diff_rows.changed, diff_rows.files_read) == (1, 0, 0, 1)


def test_rows_of_two_schemas_are_compared_by_field_id(past: Past) -> None:
    first = past.append(1, 2)
    with past.live.update_schema() as update:
        update.rename_column("name", "present")  # also a word that the comparison must not stumble over
        update.add_column("row", LongType())
    arrow = pa.schema([pa.field("id", pa.int64(), nullable=False), ("present", pa.string()), ("row", pa.int64())])
    past.live.overwrite(pa.table({"id": [1, 2], "present": ["n1", "n2"], "row": [None, 7]}, schema=arrow))
    expected = RowChange(
        "~", {"id": 2}, {"id": 2, "present": "n2", "row": None}, {"id": 2, "present": "n2", "row": 7}, ("row",)
    )
    assert past.table.diff_rows(first, key=["id"]).rows == (expected,)
    backwards = past.table.diff_rows("main", first, key=["id"])
    assert [(row.sign, row.columns) for row in backwards.rows] == [("~", ("row",))]


def test_a_key_that_names_no_column_or_several_rows_is_refused(past: Past) -> None:
    first = past.append(1)
    past.append(5, 5)
    with raises(HistoryError, column="nam"):
        past.table.diff_rows(first, key=["nam"])
    with raises(HistoryError, problem="duplicate-key"):
        past.table.diff_rows(first, key=["id"])


def test_the_log_names_the_run_of_a_pipeline(past: Past) -> None:
    first = past.append(1)
    runs = pa.table({"run_id": ["r1", "r2"], "pipeline": ["daily", "daily"], "snapshot_id": [first, None]})
    past.catalog.create_table(f"{past.name}__runs", runs.schema).append(runs)
    assert [entry.by for entry in past.table.history()] == ["daily run r1"]
