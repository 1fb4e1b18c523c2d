"""What other tools do to a table while rows wait in a sink: nothing is lost, doubled or broken by it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake import Field as DeltaField
from deltalake.schema import PrimitiveType
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, StructType

import frazil.sinks
from frazil.client import FrazilCatalog
from frazil.errors import HistoryError, RowRefused, SchemaMismatch, SinkError, WriterFenced
from frazil.lake import Lake
from frazil.sinks import ArrowSink
from frazil.sinks.audit import audit
from frazil.sinks.delta.target import create_delta_table
from frazil.upkeep.orphans import STEP as ORPHANS
from frazil.upkeep.steps import Keeper, now_ms
from frazil.write.files.partitioning import partition_spec
from tests.kit.raising import raises

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "v", StringType()),
    NestedField(3, "s", StructType(NestedField(4, "x", LongType()))),
)
DAY_MS = 24 * 3_600_000


@pytest.fixture
def name(catalog: FrazilCatalog) -> str:
    text = f"lake.t{uuid.uuid4().hex[:8]}"
    catalog.create_table(text, SCHEMA)
    return text


def rows(*ids: int, v: str | None = "a") -> list[dict[str, Any]]:
    return [{"id": number, "v": v, "s": {"x": number}} for number in ids]


def ids(catalog: FrazilCatalog, name: str, *, branch: str = "main") -> list[int]:
    return sorted(Lake(catalog=catalog).table(name).scan(at=branch, columns=["id"]).to_arrow()["id"].to_pylist())


def test_a_table_that_was_made_anew_under_an_open_sink_is_named_so(catalog: FrazilCatalog, name: str) -> None:
    sink = frazil.sinks.open(name, name="s", catalog=catalog)
    sink.write(rows(0, 1), position=2)
    catalog.drop_table(name)
    catalog.create_table(name, SCHEMA)
    with raises(WriterFenced, table=name, made_anew=True) as refused:
        sink.commit()
    assert refused.value.made_anew
    assert "newer writer" not in f"{refused.value} {refused.value.hint}"
    with frazil.sinks.open(name, name="s", catalog=catalog) as again:
        assert again.offset is None
        again.write(rows(0, 1), position=2)
    assert ids(catalog, name) == [0, 1]


# --- branches --------------------------------------------------------------------------------------------------------


def on_branch(catalog: FrazilCatalog, name: str) -> ArrowSink:
    return frazil.sinks.open(name, name="s", catalog=catalog, branch="b")


def remake(catalog: FrazilCatalog, name: str, *, at: int) -> None:
    """Drops and recreates the branch, as PyIceberg or Spark do: the progress of the old one stays in the table's
    properties.
    """
    table = catalog.load_table(name)
    table.manage_snapshots().remove_branch("b").commit()
    table = catalog.load_table(name)
    table.manage_snapshots().create_branch(at, "b").commit()


@pytest.fixture
def branched(catalog: FrazilCatalog, name: str) -> int:
    """Main has rows up to 2, and the branch, which grew out of it, up to 5; gives main's snapshot."""
    with frazil.sinks.open(name, name="s", catalog=catalog) as sink:
        sink.write(rows(0, 1), position=2)
    head = catalog.load_table(name).current_snapshot()
    assert head is not None
    catalog.load_table(name).manage_snapshots().create_branch(head.snapshot_id, "b").commit()
    with on_branch(catalog, name) as sink:
        assert sink.offset == 2
        sink.write(rows(2, 3, 4), position=5)
    return head.snapshot_id


def test_a_branch_that_was_made_anew_begins_where_its_rows_end(
    catalog: FrazilCatalog, name: str, branched: int
) -> None:
    remake(catalog, name, at=branched)
    with on_branch(catalog, name) as sink:
        assert sink.offset == 2
        sink.write(rows(2, 3, 4, 5), position=6)
    assert ids(catalog, name, branch="b") == [0, 1, 2, 3, 4, 5]
    assert audit(catalog.load_table(name).metadata, "b").problems == ()


def test_a_branch_that_was_made_anew_under_an_open_sink_fences_it(
    catalog: FrazilCatalog, name: str, branched: int
) -> None:
    sink = on_branch(catalog, name)
    sink.write(rows(5), position=6)
    remake(catalog, name, at=branched)
    with pytest.raises(WriterFenced):
        sink.commit()
    assert ids(catalog, name, branch="b") == [0, 1]


