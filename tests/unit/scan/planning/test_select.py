"""What a caller names of a table, in SQL's words."""

from __future__ import annotations

import pytest
from pyiceberg.expressions import EqualTo, GreaterThan

from frazil.errors import ScanError
from frazil.scan.planning.select import parse_filter
from tests.kit.raising import raises


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("d = DATE '2024-01-17'", "2024-01-17"),
        ("d = date'2024-01-17'", "2024-01-17"),
        ("d = 'a DATE ''x'", "a DATE 'x"),
    ],
)
def test_the_type_before_a_literal_is_left_to_the_column(text: str, value: str) -> None:
    assert parse_filter(text, table="t") == EqualTo("d", value)


def test_a_column_may_be_named_like_a_type() -> None:
    assert parse_filter("date > 3", table="t") == GreaterThan("date", 3)


def test_an_error_shows_where_a_filter_stops_making_sense() -> None:
    with raises(ScanError, table="t", got="d !! 3"):
        parse_filter("a = 1 AND d !! 3", table="t")
