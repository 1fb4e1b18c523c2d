"""Rows in a sort order, more of them than fit into memory: sorted runs on disk, then one pass that merges them.

The merge is vectorised: of every run one batch is in memory. They are sorted together; what lies at or before the last
row of a batch whose run goes on can be passed by no row that is still on disk. So that part is final, and the run in
question gives its next batch.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from frazil.write.files import SortKey, sort_rows, writing

MB = 1 << 20
MERGE_BATCH_BYTES = 4 * MB
Run: TypeAlias = pa.RecordBatchFileReader
_GOES_ON = "frazil: last row of a batch whose run goes on"


def chunked(batches: Iterable[pa.RecordBatch], chunk_bytes: int) -> Iterator[pa.Table]:
    """The rows in tables of about this size."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= chunk_bytes:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def sorted_batches(
    batches: Iterable[pa.RecordBatch], keys: Sequence[SortKey], *, run_bytes: int, folder: Path | None = None
) -> Iterator[pa.RecordBatch]:
    """All rows in order; about `run_bytes` of them are in memory, twice for the copy that sorting makes."""
    runs: list[Run] = []
    last: pa.Table | None = None
    for chunk in chunked(batches, run_bytes):
        if last is not None:
            runs.append(_to_disk(last, folder))
        last = sort_rows(chunk, keys)
    if last is None:
        return
    if not runs:
        yield from last.to_batches()
        return
    runs.append(_to_disk(last, folder))
    last = None
    yield from _merge(runs, keys)


def _to_disk(rows: pa.Table, folder: Path | None) -> Run:
    """The rows in a file without a name, which the system frees with the process; they are read through a
    memory map.
    """
    each = max(int(MERGE_BATCH_BYTES / max(rows.nbytes / max(rows.num_rows, 1), 1)), 1)
    where = folder or Path(tempfile.gettempdir())
    with writing(f"temporary file in {where}"), tempfile.TemporaryFile(dir=where) as file:
        with pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows.combine_chunks(), max_chunksize=each)
        file.flush()
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # it keeps the file when this one is closed
    return pa.ipc.open_file(pa.py_buffer(mapped))


def _merge(runs: Sequence[Run], keys: Sequence[SortKey]) -> Iterator[pa.RecordBatch]:
    at = [0] * len(runs)
    pending: list[pa.Table] = []
    due = list(range(len(runs)))
    while due:
        pending += [_load(runs[run], at[run], run) for run in due]
        for run in due:
            at[run] += 1
        rows = sort_rows(pa.concat_tables(pending), keys)
        ends = pc.indices_nonzero(pc.greater_equal(rows.column(_GOES_ON), 0).combine_chunks())
        final = rows.num_rows if not len(ends) else ends[0].as_py() + 1
        due = [rows.column(_GOES_ON)[final - 1].as_py()] if len(ends) else []
        yield from _copy(rows.slice(0, final).drop_columns([_GOES_ON])).to_batches()
        pending = [_copy(rows.slice(final))] if due else []


def _load(run: Run, at: int, number: int) -> pa.Table:
    batch = run.get_batch(at)
    marks = [-1] * batch.num_rows
    if at + 1 < run.num_record_batches:
        marks[-1] = number
    return pa.Table.from_batches([batch]).append_column(_GOES_ON, pa.array(marks, pa.int32()))


def _copy(rows: pa.Table) -> pa.Table:
    """The rows in memory of their own: a slice keeps all of what it was cut from, and many slices wait for the next
    file.
    """
    columns = [
        pa.concat_arrays([*column.chunks, *(column.chunks[:1] and [column.chunks[0].slice(0, 0)])])
        for column in rows.columns
    ]
    return pa.table(columns, schema=rows.schema) if rows.num_rows else rows
