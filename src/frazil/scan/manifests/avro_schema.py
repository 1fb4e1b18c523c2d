"""Avro schemas in one form, whatever liberties their writer took: names replaced by what they stand for, wrappers
removed.

Writers differ in what they declare: Sail's `partition` may be null, Avro's own library writes a type once and its name
from then on (two partition fields of `decimal(9, 2)` share `decimal_9_2`), others reverse unions or wrap plain types in
objects. What counts are the bytes.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

Json = Any  # a piece of an Avro schema: a name, a union as a list, or an object

NAMED = ("record", "fixed", "enum")
PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NUMBERS = ("int", "long")
NO_UNION = -1
NO_NULL = 99  # more branches than any union has: a union without null still has a number before its value
MOST_DEPTH = 32
MOST_TYPES = 10_000  # with each name replaced by what it stands for; a table of a thousand columns has a tenth of that


class AvroError(ValueError):
    """The bytes are no Avro file that Iceberg could have written."""


@lru_cache(maxsize=64)
def parse_schema(text: str) -> Json:
    """A file's schema in the one form; it is shared, and must not be changed.

    >>> parse_schema('{"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": ["null", {"type": "string"}]}}]}')["fields"]
    [{'name': 'a', 'type': ['null', 'string']}]
    """  # noqa: E501
    schema = _resolve(json.loads(text), {}, "", 0)
    _check_extent(schema)
    return schema


def _check_extent(schema: Json) -> None:
    """Passes when a walk through the schema comes to its end soon. Types that use one another by name can make a few
    lines mean more types than can be counted.
    """
    pending, count = [(schema, 0)], 0
    while pending:
        piece, depth = pending.pop()
        count += 1
        if depth > MOST_DEPTH:
            raise AvroError("its schema is nested too deeply")
        if count > MOST_TYPES:
            raise AvroError(f"its schema has more than {MOST_TYPES} types")
        pending += [(inner, depth + 1) for inner in _inside(piece)]


def _inside(schema: Json) -> list[Json]:
    """The types that a type consists of."""
    if isinstance(schema, list):
        return schema
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        return [field["type"] for field in schema["fields"]]
    return [schema[key] for key, of in (("items", "array"), ("values", "map")) if kind == of]


def _resolve(schema: Json, known: dict[str, Json], space: str, depth: int) -> Json:
    if depth > MOST_DEPTH:
        raise AvroError("its schema is nested too deeply")
    if isinstance(schema, str):
        return schema if schema in PRIMITIVES else _named(schema, known, space)
    if isinstance(schema, list):
        return [_resolve(branch, known, space, depth + 1) for branch in schema]
    kind = schema["type"]
    if isinstance(kind, dict | list):
        inner = _resolve(kind, known, space, depth + 1)
        return (
            inner
            if isinstance(inner, list | str)
            else {**{key: value for key, value in schema.items() if key != "type"}, **inner}
        )
    if kind in NAMED:
        return _define(schema, known, space, depth)
    if kind == "array":
        return {**schema, "items": _resolve(schema["items"], known, space, depth + 1)}
    if kind == "map":
        return {**schema, "values": _resolve(schema["values"], known, space, depth + 1)}
    if kind not in PRIMITIVES:
        return _named(kind, known, space)
    return kind if set(schema) == {"type"} else schema


def _define(schema: Json, known: dict[str, Json], space: str, depth: int) -> Json:
    """A type that has a name; it is known from here on, and not inside of itself."""
    name = str(schema.get("name", ""))
    space = name.rpartition(".")[0] or str(schema.get("namespace", space) or "")
    define = dict(schema)
    if schema["type"] == "record":
        define["fields"] = [
            {**field, "type": _resolve(field["type"], known, space, depth + 1)} for field in schema["fields"]
        ]
    known[f"{space}.{name.rpartition('.')[2]}".lstrip(".")] = define
    return define


def _named(name: str, known: dict[str, Json], space: str) -> Json:
    for full in (name, f"{space}.{name}".lstrip(".")):
        if full in known:
            return known[full]
    raise AvroError(f"its schema names a type that it does not define: {name}")


def null_index(schema: Json) -> int:
    """Where a union has its null; `NO_NULL` where it has none, `NO_UNION` where the type is no union.

    >>> null_index(["string", "null"]), null_index(["string"]), null_index("string")
    (1, 99, -1)
    """
    if not isinstance(schema, list):
        return NO_UNION
    return schema.index("null") if "null" in schema else NO_NULL


def is_plain(schema: Json) -> bool:
    """Whether there is one type besides null: Iceberg has no other unions.

    >>> is_plain(["null", "string"]), is_plain(["int", "string"])
    (True, False)
    """
    return not isinstance(schema, list) or len([field for field in schema if field != "null"]) == 1


def branch(schema: Json) -> Json:
    """The schema without `null`."""
    if not isinstance(schema, list):
        return schema
    others = [field for field in schema if field != "null"]
    if len(others) != 1:
        raise AvroError(f"a union that Iceberg does not write: {schema}")
    return others[0]


def kind_of(schema: Json) -> str:
    """
    >>> kind_of(["null", {"type": "fixed", "size": 16, "logicalType": "uuid"}])
    'fixed'
    """
    plain = branch(schema)
    return str(plain["type"] if isinstance(plain, dict) else plain)


def is_map(schema: Json) -> bool:
    """Whether an array holds pairs of a number and a value, as Iceberg writes maps whose keys are field ids."""
    items = schema["items"]
    if not isinstance(items, dict) or items["type"] != "record" or len(items["fields"]) != 2:
        return False
    return schema.get("logicalType") == "map" or [field["name"] for field in items["fields"]] == ["key", "value"]
