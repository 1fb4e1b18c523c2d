"""Rows of tables that have changed since their files were written, and of files that are not what the manifest says."""

from __future__ import annotations

import re
import struct
import threading
import uuid
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import AlwaysTrue, And, EqualTo, GreaterThan, In, IsNull, LessThan, NotEqualTo
from pyiceberg.manifest import FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    UUIDType,
)

from frazil.errors import DataFileMissing, DataFileUnreadable, ManifestUnreadable, ScanError
from frazil.scan.planning.plan import ScanRequest
from frazil.scan.planning.source import Source
from frazil.scan.planning.table import TableState
from frazil.scan.scan import Scan
from tests.kit.metadata_tables import MadeFile, Stats
from tests.kit.raising import raises
from tests.kit.real_tables import MadeDelete, RealFile, RealTable

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
NONE = PartitionSpec()


def field(name: str, kind: pa.DataType, number: int | None = None) -> pa.Field:
    return pa.field(name, kind, metadata=None if number is None else {"PARQUET:field_id": str(number)})


def table_of(
    folder: Path,
    schema: Schema,
    *files: pa.Table,
    spec: PartitionSpec = NONE,
    partition: tuple[Any, ...] = (),
    group_rows: int = 2,
) -> RealTable:
    """A table with files as they are, whatever the schema says."""
    table = RealTable(folder, schema, [spec])
    result = []
    for at, content in enumerate(files):
        path = str(folder / f"f{at}.parquet")
        pq.write_table(content, path, row_group_size=group_rows)
        result.append(MadeFile(path, [{}] * len(content), spec, partition, Stats(bounds=False, counts=False)))
    table.append(result)
    return table


def scan_of(table: RealTable, expr: Any = None, *, columns: Sequence[str] | None = None, **more: Any) -> Scan:
    names = None if columns is None else tuple(columns)
    request = ScanRequest(filter=AlwaysTrue() if expr is None else expr)
    return Scan(table.state, Source.of(table.io), request, names, **more)


def numbered(folder: Path, count: int = 3, *, rows: int = 4, group_rows: int = 2) -> RealTable:
    """Files of ids that count on, and names."""
    table = RealTable(folder, SCHEMA, [NONE])
    result = []
    for at in range(count):
        own = [{"id": at * rows + n, "name": f"n{at * rows + n}"} for n in range(rows)]
        result.append(RealFile(str(folder / f"f{at}.parquet"), own, NONE, ()))
    table.write(result, group_rows=group_rows)
    return table


# --- schemas that went on --------------------------------------------------------------------------------------------


def test_columns_are_found_by_id_whatever_they_are_called_and_wherever_they_are(tmp_path: Path) -> None:
    old = pa.table([["x"], [1]], schema=pa.schema([field("label", pa.string(), 2), field("number", pa.int32(), 1)]))
    dropped = pa.table([["gone"], [2]], schema=pa.schema([field("name", pa.string(), 9), field("id", pa.int64(), 1)]))
    assert table_of(tmp_path, SCHEMA, old, dropped).read().to_pylist() == [
        {"id": 1, "name": "x"},
        {"id": 2, "name": None},
    ]


def test_types_that_were_widened_are_read_as_they_are_now(tmp_path: Path) -> None:
    wide = Schema(
        NestedField(1, "a", LongType()), NestedField(2, "b", DoubleType()), NestedField(3, "c", DecimalType(12, 2))
    )
    narrow = pa.schema([field("a", pa.int32(), 1), field("b", pa.float32(), 2), field("c", pa.decimal128(5, 2), 3)])
    table = table_of(tmp_path, wide, pa.Table.from_pylist([{"a": 5, "b": 0.5, "c": Decimal("1.25")}], schema=narrow))
    assert [tuple(map(str, row.values())) for row in table.read(GreaterThan("a", 4)).to_pylist()] == [
        ("5", "0.5", "1.25")
    ]


