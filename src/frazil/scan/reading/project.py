"""From the columns of a data file to those of the table, by field id: renamed, reordered, widened, added and dropped
columns, at any depth.

What a file does not have is, in this order, the value of its identity partition, the column's initial default, or null:
the specification's "column projection". Files without field ids have those that the table's name mapping gives to their
names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from frazil.arrow_compat import without_bitmap
from frazil.scan.reading.values import arrow_type, constant, storage

Convert = Callable[[pa.Array], pa.Array]
FIELD_ID = b"PARQUET:field_id"


class Misfit(ValueError):
    """A file's column cannot be read as the table's."""


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column of a file, or a part of one: its id, and what is inside of it."""

    name: str
    field_id: int | None
    type: pa.DataType
    parts: tuple[FileColumn, ...] = ()

    def find(self, field_id: int) -> int | None:
        """Where the part with an id is."""
        return next((at for at, part in enumerate(self.parts) if part.field_id == field_id), None)


def file_columns(schema: pa.Schema, mapping: NameMapping | None) -> list[FileColumn]:
    """The columns of a file with their ids: its own, or else those that the name mapping says."""
    columns = [_column(field, None) for field in schema]
    if not columns or any(_has_id(column) for column in columns):
        return columns
    if mapping is None:
        raise Misfit("it has no field ids, and the table has no name mapping (property schema.name-mapping.default)")
    return [_column(field, list(mapping)) for field in schema]


def _has_id(column: FileColumn) -> bool:
    return column.field_id is not None or any(_has_id(part) for part in column.parts)


def _column(field: pa.Field, mapping: Sequence[MappedField] | None, name: str | None = None) -> FileColumn:
    name = field.name if name is None else name
    mapped = None if mapping is None else next((mapped for mapped in mapping if name in mapped.names), None)
    if mapping is None:
        raw = (field.metadata or {}).get(FIELD_ID)
        field_id, inner = (int(raw) if raw is not None else None), None
    else:
        field_id, inner = (None, []) if mapped is None else (mapped.field_id, mapped.fields)
    return FileColumn(
        name, field_id, field.type, tuple(_column(part, inner, called) for part, called in _parts(field.type))
    )


def _parts(kind: pa.DataType) -> list[tuple[pa.Field, str | None]]:
    if pa.types.is_struct(kind):
        return [(kind.field(at), None) for at in range(kind.num_fields)]
    if pa.types.is_map(kind):
        return [(kind.key_field, "key"), (kind.item_field, "value")]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return [(kind.value_field, "element")]
    return []


# --- one function a column -------------------------------------------------------------------------------------------


def converter(wanted: NestedField, column: FileColumn) -> Convert | None:
    """What makes the table's column of a file's; None when it is the same already."""
    return _convert(wanted.field_type, column, wanted.name)


def missing(wanted: NestedField, partition: Mapping[int, Any]) -> Callable[[int], pa.Array]:
    """The column for a file that does not have it, for a number of rows."""
    value = partition.get(wanted.field_id, wanted.initial_default)
    if value is None and wanted.required:
        raise Misfit(f"the required column '{wanted.name}' is not in it, and has no initial default")
    return lambda count: constant(value, wanted.field_type, count)


def _convert(kind: IcebergType, column: FileColumn, name: str) -> Convert | None:
    if isinstance(kind, StructType):
        return _struct(kind, column, name)
    if isinstance(kind, ListType):
        return _list(kind, column, name)
    if isinstance(kind, MapType):
        return _map(kind, column, name)
    return _primitive(arrow_type(kind), column, name)


def _primitive(wanted: pa.DataType, column: FileColumn, name: str) -> Convert | None:
    have = column.type
    if have == wanted:
        return None
    if isinstance(wanted, pa.BaseExtensionType):
        return lambda array: pa.ExtensionArray.from_storage(wanted, _checked(storage(array), wanted.storage_type, name))
    if not _can_widen(have, wanted):
        raise Misfit(f"column '{name}' is {have} in it, and cannot be read as {wanted}")
    # Nanoseconds that writers of format 2 put into a file become microseconds, as everywhere else.
    safe = not (pa.types.is_timestamp(wanted) and pa.types.is_timestamp(have) and have.unit == "ns")
    return lambda array: storage(array).cast(wanted, safe=safe)


