"""Rows that differ between two points, by key. Only files that differ are read; DuckDB compares them, on disk where
memory is short.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frazil.errors import HistoryError
from frazil.scan.engines import AFTER, BEFORE, changed_rows, quoted, repeated_key, row_pairs
from frazil.scan.planning import Point, schema_at

if TYPE_CHECKING:
    import duckdb
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

Row = dict[str, Any]


@dataclass(frozen=True)
class RowChange:
    """A row that was added (`+`), removed (`-`) or changed (`~`); of a changed one, `columns` are those with another
    value.
    """

    sign: str
    key: Row
    before: Row | None
    after: Row | None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class RowDiff:
    """How many rows differ, and the first of them in the order of their key."""

    added: int
    removed: int
    changed: int
    rows: tuple[RowChange, ...]
    files_read: int


def diff_rows(table: Table, before: Point, after: Point, *, key: Sequence[str], limit: int | None = 20) -> RowDiff:
    """The rows that differ; `limit` bounds those that are listed, not those that are counted."""
    from frazil.scan.reading import differing_files, read_tasks

    schema = _later_schema(table, before, after)
    name = ".".join(table.name())
    check_key(schema, key, table=name)
    old, new = differing_files(table, before.snapshot.snapshot_id, after.snapshot.snapshot_id)
    with row_pairs(read_tasks(table, old, schema), read_tasks(table, new, schema)) as con:
        for side, point in ((BEFORE, before), (AFTER, after)):
            _check_unique(con, side, key, where=f"{name} at {point}")
        counts = _compare(con, schema, key)
        return RowDiff(*counts, rows=tuple(_list_rows(con, schema, key, limit)), files_read=len(old) + len(new))


def check_key(schema: Schema, key: Sequence[str], *, table: str) -> None:
    """Raises when a key column is not there or cannot be compared."""
    if not key:
        raise HistoryError(f"{table}: a key needs at least one column", hint="--key order_id", table=table)
    known = [field.name for field in schema.fields]
    for column in key:
        if column not in known:
            near = difflib.get_close_matches(column, known, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"it has: {', '.join(known)}"
            raise HistoryError(f"{table} has no column '{column}'", hint=hint, table=table, column=column)


def _later_schema(table: Table, before: Point, after: Point) -> Schema:
    """The schema of the later point: types only ever widen, so that it can hold the rows of both."""
    later = max((before, after), key=lambda point: point.snapshot.sequence_number or point.snapshot.timestamp_ms)
    return schema_at(table.metadata, later)


# --- DuckDB ----------------------------------------------------------------------------------------------------------


def _check_unique(con: duckdb.DuckDBPyConnection, side: str, key: Sequence[str], *, where: str) -> None:
    if repeated := repeated_key(con, side, key):
        raise HistoryError(
            f"{where}: {repeated[0]} is the key of {repeated[1]} rows",
            hint="name the columns that tell rows apart: --key a,b",
            problem="duplicate-key",
        )


def _compare(con: duckdb.DuckDBPyConnection, schema: Schema, key: Sequence[str]) -> tuple[int, int, int]:
    """Makes the table of differences; gives how many rows were added, removed and changed."""
    names = [field.name for field in schema.fields]
    con.execute(
        f"""CREATE TEMP TABLE differences AS
        SELECT CASE WHEN before IS NULL THEN '+' WHEN after IS NULL THEN '-' ELSE '~' END AS sign, before, after
        FROM ({changed_rows(names, key)})"""  # noqa: S608  # every name is quoted
    )
    counts = dict(con.execute("SELECT sign, count(*) FROM differences GROUP BY sign").fetchall())
    return counts.get("+", 0), counts.get("-", 0), counts.get("~", 0)


def _list_rows(
    con: duckdb.DuckDBPyConnection, schema: Schema, key: Sequence[str], limit: int | None
) -> Iterator[RowChange]:
    order = ", ".join(f"coalesce(after.{quoted(name)}, before.{quoted(name)})" for name in key)
    names = [field.name for field in schema.fields]
    limited = "" if limit is None else f"LIMIT {int(limit)}"
    row = con.execute(f"SELECT sign, before, after FROM differences ORDER BY {order} {limited}")  # noqa: S608
    for sign, old, new in row.fetchall():
        before = {name: old[name] for name in names} if sign != "+" else None
        after = {name: new[name] for name in names} if sign != "-" else None
        some = after or before or {}
        changed = tuple(name for name in names if before and after and _differ(before[name], after[name]))
        yield RowChange(sign, {name: some[name] for name in key}, before, after, changed)


def _differ(object_: object, other: object) -> bool:
    return object_ != other and not (
        object_ != object_ and other != other
    )  # NaN is itself here, as in the comparison above