def test_a_column_that_a_file_lacks_has_its_initial_default(tmp_path: Path) -> None:
    later = Schema(
        *SCHEMA.fields,
        NestedField(3, "day", DateType(), initial_default="2024-01-18"),
        NestedField(4, "note", StringType()),
    )
    content = pa.table([[1], ["x"]], schema=pa.schema([field("id", pa.int64(), 1), field("name", pa.string(), 2)]))
    table = table_of(tmp_path, later, content)
    (row,) = table.read().to_pylist()
    assert (str(row["day"]), row["note"]) == ("2024-01-18", None)
    assert (len(table.read(EqualTo("day", "2024-01-18"))), len(table.read(LessThan("day", "2024-01-18")))) == (1, 0)


def test_a_required_column_without_default_that_a_file_lacks_is_an_error_that_names_both(tmp_path: Path) -> None:
    needs = Schema(*SCHEMA.fields, NestedField(3, "must", LongType(), required=True))
    table = table_of(tmp_path, needs, pa.table([[1]], schema=pa.schema([field("id", pa.int64(), 1)])))
    with raises(DataFileUnreadable, path=re.compile(r"f0\.parquet$"), reason=re.compile("'must'")):
        table.read()


def test_an_identity_partition_stands_in_for_the_column(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))
    content = pa.table([[1, 2]], schema=pa.schema([field("id", pa.int64(), 1)]))
    table = table_of(tmp_path, SCHEMA, content, spec=spec, partition=("NO",))
    assert table.read(EqualTo("name", "NO")).to_pylist() == [{"id": 1, "name": "NO"}, {"id": 2, "name": "NO"}]
    assert table.read(columns=["name"]).to_pylist() == [{"name": "NO"}] * 2


def test_nested_columns_change_inside(tmp_path: Path) -> None:
    inner = StructType(NestedField(5, "x", LongType()), NestedField(6, "new", StringType()))
    schema = Schema(
        NestedField(1, "one", inner),
        NestedField(2, "many", ListType(3, inner)),
        NestedField(4, "by", MapType(7, StringType(), 8, inner)),
    )
    old = pa.struct([field("gone", pa.string(), 9), field("was", pa.int32(), 5)])
    kinds = pa.schema(
        [
            field("one", old, 1),
            field("many", pa.list_(field("element", old, 3)), 2),
            field("by", pa.map_(field("key", pa.string(), 7).with_nullable(False), field("value", old, 8)), 4),
        ]
    )
    content = pa.Table.from_pylist(
        [
            {"one": {"was": 1}, "many": [{"was": 2}, None], "by": [("k", {"was": 3})]},
            {"one": None, "many": None, "by": None},
            {"one": {"was": None}, "many": [], "by": []},
        ],
        schema=kinds,
    )
    rows = table_of(tmp_path, schema, content).read().to_pylist()
    assert rows[0] == {
        "one": {"x": 1, "new": None},
        "many": [{"x": 2, "new": None}, None],
        "by": [("k", {"x": 3, "new": None})],
    }
    assert rows[1:] == [
        {"one": None, "many": None, "by": None},
        {"one": {"x": None, "new": None}, "many": [], "by": []},
    ]


def test_predicates_and_columns_reach_into_structs(tmp_path: Path) -> None:
    inner = StructType(NestedField(2, "x", LongType()), NestedField(3, "y", StringType()))
    kind = pa.struct([field("x", pa.int64(), 2), field("y", pa.string(), 3)])
    rows = [{"s": {"x": 1, "y": "a"}}, {"s": None}, {"s": {"x": 2, "y": "b"}}, {"s": {"x": None, "y": "c"}}]
    table = table_of(
        tmp_path,
        Schema(NestedField(1, "s", inner)),
        pa.Table.from_pylist(rows, schema=pa.schema([field("s", kind, 1)])),
    )
    assert scan_of(table, GreaterThan("s.x", 1), columns=["s.y"]).to_arrow().to_pylist() == [{"s": {"y": "b"}}]
    assert [row["s"] for row in scan_of(table, IsNull("s.x"), ordered=True).to_arrow().to_pylist()] == [
        None,
        {"x": None, "y": "c"},
    ]
    assert scan_of(table, GreaterThan("s.x", 1)).explain().layer("row groups").skipped == 1


