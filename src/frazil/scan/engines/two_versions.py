"""Two versions of a table's rows in DuckDB, compared by a key; on disk where memory is short."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from frazil.scan.engines.duck import connect_closed

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

BEFORE, AFTER = "before_rows", "after_rows"  # the names of the two tables
MEMORY_LIMIT = "512MB"


@contextmanager
def row_pairs(before: pa.RecordBatchReader, after: pa.RecordBatchReader) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB with the tables `BEFORE` and `AFTER`; what does not fit into its memory is in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="frazil-rows-") as folder:
        opened = connect_closed(memory_limit=MEMORY_LIMIT, temp_directory=folder, preserve_insertion_order=False)
        with closing(opened) as con:
            for name, rows in ((BEFORE, before), (AFTER, after)):
                con.register("stream", rows)
                con.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM stream")  # noqa: S608  # our own name
                con.unregister("stream")
            yield con


def repeated_key(con: duckdb.DuckDBPyConnection, name: str, key: Sequence[str]) -> tuple[str, int] | None:
    """A key that several rows of a table have, as text, and how many these are."""
    columns = ", ".join(map(quoted, key))
    query = f"SELECT {columns}, count(*) FROM {name} GROUP BY ALL HAVING count(*) > 1 LIMIT 1"  # noqa: S608
    row = con.execute(query).fetchone()
    if row is None:
        return None
    *values, count = row
    return ", ".join(f"{name}={value!r}" for name, value in zip(key, values, strict=True)), count


def changed_rows(names: Sequence[str], key: Sequence[str]) -> str:
    """The SQL of all rows that differ, as the columns `before` and `after`; NULL where a table has no row of the key.

    Each row is one value: no column of the user's can be taken for one of ours.
    """
    same = " AND ".join(f"b.row.{quoted(name)} IS NOT DISTINCT FROM a.row.{quoted(name)}" for name in key)
    rest = [name for name in names if name not in key]
    differs = " OR ".join(f"b.row.{quoted(name)} IS DISTINCT FROM a.row.{quoted(name)}" for name in rest) or "false"
    return f"""SELECT b.row AS before, a.row AS after
        FROM (SELECT t AS row FROM {BEFORE} t) b FULL JOIN (SELECT t AS row FROM {AFTER} t) a ON {same}
        WHERE b.row IS NULL OR a.row IS NULL OR {differs}"""  # noqa: S608  # every name is quoted


def quoted(name: str) -> str:
    """A column's name in SQL.

    >>> quoted('odd "name" here')
    '"odd ""name"" here"'
    """
    return '"' + name.replace('"', '""') + '"'
