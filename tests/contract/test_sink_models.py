"""Rows as Pydantic models and dataclasses, and nested values as JSON text."""

from __future__ import annotations

import datetime as dt
import enum
import subprocess
import sys
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pydantic import BaseModel, ConfigDict, computed_field
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, ListType, LongType, NestedField, StringType, StructType, TimestamptzType

import frazil.sinks
from frazil import Lake
from frazil.errors import RowRefused, SchemaMismatch, SinkError
from frazil.sinks.delta import create_delta_table
from tests.contract.history_lake import Past
from tests.kit.raising import raises

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "kind", StringType()),
    NestedField(3, "price", DecimalType(9, 2)),
    NestedField(4, "at", TimestamptzType()),
    NestedField(5, "place", StructType(NestedField(6, "city", StringType()), NestedField(7, "zip", LongType()))),
    NestedField(8, "tags", ListType(9, StringType())),
)
TEXTS = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "place", StringType()),
    NestedField(3, "tags", StringType()),
)
NOON = dt.datetime(2024, 1, 18, 12, tzinfo=dt.UTC)


class Kind(enum.Enum):
    WEB = "web"


class PlaceModel(BaseModel):
    city: str
    zip: int | None = None


class OrderModel(BaseModel):
    id: int
    kind: Kind = Kind.WEB
    price: Decimal = Decimal("1.50")
    at: dt.datetime = NOON
    place: PlaceModel = PlaceModel(city="Oslo")
    tags: list[str] = ["a"]


@dataclass
class Place:
    city: str
    zip: int | None = None


@dataclass(slots=True)
class Order:
    id: int
    kind: Kind = Kind.WEB
    price: Decimal = Decimal("1.50")
    at: dt.datetime = NOON
    place: Place | PlaceModel = field(default_factory=lambda: Place("Oslo"))
    tags: list[str] = field(default_factory=lambda: ["a"])


def stored(number: int) -> dict[str, Any]:
    place = {"city": "Oslo", "zip": None}
    return {"id": number, "kind": "web", "price": Decimal("1.50"), "at": NOON, "place": place, "tags": ["a"]}


@pytest.fixture
def lake(past: Past) -> Lake:
    past.catalog.create_table(f"{past.name}_m", SCHEMA)
    past.catalog.create_table(f"{past.name}_j", TEXTS)
    return past.lake


@pytest.mark.requirement("sink.models")
@pytest.mark.parametrize("make", [OrderModel, Order])
def test_models_and_dataclasses_are_rows_of_a_sink_and_of_append(lake: Lake, past: Past, make: Any) -> None:
    table = lake.table(f"{past.name}_m")
    table.append(make(id=1))
    table.append([make(id=2), stored(3), make(id=4, place=PlaceModel(city="Oslo"))])
    with table.sink(name="s") as sink:
        sink.write([make(id=5)], position=1)
        sink.write_with_offsets([make(id=6), make(id=7)], source="events/0", offsets=[0, 1])
    assert table.scan().to_arrow().sort_by("id").to_pylist() == [stored(number) for number in range(1, 8)]


@pytest.mark.requirement("sink.models")
def test_models_are_rows_of_a_delta_table(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    create_delta_table(uri, SCHEMA)
    with frazil.sinks.open(uri, name="s") as sink:
        sink.write([OrderModel(id=1), Order(id=2)], position=2)
    assert DeltaTable(uri).to_pyarrow_table().sort_by("id").to_pylist() == [stored(1), stored(2)]


@pytest.mark.requirement("sink.models")
@pytest.mark.parametrize("make", [OrderModel, Order, lambda id: stored(id)])
def test_nested_values_are_json_text_by_option(lake: Lake, past: Past, make: Any) -> None:
    table = lake.table(f"{past.name}_j")
    with pytest.raises((RowRefused, SchemaMismatch)):
        table.append([make(id=1)], extra_fields="ignore")
    table.append([make(id=1)], extra_fields="ignore", nested_as_json=True)
    with table.sink(name="s", extra_fields="ignore", nested_as_json=True) as sink:
        sink.write([make(id=2)], position=1)
    text = '{"city":"Oslo","zip":null}'
    expected = [{"id": number, "place": text, "tags": '["a"]'} for number in (1, 2)]
    assert table.scan().to_arrow().sort_by("id").to_pylist() == expected


def test_nested_columns_of_arrow_are_json_text_by_option(lake: Lake, past: Past) -> None:
    table = lake.table(f"{past.name}_j")
    rows = pa.table({"id": [1, 2], "place": [{"city": "Oslo"}, None], "tags": [["a", "b"], []]})
    table.append(rows, nested_as_json=True)
    assert table.scan().to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "place": '{"city":"Oslo"}', "tags": '["a","b"]'},
        {"id": 2, "place": None, "tags": "[]"},
    ]


def test_a_new_nested_field_becomes_a_text_column(lake: Lake, past: Past) -> None:
    table = lake.table(f"{past.name}_j")
    table.append([{"id": 1, "more": {"a": [1]}}], extra_fields="evolve", nested_as_json=True)
    assert table.scan(columns=["more"]).to_arrow().to_pylist() == [{"more": '{"a":[1]}'}]


def test_columns_that_are_nested_stay_nested(lake: Lake, past: Past) -> None:
    table = lake.table(f"{past.name}_m")
    table.append(OrderModel(id=1), nested_as_json=True)
    assert table.scan().to_arrow().to_pylist() == [stored(1)]


def test_extra_and_computed_fields_of_a_model_are_fields_of_the_row(lake: Lake, past: Past) -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        id: int

        @computed_field  # type: ignore[prop-decorator]
        @property
        def name(self) -> str:
            return f"n{self.id}"

    past.table.append(Open(id=1))
    with raises(SchemaMismatch, column="colour"):
        past.table.append(Open(id=2, colour="red"))  # type: ignore[call-arg]
    assert past.table.scan().to_arrow().to_pylist() == [{"id": 1, "name": "n1"}]


def test_a_bad_model_is_quarantined_as_json(lake: Lake, past: Past) -> None:
    table = lake.table(f"{past.name}_m")
    result = table.append([Order(id=1), Order(id="x")], bad_rows="quarantine")  # type: ignore[arg-type]
    assert (result.inserted, result.quarantined) == (1, 1)
    (row,) = table.quarantine.rows()
    assert '"city":"Oslo"' in row.raw


def test_a_class_is_not_a_row(past: Past) -> None:
    for wrong in (Order, OrderModel, [Order], 5):
        with pytest.raises((SinkError, TypeError)):
            past.table.append(wrong)


def test_models_need_no_import_of_pydantic() -> None:
    program = "import sys, frazil.write.contract.models; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
