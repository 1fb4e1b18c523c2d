"""Arrow columns in the table's types: nothing is copied where the types agree, and a value that does not fit is found,
not cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow_compat import castable


@dataclass(frozen=True)
class Converted:
    """A column in the wanted type, and True for the rows whose value does not fit (they are NULL in it); None when all
    fit.
    """

    values: pa.Array
    misfits: pa.Array | None = None


def fits(data_type: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type can stand for values of the other without losing anything, though perhaps not each of
    them.

    >>> fits(pa.large_string(), pa.string()), fits(pa.int64(), pa.int32()), fits(pa.string(), pa.int64()), fits(pa.float64(), pa.int64())
    (True, True, False, False)
    """  # noqa: E501
    if pa.types.is_null(data_type) or data_type.equals(wanted):
        return True
    if pa.types.is_dictionary(data_type):
        return fits(data_type.value_type, wanted)
    if pa.types.is_struct(wanted):
        return pa.types.is_struct(data_type) and not struct_problems(data_type, wanted)
    if pa.types.is_list(wanted):
        return _is_list(data_type) and fits(data_type.value_type, wanted.value_type)
    if pa.types.is_map(wanted):
        return (
            pa.types.is_map(data_type)
            and fits(data_type.key_type, wanted.key_type)
            and fits(data_type.item_type, wanted.item_type)
        )
    return _primitive_fits(data_type, wanted)


def struct_problems(data_type: pa.DataType, wanted: pa.DataType) -> list[str]:
    """The fields of a struct that are missing though required, or of another type."""
    problems = []
    for field in wanted:
        position = data_type.get_field_index(field.name)
        if (position < 0 and not field.nullable) or (
            position >= 0 and not fits(data_type.field(position).type, field.type)
        ):
            problems.append(field.name)
    return problems


def extra_fields(data_type: pa.DataType, wanted: pa.DataType, path: str = "") -> Iterator[str]:
    """The names of fields, nested ones too, that the wanted type does not have."""
    if pa.types.is_struct(data_type) and pa.types.is_struct(wanted):
        for field in data_type:
            position = wanted.get_field_index(field.name)
            if position < 0:
                yield path + field.name
            else:
                yield from extra_fields(field.type, wanted.field(position).type, f"{path}{field.name}.")
    elif _is_list(data_type) and pa.types.is_list(wanted):
        yield from extra_fields(data_type.value_type, wanted.value_type, f"{path}element.")
    elif pa.types.is_map(data_type) and pa.types.is_map(wanted):
        yield from extra_fields(data_type.item_type, wanted.item_type, f"{path}value.")


def convert(values: pa.Array, wanted: pa.DataType) -> Converted:
    """The column in the wanted type. The types fit, see `fits`; single values may not."""
    if values.type.equals(wanted):
        return Converted(values)
    if pa.types.is_integer(values.type) and pa.types.is_decimal(wanted):
        values = (
            pc.cast(values, pa.decimal128(38, wanted.scale))
            if values.type.bit_width < 64 or wanted.scale <= 19
            else values
        )
    try:
        return Converted(pc.cast(castable(values), wanted))
    except pa.ArrowInvalid:
        return _search_misfits(values, wanted)


def _search_misfits(values: pa.Array, wanted: pa.DataType) -> Converted:
    """Halves the column until the values that do not fit stand alone: cheap when they are few, and exact for every
    type.
    """
    if len(values) == 1:
        return Converted(pa.nulls(1, wanted), pa.array([True]))
    middle = len(values) // 2
    halves = [_convert_half(half, wanted) for half in (values.slice(0, middle), values.slice(middle))]
    masks = [half.misfits if half.misfits is not None else _falses(len(half.values)) for half in halves]
    return Converted(pa.concat_arrays([half.values for half in halves]), pa.concat_arrays(masks))


def _convert_half(values: pa.Array, wanted: pa.DataType) -> Converted:
    if pa.types.is_nested(values.type):
        # A cast looks at all elements behind a slice of lists, also those of other rows: give these rows their own.
        values = values.take(pa.array(range(len(values))))
    try:
        return Converted(pc.cast(castable(values), wanted))
    except pa.ArrowInvalid:
        return _search_misfits(values, wanted)


def null_violations(values: pa.Array, field: pa.Field) -> pa.Array | None:
    """True for rows that have a NULL where the field, or a field inside it, must not; None when there is none."""
    is_null = values.is_null() if not field.nullable and values.null_count else None
    if pa.types.is_struct(field.type):
        for position, child in enumerate(field.type):
            inner = null_violations(values.field(position), child)
            if inner is not None:
                is_null = _either(is_null, pc.and_(inner, values.is_valid()))
    elif pa.types.is_list(field.type):
        inner = null_violations(values.flatten(), field.type.value_field)
        is_null = _either(is_null, _rows_of(inner, pc.list_parent_indices(values), len(values)))
    elif pa.types.is_map(field.type) and not field.type.item_field.nullable:
        as_list = values.cast(pa.list_(pa.struct([field.type.key_field, field.type.item_field.with_nullable(True)])))
        inner = pc.struct_field(as_list.flatten(), 1).is_null()
        is_null = _either(is_null, _rows_of(inner, pc.list_parent_indices(as_list), len(values)))
    return is_null if is_null is not None and pc.any(is_null).as_py() else None


def _rows_of(elements: pa.Array | None, parents: pa.Array, count: int) -> pa.Array | None:
    if elements is None:
        return None
    return pc.is_in(pa.array(range(count), parents.type), value_set=parents.filter(elements))


def _either(left: pa.Array | None, right: pa.Array | None) -> pa.Array | None:
    if left is None or right is None:
        return right if left is None else left
    return pc.or_(left, right)


def _falses(count: int) -> pa.Array:
    return pa.repeat(pa.scalar(False), count)


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def _primitive_fits(data_type: pa.DataType, wanted: pa.DataType) -> bool:
    t = pa.types
    if t.is_string(wanted):
        return bool(t.is_large_string(data_type) or t.is_string_view(data_type))
    if t.is_binary(wanted):
        return bool(t.is_large_binary(data_type) or t.is_binary_view(data_type) or t.is_fixed_size_binary(data_type))
    if t.is_fixed_size_binary(wanted):
        return bool(t.is_binary(data_type) or t.is_large_binary(data_type))
    if isinstance(wanted, pa.UuidType):
        return bool(t.is_fixed_size_binary(data_type) and data_type.byte_width == 16)
    if t.is_integer(wanted):
        return bool(t.is_integer(data_type))
    if t.is_floating(wanted):
        return bool(t.is_integer(data_type) or (t.is_floating(data_type) and data_type.bit_width < wanted.bit_width))
    if t.is_decimal(wanted):
        return bool(t.is_decimal(data_type) or t.is_integer(data_type))
    if t.is_date(wanted):
        return bool(t.is_date(data_type))
    if t.is_time(wanted):
        return bool(t.is_time(data_type))
    # A moment with a zone and a wall clock without one are two things; nothing here may guess which zone was meant.
    return bool(t.is_timestamp(wanted) and t.is_timestamp(data_type) and (data_type.tz is None) == (wanted.tz is None))
