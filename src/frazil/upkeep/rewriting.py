"""A group of data files read, without its deleted rows, and written anew. Plain values in and out: it also runs on Spark's executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.typedef import Record

from frazil.errors import RowsMismatch, UpkeepError
from frazil.sinks.buffer import Buffer, BufferLimits
from frazil.sinks.files import WrittenFile
from frazil.sinks.layout import TableLayout
from frazil.sinks.parquet import FileMaker, RollingWriter, abandoning_on_error, delete_quietly
from frazil.sinks.split import Partition, split
from frazil.upkeep.groups import Group, LiveFile
from frazil.upkeep.sorting import chunked, sorted_batches

if TYPE_CHECKING:
    from pyiceberg.table import Table

MB = 1 << 20
CHUNK_BYTES = 128 * MB  # of Arrow: a row group at most


@dataclass(frozen=True)
class Rewriter:
    """What a group's work must know of the table; it can be pickled."""

    layout: TableLayout
    metadata_json: str = field(repr=False)  # without the snapshots
    chunk_bytes: int = CHUNK_BYTES
    spool_folder: Path | None = None

    @classmethod
    def of(cls, table: Table, *, chunk_bytes: int = CHUNK_BYTES) -> Rewriter:
        """The rewriter for a table as it was loaded."""
        bare = table.metadata.model_copy(
            update={"snapshots": [], "refs": {}, "current_snapshot_id": None, "snapshot_log": [], "metadata_log": [], "statistics": []}
        )
        return cls(TableLayout.of(table), bare.model_dump_json(), chunk_bytes)

    def rewrite(self, group: Group) -> list[WrittenFile]:
        """New files with the rows of the group that are not deleted; as many as there must be, or `RowsMismatch` and no file."""
        deleted = read_positions(self.layout, group.files)
        expected = group.rows - sum(_within(positions, file) for file in group.files for positions in deleted.get(file.path, ()))
        nulls: dict[str, int] = {}
        files = self._write(group, _counting(self._read(group.files, deleted), nulls))
        try:
            self._check(group, files, expected, nulls)
        except RowsMismatch:
            for file in files:
                delete_quietly(self.layout, file.path)
            raise
        return files

    def _read(self, files: Sequence[LiveFile], deleted: dict[str, list[pa.ChunkedArray]]) -> Iterator[pa.RecordBatch]:
        metadata: TableMetadata = TableMetadataUtil.parse_raw(self.metadata_json)
        scan = ArrowScan(metadata, self.layout.io, self.layout.schema, AlwaysTrue())
        for file in files:
            with reading(self.layout.name, file.path):
                # PyIceberg's own stream reads whole files, and all of them at once in its threads: one below it gives batch after batch.
                for batch in scan._record_batches_from_scan_tasks_and_deletes([_task(file)], deleted):
                    yield from pa.Table.from_batches([batch]).cast(self.layout.arrow).to_batches()

    def _write(self, group: Group, rows: Iterator[pa.RecordBatch]) -> list[WrittenFile]:
        if group.spec_id != self.layout.spec.spec_id:
            return self._take_apart(rows)
        writers: dict[Partition, RollingWriter] = {}
        maker, is_sorted = FileMaker(self.layout), bool(self.layout.sort)
        if is_sorted:
            rows = sorted_batches(rows, self.layout.sort, run_bytes=self.chunk_bytes, folder=self.spool_folder)
        with abandoning_on_error(lambda: list(writers.values())):
            for chunk in chunked(rows, self.chunk_bytes):
                for one in split(chunk, self.layout.keys).slices():
                    writer = writers.setdefault(one.partition, RollingWriter(maker, one.partition, is_sorted))
                    writer.write(one.rows)
            return [file for writer in writers.values() for file in writer.finish()]

    def _take_apart(self, rows: Iterator[pa.RecordBatch]) -> list[WrittenFile]:
        """Files of an older spec: each may hold rows of many partitions of the current one."""
        buffer = Buffer(self.layout, limits=BufferLimits(budget_bytes=2 * self.chunk_bytes, threads=1, spool_folder=self.spool_folder))
        try:
            for batch in rows:
                buffer.add(pa.Table.from_batches([batch]))
            return buffer.flush()
        except BaseException:
            buffer.abandon()
            raise

    def _check(self, group: Group, files: Sequence[WrittenFile], expected: int, nulls: dict[str, int]) -> None:
        found = sum(file.rows for file in files)
        if found != expected:
            raise RowsMismatch(self.layout.name, f"{expected:,} rows", f"{found:,} rows", first_file=group.files[0].path)
        for name, count in nulls.items():
            field_id = self.layout.schema.find_field(name).field_id
            told = [file.null_counts.get(field_id) for file in files]
            written = sum(number for number in told if number is not None)
            if None not in told and written != count:
                raise RowsMismatch(self.layout.name, f"{count:,} NULLs in '{name}'", f"{written:,} NULLs", first_file=group.files[0].path)


@contextmanager
def reading(table: str, path: str) -> Iterator[None]:
    """Turns what a store or a damaged file says into an error that names the file; the group is left as it is."""
    try:
        yield
    except (OSError, pa.ArrowException) as exc:
        raise UpkeepError(f"{table}: {path} cannot be read, its group is left as it is: {exc}") from exc


def read_positions(layout: TableLayout, files: Sequence[LiveFile]) -> dict[str, list[pa.ChunkedArray]]:
    """The deleted positions of each file, each position once; every delete file is read once, for all of them."""
    wanted = pa.array([file.path for file in files if file.deletes], pa.string())
    found: dict[str, list[pa.Array]] = {}
    for path in dict.fromkeys(delete.path for file in files for delete in file.deletes):
        with reading(layout.name, path), layout.io.new_input(path).open() as stream:
            for batch in pq.ParquetFile(stream).iter_batches(columns=["file_path", "pos"]):
                mine = batch.filter(pc.is_in(batch.column("file_path").cast(pa.string()), value_set=wanted))
                for one in pc.unique(mine.column("file_path")).to_pylist():
                    chosen = mine.filter(pc.equal(mine.column("file_path"), one))
                    found.setdefault(one, []).append(chosen.column("pos").cast(pa.int64()))
    return {path: [pa.chunked_array([pc.unique(pa.chunked_array(arrays)).sort()])] for path, arrays in found.items()}


def _within(positions: pa.ChunkedArray, file: LiveFile) -> int:
    inside = pc.and_(pc.greater_equal(positions, 0), pc.less(positions, file.rows))
    return int(pc.sum(inside).as_py() or 0)


def _task(file: LiveFile) -> FileScanTask:
    values = [float("nan") if value == "NaN" else value for value in file.partition]
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.path,
        file_format=FileFormat(file.format),
        partition=Record(*values),
        record_count=file.rows,
        file_size_in_bytes=file.bytes,
    )
    made.spec_id = file.spec_id
    return FileScanTask(made)


def _counting(batches: Iterator[pa.RecordBatch], nulls: dict[str, int]) -> Iterator[pa.RecordBatch]:
    """The batches, with the NULLs of their plain columns counted on the way."""
    for batch in batches:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if not pa.types.is_nested(column.type):
                nulls[name] = nulls.get(name, 0) + column.null_count
        yield batch
