"""Manifests of the same content in the schemas that other writers declare, read by our scan, PyIceberg and DuckDB."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from duckdb_extensions import import_extension
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DecimalType, LongType, NestedField, StringType

from frazil.client import FrazilCatalog
from frazil.errors import ManifestUnreadable
from frazil.lake import Lake
from tests.kit.avro_files import PACK, read_avro, write_avro
from tests.kit.raising import raises

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "k", StringType(), required=False),
    NestedField(3, "a", DecimalType(9, 2), required=False),
    NestedField(4, "b", DecimalType(9, 2), required=False),
)
FIELDS = [
    PartitionField(source, 1000 + source, IdentityTransform(), name) for source, name in ((2, "k"), (3, "a"), (4, "b"))
]
NUMBERS = itertools.count()
Liberty = Callable[[Any], None]  # changes the schema of a manifest in place


def rows(count: int) -> pa.Table:
    cents = [Decimal(number) / 4 for number in range(count)]
    kinds = pa.decimal128(9, 2)
    columns = {"id": range(count), "k": [f"k{number}" if number else None for number in range(count)]}
    return pa.table({**columns, "a": pa.array(cents, kinds), "b": pa.array([-cent for cent in cents], kinds)})


def walk(schema: Any) -> Iterator[dict[str, Any]]:
    """All fields, those of inner records too."""
    for kind in schema if isinstance(schema, list) else [schema]:
        if isinstance(kind, dict):
            for field in kind.get("fields", ()):
                yield field
                yield from walk(field["type"])
            yield from walk(kind.get("items", "null"))
            if isinstance(kind["type"], dict | list):
                yield from walk(kind["type"])


def field(schema: Any, field_id: int) -> dict[str, Any]:
    return next(item for item in walk(schema) if item.get("field-id") == field_id)


def nullable(*field_ids: int) -> Liberty:
    def change(schema: Any) -> None:
        for field_id in field_ids:
            result = field(schema, field_id)
            result["type"] = result["type"] if isinstance(result["type"], list) else ["null", result["type"]]

    return change


def reverse_unions(schema: Any) -> None:
    for item in walk(schema):
        if isinstance(item["type"], list):
            item["type"].reverse()
            item.pop("default", None)


def rename(schema: Any) -> None:
    schema |= {"name": "entry", "namespace": "org.example"}
    for number, item in enumerate(walk(schema)):
        if isinstance(item["type"], dict) and item["type"].get("type") == "record":
            item["type"]["name"] = f"record{number}"


def wrap(schema: Any) -> None:
    for item in walk(schema):
        if isinstance(item["type"], str):
            item["type"] = {"type": item["type"]}


def single_unions(schema: Any) -> None:
    for field_id in (0, 100, 103):
        result = field(schema, field_id)
        result["type"] = [result["type"]]


def add_fields(schema: Any) -> None:
    extra: list[Any] = [
        {"type": "map", "values": ["null", "string"]},
        {"type": "enum", "name": "mood", "symbols": ["A", "B"]},
        {"type": "array", "items": "string"},
        {
            "type": "record",
            "name": "more",
            "fields": [{"name": "x", "type": "string"}, {"name": "y", "type": {"type": "array", "items": "double"}}],
        },
        ["int", "string"],
    ]
    data_file = field(schema, 2)["type"]
    for number, kind in enumerate(extra):
        branches = kind if isinstance(kind, list) else [kind]
        data_file["fields"].insert(number, {"name": f"extra{number}", "type": ["null", *branches], "default": None})
    schema["fields"].append({"name": "note", "type": ["null", "string"], "default": None, "field-id": 9000})


def nullable_items(schema: Any) -> None:
    for field_id in (108, 109, 110, 137, 125, 128, 132, 135):
        for item in (item for item in walk(schema) if item.get("field-id") == field_id):
            array = item["type"][1] if isinstance(item["type"], list) else item["type"]
            if isinstance(array["items"], str):
                array["items"] = ["null", array["items"]]
            else:
                value = array["items"]["fields"][1]
                value["type"] = ["null", value["type"]]


def no_map_type(schema: Any) -> None:
    for item in walk(schema):
        array = item["type"][1] if isinstance(item["type"], list) else item["type"]
        if isinstance(array, dict):
            array.pop("logicalType", None)


def drop_optional(schema: Any) -> None:
    optional = {108, 109, 110, 137, 125, 128, 131, 132, 135, 140, 141}
    data_file = field(schema, 2)["type"]
    data_file["fields"] = [item for item in data_file["fields"] if item["field-id"] not in optional]


def share_names(schema: Any) -> None:
    """As Avro's own library writes two fields of one named type: the second is only the name."""
    kinds = [field(schema, field_id) for field_id in (1001, 1002)]
    fixed = next(kind for kind in kinds[0]["type"] if kind != "null")
    fixed["name"] = "decimal_9_2"
    kinds[1]["type"] = ["null", "decimal_9_2"]


