"""Checks as filters: a filter holds for every row with the outcome that it stands for, at every edge of every type."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

from frazil.scan.planning import bind_filter
from frazil.scan.reading.rowfilter import wanted_rows
from frazil.write.contract import FAILS, HOLDS, NOT_TRUE, PASSES, compile_checks, rows_where

TENTH = 0.10000000149011612  # as a float of 32 bits
SINGLE = [-1.5, 0.0, TENTH, 0.5, 2.0, math.nan, math.inf, -math.inf]
VALUES: dict[str, tuple[Any, list[Any]]] = {
    "id": (LongType(), [-3, -2, -1, 0, 1, 2, 3, 2**63 - 1, -(2**63)]),
    "number": (IntegerType(), [-3, -2, -1, 0, 1, 2, 3, 2**31 - 1, -(2**31)]),
    "price": (
        DecimalType(9, 2),
        [Decimal(text) for text in ("-9999999.99", "-1.26", "0.00", "1.25", "1.26", "9999999.99")],
    ),
    "single": (FloatType(), SINGLE),
    "double": (DoubleType(), [-1.5, -0.0, 0.0, 0.1, TENTH, 0.5, 2.0, math.nan, math.inf, -math.inf]),
    "name": (StringType(), ["", "a", "ab", "abc", "b", "π"]),
    "flag": (BooleanType(), [True, False]),
    "day": (DateType(), [dt.date(1969, 12, 31), dt.date(2024, 1, 18), dt.date(2024, 1, 19)]),
    "at": (TimestamptzType(), [dt.datetime(2024, 1, 18, hour, tzinfo=dt.UTC) for hour in (0, 1)]),
}
SCHEMA = Schema(*(NestedField(at, name, kind) for at, (name, (kind, _)) in enumerate(VALUES.items(), 1)))
NUMBERS = ["-2", "0", "1", "0.1", "1.255", "-1.255", "2e0", "1e6", "99999999999999999999", "-1e30", "1 + 1", "NULL"]
LITERALS = {
    **dict.fromkeys(("id", "number", "price", "single", "double"), NUMBERS),
    "name": ["''", "'ab'", "'c'", "NULL"],
    "flag": ["true", "NULL"],
    "day": ["DATE '2024-01-18'", "'2024-01-18'"],
    "at": ["TIMESTAMP '2024-01-18 00:30:00'", "'2024-01-18'"],
}
COMPARISONS = [
    text
    for name, literals in LITERALS.items()
    for literal in literals
    for sign in ("<", "<=", ">", ">=", "=", "<>")
    for text in ((f"{name} {sign} {literal}",) if sign != "<" else (f"{name} < {literal}", f"NOT ({literal} > {name})"))
]
OTHERS = [
    "name LIKE 'ab%'", "name NOT LIKE 'ab%'", "name LIKE '%'", "name LIKE 'a_'", "flag", "NOT flag", "flag IS TRUE",
    "id IN (1, 2.5, 3)", "id NOT IN (1, 2.5, 3)", "single IN (0.5, 2)", "double NOT IN (0.5, 2)", "name IN ('a', NULL)",
    "id IS NULL", "id IS NOT NULL", "id BETWEEN -1 AND 1.5", "id NOT BETWEEN 0 AND 1", "id < number", "id + 0 > 1",
    "id > 0 AND double < 1", "id > 0 OR double < 1", "NOT (id > 0 AND (name = 'a' OR price < 1))", "length(name) < 2",
    "id > 0 OR length(name) < 2", "number / 0 > 1", "CASE WHEN id > 0 THEN flag END", "double = CAST('NaN' AS DOUBLE)",
    "single < CAST(0.1 AS DOUBLE)", "single >= CAST(0.1 AS DOUBLE)", "number < 10 / 4", "true", "NULL",
]  # fmt: skip


def every_value() -> pa.Table:
    """Rows that have each value, and NULL, of a column next to all kinds of others."""
    length = max(len(values) for _, values in VALUES.values()) + 1
    rows = [
        {name: [*values, None][(row * step) % (len(values) + 1)] for name, (_, values) in VALUES.items()}
        for step in (1, 2, 3, 5)
        for row in range(length * 2)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA.as_arrow()).combine_chunks()


ROWS = every_value()


def test_a_filter_holds_for_every_row_with_the_outcome() -> None:
    missed = []
    for check in compile_checks([text for text in [*COMPARISONS, *OTHERS] if fits(text)], SCHEMA.as_arrow()):
        value = check.evaluate(ROWS)
        values = [value.as_py()] * len(ROWS) if isinstance(value, pa.Scalar) else value.to_pylist()
        for outcomes in (HOLDS, FAILS, PASSES, NOT_TRUE):
            kept = matching(rows_where(check, SCHEMA, outcomes))
            missed += [(check.text, at) for at, value in enumerate(values) if value in outcomes and not kept[at]]
    assert missed == []


def matching(filter: BooleanExpression) -> list[bool | None]:
    """For which rows a filter holds."""
    bound = bind_filter(filter, SCHEMA, table="t")
    wanted = wanted_rows(bound, lambda field_id: ROWS[SCHEMA.find_column_name(field_id)].combine_chunks())
    return [wanted] * len(ROWS) if isinstance(wanted, bool) else wanted.to_pylist()


def fits(text: str) -> bool:
    """Numbers that Arrow does not compare with floats are refused when a check is compiled."""
    return not (("single" in text or "double" in text) and "999999" in text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id < 1e6", "id >= 1000000"),
        ("1e6 > id", "id >= 1000000"),
        ("id < 1.5", "id > 1"),
        ("price < 1e6", "price >= 1000000.00"),
        ("price <= 1.255", "price > 1.25"),
        ("double < 1", "(double >= 1.0 OR double IS NAN)"),
        ("double <> 1", "double = 1.0"),
        ("name LIKE 'ab%'", "name NOT STARTS WITH 'ab'"),
        ("day >= '2024-01-18'", "day < '2024-01-18'"),
        ("id > 0 AND number < 3", "(id <= 0 OR number >= 3)"),
        ("id > 0 OR length(name) < 2", "id <= 0"),
        ("id < 99999999999999999999", "false"),
        ("id < NULL", "false"),
        ("length(name) < 2", "true"),
    ],
)
def test_rows_that_fail_a_check_are_found_by_a_filter(text: str, expected: str) -> None:
    """These are what statistics can use: without them a search reads every file, and is as right."""
    from frazil.scan.planning.filters import show

    check = compile_checks([text], SCHEMA.as_arrow())[0]
    assert show(bind_filter(rows_where(check, SCHEMA, FAILS), SCHEMA, table="t"), SCHEMA) == expected


def test_a_check_that_is_always_null_has_neither_outcome() -> None:
    for text in ("NULL", "id < NULL", "name = NULL", "NULL > length(name)"):
        check = compile_checks([text], SCHEMA.as_arrow())[0]
        assert [type(rows_where(check, SCHEMA, outcomes)) for outcomes in (HOLDS, FAILS, PASSES)] == [
            AlwaysFalse,
            AlwaysFalse,
            AlwaysTrue,
        ]
