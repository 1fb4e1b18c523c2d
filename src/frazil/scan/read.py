"""Rows of a table as an Arrow stream, a batch at a time, with deletes applied and columns found by field id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files, schema_to_pyarrow
from pyiceberg.schema import Schema

from frazil.errors import HistoryError

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, Table


def plan_snapshot(table: Table, snapshot_id: int) -> list[FileScanTask]:
    """The data files of a snapshot, each with the delete files that concern it."""
    try:
        return list(table.scan(snapshot_id=snapshot_id).plan_files())
    except (ValueError, NotImplementedError) as exc:
        if "equality deletes" not in str(exc):
            raise
        raise HistoryError(
            f"{'.'.join(table.name())}: snapshot {snapshot_id} has equality deletes, which are not read here",
            hint="read it with DuckDB (frazil query), Spark or Trino, or compact the table first",
        ) from exc


def read_tasks(table: Table, tasks: Sequence[FileScanTask], schema: Schema) -> pa.RecordBatchReader:
    """The rows of some files in the shape of a schema, whatever the schema was when they were written."""
    scan = ArrowScan(table.metadata, table.io, schema, AlwaysTrue())
    target = schema_to_pyarrow(schema, include_field_ids=False)

    def batches() -> Iterator[pa.RecordBatch]:
        for task in tasks:
            # PyIceberg's own stream reads whole files, and all of them at once in its threads: one below it gives batch after batch.
            deletes = _read_all_delete_files(table.io, [task])
            for batch in scan._record_batches_from_scan_tasks_and_deletes([task], deletes):
                yield from pa.Table.from_batches([batch]).cast(target).to_batches()

    return pa.RecordBatchReader.from_batches(target, batches())


def read_snapshot(table: Table, snapshot_id: int, schema: Schema) -> pa.RecordBatchReader:
    """All rows of a snapshot, a batch at a time."""
    return read_tasks(table, plan_snapshot(table, snapshot_id), schema)
