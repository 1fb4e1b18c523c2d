"""Checks in SQL, over Arrow columns."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from frazil.errors import CheckError
from frazil.write.contract.checks import compile_checks
from tests.kit.raising import raises

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, None], pa.int64()),
        "amount": pa.array([Decimal("-1.50"), Decimal("0.00"), Decimal("10.25"), None], pa.decimal128(12, 2)),
        "ratio": pa.array([0.5, 1.5, float("nan"), None]),
        "name": ["Ada", "bob", "", None],
        "day": pa.array([dt.date(2020, 1, 1), dt.date(2024, 2, 29), dt.date(1969, 1, 1), None]),
        "ts": pa.array(
            [dt.datetime(2020, 1, 1, 12), dt.datetime(2024, 1, 1), dt.datetime(1969, 1, 1), None], pa.timestamp("us")
        ),
        "tz": pa.array(
            [dt.datetime(2020, 1, 1, 12), dt.datetime(2024, 1, 1), dt.datetime(1969, 1, 1), None],
            pa.timestamp("us", "UTC"),
        ),
        "ok": [True, False, True, None],
        "a b": [1, 1, 2, None],
        "device": [{"site": "x"}, {"site": "y"}, None, {"site": None}],
    }
)


def failing(text: str) -> list[int]:
    """The rows (from 0) that fail a check."""
    (check,) = compile_checks([text], ROWS.schema)
    fails = check.fails(ROWS)
    return [] if fails is None else [position for position, failed in enumerate(fails.to_pylist()) if failed]


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("amount >= 0", [0]),
        ("amount > 0.25", [0, 1]),
        ("ratio < 1.25", [1, 2]),
        ("id <> 2", [1]),
        ("id = 1 OR name = 'bob'", [2]),
        ("id > 1 AND amount >= 0", [0]),
        ("NOT ok", [0, 2]),
        ("ok", [1]),
        ("ok IS TRUE", [1, 3]),
        ("name IS NOT NULL", [3]),
        ("name IS NULL", [0, 1, 2]),
        ("id IN (1, 3)", [1]),
        ("id NOT IN (1, 3)", [0, 2]),
        ("amount IN (0, 10.25)", [0]),
        ("id IN (1, NULL)", []),
        ("id BETWEEN 2 AND 3", [0]),
        ("id NOT BETWEEN 2 AND 3", [1, 2]),
        ("amount BETWEEN -1.50 AND 0", [2]),
        ("name LIKE 'A%'", [1, 2]),
        ("name NOT LIKE 'A%'", [0]),
        ("name ILIKE 'a%'", [1, 2]),
        ("name RLIKE '^[A-Za-z]+$'", [2]),
        ("name NOT RLIKE '^[A-Za-z]+$'", [0, 1]),
        ("length(name) > 0", [2]),
        ("lower(name) = 'ada'", [1, 2]),
        ("upper(trim(name)) IN ('ADA', 'BOB')", [2]),
        ("day >= DATE '2000-01-01'", [2]),
        ("day >= '2000-01-01'", [2]),
        ("ts >= TIMESTAMP '2020-01-01 12:00:00'", [2]),
        ("tz >= TIMESTAMP '2020-01-01 12:00:00'", [2]),
        ("ts < '2021-01-01'", [1]),
        ("id + 1 <= 3", [2]),
        ("id * 2 - 1 > 1", [0]),
        ("-id < -1", [0]),
        ("id / 2 = 1", [0, 2]),
        ("id / 0 = 1", []),
        ("id % 2 = 1", [1]),
        ("id % 0 = 1", []),
        ("abs(amount) < 2", [2]),
        ("coalesce(name, 'unknown') <> 'unknown'", [3]),
        ("CASE WHEN id = 1 THEN ok WHEN id = 2 THEN NOT ok ELSE false END", [2, 3]),
        ("CAST(id AS STRING) = '1'", [1, 2]),
        ("CAST(ratio AS DOUBLE) > 1", [0, 2]),
        ("`a b` = 1", [2]),
        ("device.site = 'x'", [1]),
        ("true", []),
        ("false", [0, 1, 2, 3]),
        ("NULL", []),
    ],
)
def test_a_row_fails_where_the_expression_is_false_and_passes_where_it_is_null(text: str, fails: list[int]) -> None:
    assert failing(text) == fails


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("amount >=", {"problem": "syntax"}),
        ("price > 0", {"column": "price"}),
        ("device.city = 'x'", {"column": "device.city"}),
        ("name > 1", {"problem": "types"}),
        ("amount + 1", {"problem": "not-boolean", "got": re.compile("^decimal128")}),
        ("soundex(name) = 'x'", {"problem": "unsupported", "name": re.compile("^SOUNDEX")}),
        ("name LIKE name", {"problem": "pattern"}),
        ("id IN (SELECT 1)", {"problem": "in-list"}),
        ("CAST(name AS BINARY) = 'x'", {"problem": "unsupported", "name": "CAST to BINARY"}),
    ],
)
def test_a_check_that_cannot_work_is_refused_before_the_first_row(text: str, facts: dict[str, Any]) -> None:
    with raises(CheckError, check=text, **facts):
        compile_checks([text], ROWS.schema)


def test_no_rows_pass_every_check() -> None:
    (check,) = compile_checks(["id > 0"], ROWS.schema)
    assert check.fails(ROWS.slice(0, 0)) is None
