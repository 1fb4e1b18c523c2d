"""Filters that an engine hands over: understood exactly, or not at all."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.expressions import And, EqualTo, GreaterThan, LessThan, NotEqualTo, Or

from frazil.scan.engines.pushdown import understand

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("n", pa.int32()),
        ("name", pa.large_string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
MOMENT = datetime(2024, 1, 18, 9, 30, tzinfo=UTC)
ID, NAME = pc.field("id"), pc.field("name")


@pytest.mark.parametrize(
    ("pushed", "expected"),
    [
        (ID > 5, GreaterThan("id", 5)),
        ((ID > -5) & (NAME == "NO"), And(GreaterThan("id", -5), EqualTo("name", "NO"))),
        (
            (ID < 1) | ((NAME != "a b") & (ID > 3)),
            Or(LessThan("id", 1), And(NotEqualTo("name", "a b"), GreaterThan("id", 3))),
        ),
        (pc.field("day") < date(2024, 1, 18), LessThan("day", 19740)),
        (pc.field("n") == pa.scalar(7, pa.int32()), EqualTo("n", 7)),
        (
            pc.field("at") > pa.scalar(datetime(2024, 1, 18, 9, 30, tzinfo=UTC), pa.timestamp("us", "UTC")),
            GreaterThan("at", 1705570200000000),
        ),
    ],
)
def test_comparisons_are_understood(pushed: pc.Expression, expected: Any) -> None:
    assert understand(pushed, SCHEMA) == expected


@pytest.mark.parametrize(
    "expression",
    [
        NAME == 'x") and (id > "5',
        NAME == 'a"b',
        NAME == "a\\b",
        ID.isin([1, 2]),
        ID.is_null(),
        pc.starts_with(NAME, "a"),
        (ID + 1) > 5,
        ID > 5.5,
        pc.field("day") == 5,
        ~(ID > 5),
        pc.field("other") > 5,
    ],
    ids=str,
)
def test_what_is_not_certain_is_not_understood(expression: pc.Expression) -> None:
    assert understand(expression, SCHEMA) is None