def test_a_branch_that_was_dropped_takes_its_progress_with_it(catalog: FrazilCatalog, name: str, branched: int) -> None:
    sink = on_branch(catalog, name)
    sink.write(rows(5), position=6)
    catalog.load_table(name).manage_snapshots().remove_branch("b").commit()
    with pytest.raises(WriterFenced):
        sink.commit()
    assert "b" not in catalog.load_table(name).metadata.refs
    with raises(HistoryError, table=name, ref="b", problem="missing"):
        on_branch(catalog, name)
    catalog.load_table(name).manage_snapshots().create_branch(branched, "b").commit()
    assert on_branch(catalog, name).offset == 2


def test_a_branch_that_was_moved_back_goes_on_where_its_rows_end(
    catalog: FrazilCatalog, name: str, branched: int
) -> None:
    before = catalog.load_table(name).metadata.refs["b"].snapshot_id
    with on_branch(catalog, name) as sink:
        sink.write(rows(5, 6), position=7)
    remake(catalog, name, at=before)
    with on_branch(catalog, name) as sink:
        assert sink.offset == 5


# --- the schema ------------------------------------------------------------------------------------------------------


def make_required(catalog: FrazilCatalog, name: str, column: str | tuple[str, ...] = "v") -> None:
    with catalog.load_table(name).update_schema(allow_incompatible_changes=True) as update:
        update.make_column_required(column) if hasattr(update, "make_column_required") else update.update_column(
            column, required=True
        )


@pytest.mark.parametrize("flushed", [True, False])
@pytest.mark.parametrize("properties", [{}, {"write.metadata.metrics.default": "none"}], ids=["counted", "not counted"])
def test_nulls_that_wait_do_not_enter_a_column_that_was_made_required(
    catalog: FrazilCatalog, name: str, properties: dict[str, str], flushed: bool
) -> None:
    with catalog.load_table(name).transaction() as change:
        change.set_properties(properties)
    sink = frazil.sinks.open(name, name="s", catalog=catalog)
    sink.write(rows(0, v=None), position=1)
    if flushed:
        sink.flush()
    make_required(catalog, name)
    with raises(SchemaMismatch, column="v", expected="string, required", got=re.compile("^NULLs")):
        sink.commit()
    assert ids(catalog, name) == []
    with frazil.sinks.open(name, name="s", catalog=catalog, bad_rows="quarantine") as sink:
        assert sink.offset is None
        sink.write([*rows(0, v=None), *rows(1)], position=2)
    assert ids(catalog, name) == [1]


def test_rows_without_nulls_enter_a_column_that_was_made_required(catalog: FrazilCatalog, name: str) -> None:
    with frazil.sinks.open(name, name="s", catalog=catalog) as sink:
        sink.write(rows(0), position=1)
        make_required(catalog, name)
        sink.commit()
        sink.write(rows(1), position=2)
    assert ids(catalog, name) == [0, 1]


def test_nulls_inside_a_struct_are_found_as_well(catalog: FrazilCatalog, name: str) -> None:
    sink = frazil.sinks.open(name, name="s", catalog=catalog)
    sink.write([{"id": 0, "v": "a", "s": {"x": None}}], position=1)
    make_required(catalog, name, ("s", "x"))
    with raises(SchemaMismatch, column="s.x"):
        sink.commit()
    assert ids(catalog, name) == []


def test_changes_that_wait_bring_no_null_into_a_column_that_was_made_required(
    catalog: FrazilCatalog, name: str
) -> None:
    sink = frazil.sinks.open(name, name="s", catalog=catalog, mode="upsert", key="id")
    sink.write(rows(0, v=None), position=1)
    make_required(catalog, name)
    with raises(SchemaMismatch, column="v"):
        sink.commit()
    assert ids(catalog, name) == []


def test_a_column_made_required_between_the_look_and_the_commit_is_noticed(catalog: FrazilCatalog, name: str) -> None:
    """The commit names the schema that the rows were judged by: a change in the last moment is a conflict, and looked
    at again.
    """
    steps: list[str] = []

    def change_once(step: str) -> None:
        if step == "before commit" and "files written" in steps and steps.count("before commit") == 1:
            make_required(catalog, name)
        steps.append(step)

    retry = frazil.write.commit.publish.RetryPolicy(on_step=change_once)
    sink = frazil.sinks.open(name, name="s", catalog=catalog, retry=retry)
    sink.write(rows(0, v=None), position=1)
    with raises(SchemaMismatch, column="v"):
        sink.commit()
    assert ids(catalog, name) == []


