"""What became of a table's rows between two points: inserts and deletes, and by a key updates.

Only files that differ are read, with their deletes. DuckDB compares them, on disk where memory is short.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.schema import Schema

from frazil.errors import ScanError
from frazil.scan.engines import AFTER, BEFORE, changed_rows, quoted, repeated_key, row_pairs, without_extensions
from frazil.scan.planning import Named, find_point, schema_at, select_fields
from frazil.scan.reading import arrow_schema, differing_files, read_tasks

if TYPE_CHECKING:
    import duckdb
    from pyiceberg.table import Table

    from frazil.lake.access import LakeAccess
    from frazil.scan.planning import FileTask

CHANGE = "_change_type"
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
    before, after = (_without_extensions(read_tasks(table, tasks, schema)) for tasks in files)
    with row_pairs(before, after) as con:
        for side in (BEFORE, AFTER) if key else ():
            _check_unique(con, side, key, table=".".join(table.name()))
        for batch in con.execute(_by_key(names, key) if key else _by_row()).to_arrow_reader(BATCH_ROWS):
            yield _restore(batch, target)


def _without_extensions(rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
    plain = without_extensions(rows.schema.empty_table()).schema
    batches = (piece for batch in rows for piece in without_extensions(pa.Table.from_batches([batch])).to_batches())
    return pa.RecordBatchReader.from_batches(plain, batches)


def _check_unique(con: duckdb.DuckDBPyConnection, side: str, key: Sequence[str], *, table: str) -> None:
    if repeated := repeated_key(con, side, key):
        raise ScanError(
            f"{table}: {repeated[0]} is the key of {repeated[1]} rows",
            hint="name the columns that tell rows apart",
            table=table,
            problem="duplicate-key",
        )


def _by_row() -> str:
    """Rows that one side has more often than the other."""
    return f"""SELECT 'DELETE', * FROM (SELECT * FROM {BEFORE} EXCEPT ALL SELECT * FROM {AFTER})
        UNION ALL SELECT 'INSERT', * FROM (SELECT * FROM {AFTER} EXCEPT ALL SELECT * FROM {BEFORE})"""  # noqa: S608


def _by_key(names: Sequence[str], key: Sequence[str]) -> str:
    old, new = (", ".join(f"{side}.{quoted(name)}" for name in names) for side in ("before", "after"))
    return f"""WITH changed AS MATERIALIZED ({changed_rows(names, key)})
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
