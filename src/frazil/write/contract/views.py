"""Arrow's views and run-end encoded columns as plain columns of the same values.

Arrow's kernels know little of these types: a cast of a list view to a list gives offsets that end the process when they
are read.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc


def plain_table(rows: pa.Table) -> pa.Table:
    """The rows with plain columns; the same table where all of them are plain.

    >>> plain_table(pa.table({"v": pa.array([[1], None], pa.list_view(pa.int64()))})).schema.field("v").type
    LargeListType(large_list<item: int64>)
    """
    for position, field in enumerate(rows.schema):
        if not is_plain(field.type):
            chunks = [plain_array(chunk) for chunk in rows.column(position).chunks]
            column = pa.chunked_array(chunks, None if chunks else plain_array(pa.array([], field.type)).type)
            rows = rows.set_column(position, field.with_type(column.type), column)
    return rows


@lru_cache(1024)
def is_plain(kind: pa.DataType) -> bool:
    """Whether a type, and all types inside it, are such as every kernel takes."""
    t = pa.types
    if (
        t.is_list_view(kind)
        or t.is_large_list_view(kind)
        or t.is_string_view(kind)
        or t.is_binary_view(kind)
        or t.is_run_end_encoded(kind)
    ):
        return False
    if t.is_dictionary(kind):
        return is_plain(kind.value_type)
    return all(is_plain(kind.field(position).type) for position in range(kind.num_fields))


def plain_array(values: pa.Array) -> pa.Array:
    """The values in a plain type."""
    t, kind = pa.types, values.type
    if is_plain(kind):
        return values
    if t.is_run_end_encoded(kind):
        return _decode_runs(values)
    if t.is_string_view(kind) or t.is_binary_view(kind):
        return values.cast(pa.large_string() if t.is_string_view(kind) else pa.large_binary())
    if t.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(values.indices, plain_array(values.dictionary), ordered=kind.ordered)
    if t.is_struct(kind):
        children = [plain_array(values.field(position)) for position in range(kind.num_fields)]
        fields = [field.with_type(child.type) for field, child in zip(kind, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=_nulls(values))
    if t.is_map(kind):
        entries = _plain_list(values.cast(pa.list_(pa.struct([kind.key_field, kind.item_field]))))
        keys, items = (entries.values.field(position) for position in (0, 1))
        return pa.MapArray.from_arrays(entries.offsets.cast(pa.int32()), keys, items, mask=_nulls(values))
    return _plain_list(values)


def _decode_runs(values: pa.Array) -> pa.Array:
    """Each run's value as often as it lasts; taken by number, for Arrow decodes runs of few types."""
    numbers = pa.RunEndEncodedArray.from_arrays(values.run_ends, pa.array(range(len(values.values)), pa.int64()))
    return plain_array(values.values).take(pc.run_end_decode(numbers).slice(values.offset, len(values)))


def _plain_list(values: pa.Array) -> pa.Array:
    """Lists of any kind as large lists; `flatten` gives just the elements that are seen."""
    lengths = pc.fill_null(pc.list_value_length(values), 0).cast(pa.int64())
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)])
    elements = plain_array(values.flatten())
    kind = pa.large_list(values.type.value_field.with_type(elements.type))
    return pa.LargeListArray.from_arrays(offsets, elements, type=kind, mask=_nulls(values))


def _nulls(values: pa.Array) -> pa.Array | None:
    """Where the values are NULL; None where none is: Arrow takes keys of a map that have a mask for keys that may be
    NULL.
    """
    return values.is_null() if values.null_count else None
