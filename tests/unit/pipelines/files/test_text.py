"""Text in the table's types: what converts without loss does, everything else is a bad row, whatever the
other rows are.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, DecimalType, ListType, LongType, NestedField, StringType

from frazil.errors import SchemaMismatch
from frazil.pipelines.files.text import TextContract, convert_text
from tests.kit.layouts import LayoutOf
from tests.kit.raising import raises

MONEY, US, UTC = pa.decimal128(12, 2), pa.timestamp("us"), pa.timestamp("us", "UTC")
GOOD = [
    ("12.50", MONEY, Decimal("12.50")),
    (" 7 ", MONEY, Decimal("7.00")),
    ("1e3", MONEY, Decimal("1000.00")),
    ("-0.5", MONEY, Decimal("-0.50")),
    ("12.500", MONEY, Decimal("12.50")),
    ("0042", pa.int32(), 42),
    ("true", pa.bool_(), True),
    ("1.5", pa.float64(), 1.5),
    ("2024-02-29", pa.date32(), dt.date(2024, 2, 29)),
    ("2024-01-15 08:00:00.123456", US, dt.datetime(2024, 1, 15, 8, 0, 0, 123456)),
    ("2024-01-15T08:00:00Z", UTC, dt.datetime(2024, 1, 15, 8, tzinfo=dt.UTC)),
    ("08:30", pa.time64("us"), dt.time(8, 30)),
]
BAD = [
    ("n/a", MONEY),
    ("12.345", MONEY),
    ("12,50", MONEY),
    ("12345678901.00", MONEY),
    ("", MONEY),
    ("1.5", pa.int32()),
    ("3000000000", pa.int32()),
    ("yes", pa.bool_()),
    ("2023-02-29", pa.date32()),
    ("15.01.2024", pa.date32()),
    ("2024-01-15T08:00:00Z", US),  # a zone where none is wanted
    ("2024-01-15T08:00:00", UTC),  # none where one is
    ("2024-01-15 08:00:00.1234567", US),
    ("25:00", pa.time64("us")),
]


@pytest.mark.parametrize(("text", "kind", "value"), GOOD)
def test_a_text_that_says_a_value_becomes_it(text: str, kind: pa.DataType, value: object) -> None:
    alone, with_bad = convert_text(pa.array([text]), kind), convert_text(pa.array(["?", text, None, "1?"]), kind)
    assert (alone.values.to_pylist(), with_bad.values.to_pylist()) == ([value], [None, value, None, None])
    assert with_bad.misfits.to_pylist() == [True, False, False, True]


@pytest.mark.parametrize(("text", "kind"), BAD)
def test_a_text_that_would_lose_something_is_a_misfit(text: str, kind: pa.DataType) -> None:
    result = convert_text(pa.array([None, text]), kind)
    assert (result.values.to_pylist(), result.misfits.to_pylist()) == ([None, None], [False, True])


TEXTS = st.one_of(
    st.none(),
    st.decimals(allow_nan=False, places=2, min_value=-(10**11), max_value=10**11).map(str),
    st.text("0123456789.-+e x", max_size=8),
)


@given(st.lists(TEXTS, max_size=40))
def test_what_becomes_of_a_text_does_not_depend_on_its_neighbours(texts: list[str | None]) -> None:
    together = convert_text(pa.array(texts, pa.string()), MONEY)
    alone = [convert_text(pa.array([text], pa.string()), MONEY) for text in texts]
    assert together.values.to_pylist() == [item.values[0].as_py() for item in alone]
    misfits = [False] * len(texts) if together.misfits is None else together.misfits.to_pylist()
    assert misfits == [item.misfits is not None and item.misfits[0].as_py() for item in alone]


SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "amount", DecimalType(12, 2)),
    NestedField(3, "note", StringType()),
)


def test_reasons_name_the_field_the_type_and_the_text(layout_of: LayoutOf) -> None:
    contract = TextContract.of(layout_of(SCHEMA), checks=["amount >= 0"])
    rows = pa.table({"id": ["1", "x", None, "4"], "amount": ["1", "2", "3", "-4"], "note": ["1", "2", None, "4"]})
    result = contract.accept(rows)
    assert result.rows.to_pylist() == [{"id": 1, "amount": Decimal("1.00"), "note": "1"}]
    assert [(row.number, row.reason) for row in result.rejected] == [
        (1, "field 'id': expected long, got 'x'"),
        (2, "field 'id': expected a value, got NULL"),
        (3, "check 'amount >= 0' failed"),
    ]
    assert result.rejected[0].raw == '{"id":"x","amount":"2","note":"2"}'


@pytest.mark.parametrize("kind", [BinaryType(), ListType(2, LongType())])
def test_text_for_a_type_that_it_could_say_in_many_ways_is_refused(layout_of: LayoutOf, kind: object) -> None:
    contract = TextContract.of(layout_of(Schema(NestedField(1, "x", kind))))  # type: ignore[arg-type]
    with raises(SchemaMismatch, column="x", got="string"):
        contract.accept(pa.table({"x": ["ff"]}))
