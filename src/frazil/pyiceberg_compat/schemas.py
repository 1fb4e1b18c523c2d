"""Schemas: fields and ids by name, and Arrow schemas that PyIceberg converts only in private."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField


def fields_by_id(schema: Schema) -> Mapping[int, NestedField]:
    """All fields, nested ones too. `_lazy_id_to_field`: `find_field` raises for an unknown id."""
    return schema._lazy_id_to_field


def ids_by_name(schema: Schema) -> Mapping[str, int]:
    """All ids by the full name of the column. `_name_to_id`: PyIceberg has no public list of nested columns' names."""
    return schema._name_to_id


def with_small_types(schema: pa.Schema) -> pa.Schema:
    """The schema without large strings, binaries and lists. `_pyarrow_schema_ensure_small_types`: what Spark takes."""
    from pyiceberg.io.pyarrow import _pyarrow_schema_ensure_small_types

    return _pyarrow_schema_ensure_small_types(schema)


def schema_without_ids(schema: pa.Schema) -> Schema:
    """An Iceberg schema whose ids are all -1. `_pyarrow_to_schema_without_ids`: the public way wants ids or a mapping,
    and columns of Delta tables have neither.
    """
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids

    return _pyarrow_to_schema_without_ids(schema)
