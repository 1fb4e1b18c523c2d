"""Types of SQL as types of columns: what Trino's and Spark's Iceberg connectors make of them. What they would bend is
an error here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frazil.tables.types import Column, ListOf, MapOf, NotAType, Struct, Type

# sqlglot publishes no types for its nodes' arguments.
Node = Any

_PLAIN = {
    "BOOLEAN": "boolean", "INT": "int", "BIGINT": "long", "FLOAT": "float", "DOUBLE": "double", "DATE": "date",
    "TEXT": "string",
    "VARCHAR": "string", "UUID": "uuid", "VARBINARY": "binary", "BINARY": "binary",
}  # fmt: skip
_TIMES = {
    "TIMESTAMP": "timestamp",
    "TIMESTAMPNTZ": "timestamp",
    "TIMESTAMPTZ": "timestamptz",
    "TIMESTAMPLTZ": "timestamptz",
    "TIME": "time",
}
_SMALL = ("TINYINT", "SMALLINT")


def to_type(node: Node, dialect: str, to_column: Callable[[Node], Column]) -> Type:
    """The column type that an SQL type means in this dialect; NotAType says why there is none."""
    name, text = node.this.name, node.sql(dialect=dialect)
    if name == "ARRAY":
        return ListOf(to_type(_only_types(node, 1)[0], dialect, to_column))
    if name == "MAP":
        key, value = _only_types(node, 2)
        return MapOf(to_type(key, dialect, to_column), to_type(value, dialect, to_column))
    if name in ("STRUCT", "ROW"):
        return Struct(tuple(map(to_column, node.expressions)))
    sizes = [int(param.name) for param in node.expressions]
    if name == "DECIMAL":
        precision, scale = (*(sizes or [38 if dialect == "trino" else 10]), 0)[:2]
        return f"decimal({precision}, {scale})"
    if name in _TIMES:
        return _to_time(_TIMES[name], sizes, text)
    if name in _SMALL and dialect == "spark":
        return "int"  # as Spark's own Iceberg connector does
    if sizes:
        raise NotAType(
            f"Iceberg has no {text}: its texts and binaries have no length; write {_bare(name)}, and check "
            f"length(column)"
        )
    if name not in _PLAIN:
        raise NotAType(f"Iceberg has no type {text}")
    return _PLAIN[name]


def _to_time(kind: str, sizes: list[int], text: str) -> str:
    """Microseconds unless said otherwise; nanoseconds are types of their own."""
    if sizes in ([], [6]):
        return kind
    if sizes == [9] and kind != "time":
        return f"{kind}_ns"
    raise NotAType(f"Iceberg has no {text}: its times have 6 digits of a second, its timestamps 6 or 9")


def _only_types(node: Node, count: int) -> list[Node]:
    if len(node.expressions) != count:
        raise NotAType(f"{node.sql()} does not say what is inside")
    return list(node.expressions)


def _bare(name: str) -> str:
    return {"VARCHAR": "VARCHAR or STRING", "CHAR": "VARCHAR or STRING", "NCHAR": "VARCHAR"}.get(name, name)
