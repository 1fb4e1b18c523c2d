"""Delta tables with partition values of every type, written through the sink, for tests of their readers."""

from __future__ import annotations

import math
import struct
from typing import Any

import pyarrow as pa
from pyiceberg.types import BinaryType, FixedType, FloatType, TimeType, UUIDType

from frazil.sinks import open as open_sink
from frazil.sinks.delta.target import create_delta_table
from tests.kit.partition_values import CASES, PartitionCase

NO_COLUMN = (TimeType, UUIDType)
NO_PARTITION = (BinaryType, FixedType)
HELD = [case for case in CASES if not isinstance(case.type, (*NO_COLUMN, *NO_PARTITION))]


def holdable(case: PartitionCase) -> list[Any]:
    return [value for value in case.values if value != "" or not case.is_identity]


def rows_of(table: pa.Table) -> dict[int, Any]:
    return {row["id"]: row["v"] for row in table.select(["id", "v"]).to_pylist()}


def write(uri: str, case: PartitionCase, values: list[Any]) -> dict[int, Any]:
    """Writes the values through the sink, each in a row of its own; gives back what readers should find."""
    create_delta_table(uri, case.schema, partition_by=[case.partition_by])
    with open_sink(uri, name="s") as sink:
        sink.write([{"id": number, "v": value} for number, value in enumerate(values)], position=len(values))
    return {number: in_file(value, case) for number, value in enumerate(values)}


def in_file(value: Any, case: PartitionCase) -> Any:
    if isinstance(value, float) and isinstance(case.type, FloatType):
        return struct.unpack("f", struct.pack("f", value))[0]
    return value


def comparable(rows: dict[int, Any]) -> dict[int, Any]:
    """NaN is equal to itself, and the sign of zero does not count: a partition has one zero."""
    return {key: "NaN" if isinstance(value, float) and math.isnan(value) else value for key, value in rows.items()}
