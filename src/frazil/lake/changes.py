"""What became of a table's rows between two points: inserts and deletes, and by a key updates.

Only files that differ are read, with their deletes. DuckDB compares them, on disk where memory is short.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.schema import Schema

from frazil.errors import ScanError
from frazil.scan.engines import import_duckdb, without_extensions
from frazil.scan.planning import Named, find_point, schema_at, select_fields
from frazil.scan.reading import arrow_schema, differing_files, read_tasks

if TYPE_CHECKING:
    import duckdb
    from pyiceberg.table import Table

    from frazil.lake.access import LakeAccess
    from frazil.scan.planning import FileTask

CHANGE = "_change_type"
MEMORY_LIMIT = "512MB"
BATCH_ROWS = 65_536


def read_changes(
    lake: LakeAccess,
    name: str,
    since: Named,
    to: Named,
    *,
    key: Sequence[str] = (),
    columns: Sequence[str] | None = None,
) -> pa.RecordBatchReader:
    """The rows that changed, with `INSERT`, `DELETE`, `UPDATE_BEFORE` or `UPDATE_AFTER` in `_change_type`; without a
    key a row that changed is a delete and an insert.
    """
    table = lake.load(name)
    before, after = (find_point(table.metadata, point, table=name) for point in (since, to))
    schema = schema_at(table.metadata, after)
    wanted = None if columns is None else list(dict.fromkeys([*key, *columns]))
    fields = select_fields(schema, wanted, table=name)
    select_fields(schema, key, table=name)
    chosen = Schema(*fields, schema_id=schema.schema_id)
    files = differing_files(table, before.snapshot.snapshot_id, after.snapshot.snapshot_id)
    target = pa.schema([pa.field(CHANGE, pa.string(), nullable=False), *arrow_schema(chosen)])
    return pa.RecordBatchReader.from_batches(target, _compare(table, files, chosen, key, target))


def _compare(
    table: Table, files: tuple[list[FileTask], list[FileTask]], schema: Schema, key: Sequence[str], target: pa.Schema
) -> Iterator[pa.RecordBatch]:
    names = [field.name for field in schema.fields]
    with tempfile.TemporaryDirectory(prefix="frazil-changes-") as folder:
        con = import_duckdb().connect(
            config={"memory_limit": MEMORY_LIMIT, "temp_directory": folder, "preserve_insertion_order": False}
        )
        try:
            for side, tasks in zip(("before_rows", "after_rows"), files, strict=True):
                _fill(con, side, read_tasks(table, tasks, schema))
                _check_unique(con, side, key, table=".".join(table.name()))
            for batch in con.execute(_by_key(names, key) if key else _by_row()).to_arrow_reader(BATCH_ROWS):
                yield _restore(batch, target)
        finally:
            con.close()


def _fill(con: duckdb.DuckDBPyConnection, side: str, rows: pa.RecordBatchReader) -> None:
    plain = without_extensions(rows.schema.empty_table()).schema
    batches = (piece for batch in rows for piece in without_extensions(pa.Table.from_batches([batch])).to_batches())
    con.register("stream", pa.RecordBatchReader.from_batches(plain, batches))
    con.execute(f"CREATE TEMP TABLE {side} AS SELECT * FROM stream")  # noqa: S608  # our own name
    con.unregister("stream")


def _check_unique(con: duckdb.DuckDBPyConnection, side: str, key: Sequence[str], *, table: str) -> None:
    if not key:
        return
    columns = ", ".join(map(_quote, key))
    row = con.execute(f"SELECT {columns}, count(*) FROM {side} GROUP BY ALL HAVING count(*) > 1 LIMIT 1").fetchone()  # noqa: S608
    if row:
        shown = ", ".join(f"{name}={value!r}" for name, value in zip(key, row, strict=False))
        raise ScanError(
            f"{table}: {shown} is the key of {row[-1]} rows",
            hint="name the columns that tell rows apart",
            table=table,
            problem="duplicate-key",
        )


def _by_row() -> str:
    """Rows that one side has more often than the other."""
    return """SELECT 'DELETE', * FROM (SELECT * FROM before_rows EXCEPT ALL SELECT * FROM after_rows)
        UNION ALL SELECT 'INSERT', * FROM (SELECT * FROM after_rows EXCEPT ALL SELECT * FROM before_rows)"""


def _by_key(names: Sequence[str], key: Sequence[str]) -> str:
    same = " AND ".join(f"b.row.{_quote(name)} IS NOT DISTINCT FROM a.row.{_quote(name)}" for name in key)
    rest = [name for name in names if name not in key]
    differs = " OR ".join(f"b.row.{_quote(name)} IS DISTINCT FROM a.row.{_quote(name)}" for name in rest) or "false"
    old, new = (", ".join(f"{side}.{_quote(name)}" for name in names) for side in ("before", "after"))
    # Each row as one value: no column of the user's can be taken for one of ours.
    return f"""WITH changed AS MATERIALIZED (SELECT b.row AS before, a.row AS after
            FROM (SELECT t AS row FROM before_rows t) b FULL JOIN (SELECT t AS row FROM after_rows t) a ON {same}
            WHERE b.row IS NULL OR a.row IS NULL OR {differs})
        SELECT CASE WHEN after IS NULL THEN 'DELETE' ELSE 'UPDATE_BEFORE' END, {old}
            FROM changed WHERE before IS NOT NULL
        UNION ALL SELECT CASE WHEN before IS NULL THEN 'INSERT' ELSE 'UPDATE_AFTER' END, {new}
            FROM changed WHERE after IS NOT NULL"""  # noqa: S608


def _restore(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """The batch in the table's own types, which DuckDB knows only in part."""
    arrays = []
    for column, field in zip(batch.columns, target, strict=True):
        if isinstance(field.type, pa.BaseExtensionType):
            arrays.append(pa.ExtensionArray.from_storage(field.type, column.cast(field.type.storage_type)))
        else:
            arrays.append(column.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
