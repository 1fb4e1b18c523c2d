"""The rows of data files that are not deleted, with a count of those that are: the same pieces as a scan's, without a
filter.

Of format 3, every row comes with its id and the sequence number of its last change, whether its file has them or they
are inherited.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue

from frazil.errors import FrazilError, ScanError, Unavailable, UpkeepError
from frazil.scan.manifests import Manifest
from frazil.scan.planning import DeleteFile, Files, FileTask, TableState
from frazil.scan.reading import (
    BatchReader,
    Extras,
    Misfit,
    Positions,
    Removals,
    arrow_schema,
    file_columns,
    find_fields,
    identity_values,
    kept_rows,
)
from frazil.storage_errors import classify, hint_for
from frazil.upkeep.groups import AppliedDelete, LiveFile
from frazil.write.files import TableLayout

BATCH_ROWS = 131_072


class LiveRows:
    """Reads data files of one table, and counts in `deleted` the rows that it leaves out."""

    def __init__(self, state: TableState, layout: TableLayout) -> None:
        self._state, self._layout, self._schema = state, layout, state.schema()
        self._open = Files(layout.io)
        self._removals = Removals(state, self._schema, self._open)
        self._arrow = arrow_schema(layout.schema)
        self.deleted = 0

    def read(self, files: Sequence[LiveFile]) -> Iterator[pa.RecordBatch]:
        """The rows of the files, one after the other, a batch at a time."""
        for file in files:
            with _reading(self._layout.name, file.path):
                for batch in self._read(file):
                    yield from pa.Table.from_batches([batch]).cast(self._layout.arrow).to_batches()

    def _read(self, file: LiveFile) -> Iterator[pa.RecordBatch]:
        task = _task(file)
        positions, sets = self._removals.positions(task), self._removals.equality_sets(task)
        self.deleted += int(np.count_nonzero((positions >= 0) & (positions < file.rows)))
        partition = identity_values(self._state.specs[file.spec_id], file.partition, self._schema)
        with self._open(file.path) as source:
            parquet = pq.ParquetFile(source, pre_buffer=True, coerce_int96_timestamp_unit="us")
            columns = file_columns(parquet.schema_arrow, self._state.name_mapping)
            ids = sorted(set().union(*(deletes.ids for deletes in sets)))
            test = BatchReader(find_fields(self._state, self._schema, ids), columns, partition)
            extras = Extras(self._layout.schema.fields, task, columns)
            give = BatchReader(self._layout.schema.fields, extras.columns, partition)
            start, names = 0, sorted((test.names | give.names) - extras.names)
            for number in range(parquet.num_row_groups):  # one is in memory at a time
                for batch in parquet.iter_batches(BATCH_ROWS, row_groups=[number], columns=names):
                    keep = self._keep(
                        start, batch.num_rows, positions, [deletes.deleted(test.bind(batch)) for deletes in sets]
                    )
                    output = give.take(extras.add(batch, start), True if keep is None else keep, self._arrow)
                    if output is not None:
                        yield output
                    start += batch.num_rows

    def _keep(
        self, start: int, count: int, positions: Positions, equal: Sequence[pa.BooleanArray]
    ) -> pa.BooleanArray | None:
        """A mask of the rows that are not deleted; None for all of them."""
        alive = kept_rows(positions, start, count)
        for deleted in equal:
            fresh = deleted if alive is None else pc.and_(deleted, alive)
            self.deleted += fresh.true_count
            alive = pc.invert(deleted) if alive is None else pc.and_not(alive, deleted)
        return alive


@contextmanager
def _reading(table: str, path: str) -> Iterator[None]:
    """Turns what a store or a damaged file says into an error that names the file; the group is left as it is."""
    try:
        yield
    except (OSError, pa.ArrowException, ScanError, Unavailable, Misfit) as exc:
        reason, hint = (
            (exc.message, exc.hint) if isinstance(exc, FrazilError) else (str(exc), hint_for(classify(exc), path))
        )
        raise UpkeepError(
            f"{table}: {path} cannot be read, its group is left as it is: {reason}",
            hint=hint,
            table=table,
            path=path,
            reason=reason,
        ) from exc


def _task(file: LiveFile) -> FileTask:
    deletes, lineage = tuple(_delete(response, file) for response in file.deletes), (file.sequence, file.first_row_id)
    return FileTask(
        file.path, file.format, file.rows, file.bytes, file.spec_id, file.partition, AlwaysTrue(), deletes, lineage
    )


def _delete(applied_delete: AppliedDelete, file: LiveFile) -> DeleteFile:
    """The delete as scans know it: described by a manifest, here one of its own."""
    facts = {
        "path": applied_delete.path,
        "format": applied_delete.format,
        "records": applied_delete.rows,
        "bytes": 0,
        "content_offset": applied_delete.offset,
    }
    facts |= {"content_bytes": applied_delete.length, "equality_ids": list(applied_delete.ids)}
    manifest = Manifest(applied_delete.path, {name: pa.array([value]) for name, value in facts.items()}, {})
    is_vector = applied_delete.offset is not None
    return DeleteFile(
        manifest,
        0,
        applied_delete.path,
        applied_delete.content,
        file.sequence,
        file.spec_id,
        file.partition,
        file.path,
        is_vector,
    )