def test_files_without_ids_are_read_by_the_name_mapping(tmp_path: Path) -> None:
    table = table_of(tmp_path, SCHEMA, pa.table({"old_name": ["x"], "id": [1]}))
    with raises(DataFileUnreadable, reason=re.compile("it has no field ids, and the table has no name mapping")):
        table.read()
    mapping = '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["name", "old_name"]}]'
    table.properties["schema.name-mapping.default"] = mapping
    assert table.read().to_pylist() == [{"id": 1, "name": "x"}]


def test_uuids_and_times_with_a_zone_are_compared(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "key", UUIDType()), NestedField(2, "at", TimestamptzType()))
    keys = [uuid.UUID(int=n) for n in (1, 2, 3)]
    content = pa.table(
        [[file.bytes for file in keys], [1_000_000, 2_000_000, None]],
        schema=pa.schema([field("key", pa.binary(16), 1), field("at", pa.int64(), 2)]),
    )
    content = content.set_column(
        1, field("at", pa.timestamp("us", "UTC"), 2), content["at"].cast(pa.timestamp("us", "UTC"))
    )
    table = table_of(tmp_path, schema, content)
    assert table.read(In("key", keys[:2])).num_rows == 2
    assert table.read(GreaterThan("at", "1970-01-01T00:00:01+00:00"))["key"].to_pylist() == [keys[1]]


# --- deletes ---------------------------------------------------------------------------------------------------------


