"""What a task does with its rows, without Spark: files, duplicates, quarantine, counts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from frazil.pipelines.files.reading import POSITION, pack_position
from frazil.pipelines.files.rows import FileRows
from frazil.pipelines.files.slices import Slice
from frazil.pipelines.files.text import TextContract
from frazil.sinks.spark.task import Counts, TaskPlan, TaskReport
from frazil.write.commit.quarantine_table import SCHEMA as QUARANTINE
from frazil.write.files.buffer import BufferLimits
from frazil.write.files.layout import TableLayout
from frazil.write.files.partitioning import partition_spec
from tests.kit.layouts import LayoutOf

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "note", StringType()))
SLICES = (Slice(0, 0, "a.csv"), Slice(1, 1, "b.csv", 0, 100), Slice(2, 1, "b.csv", 100, 200))


def plan_of(layout: TableLayout, *key: str) -> TaskPlan:
    quarantine = TableLayout(
        "lake.q", QUARANTINE, partition_spec(QUARANTINE, []), layout.order, f"{layout.location}__q", {}, {}
    )
    return TaskPlan(
        layout, "p", BufferLimits(threads=1), FileRows(SLICES), quarantine=quarantine, kind=TextContract, key=key
    )


def batch(*rows: tuple[object, str], slice_number: int = 0, first: int = 2) -> pa.RecordBatch:
    ids, notes = zip(*rows, strict=True)
    positions = [pack_position(slice_number, first + at) for at in range(len(rows))]
    return pa.record_batch(
        {"id": pa.array([str(i) if i is not None else None for i in ids]), "note": pa.array(notes), POSITION: positions}
    )


def written(files: tuple[object, ...]) -> list[dict[str, object]]:
    return [row for file in files for row in pq.read_table(file.path).to_pylist()]  # type: ignore[attr-defined]


def test_good_rows_are_in_files_and_bad_ones_quarantined_with_their_place(layout_of: LayoutOf) -> None:
    report = plan_of(layout_of(SCHEMA)).run([batch((1, "x"), ("y", "x")), batch((None, "x"), slice_number=2)], task=0)
    assert (report.counts.rows, report.counts.refused) == (1, 2)
    assert written(report.files) == [{"id": 1, "note": "x"}]
    assert [json.loads(str(row["position"])) for row in written(report.quarantine_files)] == [
        {"file": "a.csv", "row": 3},
        {"file": "b.csv", "from_byte": 100, "row": 2},
    ]
    assert report.reasons == {"field 'id': expected long": 1, "field 'id': expected a value, got NULL": 1}


@given(st.lists(st.integers(0, 6), max_size=30).map(sorted), st.integers(1, 9))
def test_of_neighbours_with_one_key_the_last_is_kept_wherever_batches_end(
    tmp_path_factory: pytest.TempPathFactory, ids: list[int], size: int
) -> None:
    folder = tmp_path_factory.mktemp("t")
    layout = TableLayout("lake.t", SCHEMA, partition_spec(SCHEMA, []), _unsorted(), str(folder), {}, {})
    rows = [(item, f"{number}") for number, item in enumerate(ids)]
    batches = [batch(*rows[start : start + size]) for start in range(0, len(rows), size)]
    report = plan_of(layout, "id").run(batches, task=0)
    last = {item: note for item, note in rows}  # noqa: C416  # the last one wins, as in a dict
    assert sorted((row["id"], row["note"]) for row in written(report.files)) == sorted(last.items())
    assert report.counts.duplicates == len(ids) - len(last)


def test_a_bad_row_takes_the_place_of_no_good_one(layout_of: LayoutOf) -> None:
    plan = replace(plan_of(layout_of(SCHEMA), "id"), checks=("note <> 'bad'",))
    report = plan.run([batch((1, "good"), (1, "bad"))], task=0)
    counts = report.counts
    assert (written(report.files), counts.duplicates, counts.refused) == ([{"id": 1, "note": "good"}], 0, 1)


def test_a_task_that_fails_leaves_no_file(layout_of: LayoutOf, tmp_path: Path) -> None:
    def batches():  # type: ignore[no-untyped-def]
        yield batch((1, "x"), ("y", "x"))
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        plan_of(layout_of(SCHEMA)).run(batches(), task=0)
    assert list(tmp_path.glob("**/*.parquet")) == []


def test_rows_whose_place_is_not_known_say_so(layout_of: LayoutOf) -> None:
    report = plan_of(layout_of(SCHEMA)).run([batch(("y", "x")).drop_columns([POSITION])], task=0)
    assert [row["position"] for row in written(report.quarantine_files)] == ["{}"]


def test_reports_add_up() -> None:
    report = TaskReport(counts=Counts(rows=1, refused=2), reasons={"a": 2}, first={"t/0": 3}, end={"t/0": 8})
    more = TaskReport(
        counts=Counts(rows=3, duplicates=1, refused=1),
        reasons={"a": 1, "b": 1},
        first={"t/0": 8, "t/1": 0},
        end={"t/0": 10, "t/1": 2},
    )
    assert report + more == TaskReport(
        counts=Counts(rows=4, duplicates=1, refused=3),
        reasons={"a": 3, "b": 1},
        first={"t/0": 3, "t/1": 0},
        end={"t/0": 10, "t/1": 2},
    )


def _unsorted():  # type: ignore[no-untyped-def]
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

    return UNSORTED_SORT_ORDER
