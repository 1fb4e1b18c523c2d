"""SQL queries in another dialect. Pure: Arrow in, Arrow out; a query that cannot be read is a row with its error, never
a crash.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError, UnsupportedError

from frazil.write.contract.sql_limits import why_unreadable

SCHEMA = pa.schema(
    [
        ("query_id", pa.string()),
        ("sql", pa.string()),
        ("transpiled", pa.string()),
        ("error", pa.string()),
        pa.field("source_file", pa.string(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True)
class Dialects:
    """From which dialect of SQL to which, by sqlglot's names."""

    read: str = "snowflake"
    write: str = "spark"

    def __post_init__(self) -> None:
        for name in (self.read, self.write):
            sqlglot.Dialect.get_or_raise(name)


def quiet() -> None:
    """Silences the parser's warnings: what it would warn of is in the rows."""
    logging.getLogger("sqlglot").setLevel(logging.ERROR)


def transpile_rows(queries: pa.RecordBatch, dialects: Dialects, *, file: str, first: int) -> pa.RecordBatch:
    """A row for every query, in their order; `first` is the place of the first one in its file."""
    texts = list(_texts(queries["sql"]))
    results = [transpile(text, dialects) for text in texts]
    count = len(texts)
    columns = [
        pa.array(_texts(queries["query_id"]), pa.string()),
        pa.array(texts, pa.string()),
        pa.array([done for done, _ in results], pa.string()),
        pa.array([error for _, error in results], pa.string()),
        pa.array([file] * count, pa.string()),
        pa.array(range(first, first + count), pa.int64()),
    ]
    return pa.record_batch(columns, schema=SCHEMA)


def transpile(sql: str | None, dialects: Dialects) -> tuple[str | None, str | None]:
    """The query in the target dialect, and what is wrong. Both, if the target lacks something that the query uses.

    >>> transpile("SELECT IFF(a, 1, 2) FROM t", Dialects("snowflake", "spark"))
    ('SELECT IF(a, 1, 2) FROM t', None)
    >>> transpile("SELECT (1", Dialects())
    (None, 'Expecting ) at line 1, column 9')
    """
    if sql is None:
        return None, "no query"
    if reason := why_unreadable(sql):
        return None, reason
    try:
        return _convert(sql, dialects)
    except ParseError as exc:
        return None, _parse_error(exc)
    except SqlglotError as exc:
        return None, _one_line(exc)
    except RecursionError:
        return None, "nested too deeply"
    except Exception as exc:  # a fault of the parser is this query's, not the stream's
        return None, f"{type(exc).__name__}: {_one_line(exc)}"


def _convert(sql: str, dialects: Dialects) -> tuple[str | None, str | None]:
    trees = _statements(sql, dialects)
    if not trees:
        return None, "no query"
    # What sqlglot does not know it passes on as it was; the row must say so.
    lost = "not understood, left as it was" if any(isinstance(tree, exp.Command) for tree in trees) else None
    try:
        return _generate(trees, dialects, ErrorLevel.RAISE), lost
    except UnsupportedError as exc:  # the trees may have been changed on the way: read them again
        return _generate(
            _statements(sql, dialects), dialects, ErrorLevel.IGNORE
        ) or None, f"not in {dialects.write}: {_one_line(exc)}"


def _statements(sql: str, dialects: Dialects) -> list[exp.Expression]:
    return [
        tree
        for tree in sqlglot.parse(sql, read=dialects.read)
        if tree is not None and not isinstance(tree, exp.Semicolon)
    ]


def _generate(trees: list[exp.Expression], dialects: Dialects, level: ErrorLevel) -> str:
    write = sqlglot.Dialect.get_or_raise(dialects.write)
    return ";\n".join(write.generate(tree, copy=False, unsupported_level=level) for tree in trees)


def _parse_error(error: ParseError) -> str:
    """The parser's words without the colours of a terminal."""
    first = error.errors[0]
    # After "but got" it prints one of its own objects.
    return f"{first['description'].partition(' but got <')[0]} at line {first['line']}, column {first['col']}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]


def _texts(column: pa.Array) -> Iterator[str | None]:
    r"""The values as text, whatever kind of column it is; bytes that are no UTF-8 are shown as \xNN."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
        column = column.cast(pa.large_binary())
    else:
        column = column.cast(pa.string() if pa.types.is_integer(column.type) else pa.binary()).cast(pa.binary())
    for value in column.to_pylist():
        yield None if value is None else value.decode(errors="backslashreplace")
