"""Finds keys inside nested values of dict rows that the table has no field for. Arrow would drop them without
an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

Guess = Callable[[list[Any]], pa.DataType]


def has_struct(kind: pa.DataType) -> bool:
    """Whether values of the type can have named fields inside.

    >>> has_struct(pa.list_(pa.struct([("a", pa.int64())]))), has_struct(pa.list_(pa.int64()))
    (True, False)
    """
    if pa.types.is_map(kind):
        return has_struct(kind.item_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return has_struct(kind.value_type)
    return bool(pa.types.is_struct(kind))


def nested_columns(schema: pa.Schema) -> tuple[pa.Field, ...]:
    """The columns whose values can have unknown keys inside."""
    return tuple(field for field in schema if has_struct(field.type))


def new_nested_fields(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[pa.Field], guess: Guess | None = None
) -> list[pa.Field]:
    """The columns with unknown keys inside, reduced to these keys. Their types are null unless `guess` gives them.

    >>> columns = [pa.field("s", pa.struct([("a", pa.int64())]))]
    >>> [str(field.type) for field in new_nested_fields([{"s": {"a": 1, "b": 2}}], columns)]
    ['struct<b: null>']
    """
    parts = ((column, _new_part([row.get(column.name) for row in rows], column.type, guess)) for column in columns)
    return [pa.field(column.name, part, nullable=column.nullable) for column, part in parts if part is not None]


def _new_part(values: Sequence[Any], kind: pa.DataType, guess: Guess | None) -> pa.DataType | None:
    """The type of what is new in the values; None if nothing is."""
    if pa.types.is_struct(kind):
        return _new_struct([struct for value in values if (struct := _as_mapping(value)) is not None], kind, guess)
    if pa.types.is_map(kind):
        part = _new_part(list(chain.from_iterable(map(_items, values))), kind.item_type, guess)
        return (
            None if part is None else pa.map_(kind.key_type, pa.field("value", part, nullable=kind.item_field.nullable))
        )
    elements = chain.from_iterable(
        value for value in values if isinstance(value, Collection) and not isinstance(value, str | bytes)
    )
    part = _new_part(list(elements), kind.value_type, guess)
    return None if part is None else pa.list_(pa.field("element", part, nullable=kind.value_field.nullable))


def _new_struct(structs: Sequence[Mapping[str, Any]], kind: pa.DataType, guess: Guess | None) -> pa.DataType | None:
    known = {field.name for field in kind}
    names = dict.fromkeys(
        name for struct in structs if not known.issuperset(struct) for name in struct if name not in known
    )
    fields = new_nested_fields(structs, [field for field in kind if has_struct(field.type)], guess)
    fields += [
        pa.field(str(name), guess([struct.get(name) for struct in structs]) if guess else pa.null()) for name in names
    ]
    return pa.struct(fields) if fields else None


def _as_mapping(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, Mapping):
        return value
    is_pairs = isinstance(value, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)
    return dict(value) if is_pairs else None  # Arrow takes pairs of name and value for a struct, too


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list | tuple):
        yield from (pair[1] for pair in value if isinstance(pair, list | tuple) and len(pair) == 2)