def test_equality_deletes_compare_columns_that_were_dropped_since(tmp_path: Path) -> None:
    table = numbered(tmp_path, 1)
    table.delete([MadeDelete("equality", NONE, (), 0, columns=("name",), values=[{"id": 0, "name": "n2"}])])
    metadata = table.metadata
    metadata["schemas"].append(
        {"type": "struct", "schema-id": 1, "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
    )
    metadata["current-schema-id"] = 1
    result = Scan(TableState("lake.made", metadata), Source.of(table.io), ScanRequest()).to_arrow()
    assert result.to_pylist() == [{"id": 0}, {"id": 1}, {"id": 3}]


def test_a_row_group_whose_rows_are_all_deleted_is_not_read(tmp_path: Path) -> None:
    table = numbered(tmp_path, 1, rows=6)
    table.delete([MadeDelete("positions", NONE, (), 0, positions={table.files[0].path: [2, 3, 4]})])
    report = scan_of(table, LessThan("id", 5)).explain()
    assert report.layer("row groups").by_term == {"deleted rows": 1}
    assert scan_of(table, LessThan("id", 5)).to_arrow()["id"].to_pylist() == [0, 1]


def test_row_groups_are_pruned_also_where_rows_are_deleted(tmp_path: Path) -> None:
    table = numbered(tmp_path, 1, rows=8)
    table.delete([MadeDelete("positions", NONE, (), 0, positions={table.files[0].path: [4]})])
    scan = scan_of(table, And(GreaterThan("id", 3), LessThan("id", 6)))
    assert (scan.to_arrow()["id"].to_pylist(), scan.explain().layer("row groups").skipped) == ([5], 3)


def test_a_damaged_deletion_vector_is_named(tmp_path: Path) -> None:
    table = numbered(tmp_path, 1)
    table.delete([MadeDelete("vector", NONE, (), 0, positions={table.files[0].path: [1]})])
    (puffin,) = tmp_path.glob("*.puffin")
    content = puffin.read_bytes()
    puffin.write_bytes(content[:-4] + struct.pack(">I", 7))
    with raises(DataFileUnreadable, path=re.compile(r"\.puffin$"), reason=re.compile("checksum")):
        table.read()
    puffin.unlink()
    with raises(DataFileMissing, path=re.compile(r"\.puffin$")):
        table.read()


# --- what is decoded -------------------------------------------------------------------------------------------------


def damage_column(path: str, at: int, *, from_group: int = 0) -> None:
    """Makes the pages of a column unreadable: decoding them fails."""
    metadata, content = pq.read_metadata(path), bytearray(Path(path).read_bytes())
    for number in range(from_group, metadata.num_row_groups):
        chunk = metadata.row_group(number).column(at)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        content[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    Path(path).write_bytes(bytes(content))


@pytest.mark.parametrize("whole", [True, False])
def test_other_columns_are_decoded_only_as_far_as_rows_are_wanted(tmp_path: Path, whole: bool) -> None:
    kinds = pa.schema([field("id", pa.int64(), 1), field("name", pa.string(), 2)])
    # in row groups of two
    table = table_of(tmp_path, SCHEMA, pa.table([[0, 2, 4, 6], ["a", "b", "c", "d"]], schema=kinds))
    damage_column(str(tmp_path / "f0.parquet"), 1, from_group=1)
    assert [table.read(In("id", ids), batch_rows=2, whole=whole).num_rows for ids in ([1, 3, 5], [0, 5])] == [0, 1]
    with raises(DataFileUnreadable, path=re.compile(r"f0\.parquet$")):
        table.read(In("id", [0, 6]), batch_rows=2, whole=whole)


@pytest.mark.parametrize("kind", ["positions", "vector", "equality"])
def test_a_table_that_is_read_at_once_has_the_rows_of_its_stream(tmp_path: Path, kind: str) -> None:
    table = numbered(tmp_path, 3, rows=10, group_rows=4)
    path, values = table.files[1].path, [{"id": 12, "name": "n12"}, {"id": 17, "name": "n17"}]
    table.delete([MadeDelete(kind, NONE, (), 0, positions={path: [2, 7]}, columns=("name",), values=values)])
    for expr in (None, GreaterThan("id", 7), In("id", [12, 13]), LessThan("id", 12)):
        scan = scan_of(table, expr, ordered=True)
        result = scan.to_arrow()
        assert result == pa.Table.from_batches(scan.iter_batches(), schema=scan.schema)
        assert not {12, 17} & set(result["id"].to_pylist())


# --- counts ----------------------------------------------------------------------------------------------------------


def without_data(table: RealTable) -> RealTable:
    for file in table.files:
        Path(file.path).unlink()
    return table


def test_rows_are_counted_without_reading_data_where_metadata_is_certain(tmp_path: Path) -> None:
    table = without_data(numbered(tmp_path))
    counts = [
        scan_of(table, expr).count() for expr in (None, GreaterThan("id", 3), LessThan("id", -1), NotEqualTo("id", 99))
    ]
    assert counts == [12, 8, 0, 12]
    with pytest.raises(DataFileMissing):
        scan_of(table, GreaterThan("id", 5)).count()


def test_deleted_positions_are_taken_off_the_count_without_reading_data(tmp_path: Path) -> None:
    table = numbered(tmp_path)
    vector = MadeDelete("vector", NONE, (), 0, positions={table.files[0].path: [0, 1]})
    table.delete([vector, MadeDelete("positions", NONE, (), 0, positions={table.files[1].path: [3, 3, 2]})])
    assert scan_of(without_data(table)).count() == 8


def test_a_count_reads_what_it_must(tmp_path: Path) -> None:
    table = numbered(tmp_path)
    table.delete([MadeDelete("equality", NONE, (), 0, columns=("id",), values=[{"id": 5}, {"id": None}])])
    assert (scan_of(table).count(), scan_of(table, GreaterThan("id", 4)).count(), scan_of(table, limit=3).count()) == (
        11,
        6,
        3,
    )


# --- order, limits, bad input ----------------------------------------------------------------------------------------


def test_rows_come_in_order_when_asked(tmp_path: Path) -> None:
    table = numbered(tmp_path, 20)
    result = scan_of(table, columns=["id"], ordered=True, workers=4).to_arrow()
    assert result["id"].to_pylist() == list(range(80))


@pytest.mark.parametrize("limit", [0, 1, 5, 80, 100])
def test_a_limit_stops_the_reading(tmp_path: Path, limit: int) -> None:
    scan = scan_of(numbered(tmp_path, 20), limit=limit, ordered=True)
    assert scan.to_arrow()["id"].to_pylist() == list(range(min(limit, 80)))


def test_a_stream_that_is_given_up_leaves_no_thread(tmp_path: Path) -> None:
    batches = scan_of(numbered(tmp_path, 20)).iter_batches()
    next(batches)
    batches.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("frazil-scan")]


def test_columns_come_in_the_order_in_which_they_are_named(tmp_path: Path) -> None:
    assert scan_of(numbered(tmp_path), columns=["name", "id"]).schema.names == ["name", "id"]


def test_rows_without_columns_are_still_rows(tmp_path: Path) -> None:
    scan = scan_of(numbered(tmp_path), GreaterThan("id", 1), columns=[])
    assert (sum(batch.num_rows for batch in scan.iter_batches()), scan.schema.names) == (10, [])


@pytest.mark.parametrize(
    ("expr", "columns", "facts"),
    [
        (EqualTo("nmae", "x"), None, {"column": "nmae", "hint": re.compile(r"\bname\b")}),
        (None, ["idd"], {"column": "idd", "hint": re.compile(r"\bid\b")}),
        (EqualTo("id", "many"), None, {"column": "id", "expected": "long", "got": "'many'"}),
    ],
)
def test_what_is_asked_wrongly_is_an_error_at_once(tmp_path: Path, expr: Any, columns: Any, facts: Any) -> None:
    with raises(ScanError, **facts):
        scan_of(numbered(tmp_path), expr, columns=columns)


def test_a_data_file_that_is_missing_is_named(tmp_path: Path) -> None:
    table = numbered(tmp_path)
    Path(table.files[1].path).unlink()
    with raises(DataFileMissing, path=re.compile(r"f1\.parquet$")):
        scan_of(table).to_arrow()


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "pages"])
def test_a_parquet_file_that_is_damaged_is_named(tmp_path: Path, damage: str) -> None:
    table = numbered(tmp_path, 1, rows=400, group_rows=400)
    place = Path(table.files[0].path)
    whole = place.read_bytes()
    contents = {
        "empty": b"",
        "text": b"this is no Parquet file",
        "cut": whole[: len(whole) // 2],
        "pages": b"PAR1" + b"\xff" * 600 + whole[604:],
    }
    place.write_bytes(contents[damage])
    with raises(DataFileUnreadable, path=re.compile(r"f0\.parquet$")):
        scan_of(table).to_arrow()


@pytest.mark.parametrize("kind", [FileFormat.ORC, FileFormat.AVRO])
def test_a_data_file_of_a_kind_that_is_not_read_is_named_before_it_is_opened(tmp_path: Path, kind: FileFormat) -> None:
    table = RealTable(tmp_path, SCHEMA, [NONE])
    table.append(
        [MadeFile(str(tmp_path / "f0.data"), [{"id": 1, "name": "x"}, {"id": 2, "name": "y"}], NONE, (), Stats(), kind)]
    )
    scan = scan_of(table, EqualTo("name", "x"))
    for ask in (scan.to_arrow, scan.explain, scan.count):
        with raises(DataFileUnreadable, path=re.compile(r"/f0\.data$"), expected="PARQUET", got=kind.value):
            ask()


def test_a_manifest_that_is_missing_is_named(tmp_path: Path) -> None:
    table = numbered(tmp_path)
    (tmp_path / "m1.avro").unlink()
    with raises(ManifestUnreadable, path=re.compile(r"m1\.avro$")):
        scan_of(table).to_arrow()
