"""The live rows of a table that PyIceberg has loaded: of all of it, of each file, of some files; and which files differ
between two snapshots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.scan.planning import FileTask, Planner, ScanRequest, Source, TableState, default_workers, read_ahead
from frazil.scan.reading.datafile import FileReader
from frazil.scan.reading.read_plan import ReadPlan
from frazil.scan.reading.rows import RowScan, as_filter

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table


def scan_rows(
    table: Table,
    columns: Sequence[str] | None = None,
    *,
    filter: str | BooleanExpression | None = None,
    snapshot_id: int | None = None,
) -> RowScan:
    """The rows of a table as it was loaded, or of a snapshot, without those that any kind of delete names. PyIceberg's
    own scan knows no equality deletes.
    """
    name = ".".join(table.name())
    request = ScanRequest(as_filter(filter, table=name), snapshot_id=snapshot_id)
    chosen = None if columns is None else tuple(columns)
    return RowScan(TableState.of(name, table.metadata), Source.of(table.io), request, chosen)


def read_each_file(table: Table) -> Iterator[tuple[str, pa.Table]]:
    """Each data file of a table as it was loaded, in the order of their names, with its rows that are not deleted."""
    head, source = table.current_snapshot(), Source.of(table.io)
    tasks = plan_snapshot(table, head.snapshot_id, source) if head else []
    reader = _reader(table, table.schema(), source)
    for task in sorted(tasks, key=lambda task: task.path):
        yield task.path, pa.Table.from_batches(reader.read(task), schema=reader.plan.arrow)


def plan_snapshot(table: Table, snapshot_id: int, source: Source | None = None) -> list[FileTask]:
    """The data files of a snapshot, each with the delete files that concern it."""
    state = TableState.of(".".join(table.name()), table.metadata)
    cache = (source or Source.of(table.io)).cache
    return list(Planner(state, cache, ScanRequest(snapshot_id=snapshot_id)).plan().tasks())


def differing_files(table: Table, before_id: int, after_id: int) -> tuple[list[FileTask], list[FileTask]]:
    """The files of each snapshot whose rows the other does not have in the same way: another file, or other deletes for
    it.
    """
    source = Source.of(table.io)
    plans = [
        {file_identity(task): task for task in plan_snapshot(table, number, source)} for number in (before_id, after_id)
    ]
    shared = plans[0].keys() & plans[1].keys()
    old, new = ([task for key, task in plan.items() if key not in shared] for plan in plans)
    return old, new


def file_identity(task: FileTask) -> tuple[str, frozenset[tuple[str, int | None]]]:
    """A file and its deletes: two tasks with the same have the same rows. Several deletion vectors may lie in one file:
    where they lie in it tells them apart.
    """
    return task.path, frozenset((response.path, response.fact("content_offset")) for response in task.deletes)


def read_tasks(table: Table, tasks: Sequence[FileTask], schema: Schema) -> pa.RecordBatchReader:
    """The rows of some files in the shape of a schema, whatever the schema was when they were written."""
    reader = _reader(table, schema, Source.of(table.io))
    return pa.RecordBatchReader.from_batches(
        reader.plan.arrow, read_ahead(tasks, reader.read, workers=default_workers(), ordered=True)
    )


def _reader(table: Table, schema: Schema, source: Source) -> FileReader:
    state = TableState.of(".".join(table.name()), table.metadata)
    planner = Planner(state, source.cache, ScanRequest(schema_id=schema.schema_id))
    return FileReader(ReadPlan.of(planner, source.open, schema.fields))
