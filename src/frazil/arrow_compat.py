"""Workarounds for faults of pyarrow, each with its reason."""

from __future__ import annotations

import pyarrow as pa


def castable(values: pa.Array) -> pa.Array:
    """The same values, with maps that can be cast.

    A filter or `take` gives the keys of maps a bitmap of nulls. A cast of such keys ends the process (pyarrow 25.0.1:
    "Check failed: Map array keys array should have no nulls"), so the bitmap is left out.

    >>> maps = pa.array([[("a", 1)], None, [("b", 2)]], pa.map_(pa.large_string(), pa.int64()))
    >>> castable(maps.filter(pa.array([True, True, False]))).cast(pa.map_(pa.string(), pa.int64())).to_pylist()
    [[('a', 1)], None]
    """
    kind = values.type
    if not _has_map(kind):
        return values
    if values.offset:  # Arrow takes no mask for an array that begins inside of another
        values = pa.concat_arrays([values])
    mask = values.is_null() if values.null_count else None
    if pa.types.is_map(kind):
        keys, items = without_bitmap(castable(values.keys)), castable(values.items)
        return pa.MapArray.from_arrays(values.offsets, keys, items, type=kind, mask=mask)
    if pa.types.is_struct(kind):
        children = [castable(values.field(position)) for position in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(castable(values.values), type=kind, mask=mask)
    lists = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
    return lists.from_arrays(values.offsets, castable(values.values), type=kind, mask=mask)


def without_bitmap(keys: pa.Array) -> pa.Array:
    """The keys of maps without a bitmap of nulls. Nested and extension types stay as they are."""
    if keys.type.num_fields or isinstance(keys.type, pa.BaseExtensionType) or keys.null_count:
        return keys
    return pa.Array.from_buffers(keys.type, len(keys), [None, *keys.buffers()[1:]], offset=keys.offset)


def _has_map(kind: pa.DataType) -> bool:
    t = pa.types
    if t.is_struct(kind) or t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        return any(_has_map(kind.field(position).type) for position in range(kind.num_fields))
    return bool(t.is_map(kind))
