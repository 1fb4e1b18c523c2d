"""One suite for every target of the sink: the same calls, the same promises."""

from __future__ import annotations

import datetime as dt
import json
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, LongType, NestedField, StringType, TimestampType

import frazil.sinks
from frazil.client import FrazilCatalog
from frazil.errors import (
    CheckError,
    ProgressMismatch,
    RowRefused,
    RowsLost,
    SchemaMismatch,
    SinkError,
    Unavailable,
    WriterFenced,
)
from frazil.sinks import ArrowSink
from frazil.sinks.delta.target import create_delta_table
from frazil.write.commit.quarantine_table import quarantine_of
from frazil.write.files.partitioning import partition_spec
from tests.kit.raising import raises

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "amount", DecimalType(12, 2)),
    NestedField(3, "event_timestamp", TimestampType()),
    NestedField(4, "note", StringType()),
)
START = dt.datetime(2024, 3, 1, 22)
FLUSHES = [({"flush_rows": 30}, [0, 0, 30, 30]), ({"flush_rows": None, "flush_bytes": 1}, [10, 20, 30, 40])]


@dataclass
class TargetKind:
    """A place for tables of one kind."""

    open_sink: Callable[..., ArrowSink]
    create: Callable[..., None]
    read: Callable[[], pa.Table]
    read_quarantine: Callable[[], pa.Table]
    files: Callable[[], list[Path]]

    def ids(self) -> list[int]:
        return sorted(self.read()["id"].to_pylist())

    def quarantined(self) -> list[tuple[int, str, object]]:
        rows = self.read_quarantine().to_pylist()
        return sorted((json.loads(row["raw"])["id"], row["reason"], json.loads(row["position"])) for row in rows)


def iceberg_lake(catalog: FrazilCatalog) -> TargetKind:
    name = ("lake", f"t{uuid.uuid4().hex[:8]}")

    def create(*fields: str, **properties: str) -> None:
        catalog.create_table(name, SCHEMA, partition_spec=partition_spec(SCHEMA, fields), properties=properties)

    def open_sink(*, part: int = 0, **options: Any) -> ArrowSink:
        return frazil.sinks.open(name, name="s", catalog=catalog, part=part, **options)

    return TargetKind(
        open_sink,
        create,
        lambda: catalog.load_table(name).scan().to_arrow(),
        lambda: catalog.load_table(quarantine_of(name)).scan().to_arrow(),
        lambda: list(Path(catalog.load_table(name).location().removeprefix("file://")).rglob("*.parquet")),
    )


def delta_lake(folder: Path) -> TargetKind:
    uri = str(folder / "t")

    def create(*fields: str) -> None:
        create_delta_table(uri, SCHEMA, partition_by=fields)

    def open_sink(**options: Any) -> ArrowSink:
        return frazil.sinks.open(uri, name="s", **options)

    return TargetKind(
        open_sink,
        create,
        lambda: pa.table(DeltaTable(uri).to_pyarrow_table()),
        lambda: pa.table(DeltaTable(uri + "__quarantine").to_pyarrow_table()),
        lambda: list(Path(uri).rglob("*.parquet")),
    )


@pytest.fixture(params=["iceberg", "delta"])
def lake(request: pytest.FixtureRequest, catalog: FrazilCatalog, tmp_path: Path) -> TargetKind:
    return iceberg_lake(catalog) if request.param == "iceberg" else delta_lake(tmp_path)


def rows(start: int, count: int, **changed: Any) -> list[dict[str, Any]]:
    """Rows that lie an hour apart, so that a few of them span days."""
    return [
        {"id": i, "amount": Decimal(i), "event_timestamp": START + dt.timedelta(hours=i), "note": f"row {i}", **changed}
        for i in range(start, start + count)
    ]


def arrow(start: int, count: int) -> pa.Table:
    kinds = [
        ("id", pa.int64()),
        ("amount", pa.decimal128(12, 2)),
        ("event_timestamp", pa.timestamp("us")),
        ("note", pa.string()),
    ]
    return pa.Table.from_pylist(rows(start, count), pa.schema(kinds))


