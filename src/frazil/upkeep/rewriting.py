"""A group of data files read, without its deleted rows, and rewritten. Plain values in and out: it also runs on
Spark's executors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.errors import RowsMismatch
from frazil.scan.planning import TableState
from frazil.upkeep.groups import Group
from frazil.upkeep.reading import LiveRows
from frazil.upkeep.sorting import chunked, sorted_batches
from frazil.write.commit import with_lineage
from frazil.write.files import (
    Buffer,
    BufferLimits,
    FileMaker,
    Partition,
    RollingWriter,
    TableLayout,
    WrittenFile,
    abandoning_on_error,
    delete_quietly,
    split,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table

MB = 1 << 20
CHUNK_BYTES = 128 * MB  # of Arrow: a row group at most


@dataclass(frozen=True)
class Rewriter:
    """What a group's work must know of the table; it can be pickled."""

    layout: TableLayout
    state: TableState = field(repr=False)  # without the snapshots
    chunk_bytes: int = CHUNK_BYTES
    spool_folder: Path | None = None
    # is called with the size of each batch that was read, and may end the work by raising; not on Spark's executors
    on_batch: Callable[[int], None] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, table: Table, *, chunk_bytes: int = CHUNK_BYTES) -> Rewriter:
        """The rewriter for a table as it was loaded."""
        bare = table.metadata.model_copy(
            update={
                "snapshots": [],
                "refs": {},
                "current_snapshot_id": None,
                "snapshot_log": [],
                "metadata_log": [],
                "statistics": [],
            }
        )
        layout = layout_of(table)
        return cls(layout, TableState.of(layout.name, bare), chunk_bytes)

    def rewrite(self, group: Group) -> list[WrittenFile]:
        """New files with the rows of the group that are not deleted; as many as there must be, or `RowsMismatch` and no
        file.
        """
        rows = LiveRows(self.state, self.layout)
        nulls: dict[str, int] = {}
        files = self._write(group, self._paced(_counting(rows.read(group.files), nulls)))
        try:
            self._check(group, files, group.rows - rows.deleted, nulls)
        except RowsMismatch:
            for file in files:
                delete_quietly(self.layout, file.path)
            raise
        return files

    def _paced(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if self.on_batch is not None:
                self.on_batch(batch.nbytes)

    def _write(self, group: Group, rows: Iterator[pa.RecordBatch]) -> list[WrittenFile]:
        if group.spec_id != self.layout.spec.spec_id:
            return self._take_apart(rows)
        writers: dict[Partition, RollingWriter] = {}
        maker, is_sorted = FileMaker(self.layout), bool(self.layout.sort)
        if is_sorted:
            rows = sorted_batches(rows, self.layout.sort, run_bytes=self.chunk_bytes, folder=self.spool_folder)
        with abandoning_on_error(lambda: list(writers.values())):
            for chunk in chunked(rows, self.chunk_bytes):
                for slice_ in split(chunk, self.layout.keys).slices():
                    writer = writers.setdefault(slice_.partition, RollingWriter(maker, slice_.partition, is_sorted))
                    writer.write(slice_.rows)
            return [file for writer in writers.values() for file in writer.finish()]

    def _take_apart(self, rows: Iterator[pa.RecordBatch]) -> list[WrittenFile]:
        """Files of an older spec: each may hold rows of many partitions of the current one."""
        buffer = Buffer(
            self.layout,
            limits=BufferLimits(budget_bytes=2 * self.chunk_bytes, threads=1, spool_folder=self.spool_folder),
        )
        try:
            for batch in rows:
                buffer.add(pa.Table.from_batches([batch]))
            return buffer.flush()
        except BaseException:
            buffer.abandon()
            raise

    def _check(self, group: Group, files: Sequence[WrittenFile], expected: int, nulls: dict[str, int]) -> None:
        rows = sum(file.rows for file in files)
        if rows != expected:
            raise RowsMismatch(self.layout.name, f"{expected:,} rows", f"{rows:,} rows", first_file=group.files[0].path)
        for name, count in nulls.items():
            field_id = self.layout.schema.find_field(name).field_id
            check = [file.null_counts.get(field_id) for file in files]
            written = sum(number for number in check if number is not None)
            if None not in check and written != count:
                raise RowsMismatch(
                    self.layout.name,
                    f"{count:,} NULLs in '{name}'",
                    f"{written:,} NULLs",
                    first_file=group.files[0].path,
                )


def layout_of(table: Table) -> TableLayout:
    """What new files of a table look like; in format 3 they keep the ids of their rows."""
    layout = TableLayout.of(table, formats=(1, 2, 3))
    return layout if table.metadata.format_version < 3 else replace(layout, schema=with_lineage(layout.schema))


def _counting(batches: Iterator[pa.RecordBatch], nulls: dict[str, int]) -> Iterator[pa.RecordBatch]:
    """The batches, with the NULLs of their plain columns counted on the way."""
    for batch in batches:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if not pa.types.is_nested(column.type):
                nulls[name] = nulls.get(name, 0) + column.null_count
        yield batch
