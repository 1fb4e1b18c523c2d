"""Whether a declaration makes sense by itself: what is wrong is named with its table and column before anything is
contacted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from frazil.errors import DeclarationError
from frazil.properties import unsafe_property
from frazil.protocol import RESERVED_PREFIX
from frazil.tables.terms import Term, parse_partition, parse_sort
from frazil.tables.types import Column, ListOf, MapOf, Struct, Type

if TYPE_CHECKING:
    from frazil.tables.fields import TableFields

Parsed = TypeVar("Parsed")
SINCE_V3 = ("timestamp_ns", "timestamptz_ns", "unknown", "geometry", "geography")
_DATES = {"date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"}


def check_table(table: TableFields) -> None:
    """Passes when the declaration contradicts neither itself nor the format."""
    columns = {path: column for path, column, _ in walk(table.columns)}
    if table.format_version not in (None, 1, 2, 3):
        raise DeclarationError(
            f"table '{table.name}': format_version is {table.format_version!r}, expected 1, 2 or 3", table=table.name
        )
    _check_terms(table)
    _check_key(table)
    _check_versions(table)
    _check_properties(table)
    for name in table.dropped:
        if name in columns:
            raise DeclarationError(
                f"table '{table.name}' declares column '{name}' and lists it in dropped",
                hint="remove one of the two",
                table=table.name,
                column=name,
            )


def walk(fields: tuple[Column, ...], prefix: str = "", single: bool = True) -> Iterator[tuple[str, Column, bool]]:
    """Every column and field with its full name, and whether a row has one value of it: no list or map is on the way.

    >>> from frazil.tables.types import normalise_column
    >>> [path for path, *_ in walk((normalise_column(Column("a", "list<struct<b: int>>")),))]
    ['a', 'a.element', 'a.element.b']
    """
    for field in fields:
        path = prefix + field.name
        yield path, field, single
        yield from _inside(path, field.type, single)


def _inside(path: str, kind: Type, single: bool) -> Iterator[tuple[str, Column, bool]]:
    if isinstance(kind, Struct):
        yield from walk(kind.fields, f"{path}.", single)
    elif isinstance(kind, ListOf):
        yield from walk((Column("element", kind.element, kind.required),), f"{path}.", single=False)
    elif isinstance(kind, MapOf):
        yield from walk((Column("key", kind.key, required=True),), f"{path}.", single=False)
        yield from walk((Column("value", kind.value, kind.required),), f"{path}.", single=False)


def can_transform(transform: str, kind: str) -> bool:
    """Whether the transform takes a column of this primitive type.

    >>> can_transform("day", "timestamptz"), can_transform("day", "string"), can_transform("bucket[4]", "double")
    (True, False, False)
    """
    name, base = transform.partition("[")[0], kind.partition("(")[0].partition("[")[0]
    if base in ("unknown", "geometry", "geography"):
        return name == "void"
    if name == "bucket":
        return base not in ("boolean", "float", "double")
    if name == "truncate":
        return base in ("int", "long", "decimal", "string", "binary")
    if name in ("year", "month", "day"):
        return base in _DATES
    return base in _DATES - {"date"} if name == "hour" else True


def _check_terms(table: TableFields) -> None:
    columns = {path: (column.type, single) for path, column, single in walk(table.columns)}
    partitions = [(text, _read(table, parse_partition, text)) for text in table.partition_by]
    for text, partition in partitions:
        _check_source(table, f"is partitioned by '{text}'", partition.term, columns)
    _check_times(table, [partition.term for _, partition in partitions])
    for text, partition in partitions:
        name = partition.name or partition.term.field_name()
        if name in columns and (partition.term.transform, partition.term.source) != ("identity", name):
            hint = f'give it a name of its own: "{partition.term} as ..."'
            raise DeclarationError(
                f"table '{table.name}': partition '{text}' would be named '{name}', as a column is",
                hint=hint,
                table=table.name,
            )
    names = [partition.name or partition.term.field_name() for _, partition in partitions]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DeclarationError(
            f"table '{table.name}' has two partition fields named '{twice[0]}'",
            hint='remove one, or name it: "bucket(8, id) as by_id"',
            table=table.name,
        )
    for text in table.sort_by:
        _check_source(table, f"is sorted by '{text}'", _read(table, parse_sort, text).term, columns)


def _check_times(table: TableFields, terms: list[Term]) -> None:
    """One of year, month, day and hour is enough for a column; Spark and Trino refuse a second one."""
    times = [term for term in terms if term.transform in ("year", "month", "day", "hour")]
    for term in times:
        others = [other for other in times if other.source == term.source and other != term]
        if others:
            raise DeclarationError(
                f"table '{table.name}' is partitioned by '{term}' and by '{others[0]}'",
                hint="keep the finer one: it serves both",
                table=table.name,
            )


def _read(table: TableFields, parse: Callable[[str], Parsed], text: str) -> Parsed:
    try:
        return parse(text)
    except DeclarationError as exc:
        raise DeclarationError(f"table '{table.name}': {exc.message}", hint=exc.hint, table=table.name) from exc


def _check_source(table: TableFields, does: str, term: Term, columns: dict[str, tuple[Type, bool]]) -> None:
    if term.source not in columns:
        has = ", ".join(path for path, (_, single) in columns.items() if single)
        raise DeclarationError(
            f"table '{table.name}' {does}, but has no column '{term.source}'; it has {has}",
            table=table.name,
            column=term.source,
        )
    kind, single = columns[term.source]
    if not single or not isinstance(kind, str):
        why = "is inside a list or a map" if not single else f"is a {str(kind).partition('<')[0]}"
        raise DeclarationError(
            f"table '{table.name}' {does}, but '{term.source}' {why}",
            hint="take a column with one plain value per row",
            table=table.name,
        )
    if not can_transform(term.transform, kind):
        raise DeclarationError(
            f"table '{table.name}' {does}, but '{term.source}' is {kind}, which {term.transform} does not take",
            table=table.name,
        )


def _check_key(table: TableFields) -> None:
    columns = {path: column for path, column, single in walk(table.columns) if single}
    for name in table.key:
        column = columns.get(name)
        if column is None:
            raise DeclarationError(
                f"table '{table.name}': key column '{name}' is not declared",
                hint=f"the columns are {', '.join(columns)}",
                table=table.name,
                column=name,
            )
        parents = [columns[".".join(name.split(".")[:depth])] for depth in range(1, name.count(".") + 1)]
        if not all(part.required for part in (*parents, column)):
            raise DeclarationError(
                f"table '{table.name}': key column '{name}' may be NULL, and NULL tells no rows apart",
                hint="declare it required=True",
                table=table.name,
                column=name,
            )
        if not isinstance(column.type, str) or column.type in ("float", "double"):
            raise DeclarationError(
                f"table '{table.name}': key column '{name}' is {column.type}; Iceberg allows no float or nested type",
                table=table.name,
                column=name,
            )


def _check_versions(table: TableFields) -> None:
    """Types and defaults that only format version 3 has; an unset version is looked up on the live table later."""
    version = table.format_version
    for path, column, _ in walk(table.columns):
        base = column.type.partition("(")[0] if isinstance(column.type, str) else ""
        what = f"type {column.type}" if base in SINCE_V3 else "a default" if column.default is not None else None
        if what and version != 3:
            raise DeclarationError(
                f"column '{path}' of table '{table.name}' has {what}, which needs format version 3; got "
                f"{version or 'none given'}",
                hint="declare format_version=3; Trino, Daft and the sinks do not handle all of version 3 yet",
                column=path,
                table=table.name,
                got=version or "none given",
            )
        if column.default is not None and not isinstance(column.type, str):
            raise DeclarationError(
                f"column '{path}' of table '{table.name}' has a default, which only plain types take",
                column=path,
                table=table.name,
            )


def _check_properties(table: TableFields) -> None:
    for key, value in table.properties.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise DeclarationError(
                f"table '{table.name}': property '{key}' is {value!r}, expected text",
                hint=f'write "{value}"',
                table=table.name,
                option=key,
            )
        if key.startswith(RESERVED_PREFIX):
            raise DeclarationError(
                f"table '{table.name}': property '{key}' is Frazil's own",
                hint="remove it from properties",
                table=table.name,
                option=key,
            )
        if unsafe_property(key):
            raise DeclarationError(
                f"table '{table.name}': property '{key}' configures clients, not the table; the catalog refuses it",
                hint="set it where the client is configured (catalog.properties, spark.conf)",
                table=table.name,
                option=key,
            )
        if key == "format-version":
            raise DeclarationError(
                f"table '{table.name}': '{key}' is no property of the table",
                hint=f"write format_version={value}",
                table=table.name,
            )
