"""What changed between two schemas, by field id."""

from __future__ import annotations

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, IntegerType, ListType, LongType, NestedField, StringType, StructType

from frazil.history.diff import compare_schemas

ID = NestedField(1, "id", LongType(), required=True)
NAME = NestedField(2, "name", StringType())
SITE = NestedField(3, "device", StructType(NestedField(4, "site", StringType())))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([ID], [ID], []),
        ([ID], [ID, NAME], ["+ column name string"]),
        ([ID, NAME], [ID], ["- column name string"]),
        ([ID, NAME], [ID, NestedField(2, "label", StringType())], ["~ column label: renamed from name"]),
        ([ID, NAME], [NAME, ID], ["~ order of columns: name, id"]),
        ([ID, NAME], [ID, NestedField(9, "name", StringType())], ["+ column name string", "- column name string"]),
        ([NestedField(1, "id", IntegerType(), required=True)], [ID], ["~ column id: int -> long"]),
        ([ID], [NestedField(1, "id", LongType(), doc="the key")], ["~ column id: now optional, doc 'the key'"]),
        (
            [SITE],
            [
                NestedField(
                    3,
                    "device",
                    StructType(NestedField(4, "place", StringType()), NestedField(5, "x", DecimalType(9, 2))),
                )
            ],
            ["~ column device.place: renamed from device.site", "+ column device.x decimal(9, 2)"],
        ),
        (
            [NestedField(3, "tags", ListType(4, IntegerType()))],
            [NestedField(3, "tags", ListType(4, LongType()))],
            ["~ column tags.element: int -> long"],
        ),
    ],
)
def test_each_change_is_reported_once(before: list[NestedField], after: list[NestedField], expected: list[str]) -> None:
    assert [str(change) for change in compare_schemas(Schema(*before), Schema(*after))] == expected
