"""Python code that declares live tables, such that a plan from it is empty."""

from __future__ import annotations

import keyword
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from frazil.protocol import PROPERTY_NAME_MAPPING, RESERVED_PREFIX
from frazil.tables.iceberg import column_of, partition_term_of, sort_term_of
from frazil.tables.types import Column, ListOf, MapOf, Struct, Type

if TYPE_CHECKING:
    from pyiceberg.table import Table as LiveTable

WIDTH = 120
INDENT = "    "


def write_module(tables: Sequence[LiveTable]) -> str:
    """A `lakehouse.py` with these tables."""
    taken: set[str] = {"Table", "column", "struct", "list_of", "map_of"}
    declarations = [f"{_variable(table.name(), taken)} = {write_table(table)}\n" for table in tables]
    body = "\n".join(declarations)
    used = [name for name in ("Table", "column", "list_of", "map_of", "struct") if f"{name}(" in body]
    return f'"""The tables of this lakehouse."""\n\nfrom frazil import {", ".join(used or ["Table"])}\n\n{body}'


def write_table(table: LiveTable) -> str:
    """The declaration of one live table."""
    schema = table.schema()
    arguments = [_quoted(".".join(table.name())), *(_column(column_of(field), 1) for field in schema.fields)]
    partitions = [str(partition_term_of(f, schema)) for f in table.spec().fields if str(f.transform) != "void"]
    orders = [str(sort_term_of(field, schema)) for field in table.sort_order().fields]
    key = sorted(schema.identifier_field_names())
    arguments += [
        f"{name}={_texts(texts)}"
        for name, texts in (("partition_by", partitions), ("sort_by", orders), ("key", key))
        if texts
    ]
    if properties := {
        k: v for k, v in table.properties.items() if not k.startswith(RESERVED_PREFIX) and k != PROPERTY_NAME_MAPPING
    }:
        arguments.append(f"properties={_mapping(properties)}")
    arguments.append(f"format_version={table.metadata.format_version}")
    return _call("Table", arguments, 0, broken=True)


def _column(column: Column, depth: int) -> str:
    arguments = [_quoted(column.name), _type(column.type, depth + 1)]
    if column.required:
        arguments.append("required=True")
    if column.doc:
        arguments.append(f"doc={_quoted(column.doc)}")
    if column.default is not None:
        arguments.append(
            f"default={_quoted(column.default) if isinstance(column.default, str) else repr(column.default)}"
        )
    return _call("column", arguments, depth)


def _type(kind: Type, depth: int) -> str:
    """Text where that says it all and fits the line; else calls, which have room for docs and defaults."""
    text = _quoted(str(kind))
    if isinstance(kind, str) or (not _needs_calls(kind) and len(text) <= WIDTH // 2):
        return text
    if isinstance(kind, Struct):
        return _call("struct", [_column(field, depth + 1) for field in kind.fields], depth)
    required = ["required=True"] if kind.required else []
    if isinstance(kind, ListOf):
        return _call("list_of", [_type(kind.element, depth + 1), *required], depth)
    return _call("map_of", [_type(kind.key, depth + 1), _type(kind.value, depth + 1), *required], depth)


def _needs_calls(kind: Type) -> bool:
    if isinstance(kind, Struct):
        return any(f.doc or f.default is not None or _needs_calls(f.type) for f in kind.fields)
    if isinstance(kind, ListOf):
        return _needs_calls(kind.element)
    return _needs_calls(kind.key) or _needs_calls(kind.value) if isinstance(kind, MapOf) else False


def _call(name: str, arguments: Sequence[str], depth: int, *, broken: bool = False) -> str:
    """A call on one line, or with an argument a line where it is too long."""
    flat = f"{name}({', '.join(arguments)})"
    if not broken and "\n" not in flat and len(flat) + depth * len(INDENT) <= WIDTH:
        return flat
    inner = "".join(f"{INDENT * (depth + 1)}{argument},\n" for argument in arguments)
    return f"{name}(\n{inner}{INDENT * depth})"


def _texts(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"


def _mapping(values: dict[str, str]) -> str:
    lines = "".join(f"{INDENT * 2}{_quoted(key)}: {_quoted(value)},\n" for key, value in sorted(values.items()))
    return f"{{\n{lines}{INDENT}}}"


def _quoted(text: str) -> str:
    """A Python literal in double quotes, as formatters like it.

    >>> print(_quoted('it is'), _quoted('say "x"'))
    "it is" 'say "x"'
    """
    plain = repr(text)
    return f'"{plain[1:-1]}"' if plain.startswith("'") and '"' not in plain and "\\'" not in plain else plain


def _variable(identifier: Sequence[str], taken: set[str]) -> str:
    """A variable for a table: its own name, with its namespace where two tables share it."""
    for parts in (identifier[-1:], identifier):
        # as Python reads names: two that become one need different names
        plain = unicodedata.normalize("NFKC", "_".join(parts))
        name = "".join(sign if f"_{sign}".isidentifier() else "_" for sign in plain)
        name = name if name.isidentifier() and not keyword.iskeyword(name) else f"t_{name}"
        if name not in taken and not name.startswith("__"):
            break
    while name in taken:
        name += "_"
    taken.add(name)
    return name