@pytest.mark.requirement("arrow.direct")
def test_rows_of_every_kind_come_back_the_same(lake: TargetKind) -> None:
    lake.create("day(event_timestamp)")
    with lake.open_sink() as sink:
        sink.write(arrow(0, 2))
        sink.write(arrow(2, 2).to_batches()[0])
        sink.write(pl.from_arrow(arrow(4, 2)))
        sink.write(arrow(6, 2).to_reader())
        sink.write(rows(8, 2))
        sink.write(rows(10, 1)[0])
    result = lake.read().sort_by("id").select(["id", "amount", "event_timestamp", "note"])
    assert result.to_pylist() == rows(0, 11)


def test_a_stream_is_taken_batch_by_batch_and_committed_as_one(lake: TargetKind) -> None:
    lake.create("month(event_timestamp)")  # a file per day would be 1,667 files
    most = 0

    def stream() -> Iterator[pa.RecordBatch]:
        nonlocal most
        for start in range(0, 40_000, 2_000):
            most = max(most, pa.total_allocated_bytes())
            assert lake.ids() == []
            yield arrow(start, 2_000).to_batches()[0]

    before = pa.total_allocated_bytes()
    with lake.open_sink(budget_bytes=200_000, threads=1) as sink:
        sink.write(pa.RecordBatchReader.from_batches(arrow(0, 0).schema, stream()), position=40_000)
        assert sink.offset == 40_000
    assert most - before < 1_000_000  # all of it is 2 MB
    assert lake.ids() == list(range(40_000))


@pytest.mark.requirement("sink.exactly-once")
def test_a_writer_goes_on_where_the_last_one_stopped(lake: TargetKind) -> None:
    lake.create()
    with lake.open_sink() as sink:
        assert (sink.offset, sink.position) == (None, {})
        sink.write(arrow(0, 5), position=5)
    with lake.open_sink() as sink:
        assert (sink.offset, sink.position) == (5, {"0": 5})
        sink.write(arrow(5, 5), position=10)
    assert lake.ids() == list(range(10))


@pytest.mark.requirement("sink.atomic")
def test_nothing_is_seen_before_the_commit_and_all_of_it_after(lake: TargetKind) -> None:
    lake.create("day(event_timestamp)")
    sink = lake.open_sink(flush_rows=None)
    sink.write(arrow(0, 100), position=100)
    sink.flush()
    assert lake.ids() == []
    assert sink.commit() == {"0": 100}
    assert lake.ids() == list(range(100))
    sink.close()


@pytest.mark.requirement("sink.buffer")
@pytest.mark.parametrize(
    ("options", "commits"),
    [({"flush_rows": 30}, [0, 0, 30, 30]), ({"flush_rows": None, "flush_bytes": 1}, [10, 20, 30, 40])],
)
def test_rows_are_committed_by_number_and_by_bytes(
    lake: TargetKind, options: dict[str, Any], commits: list[int]
) -> None:
    lake.create()
    sink = lake.open_sink(**options)
    seen = []
    for start in range(0, 40, 10):
        sink.write(arrow(start, 10), position=start + 10)
        seen.append(len(lake.ids()))
    sink.abandon()
    assert seen == commits


@pytest.mark.requirement("sink.buffer")
def test_rows_are_committed_by_time_even_when_the_source_is_silent(lake: TargetKind) -> None:
    lake.create()
    sink = lake.open_sink(flush_rows=None, flush_seconds=60)
    now = [0.0]
    sink._clock = lambda: now[0]
    sink.write(arrow(0, 3), position=3)
    now[0] = 59
    sink.poll()
    assert lake.ids() == []
    now[0] = 60
    sink.poll()
    assert lake.ids() == [0, 1, 2]
    sink.close()


@pytest.mark.requirement("sink.exactly-once")
@pytest.mark.parametrize("step", ["flush", "commit", "close"])
def test_files_that_lack_rows_are_never_committed(lake: TargetKind, step: str) -> None:
    lake.create("day(event_timestamp)")
    sink = lake.open_sink(flush_rows=None)
    sink.write(arrow(0, 5), position=5)
    sink._buffer.rows += 1  # a row that was taken, and got lost on the way to the file
    with pytest.raises(RowsLost) as caught:
        getattr(sink, step)()
    assert (caught.value.expected, caught.value.got) == (6, 5)
    assert (lake.ids(), lake.files(), lake.open_sink().offset) == ([], [], None)


