"""Rows that are Pydantic models or dataclasses, as dictionaries; and nested values as JSON text.

Python reads the attributes and nothing else: types, checks and conversion are Arrow's, as for dictionaries. Pydantic
is never imported: a model is known by its class.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from decimal import Decimal
from functools import cache
from operator import attrgetter
from typing import Any
from uuid import UUID

import pyarrow as pa

from frazil.write.contract.raw import as_json

Read = Callable[[Any], dict[str, Any]]
PLAIN = frozenset(
    {*(str, int, float, bool, bytes, type(None)), *(dt.datetime, dt.date, dt.time, dt.timedelta, Decimal, UUID)}
)


def as_dicts(rows: Any) -> Any:
    """Models and dataclasses as dictionaries, one or a list or generator of them; Arrow as it is.

    >>> from dataclasses import make_dataclass
    >>> Point = make_dataclass("Point", ["x", "y"])
    >>> as_dicts([Point(1, Point(2, 3)), {"x": 4}])
    [{'x': 1, 'y': {'x': 2, 'y': 3}}, {'x': 4}]
    """
    if isinstance(rows, Iterator) and not hasattr(rows, "__arrow_c_stream__"):
        rows = list(rows)
    if not isinstance(rows, list | tuple):
        own: type = type(rows)
        if isinstance(rows, str | bytes):
            raise TypeError(f"expected rows, got {own.__name__}")
        read = _reader(own)
        return rows if read is None else [read(rows)]
    kinds = set(map(type, rows))
    if not any(_reader(kind) for kind in kinds):
        _check_mappings(kinds)
        return rows
    _check_mappings({kind for kind in kinds if _reader(kind) is None})
    return [_plain(row) for row in rows]


def _check_mappings(kinds: Iterable[type]) -> None:
    """Passes if all rows are dictionaries."""
    if wrong := sorted(kind.__name__ for kind in kinds if not issubclass(kind, Mapping)):
        raise TypeError(f"expected each row as a dictionary, Pydantic model or dataclass, got {', '.join(wrong)}")


@cache
def _reader(kind: type) -> Read | None:
    """Reads the fields of a model or dataclass by their names; None for every other class."""
    if is_dataclass(kind):
        return _fields_reader([field.name for field in fields(kind)])
    if not hasattr(kind, "__pydantic_fields__"):
        return None
    declared = _fields_reader([*kind.__pydantic_fields__, *getattr(kind, "__pydantic_computed_fields__", ())])
    if getattr(kind, "model_config", {}).get("extra") != "allow":
        return declared
    return lambda row: {**declared(row), **{name: _plain(value) for name, value in (row.model_extra or {}).items()}}


def _fields_reader(names: Sequence[str]) -> Read:
    if len(names) < 2:  # attrgetter of one name gives no tuple
        return lambda row: {name: _plain(getattr(row, name)) for name in names}
    values = attrgetter(*names)
    return lambda row: {
        name: value if type(value) in PLAIN else _plain(value) for name, value in zip(names, values(row), strict=True)
    }


def _plain(value: Any) -> Any:
    """A value without models inside: dictionaries and lists are searched, an enumeration gives its value."""
    kind: type = type(value)
    if kind in PLAIN:
        return value
    if read := _reader(kind):
        return read(value)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return value.value if isinstance(value, enum.Enum) else value


def nested_as_json(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> Sequence[Mapping[str, Any]]:
    """Nested values as JSON text, where the table has a text column for them or no column at all.

    >>> nested_as_json([{"id": 1, "tags": ["a"], "extra": {"b": 2}}], pa.schema([("id", pa.int64()), ("tags", pa.string())]))
    [{'id': 1, 'tags': '["a"]', 'extra': '{"b":2}'}]
    """  # noqa: E501
    nested = {field.name for field in schema if pa.types.is_nested(field.type)}
    return [_with_json(row, nested) for row in rows]


def _with_json(row: Mapping[str, Any], nested: set[str]) -> Mapping[str, Any]:
    texts = {
        name: as_json(value)
        for name, value in row.items()
        if type(value) not in PLAIN
        and name not in nested
        and isinstance(value, Mapping | list | tuple | set | frozenset)
    }
    return {**row, **texts} if texts else row


def columns_as_json(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same for Arrow: a nested column for which the table has a text column, or none, becomes JSON text."""
    for position, field in enumerate(rows.schema):
        wanted = schema.field(field.name).type if field.name in schema.names else None
        if pa.types.is_nested(field.type) and (wanted is None or not pa.types.is_nested(wanted)):
            texts = [None if value is None else as_json(value) for value in rows.column(position).to_pylist()]
            rows = rows.set_column(position, field.name, pa.array(texts, pa.string()))
    return rows
