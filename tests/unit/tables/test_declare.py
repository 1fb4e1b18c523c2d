"""Declared tables become Iceberg schemas, specs and orders; what is wrong is named."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, DecimalType, ListType, NestedField, StringType, StructType

from frazil import Table, column, list_of, struct, transforms
from frazil.errors import DeclarationError
from frazil.tables.iceberg import default_of


def test_columns_become_an_iceberg_schema_with_ids_in_order() -> None:
    table = Table(
        "l.sales",
        column("id", "string", required=True, doc="key"),
        column("amount", "DECIMAL(12,2)"),
        column("day", "date"),
    )
    assert table.schema() == Schema(
        NestedField(1, "id", StringType(), required=True, doc="key"),
        NestedField(2, "amount", DecimalType(12, 2), required=False),
        NestedField(3, "day", DateType(), required=False),
    )


def test_nested_columns_get_their_ids_level_by_level_as_catalogs_give_them() -> None:
    table = Table(
        "l.t", column("device", "struct<site: required string 'where', tags: list<string>>"), column("day", "date")
    )
    device = StructType(
        NestedField(3, "site", StringType(), required=True, doc="where"),
        NestedField(4, "tags", ListType(5, StringType(), False)),
    )
    assert table.schema() == Schema(NestedField(1, "device", device), NestedField(2, "day", DateType()))


def test_a_key_becomes_the_identifier_fields() -> None:
    table = Table("l.t", column("a", "int", required=True), column("b", "string", required=True), key=["b", "a"])
    assert table.schema().identifier_field_names() == {"a", "b"}


def test_partitions_name_their_source_and_transform() -> None:
    result = ["day(ts)", "bucket(16, id)", "id", "truncate(4, name) as start"]
    table = Table("l.t", column("ts", "timestamp"), column("id", "long"), column("name", "string"), partition_by=result)
    fields = [(f.name, str(f.transform), f.source_id) for f in table.partition_spec().fields]
    assert fields == [
        ("ts_day", "day", 1),
        ("id_bucket", "bucket[16]", 2),
        ("id", "identity", 2),
        ("start", "truncate[4]", 3),
    ]


def test_transforms_as_calls_are_their_text() -> None:
    calls = [getattr(transforms, name)("ts") for name in ("identity", "year", "month", "day", "hour", "void")]
    assert calls == ["ts", "year(ts)", "month(ts)", "day(ts)", "hour(ts)", "void(ts)"]
    assert [transforms.bucket(16, "my id"), transforms.truncate(4, "a.b")] == [
        'bucket(16, "my id")',
        "truncate(4, a.b)",
    ]


def test_sort_orders_have_direction_and_the_place_of_nulls() -> None:
    table = Table(
        "l.t",
        column("ts", "timestamp"),
        column("id", "long"),
        sort_by=["ts desc", "bucket(16,id)", "id desc nulls first"],
    )
    assert [str(field) for field in table.sort_order().fields] == [
        "1 DESC NULLS LAST",
        "bucket[16](2) ASC NULLS FIRST",
        "2 DESC NULLS FIRST",
    ]


def test_a_default_is_a_value_of_python_or_the_text_that_iceberg_uses() -> None:
    table = Table(
        "l.t",
        column("a", "date", default=dt.date(2024, 1, 15)),
        column("b", "date", default="2024-01-15"),
        column("c", "binary", default=b"\x01\xff"),
        column("d", "decimal(5,2)", default="1.50"),
        column("e", "struct<x: int>"),
        column("f", struct(column("x", "int", default=7))),
        format_version=3,
    )
    assert [default_of(field) for field in table.schema().fields[:4]] == ["2024-01-15", "2024-01-15", "01ff", "1.50"]
    assert default_of(table.schema().find_field("f.x")) == 7


A, TS = column("a", "int"), column("ts", "timestamp")
WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: Table("sales", A), "table 'sales' has no namespace"),
    (lambda: Table("l.sales"), "table 'l.sales' has no columns"),
    (lambda: Table("l.s", A, column("a", "long")), "table 'l.s' declares column 'a' twice"),
    (lambda: Table("l.s", column("a", "strin")), "column 'a' of table 'l.s': 'strin' is not an Iceberg type"),
    (lambda: Table("l.s", column("a", list_of("strin"))), "column 'a' of table 'l.s': 'strin' is not an Iceberg type"),
    (lambda: Table("l.s", column("a", 7)), "column 'a' of table 'l.s': 7 is not a type"),  # type: ignore[arg-type]
    (
        lambda: Table("l.s", ("a", "int")),
        "column 'number 1' of table 'l.s': ('a', 'int') is not a column; write column(name, type)",
    ),  # type: ignore[arg-type]
    (lambda: Table("l.s", column("", "int")), "column '' of table 'l.s': '' is not a name"),
    (lambda: Table("l.s", A, partition_by=["b"]), "table 'l.s' is partitioned by 'b', but has no column 'b'; it has a"),
    (lambda: Table("l.s", A, partition_by="a"), "table 'l.s': partition_by: expected a list of text, got 'a'"),
    (lambda: Table("l.s", A, partition_by=["daily(a)"]), "table 'l.s': partition 'daily(a)' is not understood"),
    (lambda: Table("l.s", A, partition_by=["bucket(a)"]), "table 'l.s': partition 'bucket(a)' is not understood"),
    (
        lambda: Table("l.s", A, partition_by=["day(a)"]),
        "table 'l.s' is partitioned by 'day(a)', but 'a' is int, which day does not take",
    ),
    (
        lambda: Table("l.s", column("a", "list<int>"), partition_by=["a"]),
        "table 'l.s' is partitioned by 'a', but 'a' is a list",
    ),
    (
        lambda: Table("l.s", column("a", "list<int>"), partition_by=["a.element"]),
        "table 'l.s' is partitioned by 'a.element', but 'a.element' is inside a list or a map",
    ),
    (
        lambda: Table("l.s", A, partition_by=["bucket(4, a)", "bucket(8, a)"]),
        "table 'l.s' has two partition fields named 'a_bucket'",
    ),
    (
        lambda: Table("l.s", TS, column("ts_day", "date"), partition_by=["day(ts)"]),
        "table 'l.s': partition 'day(ts)' would be named 'ts_day', as a column is",
    ),
    (
        lambda: Table("l.s", TS, partition_by=["day(ts)", "hour(ts)"]),
        "table 'l.s' is partitioned by 'day(ts)' and by 'hour(ts)'",
    ),
    (lambda: Table("l.s", A, sort_by=["b desc"]), "table 'l.s' is sorted by 'b desc', but has no column 'b'; it has a"),
    (lambda: Table("l.s", A, key=["b"]), "table 'l.s': key column 'b' is not declared"),
    (lambda: Table("l.s", A, key=["a"]), "table 'l.s': key column 'a' may be NULL, and NULL tells no rows apart"),
    (
        lambda: Table("l.s", column("a", "double", required=True), key=["a"]),
        "table 'l.s': key column 'a' is double; Iceberg allows no float or nested type",
    ),
    (
        lambda: Table("l.s", column("a", "int", default=3)),
        "column 'a' of table 'l.s' has a default, which needs format version 3; got none given",
    ),
    (
        lambda: Table("l.s", column("a", "timestamp_ns"), format_version=2),
        "column 'a' of table 'l.s' has type timestamp_ns, which needs format version 3; got 2",
    ),
    (
        lambda: Table("l.s", column("a", "int", default="three"), format_version=3).schema(),
        "column 'a' of table 'l.s': default 'three' is no int",
    ),
    (lambda: Table("l.s", A, format_version=4), "table 'l.s': format_version is 4, expected 1, 2 or 3"),
    (lambda: Table("l.s", A, properties={"x": 1}), "table 'l.s': property 'x' is 1, expected text"),  # type: ignore[dict-item]
    (
        lambda: Table("l.s", A, properties={"frazil.applied": "x"}),
        "table 'l.s': property 'frazil.applied' is Frazil's own",
    ),
    (
        lambda: Table("l.s", A, properties={"format-version": "2"}),
        "table 'l.s': 'format-version' is no property of the table",
    ),
    (lambda: Table("l.s", A, dropped=["a"]), "table 'l.s' declares column 'a' and lists it in dropped"),
]


@pytest.mark.parametrize(("declare", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_wrong_declaration_is_named(declare: Callable[[], object], message: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        declare()
    assert raised.value.message == message
