"""Iceberg's types and values in Arrow, as scans give them out."""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    IcebergType,
    PrimitiveType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

# numbers since some moment
COUNTED = (DateType, TimeType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a scan's rows."""
    return schema_to_pyarrow(schema, include_field_ids=False)


def arrow_type(kind: IcebergType) -> pa.DataType:
    """The Arrow type of a column.

    >>> arrow_type(DateType())
    DataType(date32[day])
    """
    # PyIceberg walks the type with a visitor, and every column of every file asks.
    return _primitive(kind) if isinstance(kind, PrimitiveType) else schema_to_pyarrow(kind, include_field_ids=False)


@lru_cache(maxsize=256)
def _primitive(kind: PrimitiveType) -> pa.DataType:
    return schema_to_pyarrow(kind, include_field_ids=False)


def storage(array: pa.Array) -> pa.Array:
    """The values below an extension type such as UUID: Arrow's functions do not know the type itself."""
    return array.storage if isinstance(array.type, pa.BaseExtensionType) else array


def storage_type(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def scalar(value: Any, kind: IcebergType) -> pa.Scalar:
    """A value as PyIceberg has it (days and microseconds as numbers, or as Python's dates) as a scalar that compares
    with the column.

    >>> scalar(19_740, DateType())
    <pyarrow.Date32Scalar: datetime.date(2024, 1, 18)>
    """
    wanted = storage_type(arrow_type(kind))
    if isinstance(value, UUID):
        value = value.bytes
    if isinstance(kind, COUNTED) and isinstance(value, int):
        return pa.scalar(value, pa.int32() if isinstance(kind, DateType) else pa.int64()).cast(wanted)
    return pa.scalar(value, wanted)


def constant(value: Any, kind: IcebergType, count: int) -> pa.Array:
    """A column that has the same value in every row."""
    wanted = arrow_type(kind)
    if value is None:
        return pa.nulls(count, wanted)
    repeated = pa.repeat(scalar(value, kind), count)
    return pa.ExtensionArray.from_storage(wanted, repeated) if isinstance(wanted, pa.BaseExtensionType) else repeated
