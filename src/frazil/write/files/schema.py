"""An Iceberg schema as Arrow: the types in which rows wait and are written."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema, sanitize_column_names


def arrow_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a table's rows, with Iceberg's field ids; text and lists have 32-bit offsets, for batches are
    small.

    >>> from pyiceberg.types import NestedField, StringType
    >>> arrow_schema(Schema(NestedField(1, "name", StringType(), required=True))).field("name").type
    DataType(string)
    """
    return pa.schema([_small_field(field) for field in schema_to_pyarrow(schema)])


def file_names(schema: Schema, *, exact: bool = False) -> Schema:
    """The schema with the names that data files have. In Iceberg, names that Avro cannot spell are replaced, as all
    engines do; readers find columns by id. Delta's readers find them by name: there they are `exact`.
    """
    return schema if exact else sanitize_column_names(schema)


def _small_field(field: pa.Field) -> pa.Field:
    # A doc belongs to the table, not to each of its files.
    kept = {key: value for key, value in (field.metadata or {}).items() if key == b"PARQUET:field_id"}
    return pa.field(field.name, _small(field.type), field.nullable, kept)


def _small(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_large_list(kind):
        return pa.list_(_small_field(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_small_field(kind.key_field), _small_field(kind.item_field))
    if pa.types.is_struct(kind):
        return pa.struct([_small_field(kind.field(position)) for position in range(kind.num_fields)])
    return kind
