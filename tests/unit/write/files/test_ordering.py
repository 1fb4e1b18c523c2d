"""Rows in the table's sort order."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform, TruncateTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from frazil.write.files.ordering import sort_keys, sort_rows

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "name", StringType()), NestedField(3, "x", DoubleType())
)
ASC, DESC, FIRST, LAST = SortDirection.ASC, SortDirection.DESC, NullOrder.NULLS_FIRST, NullOrder.NULLS_LAST


def ordered(rows: dict[str, list[object]], *fields: SortField) -> dict[str, list[object]]:
    batch = pa.Table.from_pydict(rows)
    columns: dict[str, list[object]] = sort_rows(batch, sort_keys(SCHEMA, SortOrder(*fields))).to_pydict()
    return columns


@pytest.mark.parametrize(
    ("direction", "nulls", "expected"),
    [(ASC, FIRST, [None, 1, 2]), (ASC, LAST, [1, 2, None]), (DESC, FIRST, [None, 2, 1]), (DESC, LAST, [2, 1, None])],
)
def test_nulls_lie_where_the_order_says(direction: SortDirection, nulls: NullOrder, expected: list[int | None]) -> None:
    assert ordered({"id": [2, None, 1]}, SortField(1, IdentityTransform(), direction, nulls)) == {"id": expected}


def test_each_key_has_its_own_direction_and_place_of_nulls() -> None:
    rows = {"id": [1, None, 1, None], "name": ["b", "a", None, "c"]}
    result = ordered(rows, SortField(1, IdentityTransform(), ASC, LAST), SortField(2, IdentityTransform(), DESC, FIRST))
    assert result == {"id": [1, 1, None, None], "name": [None, "b", "c", "a"]}


def test_nan_is_the_greatest_number() -> None:
    result = ordered({"x": [math.nan, 1.0, None, math.inf]}, SortField(3, IdentityTransform(), ASC, FIRST))
    assert [str(value) for value in result["x"]] == ["None", "1.0", "inf", "nan"]


def test_rows_are_ordered_by_the_transformed_value_and_otherwise_stay() -> None:
    rows = {"name": ["bz", "az", "ba", "aa"], "id": [1, 2, 3, 4]}
    assert ordered(rows, SortField(2, TruncateTransform(1), ASC, FIRST))["id"] == [2, 4, 1, 3]


def test_rows_in_order_are_not_copied() -> None:
    batch = pa.table({"id": [1, 2, 3]})
    assert sort_rows(batch, sort_keys(SCHEMA, SortOrder(SortField(1, IdentityTransform(), ASC, FIRST)))) is batch