LIBERTIES: dict[str, Liberty] = {
    "as PyIceberg writes": lambda schema: None,
    "Sail: nullable partition": nullable(102),
    "nullable everywhere": nullable(0, 2, 102, 134, 100, 101, 103, 104, 117, 119),
    "unions reversed": reverse_unions,
    "other names": rename,
    "wrapped types": wrap,
    "unions of one": single_unions,
    "extra fields": add_fields,
    "nullable items": nullable_items,
    "no map type": no_map_type,
    "only required fields": drop_optional,
    "named types shared": share_names,
}
# What the others read as well. DuckDB's process ends on others, and on two partition fields of one decimal type.
IN_PYICEBERG = {"as PyIceberg writes", "Sail: nullable partition", "other names", "only required fields"}
IN_DUCKDB = {"as PyIceberg writes", "Sail: nullable partition", "other names"}


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name in ("avro", "iceberg"):
        import_extension(name, con=connection)
        connection.execute(f"LOAD {name}")
    return connection


def make_table(catalog: FrazilCatalog, count: int, fields: int = 2) -> Table:
    table = catalog.create_table(f"lake.liberty{next(NUMBERS)}", SCHEMA, partition_spec=PartitionSpec(*FIELDS[:fields]))
    table.append(rows(count))
    return catalog.load_table(table.name())


def local(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def rewrite_manifest(
    table: Table, change: Liberty, codec: str = "null", edit: Callable[[dict[str, Any]], None] | None = None
) -> None:
    """Writes the table's one manifest in another schema, in its place; and its length into the manifest list."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    (manifest,) = snapshot.manifests(table.io)
    schema, properties, records = read_avro(local(manifest.manifest_path).read_bytes())
    schema = copy.deepcopy(schema)
    change(schema)
    for record in records:
        if edit:
            edit(record)
    content = write_avro(schema, properties, records, codec=codec)
    local(manifest.manifest_path).write_bytes(content)
    schema, properties, records = read_avro(local(snapshot.manifest_list).read_bytes())
    records[0]["manifest_length"] = len(content)
    local(snapshot.manifest_list).write_bytes(write_avro(schema, properties, records))


def by_id(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("count", [3, 40])  # one by one, and several at a time
@pytest.mark.parametrize("liberty", LIBERTIES)
def test_the_rows_are_the_same_whatever_the_schema_declares(
    catalog: FrazilCatalog, duck: duckdb.DuckDBPyConnection, liberty: str, count: int
) -> None:
    table, expected = make_table(catalog, count, 3 if liberty == "named types shared" else 2), by_id(rows(count))
    rewrite_manifest(table, LIBERTIES[liberty])
    ours = Lake(catalog=catalog).table(".".join(table.name()))
    assert by_id(ours.scan().to_arrow()) == expected
    assert by_id(ours.scan("k = 'k2'").to_arrow()) == expected[2:3]
    assert by_id(ours.scan("a = 0.50 AND b = -0.50").to_arrow()) == expected[2:3]
    assert ours.scan().count() == count
    if liberty in IN_PYICEBERG:
        assert by_id(table.scan().to_arrow()) == expected
    if liberty in IN_DUCKDB:
        assert by_id(duck.execute(f"FROM iceberg_scan('{table.metadata_location}')").to_arrow_table()) == expected


@pytest.mark.parametrize("codec", PACK)
def test_manifests_of_every_codec_are_read(catalog: FrazilCatalog, codec: str) -> None:
    table = make_table(catalog, 40)
    rewrite_manifest(table, nullable(102), codec)
    assert by_id(Lake(catalog=catalog).table(".".join(table.name())).scan().to_arrow()) == by_id(rows(40))


def test_a_codec_that_is_not_read_is_named(catalog: FrazilCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(catalog, 3)
    monkeypatch.setitem(PACK, "xz", lambda block: block)
    rewrite_manifest(table, nullable(102), "xz")
    with raises(ManifestUnreadable, reason=re.compile("packed with 'xz'")):
        Lake(catalog=catalog).table(".".join(table.name())).scan().to_arrow()


@pytest.mark.parametrize("count", [3, 40])
def test_only_a_partition_that_is_null_indeed_is_refused(catalog: FrazilCatalog, count: int) -> None:
    table = make_table(catalog, count)

    def forget_one(record: dict[str, Any]) -> None:
        if record["data_file"]["record_count"] and "k2" in record["data_file"]["file_path"]:
            record["data_file"]["partition"] = None

    rewrite_manifest(table, nullable(102), edit=forget_one)
    with raises(ManifestUnreadable, reason=re.compile("partition is NULL")):
        Lake(catalog=catalog).table(".".join(table.name())).scan().to_arrow()
