"""What a Spark task does with its rows, without Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from frazil.errors import ProgressMismatch, RowRefused, RowsLost, SchemaMismatch
from frazil.sinks.spark.frame_rows import FrameRows, OffsetColumns
from frazil.sinks.spark.job import add_up, as_staged, check_report
from frazil.sinks.spark.task import Counts, Refusal, TaskPlan, TaskReport
from frazil.write.commit.quarantine_table import SCHEMA as QUARANTINE
from frazil.write.files.buffer import BufferLimits
from frazil.write.files.layout import TableLayout
from frazil.write.files.written import WrittenFile
from tests.kit.layouts import LayoutOf
from tests.kit.raising import raises

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType()))
KAFKA = OffsetColumns(("topic", "partition"), "offset")
LIMITS = BufferLimits(threads=1)


def batch(*rows: tuple[int | None, int, int]) -> pa.RecordBatch:
    """Rows of (id, partition, offset)."""
    columns: dict[str, Any] = {
        "id": pa.array([row[0] for row in rows], pa.int64()),
        "topic": ["t"] * len(rows),
        "partition": pa.array([row[1] for row in rows], pa.int32()),
        "offset": pa.array([row[2] for row in rows], pa.int64()),
    }
    return pa.record_batch(columns)


@pytest.fixture
def plan(layout_of: LayoutOf, tmp_path: Path) -> TaskPlan:
    table = layout_of(SCHEMA, "bucket(2, id)")
    quarantine = TableLayout("lake.q", QUARANTINE, layout_of(QUARANTINE).spec, table.order, str(tmp_path / "q"), {}, {})
    return TaskPlan(table, "s/part-0", LIMITS, FrameRows(KAFKA), quarantine=quarantine)


def files(tmp_path: Path, folder: str = "t") -> list[Path]:
    return sorted((tmp_path / folder).rglob("*.parquet"))


def ids(report: TaskReport) -> list[int]:
    return sorted(
        value for file in report.files for value in pq.read_table(file.path, partitioning=None)["id"].to_pylist()
    )


def test_rows_before_the_reached_offsets_are_left_out_and_the_ranges_reported(plan: TaskPlan) -> None:
    behind = replace(plan, source=FrameRows(KAFKA, reached={"t/0": 2, "t/1": 9}))
    report = behind.run([batch((1, 0, 1), (2, 0, 2), (3, 1, 8)), batch((4, 0, 5), (5, 2, 0))], task=3)
    assert (ids(report), report.counts) == ([2, 4, 5], Counts(rows=3, repeated=2))
    assert (report.first, report.end) == ({"t/0": 2, "t/2": 0}, {"t/0": 6, "t/2": 1})
    assert {Path(file.path).name[:6] for file in report.files} == {"00003-"}


def test_a_bad_row_goes_to_the_quarantine_files_unless_it_is_there(plan: TaskPlan) -> None:
    rows = [batch((1, 0, 0), (None, 0, 1), (None, 0, 7))]
    report = replace(plan, quarantined={"t/0": 2}).run(rows, task=0)
    assert (report.counts.rows, report.counts.refused, report.end) == (1, 2, {"t/0": 8})
    (file,) = report.quarantine_files
    (result,) = pq.read_table(file.path).to_pylist()
    assert (result["position"], result["part"], json.loads(result["raw"])["id"]) == (
        '{"source":"t/0","offset":7}',
        "s/part-0",
        None,
    )


def test_without_a_quarantine_the_task_stops_and_its_files_are_gone(plan: TaskPlan, tmp_path: Path) -> None:
    small = replace(plan, quarantine=None, limits=BufferLimits(budget_bytes=1, row_group_bytes=1, threads=1))

    def rows() -> Iterator[pa.RecordBatch]:
        yield batch(*((number, 0, number) for number in range(100)))
        assert files(tmp_path)  # some are written by now
        yield batch((None, 0, 100))
        raise AssertionError("the task read on")

    report = small.run(rows(), task=0)
    assert (report.stopped, report.files, files(tmp_path)) == (True, (), [])
    with raises(RowRefused, reason=re.compile("expected a value")):
        check_report(report, reached={}, table="t")


def test_a_source_that_fails_in_the_middle_leaves_no_file(plan: TaskPlan, tmp_path: Path) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield batch((1, 0, 0), (None, 0, 1))
        raise OSError("the shuffle is gone")

    with pytest.raises(OSError, match="the shuffle is gone"):
        replace(plan, limits=BufferLimits(budget_bytes=1, row_group_bytes=1, threads=1)).run(rows(), task=0)
    assert (files(tmp_path), files(tmp_path, "q")) == ([], [])


def test_offset_columns_are_kept_where_the_table_has_them_and_refused_where_it_has_not(
    plan: TaskPlan, layout_of: LayoutOf
) -> None:
    kept = replace(plan, source=FrameRows(replace(KAFKA, keep=True)))
    with raises(SchemaMismatch, column="topic", expected="no such field"):
        kept.run([batch((1, 0, 0))], task=0)
    schema = Schema(
        *SCHEMA.fields,
        NestedField(3, "topic", StringType()),
        NestedField(4, "partition", LongType()),
        NestedField(5, "offset", LongType()),
    )
    report = replace(kept, layout=layout_of(schema)).run([batch((1, 4, 7))], task=0)
    (file,) = report.files
    assert pq.read_table(file.path).select(["topic", "partition", "offset"]).to_pylist() == [
        {"topic": "t", "partition": 4, "offset": 7}
    ]


def test_a_row_whose_place_is_not_known_is_refused(plan: TaskPlan) -> None:
    rows = batch((1, 0, 0)).set_column(3, "offset", pa.nulls(1, pa.int64()))
    with raises(ProgressMismatch, column="offset"):
        plan.run([rows], task=0)


def test_a_frame_with_a_position_names_task_and_row_of_a_bad_one(plan: TaskPlan) -> None:
    placed = replace(plan, source=FrameRows(end={"day": 3}))
    good, bad = (pa.record_batch({"id": pa.array([value], pa.int64())}) for value in (1, None))
    report = placed.run([good, bad], task=2)
    assert report.counts.first_refusal == Refusal(
        "field 'id': expected a value, got NULL", '{"task":2,"row":1,"end":{"day":3}}', '{"id":null}'
    )
    assert report.end == {"day": 3}


def test_rows_that_another_writer_has_brought_in_since_are_refused() -> None:
    reports = [TaskReport(first={"t/0": 5}, end={"t/0": 9}), TaskReport(first={"t/0": 2}, end={"t/0": 4, "t/1": 1})]
    joined = add_up(reports)
    staged = as_staged(joined, reached={"t/0": 2})
    assert (staged.start, staged.end) == ({"t/0": 2}, {"t/0": 9, "t/1": 1})
    check_report(joined, reached={"t/0": 2}, table="t")
    with raises(ProgressMismatch, source="t/0"):
        check_report(joined, reached={"t/0": 3}, table="t")


def test_a_plan_shows_no_keys(plan: TaskPlan) -> None:
    secret = replace(plan, layout=replace(plan.layout, io_properties={"s3.secret-access-key": "hunter2"}))
    assert "hunter2" not in repr(secret) + repr(secret.layout)


def test_a_report_whose_files_lack_rows_is_refused() -> None:
    report = TaskReport((WrittenFile("f", 1, 2),), counts=Counts(rows=3))
    with raises(RowsLost, table="t", expected=3, got=2):
        check_report(report, reached={}, table="t")
