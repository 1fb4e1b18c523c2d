"""Parquet files of the table's target size, each with the description that a manifest needs."""

from __future__ import annotations

import contextlib
import itertools
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.errors import RowsLost, SinkError, WriteFailed
from frazil.write.files.disk import writing
from frazil.write.files.layout import TableLayout
from frazil.write.files.partitioning import column_at
from frazil.write.files.splitting import Partition
from frazil.write.files.statistics import read_statistics
from frazil.write.files.written import WrittenFile

SAMPLE_ROWS = 16_384
NEARLY_ALL = 0.98
YOUNG_MS = 30 * 60_000  # upkeep takes no file for an orphan that is younger than an hour
FULL = 0.95  # the next row group would be a splinter


@dataclass
class FileMaker:
    """Makes the files of one writer: they share a name, a running number and the choice of encodings."""

    layout: TableLayout
    part: int = 0
    run: str = field(default_factory=lambda: str(uuid.uuid4()))
    dictionary: list[str] | None = None  # the columns that get one; None until some rows were seen
    _numbers: Iterator[int] = field(default_factory=itertools.count)  # several threads draw from it

    def next_name(self) -> str:
        return f"{self.part:05d}-{next(self._numbers)}-{self.run}.parquet"

    def learn(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Looks at some rows once, to decide which columns get a dictionary."""
        if self.dictionary is None and rows.num_rows:
            self.dictionary = choose_dictionary(rows, self.layout)


def choose_dictionary(rows: pa.Table | pa.RecordBatch, layout: TableLayout) -> list[str]:
    """The paths of the columns worth a dictionary: all but those whose values are nearly all different.

    Arrow builds a dictionary for every column until it passes its limit, then throws it away; without it a column of
    times or payloads is written in less time and fewer bytes.
    """
    sample = rows.slice(0, SAMPLE_ROWS)
    unique = {
        name
        for name, written in zip(layout.arrow.names, layout.arrow_in_files, strict=True)
        if not pa.types.is_nested(written.type) and _nearly_unique(sample.column(name))
    }
    return [path for path in layout.columns if path not in unique]


def _nearly_unique(values: pa.Array | pa.ChunkedArray) -> bool:
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.cast(values.type.storage_type)
    known = len(values) - values.null_count
    return bool(known >= 1_000 and pc.count_distinct(values, mode="only_valid").as_py() > NEARLY_ALL * known)


class ParquetFile:
    """One open Parquet file. It is nothing to anyone until `close` has described it."""

    def __init__(
        self, layout: TableLayout, path: str, *, partition: Partition, dictionary: Sequence[str] | None, is_sorted: bool
    ) -> None:
        self.path = path
        self.rows = 0
        self._layout, self._partition, self._is_sorted = layout, partition, is_sorted
        self._opened_ms = int(time.time() * 1000)
        self._nan_counts: dict[int, int] = {}
        with writing(path):
            self._stream = layout.io.new_output(path).create(overwrite=True)
            self._writer = pq.ParquetWriter(
                self._stream,
                layout.arrow_in_files,
                use_dictionary=True if dictionary is None else list(dictionary),
                **layout.options.for_pyarrow(),
            )

    @property
    def size_bytes(self) -> int:
        """The bytes that were handed to the store so far."""
        return int(self._stream.tell())

    def write(self, rows: pa.Table) -> None:
        """Writes the rows as one row group."""
        with writing(self.path):
            self._writer.write_table(_as_in_files(rows, self._layout.arrow_in_files), rows.num_rows)
        self.rows += rows.num_rows
        _count_nans(rows, self._layout, self._nan_counts)

    def close(self) -> WrittenFile:
        """Ends the file and describes it."""
        with writing(self.path):
            self._writer.close()
            size = self.size_bytes
            self._stream.close()
        metadata = self._writer.writer.metadata
        statistics = read_statistics(metadata, self._layout.columns)
        return WrittenFile(
            path=self.path,
            size_bytes=size,
            rows=metadata.num_rows,  # of the file itself: what was counted on the way is compared with it
            partition=self._partition,
            spec_id=self._layout.spec.spec_id,
            sort_order_id=self._layout.order.order_id if self._is_sorted else None,
            column_sizes=statistics.column_sizes,
            value_counts=statistics.value_counts,
            null_counts=statistics.null_counts,
            nan_counts=self._nan_counts,
            lower_bounds=statistics.lower_bounds,
            upper_bounds=statistics.upper_bounds,
            split_offsets=statistics.split_offsets,
            schema_id=self._layout.schema.schema_id,
            opened_ms=self._opened_ms,
        )

    def abandon(self) -> None:
        """Removes what was written. Nothing can reference it: it was never described."""
        for step in (self._writer.close, self._stream.close):
            with contextlib.suppress(OSError, pa.ArrowException, ValueError):
                step()
        delete_quietly(self._layout, self.path)


def delete_quietly(layout: TableLayout, path: str) -> None:
    """Removes a file that nothing refers to; one that cannot be removed is an orphan for the sweeper."""
    with contextlib.suppress(Exception):  # whatever the store says now, the error that led here is the one to tell
        layout.erase(path)


@dataclass
class RollingWriter:
    """The files of one partition, each closed when it reaches the table's target size on disk."""

    maker: FileMaker
    partition: Partition = ()
    is_sorted: bool = False
    finished: list[WrittenFile] = field(default_factory=list)
    _open: ParquetFile | None = None
    _ratio: float = 1.0  # bytes on disk for a byte of Arrow; before the first row group, no compression is assumed

    def write(self, rows: pa.Table) -> None:
        """Writes the rows as row groups of the table's size, into as many files as they fill."""
        row_bytes = max(rows.nbytes / max(rows.num_rows, 1), 1.0)  # once: for many small chunks it is not for free
        start = 0
        while start < rows.num_rows:
            count = self._next_count(rows.num_rows - start, row_bytes)
            self._write_group(rows.slice(start, count) if count < rows.num_rows else rows, row_bytes)
            start += count

    def roll(self) -> None:
        """Ends the open file, if there is one."""
        if self._open is not None:
            done, self._open = self._open, None
            self.finished.append(done.close())

    def finish(self) -> list[WrittenFile]:
        """Every file of this writer, closed and described."""
        self.roll()
        return self.finished

    def abandon(self) -> None:
        """Removes the open file and the finished ones: they are part of no commit."""
        if self._open is not None:
            self._open.abandon()
            self._open = None
        for file in self.finished:
            delete_quietly(self.maker.layout, file.path)
        self.finished = []

    def _write_group(self, rows: pa.Table, row_bytes: float) -> None:
        layout = self.maker.layout
        if self._open is None:
            self.maker.learn(rows)
            path = layout.data_location(self.partition, self.maker.next_name())
            self._open = ParquetFile(
                layout, path, partition=self.partition, dictionary=self.maker.dictionary, is_sorted=self.is_sorted
            )
        before = self._open.size_bytes
        try:
            self._open.write(rows)
        except WriteFailed:
            self._open.abandon()
            self._open = None
            raise
        self._ratio = max((self._open.size_bytes - before) / (row_bytes * rows.num_rows), 0.001)
        if self._open.size_bytes >= FULL * layout.options.target_file_bytes:
            self.roll()

    def _next_count(self, rows: int, row_bytes: float) -> int:
        """How many rows make the next row group: up to its own limits, and no more than the open file has room for."""
        options = self.maker.layout.options
        room = options.target_file_bytes - (self._open.size_bytes if self._open else 0)
        fitting = int(min(room, options.row_group_bytes) / self._ratio / row_bytes)
        return min(max(fitting, 1), options.row_group_rows, rows)


def _as_in_files(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    return rows if rows.schema.equals(schema) else rows.rename_columns(schema.names).cast(schema)


def _count_nans(rows: pa.Table, layout: TableLayout, counts: dict[int, int]) -> None:
    for field_id, path in layout.float_columns:
        py = pc.sum(pc.is_nan(column_at(rows, path))).as_py() or 0
        counts[field_id] = counts.get(field_id, 0) + py


@contextlib.contextmanager
def abandoning_on_error(writers: Callable[[], Sequence[RollingWriter]]) -> Iterator[None]:
    """Whatever goes wrong inside, the files written so far are removed: none of them is committed."""
    try:
        yield
    except BaseException:
        for writer in writers():
            writer.abandon()
        raise


def check_written(files: Iterable[WrittenFile], expected: int, *, table: str) -> None:
    """Refuses files that do not hold as many rows as were taken: a commit of them would lose rows, or double them."""
    if (rows := sum(file.rows for file in files)) != expected:
        raise RowsLost(table, expected=expected, got=rows)


def check_present(files: Iterable[WrittenFile], layout: TableLayout, *, now_ms: int | None = None) -> None:
    """Refuses files that have waited long for their commit and are gone: upkeep takes old files that no snapshot names
    for orphans.
    """
    oldest = (int(time.time() * 1000) if now_ms is None else now_ms) - YOUNG_MS
    for file in files:
        if file.opened_ms is not None and file.opened_ms < oldest and not layout.io.new_input(file.path).exists():
            raise SinkError(
                f"{layout.name}: {file.path} is gone: it was written "
                f"{(oldest + YOUNG_MS - file.opened_ms) // 60_000:,} minutes ago and "
                "has waited for its commit since; nothing was committed",
                hint="open the sink again and go on from its position; commit more often than upkeep removes orphans",
                table=layout.name,
                problem="file-missing",
                path=file.path,
            )


def write_files(rows: pa.Table, layout: TableLayout) -> list[WrittenFile]:
    """Writes the rows of an unpartitioned table: the shortest way from rows to files."""
    writer = RollingWriter(FileMaker(layout))
    with abandoning_on_error(lambda: [writer]):
        writer.write(rows)
        files = writer.finish()
        check_written(files, rows.num_rows, table=layout.name)
        return files
