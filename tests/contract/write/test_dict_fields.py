"""Keys inside nested values of dict rows that the table has no field for are treated as unknown columns are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType

import frazil.sinks
from frazil.client import FrazilCatalog
from frazil.errors import SchemaMismatch
from frazil.write.contract.contract import Contract
from frazil.write.files.layout import TableLayout
from tests.kit.raising import raises

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "s", StructType(NestedField(10, "a", LongType(), required=True)), required=True),
    NestedField(3, "items", ListType(11, StructType(NestedField(12, "a", LongType())), False)),
    NestedField(4, "by_name", MapType(13, StringType(), 14, StructType(NestedField(15, "a", LongType())), False)),
    NestedField(
        5,
        "deep",
        StructType(NestedField(16, "items", ListType(17, StructType(NestedField(18, "a", LongType())), False))),
    ),
)
GOOD: dict[str, Any] = {
    "id": 1,
    "s": {"a": 1},
    "items": [{"a": 1}, None],
    "by_name": {"x": {"a": 1}},
    "deep": {"items": [{"a": 1}]},
}
UNKNOWN = [
    ({"s": {"a": 1, "new": 9}}, "s.new"),
    ({"s": [("a", 1), ("new", 9)]}, "s.new"),
    ({"items": [{"a": 1}, {"a": 1, "new": 9}]}, "items.element.new"),
    ({"by_name": {"x": {"a": 1, "new": 9}}}, "by_name.value.new"),
    ({"by_name": [("x", {"a": 1, "new": 9})]}, "by_name.value.new"),
    ({"deep": {"items": [{"new": 9}]}}, "deep.items.element.new"),
]
OTHER_CASE = [
    ({"s": {"a": 1, "A": 9}}, "s.A"),
    ({"items": [{"A": 9}]}, "items.element.A"),
    ({"by_name": {"x": {"A": 9}}}, "by_name.value.A"),
]


@pytest.fixture
def table(catalog: FrazilCatalog) -> Iterator[str]:
    catalog.create_table("lake.t", SCHEMA)
    yield "lake.t"
    catalog.drop_table("lake.t")


@pytest.mark.parametrize(("values", "path"), [*UNKNOWN, *OTHER_CASE])
def test_an_unknown_nested_key_is_an_error_that_names_its_path(
    layout_of: Callable[..., TableLayout], values: dict[str, Any], path: str
) -> None:
    with raises(SchemaMismatch, column=path, expected="no such field"):
        Contract.of(layout_of(SCHEMA)).accept_dicts([GOOD, {**GOOD, **values}])
    dropped = Contract.of(layout_of(SCHEMA), extra="ignore").accept_dicts([{**GOOD, **values}])
    assert (dropped.rows.num_rows, dropped.rejected) == (1, ())


def test_known_nested_keys_pass(layout_of: Callable[..., TableLayout]) -> None:
    empty = {"id": 2, "s": {"a": 1}, "items": [], "by_name": {}, "deep": {"items": None}}
    assert Contract.of(layout_of(SCHEMA)).accept_dicts([GOOD, empty, {"id": 3, "s": {"a": 2}}]).rows.num_rows == 3


@pytest.mark.parametrize("options", [{}, {"mode": "upsert", "key": "id"}])
def test_the_sink_stops_and_commits_nothing(catalog: FrazilCatalog, table: str, options: dict[str, Any]) -> None:
    with (
        raises(SchemaMismatch, column="s.new"),
        frazil.sinks.open(table, name="s", catalog=catalog, **options) as sink,
    ):
        sink.write([{**GOOD, "s": {"a": 1, "new": 9}}], position=1)
    assert catalog.load_table(table).scan().to_arrow().num_rows == 0


@pytest.mark.parametrize(
    "values",
    [values for values, _ in UNKNOWN if not isinstance(next(iter(values.values())), list) or "items" in values],
)
def test_evolve_adds_the_nested_field_and_keeps_the_value(
    catalog: FrazilCatalog, table: str, values: dict[str, Any]
) -> None:
    with frazil.sinks.open(table, name="s", catalog=catalog, extra_fields="evolve") as sink:
        sink.write([{**GOOD, **values}], position=1)
    (row,) = catalog.load_table(table).scan().to_arrow().to_pylist()
    assert "9" in str(row)
    schema = catalog.load_table(table).schema()
    assert (schema.find_field("s").required, schema.find_field("s.a").required) == (True, True)


@pytest.mark.parametrize(("values", "path"), OTHER_CASE)
def test_evolve_refuses_a_nested_name_that_differs_by_case_alone(
    catalog: FrazilCatalog, table: str, values: dict[str, Any], path: str
) -> None:
    with (
        raises(SchemaMismatch, column=path, expected=re.compile("differs by case alone")),
        frazil.sinks.open(table, name="s", catalog=catalog, extra_fields="evolve") as sink,
    ):
        sink.write([{**GOOD, **values}], position=1)