@pytest.mark.requirement("sink.exactly-once")
def test_an_error_in_the_callers_code_commits_nothing_and_leaves_no_file(lake: TargetKind) -> None:
    lake.create()
    sink = lake.open_sink()

    def fail_after_some_rows() -> None:
        with sink:
            sink.write(arrow(0, 5), position=5)
            sink.flush()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_after_some_rows()
    assert (lake.ids(), lake.files()) == ([], [])
    with raises(SinkError, problem="closed"):
        sink.write(arrow(0, 5), position=5)


@pytest.mark.requirement("sink.exactly-once")
def test_rows_that_a_source_repeats_are_left_out_by_their_offsets(lake: TargetKind) -> None:
    lake.create()
    with lake.open_sink() as sink:
        sink.write_with_offsets(arrow(0, 5), source="events/0", offsets=[10, 11, 13, 13, 20])
        sink.write_with_offsets(rows(3, 3), source="events/0", offsets=[13, 20, 21])
        sink.write_with_offsets(rows(100, 1), source="events/1", offsets=[7])
    with lake.open_sink() as sink:
        assert sink.position == {"events/0": 22, "events/1": 8}
        sink.write_with_offsets(arrow(0, 7), source="events/0", offsets=[10, 11, 13, 13, 20, 21, 30])
        sink.write_with_offsets(arrow(0, 5), source="events/0", offsets=[10, 11, 13, 13, 20])
    assert lake.ids() == [0, 1, 2, 3, 4, 5, 6, 100]


def test_a_source_that_goes_back_is_refused(lake: TargetKind) -> None:
    lake.create()
    sink = lake.open_sink()
    sink.write(arrow(0, 5), position=5)
    with raises(ProgressMismatch, source="0"):
        sink.write(arrow(0, 3), position=3)
    with lake.open_sink() as other, raises(ProgressMismatch, problem="unordered"):
        other.write_with_offsets(arrow(0, 2), source="a", offsets=[2, 1])


@pytest.mark.requirement("sink.exactly-once")
def test_the_writer_before_is_fenced(lake: TargetKind) -> None:
    lake.create()
    old = lake.open_sink()
    old.write(arrow(0, 5), position=5)
    with lake.open_sink() as new:
        new.write(arrow(0, 7), position=7)
    with pytest.raises(WriterFenced):
        old.commit()
    assert lake.ids() == list(range(7))


@pytest.mark.requirement("sink.parallel")
def test_parts_write_side_by_side(lake: TargetKind) -> None:
    lake.create()
    sinks = [lake.open_sink(part=part) for part in range(3)]
    for turn in range(3):
        for part, sink in enumerate(sinks):
            sink.write(arrow(100 * part + turn, 1), position=turn + 1)
            sink.commit()
    for sink in sinks:
        sink.close()
    assert lake.ids() == [0, 1, 2, 100, 101, 102, 200, 201, 202]


def test_a_source_that_ended_leaves_no_entry(lake: TargetKind) -> None:
    lake.create()
    with lake.open_sink() as sink:
        sink.write(arrow(0, 5), position={"a.csv": 5})
        sink.commit()
        sink.write(arrow(5, 5), position={"a.csv": 10}, done=["a.csv"])
        sink.write(arrow(10, 1), position={"b.csv": 1})
    with lake.open_sink() as sink:
        assert sink.position == {"b.csv": 1}
    assert lake.ids() == list(range(11))


@pytest.mark.requirement("sink.exactly-once")
@pytest.mark.parametrize("committed", [True, False], ids=["committed", "waiting"])
@pytest.mark.parametrize("position", [5, {"a": 5, "b": 2}], ids=["plain", "by source"])
def test_the_same_batch_at_the_same_position_is_not_appended_again(
    lake: TargetKind, position: Any, committed: bool
) -> None:
    lake.create()
    sink = lake.open_sink()
    sink.write(arrow(0, 5), position=position)
    if committed:
        sink.close()
        sink = lake.open_sink()
    with raises(ProgressMismatch, problem="already-committed"):
        sink.write(arrow(0, 5), position=position)
    assert lake.ids() == (list(range(5)) if committed else [])


def test_rows_may_come_from_one_of_several_sources(lake: TargetKind) -> None:
    lake.create()
    with lake.open_sink() as sink:
        sink.write(arrow(0, 5), position={"a": 5, "b": 2})
        sink.write(arrow(5, 1), position={"a": 6, "b": 2})
        sink.write([], position={"a": 6, "b": 2})  # nothing new, and nothing that could come twice
    assert (lake.ids(), lake.open_sink().position) == (list(range(6)), {"a": 6, "b": 2})