def _checked(array: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    try:
        return array.cast(wanted)
    except pa.ArrowException as exc:
        raise Misfit(f"column '{name}' is {array.type} in it, and cannot be read as {wanted}") from exc


def _can_widen(have: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a file's type is one that the table's can have been before, or the same in another encoding."""
    is_ = pa.types
    if is_.is_dictionary(have):
        return _can_widen(have.value_type, wanted)
    if is_.is_null(have) or is_.is_null(wanted):
        return True
    if is_.is_large_string(wanted):
        return bool(is_.is_string(have) or is_.is_string_view(have) or is_.is_binary(have) or is_.is_large_binary(have))
    if is_.is_large_binary(wanted):
        return bool(
            is_.is_binary(have) or is_.is_binary_view(have) or is_.is_fixed_size_binary(have) or is_.is_string(have)
        )
    if is_.is_integer(wanted):
        return bool(is_.is_integer(have) and have.bit_width <= wanted.bit_width)
    if is_.is_floating(wanted):
        return bool(is_.is_floating(have) and have.bit_width <= wanted.bit_width)
    if is_.is_decimal(wanted):
        return bool(is_.is_decimal(have) and have.scale == wanted.scale and have.precision <= wanted.precision)
    if is_.is_timestamp(wanted):
        return bool(is_.is_timestamp(have) or is_.is_date(have))
    if is_.is_fixed_size_binary(wanted):
        return isinstance(have, pa.BaseExtensionType) or bool(is_.is_binary(have) or is_.is_large_binary(have))
    return bool(is_.is_time(wanted) and is_.is_time(have)) or bool(is_.is_date(wanted) and is_.is_date(have))


def _struct(kind: StructType, column: FileColumn, name: str) -> Convert | None:
    if not pa.types.is_struct(column.type):
        raise Misfit(f"column '{name}' is {column.type} in it, and cannot be read as a struct")
    wanted = arrow_type(kind)
    makers = [_part(field, column, name) for field in kind.fields]
    if column.type == wanted and all(at == place and convert is None for place, (at, convert, _) in enumerate(makers)):
        return None

    def convert_struct(array: pa.StructArray) -> pa.Array:
        parts = [_make(array, maker) for maker in makers]
        return pa.StructArray.from_arrays(
            parts, fields=list(wanted), mask=array.is_null() if array.null_count else None
        )

    return convert_struct


Maker = tuple[int | None, Convert | None, Callable[[int], pa.Array] | None]


def _part(field: NestedField, column: FileColumn, name: str) -> Maker:
    at = column.find(field.field_id)
    if at is None:
        return None, None, missing(field, {})
    return at, _convert(field.field_type, column.parts[at], f"{name}.{field.name}"), None


def _make(array: pa.StructArray, maker: Maker) -> pa.Array:
    at, convert, default = maker
    if at is None:
        assert default is not None
        return default(len(array))
    part = array.field(at)
    return part if convert is None else convert(part)


def _list(kind: ListType, column: FileColumn, name: str) -> Convert | None:
    if len(column.parts) != 1 or pa.types.is_struct(column.type):
        raise Misfit(f"column '{name}' is {column.type} in it, and cannot be read as a list")
    wanted, element = arrow_type(kind), column.parts[0]
    convert = _convert(kind.element_type, element, f"{name}.element")
    if column.type == wanted and convert is None:
        return None

    def convert_list(array: pa.Array) -> pa.Array:
        plain = (
            array.cast(pa.list_(array.type.value_field))
            if pa.types.is_fixed_size_list(array.type)
            else _from_start(array)
        )
        values = plain.values if convert is None else convert(plain.values)
        mask = plain.is_null() if plain.null_count else None
        return pa.LargeListArray.from_arrays(plain.offsets.cast(pa.int64()), values, type=wanted, mask=mask)

    return convert_list


def _map(kind: MapType, column: FileColumn, name: str) -> Convert | None:
    if not pa.types.is_map(column.type):
        raise Misfit(f"column '{name}' is {column.type} in it, and cannot be read as a map")
    wanted, (key, value) = arrow_type(kind), column.parts
    keys, values = _convert(kind.key_type, key, f"{name}.key"), _convert(kind.value_type, value, f"{name}.value")
    if column.type == wanted and keys is None and values is None:
        return None

    def convert_map(array: pa.MapArray) -> pa.Array:
        plain = _from_start(array)
        left = without_bitmap(plain.keys if keys is None else keys(plain.keys))
        right = plain.items if values is None else values(plain.items)
        mask = plain.is_null() if plain.null_count else None
        return pa.MapArray.from_arrays(plain.offsets, left, right, type=wanted, mask=mask)

    return convert_map


def _from_start(array: pa.Array) -> pa.Array:
    """The array as one that does not begin inside of another: Arrow takes no mask for such a one."""
    return pa.concat_arrays([array]) if array.offset else array