@pytest.mark.parametrize(
    ("arrow", "options", "error"),
    [
        (pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.string(), nullable=False)]), {}, SchemaMismatch),
        (pa.schema([("id", pa.int64()), ("v", pa.int64())]), {}, SchemaMismatch),
        (pa.schema([("id", pa.int64()), ("v", pa.string())]), {"partition_by": ["id"]}, SinkError),
    ],
    ids=["required", "type", "partitioning"],
)
def test_a_delta_table_that_was_made_anew_takes_no_rows_of_its_former_schema(
    tmp_path: Path, arrow: pa.Schema, options: dict[str, Any], error: type[SinkError]
) -> None:
    uri = str(tmp_path / "t")
    create_delta_table(uri, Schema(NestedField(1, "id", LongType()), NestedField(2, "v", StringType())))
    sink = frazil.sinks.open(uri, name="s")
    sink.write([{"id": 0, "v": None}], position=1)
    write_deltalake(uri, arrow.empty_table(), mode="overwrite", schema_mode="overwrite", **options)
    with pytest.raises(error):
        sink.commit()
    assert DeltaTable(uri).to_pyarrow_table().num_rows == 0


def test_a_delta_table_that_got_a_column_meanwhile_takes_the_rows(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    create_delta_table(uri, SCHEMA)
    with frazil.sinks.open(uri, name="s") as sink:
        sink.write(rows(0), position=1)
        DeltaTable(uri).alter.add_columns(DeltaField("w", PrimitiveType("long")))
    assert DeltaTable(uri).to_pyarrow_table().to_pylist() == [{"id": 0, "v": "a", "s": {"x": 0}, "w": None}]


# --- files that are removed ------------------------------------------------------------------------------------------


def delta_sink(folder: Path) -> tuple[ArrowSink, Callable[[], list[Path]], Callable[[], int]]:
    uri = str(folder / "t")
    create_delta_table(uri, Schema(*SCHEMA.fields[:2]))
    return (
        frazil.sinks.open(uri, name="s"),
        lambda: list(Path(uri).glob("*.parquet")),
        lambda: len(DeltaTable(uri).to_pyarrow_table()),
    )


def iceberg_sink(catalog: FrazilCatalog, name: str) -> tuple[ArrowSink, Callable[[], list[Path]], Callable[[], int]]:
    folder = Path(catalog.load_table(name).location().removeprefix("file://"))
    return (
        frazil.sinks.open(name, name="s", catalog=catalog),
        lambda: list(folder.rglob("*.parquet")),
        lambda: len(ids(catalog, name)),
    )


@pytest.mark.parametrize("target", ["iceberg", "delta"])
def test_files_that_waited_long_and_are_gone_are_not_committed(
    target: str, catalog: FrazilCatalog, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, files, count = iceberg_sink(catalog, name) if target == "iceberg" else delta_sink(tmp_path)
    sink.write([{"id": 0, "v": "a"}], position=1)
    sink.flush()
    (file,) = files()
    file.unlink()
    monkeypatch.setattr("frazil.write.files.parquet.YOUNG_MS", -1)
    with raises(SinkError, problem="file-missing"):
        sink.commit()
    assert count() == 0


def test_what_upkeep_removes_as_an_orphan_is_missed_at_the_commit(
    catalog: FrazilCatalog, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, files, count = iceberg_sink(catalog, name)
    sink.write(rows(0), position=1)
    sink.flush()
    keeper = Keeper(catalog, tuple(name.split(".")), clock_ms=lambda: now_ms() + 10 * DAY_MS)
    keeper.perform(keeper.plan(ORPHANS))
    assert files() == []
    monkeypatch.setattr("frazil.write.files.parquet.YOUNG_MS", -1)
    with raises(SinkError, problem="file-missing"):
        sink.commit()
    assert count() == 0


# --- other tables ----------------------------------------------------------------------------------------------------


def test_rows_for_a_partitioned_table_come_in_with_the_commit(catalog: FrazilCatalog, name: str) -> None:
    other = f"{name}_ledger"
    schema = Schema(NestedField(1, "day", LongType()), NestedField(2, "file", StringType(), required=True))
    catalog.create_table(other, schema, partition_spec=partition_spec(schema, ["day", "truncate(1, file)"]))
    with frazil.sinks.open(name, name="s", catalog=catalog) as sink:
        sink.write(rows(0), position=1)
        sink.also(other, pa.table({"file": ["a1", "b1", "a2"], "day": pa.array([1, 2, 1], pa.int32())}))
    result = catalog.load_table(other).scan().to_arrow().sort_by("file").to_pylist()
    assert result == [{"day": 1, "file": "a1"}, {"day": 1, "file": "a2"}, {"day": 2, "file": "b1"}]
    assert len(catalog.load_table(other).inspect.files()) == 2


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (pa.table({"day": [1], "file": pa.array([None], pa.string())}), RowRefused),
        (pa.table({"day": ["one"], "file": ["a"]}), SchemaMismatch),
        (pa.table({"day": [1]}), SchemaMismatch),
    ],
    ids=["null", "type", "missing"],
)
def test_rows_that_another_table_does_not_take_stop_the_commit(
    catalog: FrazilCatalog, name: str, wrong: pa.Table, error: type[SinkError]
) -> None:
    other = f"{name}_ledger"
    catalog.create_table(
        other, Schema(NestedField(1, "day", LongType()), NestedField(2, "file", StringType(), required=True))
    )
    sink = frazil.sinks.open(name, name="s", catalog=catalog)
    sink.write(rows(0), position=1)
    sink.also(other, wrong)
    with pytest.raises(error):
        sink.commit()
    assert (ids(catalog, name), catalog.load_table(other).scan().to_arrow().num_rows) == ([], 0)


# --- new columns -----------------------------------------------------------------------------------------------------


def open_evolving(
    target: str, catalog: FrazilCatalog, name: str, folder: Path
) -> tuple[ArrowSink, Callable[[], pa.Table]]:
    if target == "iceberg":
        sink = frazil.sinks.open(name, name="s", catalog=catalog, extra_fields="evolve")
        return sink, lambda: catalog.load_table(name).scan().to_arrow()
    uri = str(folder / "t")
    create_delta_table(uri, Schema(*SCHEMA.fields[:2]))
    return frazil.sinks.open(uri, name="s", extra_fields="evolve"), lambda: pa.table(DeltaTable(uri).to_pyarrow_table())


@pytest.mark.parametrize("target", ["iceberg", "delta"])
@pytest.mark.parametrize(
    "row", [{"id": 1, "V": "b"}, {"id": 1, "v": "b", "w": 1, "W": 2}], ids=["a column", "each other"]
)
@pytest.mark.parametrize(
    "as_rows", [lambda row: [row], lambda row: pa.Table.from_pylist([row])], ids=["dicts", "arrow"]
)
def test_no_column_is_added_whose_name_differs_by_case_alone(
    target: str, catalog: FrazilCatalog, name: str, tmp_path: Path, row: dict[str, Any], as_rows: Callable[..., Any]
) -> None:
    sink, read = open_evolving(target, catalog, name, tmp_path)
    with raises(SchemaMismatch, expected=re.compile("differs by case alone")):
        sink.write(as_rows(row), position=1)
    assert {column.lower() for column in read().column_names} >= {"id", "v"}
    assert len(read().column_names) == len({column.lower() for column in read().column_names})


@pytest.mark.parametrize("target", ["iceberg", "delta"])
@pytest.mark.parametrize(
    "as_rows", [lambda row: [row], lambda row: pa.Table.from_pylist([row])], ids=["dicts", "arrow"]
)
def test_a_column_with_a_dot_in_its_name_is_added(
    target: str, catalog: FrazilCatalog, name: str, tmp_path: Path, as_rows: Callable[..., Any]
) -> None:
    sink, read = open_evolving(target, catalog, name, tmp_path)
    with sink:
        sink.write(as_rows({"id": 1, "v": "b", "a.b": 7}), position=1)
    assert read().select(["id", "a.b"]).to_pylist() == [{"id": 1, "a.b": 7}]


def test_a_field_inside_a_struct_is_added_and_not_twice_in_another_case(catalog: FrazilCatalog, name: str) -> None:
    with frazil.sinks.open(name, name="s", catalog=catalog, extra_fields="evolve") as sink:
        sink.write(pa.Table.from_pylist([{"id": 1, "s": {"x": 1, "y": 2}}]), position=1)
    sink = frazil.sinks.open(name, name="s", catalog=catalog, extra_fields="evolve")
    with raises(SchemaMismatch, column="s.Y"):
        sink.write(pa.Table.from_pylist([{"id": 1, "s": {"x": 1, "Y": 2}}]), position=2)
    assert catalog.load_table(name).scan().to_arrow()["s"].to_pylist() == [{"x": 1, "y": 2}]