@pytest.mark.parametrize("offsets", [[0, 1, 2, 3, 4], [0], [0, None]], ids=["too many", "too few", "one is missing"])
@pytest.mark.parametrize("as_rows", [rows, arrow, lambda *n: arrow(*n).to_reader()], ids=["dicts", "arrow", "stream"])
def test_each_row_has_one_offset(lake: TargetKind, offsets: list[int | None], as_rows: Callable[..., Any]) -> None:
    lake.create()
    sink = lake.open_sink()
    with raises(ProgressMismatch, source="p", expected=2, got=len(offsets) - offsets.count(None)):
        sink.write_with_offsets(as_rows(0, 2), source="p", offsets=pa.array(offsets, pa.int64()))
    assert (lake.ids(), lake.open_sink().position) == ([], {})


def test_a_position_may_move_without_rows(lake: TargetKind) -> None:
    lake.create()
    with lake.open_sink() as sink:
        sink.write(arrow(0, 0), position=50)
    with lake.open_sink() as sink:
        assert sink.offset == 50
    assert lake.ids() == []


@pytest.mark.requirement("sink.schema")
def test_bad_rows_are_quarantined_with_reason_and_position(lake: TargetKind) -> None:
    lake.create()
    with lake.open_sink(bad_rows="quarantine", checks=["amount >= 0"]) as sink:
        sink.write([*rows(0, 2), *rows(2, 1, amount=Decimal(-1)), *rows(3, 1, amount="a lot")], position=4)
        sink.write_with_offsets([*rows(4, 1), *rows(5, 1, amount=Decimal(-1))], source="p", offsets=[70, 71])
    assert lake.ids() == [0, 1, 4]
    assert lake.quarantined() == [
        (2, "check 'amount >= 0' failed", {"row": 2, "end": {"0": 4}}),
        (3, "field 'amount': expected decimal(12, 2), got 'a lot'", {"row": 3, "end": {"0": 4}}),
        (5, "check 'amount >= 0' failed", {"source": "p", "offset": 71}),
    ]


def test_a_bad_row_stops_the_sink_where_that_is_the_policy(lake: TargetKind) -> None:
    lake.create()
    sink = lake.open_sink(checks=["amount >= 0"])
    sink.write(rows(0, 2), position=2)
    with raises(RowRefused, reason=re.compile("amount >= 0")) as raised:
        sink.write(rows(2, 1, amount=Decimal(-1)), position=3)
    assert json.loads(raised.value.row)["id"] == 2
    assert lake.ids() == []


@pytest.mark.requirement("arrow.iceberg")
@pytest.mark.requirement("arrow.delta")
def test_new_fields_become_columns_where_the_table_may_evolve(lake: TargetKind) -> None:
    lake.create("day(event_timestamp)")
    with lake.open_sink(extra_fields="evolve", flush_rows=None) as sink:
        sink.write(arrow(0, 2))
        sink.write(arrow(2, 1).append_column("color", pa.array(["red"])))
        sink.write(rows(3, 1, size=2.5))
        sink.write(arrow(4, 1))
    result = {row["id"]: (row["color"], row["size"]) for row in lake.read().to_pylist()}
    assert result == {0: (None, None), 1: (None, None), 2: ("red", None), 3: (None, 2.5), 4: (None, None)}


def test_an_extra_field_is_an_error_by_default(lake: TargetKind) -> None:
    lake.create()
    with raises(SchemaMismatch, column="color", expected="no such field"), lake.open_sink() as sink:
        sink.write(arrow(0, 1).append_column("color", pa.array(["red"])))


def test_a_check_that_cannot_work_does_not_fence_the_writer_before(lake: TargetKind) -> None:
    lake.create()
    with lake.open_sink() as sink:
        with pytest.raises(CheckError):
            lake.open_sink(checks=["price > 0"])
        sink.write(arrow(0, 1), position=1)
    assert lake.ids() == [0]


def test_a_table_that_is_not_there_is_named(lake: TargetKind) -> None:
    with raises(SinkError, problem="missing"):
        lake.open_sink()


def test_a_delta_table_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    (tmp_path / "t" / "_delta_log" / "00000000000000000000.json").write_text("?")
    with raises(Unavailable, table=f"{tmp_path}/t"):
        frazil.sinks.open(str(tmp_path / "t"), name="s")
