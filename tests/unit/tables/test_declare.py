"""Declared tables become Iceberg schemas and specs; what is wrong is named."""

from __future__ import annotations

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, DecimalType, NestedField, StringType

from frazil import Table, column
from frazil.errors import DeclarationError


def test_columns_become_an_iceberg_schema_with_ids_in_order() -> None:
    table = Table("l.sales", column("id", "string", required=True, doc="key"), column("amount", "DECIMAL(12,2)"), column("day", "date"))
    assert table.schema() == Schema(
        NestedField(1, "id", StringType(), required=True, doc="key"),
        NestedField(2, "amount", DecimalType(12, 2), required=False),
        NestedField(3, "day", DateType(), required=False),
    )


def test_partitions_name_their_source_and_transform() -> None:
    table = Table("l.t", column("ts", "timestamp"), column("id", "long"), partition_by=["day(ts)", "bucket(16, id)", "id"])
    fields = [(f.name, str(f.transform), f.source_id) for f in table.partition_spec().fields]
    assert fields == [("ts_day", "day", 1), ("id_bucket", "bucket[16]", 2), ("id", "identity", 2)]


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: Table("sales", column("a", "int")), "table 'sales' has no namespace"),
        (lambda: Table("l.sales"), "table 'l.sales' has no columns"),
        (lambda: Table("l.s", column("a", "int"), column("a", "long")), "declares column 'a' twice"),
        (lambda: Table("l.s", column("a", "strin")).schema(), "column 'a' of table 'l.s': 'strin' is not an Iceberg type"),
        (lambda: Table("l.s", column("a", "int"), partition_by=["b"]).partition_spec(), "has no column 'b'; it has a"),
        (
            lambda: Table("l.s", column("a", "int"), partition_by=["daily(a)"]).partition_spec(),
            "partition 'daily\\(a\\)' is not understood",
        ),
    ],
)
def test_a_wrong_declaration_is_named(declare: object, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        declare()  # type: ignore[operator]
