"""Positions and offsets of the wrong type are errors at the call, and nothing is committed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

import frazil.sinks
from frazil.client import FrazilCatalog
from frazil.errors import SinkError
from tests.kit.raising import raises

ROWS = [{"id": 1}, {"id": 2}]


@pytest.fixture
def table(catalog: FrazilCatalog) -> Iterator[str]:
    catalog.create_table("lake.t", Schema(NestedField(1, "id", LongType())))
    yield "lake.t"
    catalog.drop_table("lake.t")


@pytest.mark.parametrize(
    "position", [{"a": "x"}, {"a": None}, {"a": True}, {5: 1}, True, False, 1.5, "5", "", b"5", [1], ("a", 1)], ids=repr
)
def test_a_position_is_a_whole_number_for_each_source_partition(
    catalog: FrazilCatalog, table: str, position: Any
) -> None:
    sink = frazil.sinks.open(table, name="s", catalog=catalog)
    with raises(SinkError, option="position"):
        sink.write(ROWS, position=position)
    with raises(SinkError, problem="closed"):
        sink.commit()
    assert catalog.load_table(table).scan().to_arrow().num_rows == 0


@pytest.mark.parametrize(
    "offsets",
    [
        [1.5, 2],
        [1.0, 2.0],
        ["a", "b"],
        ["1", "2"],
        [True, 2],
        "12",
        5,
        None,
        {1: 2, 3: 4},
        pa.array([1.5, 2.0]),
        [1, 2**70],
    ],
    ids=lambda value: repr(value) if not isinstance(value, pa.Array) else str(value.type),
)
def test_offsets_are_whole_numbers(catalog: FrazilCatalog, table: str, offsets: Any) -> None:
    sink = frazil.sinks.open(table, name="s", catalog=catalog)
    with raises(SinkError, source="a"):
        sink.write_with_offsets(ROWS, source="a", offsets=offsets)
    assert catalog.load_table(table).scan().to_arrow().num_rows == 0


@pytest.mark.parametrize("done", ["a.csv", [5], None, b"a"], ids=repr)
def test_done_is_a_list_of_names(catalog: FrazilCatalog, table: str, done: Any) -> None:
    sink = frazil.sinks.open(table, name="s", catalog=catalog)
    with raises(SinkError, option="done"):
        sink.write(ROWS, position={"a.csv": 2}, done=done)


def test_a_source_partition_has_a_name(catalog: FrazilCatalog, table: str) -> None:
    sink = frazil.sinks.open(table, name="s", catalog=catalog)
    with raises(SinkError, option="source"):
        sink.write_with_offsets(ROWS, source=0, offsets=[1, 2])  # type: ignore[arg-type]


def test_whole_numbers_of_any_library_are_positions(catalog: FrazilCatalog, table: str) -> None:
    with frazil.sinks.open(table, name="s", catalog=catalog) as sink:
        sink.write(ROWS, position={"a": np.int64(2)})
        for start, offsets in (
            (2, np.array([2, 3])),
            (4, pa.array([4, 5], pa.int32())),
            (6, range(6, 8)),
            (8, pa.chunked_array([[8], [9]])),
        ):
            sink.write_with_offsets([{"id": start}, {"id": start + 1}], source="a", offsets=offsets)  # type: ignore[arg-type]
    assert sink.position == {"a": 10}
    assert catalog.load_table(table).scan().to_arrow().num_rows == 10
