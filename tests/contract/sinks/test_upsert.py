"""The upsert in plain Python, on an embedded catalog: any stream of changes leaves the rows that a dictionary would
have, whether files are rewritten or rows are marked as deleted.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import uuid
from decimal import Decimal
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import bytewax.operators as op
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.testing import TestingSource, run_main
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

import frazil.sinks
from frazil.client import FrazilCatalog
from frazil.errors import RowRefused, SinkError, WriterFenced
from frazil.quarantine.replay import IcebergQuarantine, Rules
from frazil.scan.reading.read import plan_snapshot, read_tasks
from frazil.sinks.bytewax import SourceRows
from frazil.sinks.sink import ArrowSink
from frazil.write.commit.publish import RetryPolicy
from frazil.write.commit.snapshots import Append
from frazil.write.files.layout import TableLayout
from frazil.write.files.parquet import write_files
from frazil.write.files.partitioning import partition_spec
from frazil.write.upsert.rules import Ops
from tests.kit.changes import CHANGES, SCHEMA, WAYS, Oracle, Rows, change, example_count, gone
from tests.kit.delete_files import delete_equal, delete_positions
from tests.kit.raising import raises

_names = count()


@pytest.fixture(params=WAYS)
def table(request: pytest.FixtureRequest, catalog: FrazilCatalog) -> str:
    """A table without rows, for each way to write changes."""
    return new_table(catalog, properties=WAYS[request.param])


@pytest.fixture
def copied(catalog: FrazilCatalog) -> str:
    """A table whose upserts are copy-on-write, as by default."""
    return new_table(catalog)


def new_table(
    catalog: FrazilCatalog,
    schema: Schema = SCHEMA,
    *fields: str,
    sort: int | None = None,
    properties: dict[str, str] | None = None,
) -> str:
    name = f"lake.t{next(_names)}"
    order = {} if sort is None else {"sort_order": SortOrder(SortField(sort, IdentityTransform()), order_id=1)}
    spec = partition_spec(schema, fields) if fields else PartitionSpec()
    catalog.create_table(name, schema, partition_spec=spec, properties=properties or {}, **order)
    return name


def open_sink(catalog: FrazilCatalog, table: str, **options: Any) -> ArrowSink:
    sink: dict[str, Any] = {"name": "changes", "key": ["id"], "sequence": "version", "op": "op", **options}
    return frazil.sinks.open(table, catalog=catalog, mode="upsert", **sink)


def apply(catalog: FrazilCatalog, table: str, *changes: dict[str, Any], **options: Any) -> None:
    with open_sink(catalog, table, **options) as sink:
        sink.write(list(changes))


def append(catalog: FrazilCatalog, table: str, *rows: dict[str, Any]) -> None:
    """Rows of another writer, which looks for no keys."""
    live = catalog.load_table(table)
    layout = TableLayout.of(live, formats=(1, 2, 3))
    files = write_files(pa.Table.from_pylist(list(rows), layout.arrow), layout)
    change_ = Append(live.name(), files).build(live, attempt=1, summary={}, properties={})
    catalog.commit_changes([change_])


def rows_of(catalog: FrazilCatalog, table: str) -> Rows:
    return sorted(catalog.load_table(table).scan().to_arrow().to_pylist(), key=lambda row: row["id"])


def values(catalog: FrazilCatalog, table: str) -> dict[int, str]:
    rows = rows_of(catalog, table)
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["value"] for row in rows}


def paths(catalog: FrazilCatalog, table: str) -> set[str]:
    return set(catalog.load_table(table).inspect.files()["file_path"].to_pylist())


SHAPES: dict[str, dict[str, Any]] = {
    "flat": {},
    "by region": {"fields": ["region"]},
    "by bucket of the key": {"fields": ["bucket(3, id)"]},
    "sorted": {"sort": 3},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=example_count(short=6, full=200))
@given(batches=st.lists(st.tuples(st.lists(CHANGES, max_size=10), st.booleans()), min_size=1, max_size=5))
def test_any_stream_of_changes_leaves_the_rows_of_a_dictionary(
    shape: str, way: str, catalog: FrazilCatalog, batches: list[tuple[Rows, bool]]
) -> None:
    options, oracle = SHAPES[shape], Oracle()
    table = new_table(catalog, SCHEMA, *options.get("fields", ()), sort=options.get("sort"), properties=WAYS[way])
    sink = open_sink(catalog, table)
    for position, (batch, again) in enumerate(batches, start=1):
        sink.write(batch, position=position)
        sink.commit()
        oracle.apply(batch)
        if again:  # the program dies here, and the source sends from where the table stands, or from before that
            sink = open_sink(catalog, table)
            assert sink.offset == position
            sink.write_with_offsets(batch, source="0", offsets=[position - 1] * len(batch))
            sink.commit()
    assert rows_of(catalog, table) == oracle.all()


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=example_count(short=5, full=100))
@given(batches=st.lists(st.tuples(st.lists(CHANGES, min_size=1, max_size=10), st.booleans()), min_size=1, max_size=4))
def test_any_stream_of_changes_through_bytewax_leaves_the_rows_of_a_dictionary(
    way: str, catalog: FrazilCatalog, batches: list[tuple[Rows, bool]]
) -> None:
    """A checkpoint, and so a commit, after each batch. After some of them the process dies: Bytewax starts again from
    the checkpoint before, and sends what came after it once more.
    """
    table, oracle, items = new_table(catalog, SCHEMA, properties=WAYS[way]), Oracle(), list[Any]()
    for position, (batch, dies) in enumerate(batches):
        oracle.apply(batch)
        items.append(("e/0", SourceRows(batch, "e/0", [position] * len(batch))))
        items += [TestingSource.ABORT()] if dies else []
    options: dict[str, Any] = {"name": "changes", "key": ["id"], "sequence": "version", "op": "op"}
    sink = frazil.sinks.open(table, host="bytewax", catalog=catalog, mode="upsert", **options)
    with TemporaryDirectory() as folder:
        init_db_dir(Path(folder), 1)
        for _ in range(1 + sum(dies for _, dies in batches)):
            flow = Dataflow("flow")
            op.output("lake", op.input("changes", flow, TestingSource(items)), sink)
            run_main(flow, epoch_interval=dt.timedelta(0), recovery_config=RecoveryConfig(folder))
    assert rows_of(catalog, table) == oracle.all()


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=example_count(short=5, full=200))
@given(batches=st.lists(st.lists(CHANGES, min_size=1, max_size=10), min_size=1, max_size=3), cut=st.integers(1, 9))
def test_arrow_rows_and_dictionaries_come_to_the_same(
    way: str, catalog: FrazilCatalog, batches: list[Rows], cut: int
) -> None:
    table, oracle = new_table(catalog, properties=WAYS[way]), Oracle()
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("region", pa.string()),
            ("version", pa.int32()),
            ("value", pa.large_string()),
            ("op", pa.string()),
        ]
    )
    with open_sink(catalog, table) as sink:
        for batch in batches:
            for some in (batch[:cut], batch[cut:]):
                sink.write(pa.Table.from_pylist(some, schema))
            sink.commit()
            oracle.apply(batch)
    assert rows_of(catalog, table) == oracle.all()


# --- rules -----------------------------------------------------------------------------------------------------------


def test_without_a_sequence_the_last_to_arrive_wins(catalog: FrazilCatalog, table: str) -> None:
    for value in ("a", "b"):
        apply(catalog, table, change(1, 5, "x"), change(1, 2, value), sequence=None)
    assert values(catalog, table) == {1: "b"}


def test_a_row_without_a_sequence_in_the_table_is_older_than_any_change(catalog: FrazilCatalog, table: str) -> None:
    append(catalog, table, {"id": 1, "region": "north", "version": None, "value": "old"})
    apply(catalog, table, change(1, -5, "new"))
    assert values(catalog, table) == {1: "new"}


def test_a_deleted_key_leaves_no_trace_so_that_a_late_change_brings_it_back(catalog: FrazilCatalog, table: str) -> None:
    apply(catalog, table, change(1, 5))
    apply(catalog, table, gone(1, 9))
    apply(catalog, table, change(1, 7))
    assert values(catalog, table) == {1: "v7"}


def test_the_snapshot_says_what_became_of_the_changes(catalog: FrazilCatalog, table: str) -> None:
    apply(catalog, table, change(1, 5), change(2, 5), change(3, 5))
    apply(catalog, table, change(1, 6), gone(2, 6), change(3, 4), change(4, 1), gone(9, 1))
    snapshot = catalog.load_table(table).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert json.loads(snapshot.summary["frazil.upsert"] or "") == {"inserted": 1, "updated": 1, "deleted": 1, "late": 1}
    rows, marked = (int(snapshot.summary[f"total-{name}"] or "") for name in ("records", "position-deletes"))
    assert (snapshot.summary.operation.value, rows - marked) == ("overwrite", 3)


def test_new_keys_alone_are_an_append_and_a_delete_of_all_is_a_delete(catalog: FrazilCatalog, table: str) -> None:
    apply(catalog, table, change(1, 1), change(2, 1))
    apply(catalog, table, gone(1, 2), gone(2, 2))
    operations = [
        snapshot.summary.operation.value
        for snapshot in catalog.load_table(table).snapshots()
        if snapshot.summary and "frazil.upsert" in snapshot.summary.additional_properties
    ]
    assert (operations, rows_of(catalog, table), paths(catalog, table)) == (["append", "delete"], [], set())


def test_a_key_of_several_columns_is_all_of_them(catalog: FrazilCatalog, table: str) -> None:
    key = ["region", "id"]
    apply(catalog, table, change(1, 1, "a"), change(1, 1, "b", region="south"), key=key)
    apply(catalog, table, change(1, 2, "c", region="south"), change(2, 1, "d"), key=key)
    result = {(row["region"], row["id"]): row["value"] for row in rows_of(catalog, table)}
    assert result == {("north", 1): "a", ("south", 1): "c", ("north", 2): "d"}


def test_a_key_that_was_in_the_table_twice_is_there_once_after_its_change(catalog: FrazilCatalog, table: str) -> None:
    for value in ("a", "b"):
        append(catalog, table, *({"id": n, "region": "north", "version": 1, "value": value} for n in (1, 2)))
    apply(catalog, table, change(1, 2, "c"))
    assert next((row["id"], row["value"]) for row in rows_of(catalog, table)) == (1, "c")
    assert len(rows_of(catalog, table)) == 3


def test_bad_changes_are_quarantined_in_the_same_commit(catalog: FrazilCatalog, copied: str) -> None:
    bad: list[dict[str, Any]] = [
        {"id": None, "region": "n", "version": 1, "value": "x", "op": "u"},
        {"id": 2, "region": "n", "version": None, "value": "x", "op": "u"},
        {"id": 3, "region": "n", "version": 1, "value": None, "op": "u"},
        {"id": None, "version": 1, "op": "d"},
        {"id": 5, "region": "n", "version": 1, "value": "x", "op": "t"},
        {"id": 6, "region": "n", "version": 1, "value": "x", "op": None},
    ]
    with open_sink(catalog, copied, bad_rows="quarantine") as sink:
        sink.write([change(1, 1), *bad, gone(1, 0)], position=8)
    rows = catalog.load_table(f"{copied}__quarantine").scan().to_arrow().sort_by("position").to_pylist()
    ops = "c, i, r, u, insert, update, upsert, d, delete"
    assert [(json.loads(row["position"])["row"], row["reason"]) for row in rows] == [
        (1, "field 'id': expected a value, got NULL"),
        (2, "field 'version': expected a value, got NULL"),
        (3, "field 'value': expected a value, got NULL"),
        (4, "field 'id': expected a value, got NULL"),
        (5, f"field 'op': expected one of {ops}, got 't'"),
        (6, f"field 'op': expected one of {ops}, got NULL"),
    ]
    assert values(catalog, copied) == {1: "v1"}


def test_a_replay_does_not_add_rows_to_those_of_the_same_key(catalog: FrazilCatalog, copied: str) -> None:
    with open_sink(catalog, copied, bad_rows="quarantine", checks=["version < 9"]) as sink:
        sink.write([change(1, 1), change(1, 10)], position=2)
    iceberg_quarantine = IcebergQuarantine(catalog, tuple(copied.split(".")))
    with raises(SinkError, problem="upserted"):
        iceberg_quarantine.replay(Rules(checks=(), extra_fields="ignore"))
    assert values(catalog, copied) == {1: "v1"}
    iceberg_quarantine.replay(Rules(checks=(), extra_fields="ignore", append=True))
    assert sorted(catalog.load_table(copied).scan().to_arrow()["version"].to_pylist()) == [1, 10]


def test_a_bad_change_stops_the_sink_by_default(catalog: FrazilCatalog, copied: str) -> None:
    sink = open_sink(catalog, copied)
    with raises(RowRefused, reason=re.compile("expected a value")):
        sink.write(
            pa.table({"id": [1, None], "region": ["a", "a"], "version": [1, 1], "value": ["x", "y"], "op": ["u", "d"]})
        )
    assert rows_of(catalog, copied) == []


def test_the_words_for_deletes_can_be_others(catalog: FrazilCatalog, copied: str) -> None:
    op = Ops("op", deletes=["weg"], upserts=["da"])
    apply(catalog, copied, change(1, 1, op="da"), change(2, 1, op="DA"), op=op)
    apply(catalog, copied, change(1, 2, op="Weg"), op=op)
    assert values(catalog, copied) == {2: "v1"}


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({"key": []}, {"option": "key", "column": None}),
        ({"key": ["nr"]}, {"option": "key", "column": "nr", "got": None}),
        ({"sequence": "nr"}, {"option": "sequence", "column": "nr", "got": None}),
        ({"key": ["share"]}, {"option": "key", "column": "share", "got": "double"}),
        ({"sequence": "is_new"}, {"option": "sequence", "column": "is_new", "got": "boolean"}),
    ],
)
def test_rules_that_cannot_hold_are_refused_before_anybody_is_fenced(
    catalog: FrazilCatalog, options: dict[str, Any], facts: dict[str, Any]
) -> None:
    table = new_table(
        catalog, Schema(*SCHEMA.fields, NestedField(9, "share", DoubleType()), NestedField(10, "is_new", BooleanType()))
    )
    with raises(SinkError, **facts):
        open_sink(catalog, table, **options)
    assert catalog.load_table(table).snapshots() == []


def test_key_and_sequence_are_for_upserts_alone(catalog: FrazilCatalog, copied: str) -> None:
    with raises(SinkError, option="mode"):
        frazil.sinks.open(copied, catalog=catalog, name="x", key=["id"])


KEYS: dict[str, tuple[IcebergType, list[Any]]] = {
    "string": (StringType(), ["", "a", "ä", "zz" * 40, "zz" * 40 + "z"]),
    "int": (IntegerType(), [-(2**31), -1, 0, 5, 2**31 - 1]),
    "date": (DateType(), [dt.date(1600, 1, 1), dt.date(1970, 1, 1), dt.date(2024, 2, 29)]),
    "timestamp": (TimestampType(), [dt.datetime(1600, 1, 1), dt.datetime(2024, 2, 29, 12, 0, 0, 1)]),
    "timestamptz": (
        TimestamptzType(),
        [dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 2, 29, tzinfo=dt.UTC)],
    ),
    "decimal": (DecimalType(12, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("12345.67")]),
    "uuid": (UUIDType(), [uuid.UUID(int=0), uuid.UUID(int=2**127), uuid.UUID(int=5)]),
    "boolean": (BooleanType(), [True, False]),
}


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_may_be_of_any_type_whose_values_are_equal_or_not(kind: str, catalog: FrazilCatalog) -> None:
    iceberg, keys = KEYS[kind]
    table = new_table(
        catalog, Schema(NestedField(1, "id", iceberg, required=True), NestedField(2, "value", IntegerType()))
    )
    with open_sink(catalog, table, sequence=None, op=None) as sink:
        for number, key in enumerate(keys):  # a file each, so that every one must be found by its bounds
            sink.write([{"id": key, "value": number}])
            sink.commit()
        sink.write([{"id": key, "value": number + 100} for number, key in enumerate(keys)])
    rows = catalog.load_table(table).scan().to_arrow()["value"].to_pylist()
    assert sorted(rows) == [number + 100 for number in range(len(keys))]


# --- what is read and written ----------------------------------------------------------------------------------------


def test_only_files_that_hold_a_changed_key_are_written_anew(catalog: FrazilCatalog, copied: str) -> None:
    for start in (0, 10, 20):
        apply(catalog, copied, *(change(start + n, 1) for n in range(10)))
    before = paths(catalog, copied)
    apply(catalog, copied, change(15, 2), change(30, 1))
    after = paths(catalog, copied)
    assert (len(before & after), len(after - before)) == (2, 2)
    assert values(catalog, copied)[15] == "v2"


def test_a_file_whose_changes_are_all_late_stays_as_it_is(catalog: FrazilCatalog, table: str) -> None:
    apply(catalog, table, *(change(n, 5) for n in range(10)))
    before = paths(catalog, table)
    apply(catalog, table, change(3, 4), gone(4, 1))
    assert (paths(catalog, table), len(values(catalog, table))) == (before, 10)


def test_a_row_that_moves_to_another_partition_leaves_the_old_one(catalog: FrazilCatalog) -> None:
    table = new_table(catalog, SCHEMA, "region")
    apply(catalog, table, change(1, 1), change(2, 1))
    apply(catalog, table, change(1, 2, region="south"))
    rows = catalog.load_table(table).inspect.files().to_pylist()
    assert sorted((file["partition"]["region"], file["record_count"]) for file in rows) == [("north", 1), ("south", 1)]
    assert values(catalog, table) == {1: "v2", 2: "v1"}


def test_files_of_an_older_partitioning_and_an_older_schema_are_taken_along(catalog: FrazilCatalog, table: str) -> None:
    apply(catalog, table, change(1, 1), change(2, 1, region="south"), change(3, 1))
    live = catalog.load_table(table)
    with live.update_schema() as schema:
        schema.rename_column("value", "worth")
        schema.add_column("note", StringType())
    with live.update_spec() as spec:
        spec.add_identity("region")
    with open_sink(catalog, table) as sink:
        sink.write([{"id": 1, "region": "east", "version": 2, "worth": "new", "note": "!", "op": "u"}])
    assert [(row["id"], row["region"], row["worth"], row["note"]) for row in rows_of(catalog, table)] == [
        (1, "east", "new", "!"),
        (2, "south", "v1", None),
        (3, "north", "v1", None),
    ]


def test_rows_that_position_deletes_name_stay_deleted(catalog: FrazilCatalog, table: str) -> None:
    apply(catalog, table, *(change(n, 1) for n in range(6)))
    delete_positions(catalog, table, [1, 4])
    assert sorted(values(catalog, table)) == [0, 2, 3, 5]
    apply(catalog, table, change(2, 2), change(4, 0, "again"))
    assert values(catalog, table) == {0: "v1", 2: "v2", 3: "v1", 4: "again", 5: "v1"}


def test_rows_that_equality_deletes_name_stay_deleted(catalog: FrazilCatalog, table: str) -> None:
    apply(catalog, table, change(1, 1), change(2, 1), change(3, 9))
    delete_equal(catalog, table, "id", [1, 3])
    apply(catalog, table, change(2, 2), change(3, 5, "again"))
    live = catalog.load_table(table)
    snapshot = live.current_snapshot()
    assert snapshot is not None
    # PyIceberg reads no equality deletes
    result = read_tasks(live, plan_snapshot(live, snapshot.snapshot_id), live.schema()).read_all()
    assert sorted(zip(result["id"].to_pylist(), result["value"].to_pylist(), strict=True)) == [(2, "v2"), (3, "again")]


def test_columns_that_are_new_come_in_with_the_changes_that_wait(catalog: FrazilCatalog, table: str) -> None:
    with open_sink(catalog, table, extra_fields="evolve") as sink:
        sink.write([change(1, 1)])
        sink.write([{**change(2, 1), "note": "new"}])
    assert [(row["id"], row["note"]) for row in rows_of(catalog, table)] == [(1, None), (2, "new")]


def test_memory_is_bounded_by_a_commit_at_half_of_the_budget(catalog: FrazilCatalog, copied: str) -> None:
    with open_sink(catalog, copied, flush_rows=None, budget_bytes=2_000) as sink:
        for start in range(0, 100, 20):
            sink.write([change(start + n, 1) for n in range(20)], position=start + 20)
    assert len(catalog.load_table(copied).snapshots()) > 3
    assert len(values(catalog, copied)) == 100


# --- others, and failures --------------------------------------------------------------------------------------------


def test_a_writer_that_is_faster_is_seen_and_nothing_is_written_twice(catalog: FrazilCatalog, copied: str) -> None:
    apply(catalog, copied, *(change(n, 1) for n in range(10)))
    rivals = iter([None, 11, 12])  # the first commit is the take-over

    def race(step: str) -> None:
        if step == "before commit" and (number := next(rivals, None)):
            with frazil.sinks.open(copied, catalog=catalog, name=f"rival{number}") as rival:
                rival.write([{"id": number, "region": "x", "version": 1, "value": "rival"}])

    sink = open_sink(catalog, copied, retry=RetryPolicy(sleep=lambda _: None, on_step=race))
    sink.write([change(1, 2), change(11, 2), change(12, 0), gone(5, 2)])
    sink.commit()
    expected = {n: "v1" for n in range(10) if n != 5} | {1: "v2", 11: "v2", 12: "rival"}
    assert values(catalog, copied) == expected
    folder = Path(catalog.load_table(copied).location().removeprefix("file://"))
    assert [pq.read_metadata(path).num_rows for path in folder.rglob("*.parquet")].count(9) == 1


def test_a_writer_that_was_fenced_changes_nothing(catalog: FrazilCatalog, table: str) -> None:
    old = open_sink(catalog, table)
    old.write([change(1, 9)])
    apply(catalog, table, change(1, 1))
    with pytest.raises(WriterFenced):
        old.commit()
    assert values(catalog, table) == {1: "v1"}


@pytest.mark.parametrize("step", ["files written", "before commit", "after commit"])
def test_killed_at_a_step_and_sent_again_the_changes_are_in_once(step: str, catalog: FrazilCatalog, table: str) -> None:
    apply(catalog, table, change(1, 1), change(2, 1), name="before")

    class Killed(BaseException):
        pass

    def kill(at: str) -> None:
        if at == step and armed:
            raise Killed

    armed = False
    sink = open_sink(catalog, table, retry=RetryPolicy(on_step=kill))
    sink.write([change(1, 2, "first"), gone(2, 2), change(3, 1)], position=3)
    armed = True
    with pytest.raises(Killed):
        sink.commit()
    apply(catalog, table, change(1, 2, "between"), name="another")
    with open_sink(catalog, table) as again:
        if again.offset is None:
            again.write([change(1, 2, "first"), gone(2, 2), change(3, 1)], position=3)
    # Whether the first commit was in or not, equal versions go by arrival; nothing is applied twice.
    assert values(catalog, table) == ({1: "between", 3: "v1"} if step == "after commit" else {1: "first", 3: "v1"})
