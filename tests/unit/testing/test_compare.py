"""Expected rows against rows that came."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from frazil.errors import DeclarationError
from frazil.testing import Difference, compare_rows
from frazil.testing.rows import typed_rows

RESULT = pa.table({"day": ["mon", "tue"], "country": ["ch", "de"], "revenue": pa.array([10, 20], pa.decimal128(9, 2))})


def test_rows_in_any_order_and_only_named_columns_are_compared() -> None:
    assert not compare_rows([{"revenue": 20}, {"revenue": "10.00"}], RESULT)


def test_a_row_that_comes_twice_must_be_expected_twice() -> None:
    twice = pa.table({"id": [1, 1]})
    assert compare_rows([{"id": 1}], twice) == Difference(("id",), unexpected=({"id": 1},))


def test_missing_unexpected_and_differing_rows_are_listed_apart() -> None:
    expect = [{"day": "mon", "country": "ch", "revenue": 11}, {"day": "sun", "country": "it", "revenue": 7}]
    assert compare_rows(expect, RESULT).lines() == [
        "missing     {day: sun, country: it, revenue: 7.00}",
        "unexpected  {day: tue, country: de, revenue: 20.00}",
        "differing   {day: mon, country: ch}: revenue is 10.00, expected 11.00",
    ]


def test_floating_point_numbers_may_differ_in_the_last_digits() -> None:
    assert not compare_rows([{"x": 0.3}], pa.table({"x": [0.1 + 0.2]}))


def test_an_expected_column_that_the_result_lacks_is_an_error() -> None:
    with pytest.raises(DeclarationError) as error:
        compare_rows([{"profit": 1}], RESULT)
    assert error.value.column == "profit"


def test_values_take_the_types_of_the_table() -> None:
    schema = pa.schema(
        [
            ("at", pa.timestamp("us", "UTC")),
            ("amount", pa.decimal128(9, 2)),
            ("tags", pa.list_(pa.string())),
            ("address", pa.struct([("zip", pa.string()), ("floor", pa.int32())])),
        ]
    )
    row = {"at": "2024-01-15T08:00:00", "amount": 1.5, "tags": [1], "address": {"zip": 8000}}
    assert typed_rows([row], schema, what="given").to_pylist() == [
        {
            "at": datetime(2024, 1, 15, 8, tzinfo=UTC),
            "amount": Decimal("1.50"),
            "tags": ["1"],
            "address": {"zip": "8000", "floor": None},
        }
    ]


@pytest.mark.parametrize(("value", "kind"), [("n/a", pa.int64()), (1.005, pa.decimal128(9, 2)), ("x", pa.date32())])
def test_a_value_that_does_not_fit_is_named_with_its_row(value: object, kind: pa.DataType) -> None:
    with pytest.raises(DeclarationError) as error:
        typed_rows([{}, {"a": value}], pa.schema([("a", kind)]), what="given b.c")
    assert error.value.message == f"given b.c, row 2, a: expected {kind}, got {value!r}"
