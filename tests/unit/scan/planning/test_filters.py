"""Filters: bound with errors that help, shown as SQL, and the same after a journey through the specification's JSON."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    In,
    IsNull,
    LessThanOrEqual,
    Not,
    NotIn,
    NotStartsWith,
    Or,
    StartsWith,
)
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, DateType, DecimalType, LongType, NestedField, StringType, StructType, UUIDType

from frazil.errors import ScanError
from frazil.scan.planning.filters import FilterReader, bind_filter, filter_to_json, show
from tests.kit.raising import raises

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "Name", StringType()),
    NestedField(3, "day", DateType()),
    NestedField(4, "price", DecimalType(9, 2)),
    NestedField(5, "raw", BinaryType()),
    NestedField(6, "key", UUIDType()),
    NestedField(7, "place", StructType(NestedField(8, "city", StringType()))),
)
KEY = UUID(int=7)


def read(node: Any, *, case_sensitive: bool = True) -> BooleanExpression:
    return FilterReader(SCHEMA, table="lake.t", case_sensitive=case_sensitive).read(node).expr


@pytest.mark.parametrize(
    "expr",
    [
        AlwaysTrue(),
        AlwaysFalse(),
        EqualTo("id", 5),
        And(IsNull("place"), Or(GreaterThan("day", "2024-01-18"), LessThanOrEqual("price", Decimal("1.50")))),
        In("Name", ["a", "b"]),
        NotIn("id", [1, 2]),
        StartsWith("place.city", "O"),
        EqualTo("raw", b"\x00\xff"),
        EqualTo("key", KEY),
    ],
    ids=str,
)
def test_a_filter_means_the_same_after_its_journey(expr: BooleanExpression) -> None:
    before, after = (bind_filter(item, SCHEMA, table="lake.t") for item in (expr, read(filter_to_json(expr))))
    assert show(after, SCHEMA) == show(before, SCHEMA)


def test_not_is_worked_into_what_it_stands_before() -> None:
    node = {
        "type": "not",
        "child": {
            "type": "or",
            "left": filter_to_json(EqualTo("id", 5)),
            "right": {"type": "starts-with", "term": "Name", "value": "a"},
        },
    }
    assert show(bind_filter(read(node), SCHEMA, table="t"), SCHEMA) == "id != 5 AND Name NOT STARTS WITH 'a'"
    assert filter_to_json(Not(NotStartsWith("Name", "a")))["type"] == "not"


def test_names_come_out_as_the_schema_has_them() -> None:
    assert filter_to_json(read({"type": "is-null", "term": "NAME"}, case_sensitive=False)) == {
        "type": "is-null",
        "term": "Name",
    }


@pytest.mark.parametrize(
    ("expr", "said"),
    [
        (EqualTo("nam", "x"), "lake.t has no column 'nam'\n  did you mean Name?"),
        (EqualTo("zzz", "x"), "lake.t has no column 'zzz'\n  it has: id, Name, day"),
        (EqualTo("id", "many"), "column 'id' is of type long, and cannot be compared with 'many'"),
        (EqualTo("day", "soon"), "write it as '2024-01-18'"),
        (EqualTo("place", "x"), "cannot be compared with 'x'"),
    ],
    ids=str,
)
def test_a_filter_that_does_not_fit_gets_the_reason(expr: BooleanExpression, said: str) -> None:
    with pytest.raises(ScanError) as caught:
        bind_filter(expr, SCHEMA, table="lake.t")
    assert said in str(caught.value)


@pytest.mark.usefixtures("uncollected")
def test_a_filter_without_end_is_refused() -> None:
    node: Any = True
    for _ in range(2_000):
        node = {"type": "not", "child": node}
    with raises(ScanError, problem="too-deep"):
        read(node)
