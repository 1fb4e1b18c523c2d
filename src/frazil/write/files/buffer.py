"""Rows wait here, in bounded memory, until they are written.

At most `budget_bytes` of rows are held. When half of them wait, they are taken apart by partition (the other half is
room for that one copy): a partition that has enough for a row group of its own is written to its open file; what is too
little for that waits in a spool on disk. So memory does not grow with the rows, files do not get smaller with the
partitions, and `add` blocks while the disk catches up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from frazil.write.files.layout import TableLayout
from frazil.write.files.ordering import sort_rows
from frazil.write.files.parquet import FileMaker, RollingWriter, check_written
from frazil.write.files.splitting import Partition, Run, split
from frazil.write.files.spool import Spool
from frazil.write.files.written import WrittenFile

MB = 1 << 20
SLICE_BYTES = 32 << 10
LEAST_RUN_BYTES = 8 * MB


@dataclass(frozen=True)
class BufferLimits:
    """How much a buffer may hold and use."""

    budget_bytes: int = 256 * MB
    row_group_bytes: int = 16 * MB  # of Arrow: below, a partition's rows wait in the spool for more
    threads: int = min(os.cpu_count() or 1, 4)
    spool_folder: Path | None = None  # the system's temporary folder unless given

    @property
    def run_bytes(self) -> int:
        return max(self.budget_bytes // 2, 1)


class Buffer:
    """The rows that are not in a finished file yet, and the files that are not handed over yet."""

    def __init__(
        self, layout: TableLayout, *, limits: BufferLimits | None = None, maker: FileMaker | None = None
    ) -> None:
        self.layout = layout
        self.limits = limits or BufferLimits()
        self._maker = maker or FileMaker(layout)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._run_bytes = LEAST_RUN_BYTES
        self._used_bytes = 0  # that were written since memory was given back
        self._spool = Spool(layout.arrow, self.limits.spool_folder)
        self._writers: dict[tuple[Partition, int], RollingWriter] = {}  # by partition and lane
        # Rows that are neither taken apart nor sorted are not copied: they may fill the whole budget.
        self._most_waiting = self.limits.run_bytes if layout.keys or layout.sort else self.limits.budget_bytes
        self.rows = 0
        self.bytes = 0

    def add(self, rows: pa.Table) -> None:
        """Takes rows of the table's Arrow schema; blocks while the budget is used up."""
        for batch in _pieces(rows, self._most_waiting):
            self._waiting.append(batch)
            self._waiting_bytes += batch.nbytes
            if self._waiting_bytes >= self._most_waiting:
                self._make_room()
        self.rows += rows.num_rows
        self.bytes += rows.nbytes

    def flush(self) -> list[WrittenFile]:
        """Writes everything that waits and gives the finished files; the buffer is empty then."""
        if self._spool.partitions:
            self._make_room()  # the rest, too: taken apart in memory it would need as much again
        rest = {slice_.partition: slice_.rows for slice_ in split(self._take_waiting(), self.layout.keys).slices()}
        spooled = self._spool.partitions
        tasks = [self._merge_task(partition, rest.pop(partition, None)) for partition in spooled]
        for partition, rows in rest.items():
            tasks += self._write_tasks(partition, rows, last=True)
        self._run_all(tasks)
        self._run_all([writer.roll for writer in self._writers.values()])
        files = [file for writer in self._writers.values() for file in writer.finished]
        check_written(files, self.rows, table=self.layout.name)
        self._forget()
        return files

    def abandon(self) -> None:
        """Drops the rows, and the files that were written for them."""
        for writer in self._writers.values():
            writer.abandon()
        self._waiting, self._waiting_bytes = [], 0
        self._forget()

    def _forget(self) -> None:
        self._writers = {}
        self._spool.clear()
        self.rows = self.bytes = 0

    def _make_room(self) -> None:
        waiting = self._take_waiting()
        while waiting.num_rows:
            count = self._rows_of_run(waiting)
            self._place(split(waiting.slice(0, count), self.layout.keys))
            waiting = waiting.slice(count)
        _give_back()

    def _rows_of_run(self, waiting: pa.Table) -> int:
        """How many rows to take apart at once: just enough for slices of a useful size.

        Small runs are faster: the copy of one lies in the processor's cache, and in memory that the last one gave back.
        """
        if not self.layout.keys:
            return int(waiting.num_rows)
        return max(int(waiting.num_rows * self._run_bytes / max(waiting.nbytes, 1)), 1)

    def _place(self, run: Run) -> None:
        """Writes what is enough for a row group, and spools the rest."""
        enough = (
            0 if not self.layout.keys else self.limits.row_group_bytes / max(run.rows.nbytes, 1) * run.rows.num_rows
        )
        large = [number for number, rows in enumerate(run.sizes) if rows >= enough]
        tasks = [task for number in large for task in self._write_tasks(*run.slice(number))]
        self._run_all(tasks)
        if small := [number for number, rows in enumerate(run.sizes) if rows < enough]:
            self._spool.add_run(run, small)
        self._run_bytes = min(max(len(run.sizes) * SLICE_BYTES, LEAST_RUN_BYTES), self.limits.run_bytes)

    def _take_waiting(self) -> pa.Table:
        batches, self._waiting, self._waiting_bytes = self._waiting, [], 0
        rows = pa.Table.from_batches(batches, self.layout.arrow)
        self._maker.learn(rows)
        return rows

    def _merge_task(self, partition: Partition, rest: pa.Table | None) -> Callable[[], None]:
        """What writes the rows of a partition that wait in the spool, and the last ones from memory."""

        def write() -> None:
            batches = [*self._spool.rows_of(partition), *(rest.to_batches() if rest is not None else [])]
            for group in self._groups(batches):
                rows = pa.Table.from_batches(group)
                if rows.nbytes <= self.limits.row_group_bytes:
                    # a copy of this size is cheaper than the writer's work for each small chunk
                    rows = rows.combine_chunks()
                self._lane_task(partition, 0, rows)()
                self._used_bytes += rows.nbytes
            self._writers[partition, 0].roll()
            # not after every file: taking the memory again costs more than a small one
            if self._used_bytes >= self.limits.row_group_bytes:
                self._used_bytes = 0
                _give_back()

        return write

    def _groups(self, batches: list[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
        """All rows of a partition at once; in a sorted table, as many as may be sorted in memory."""
        if not self.layout.sort:
            yield batches
            return
        group: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            if group and size + batch.nbytes > self.limits.run_bytes:
                yield group
                group, size = [], 0
            group.append(batch)
            size += batch.nbytes
        yield group

    def _write_tasks(self, partition: Partition, rows: pa.Table, *, last: bool = False) -> list[Callable[[], None]]:
        """What writes rows from memory: a lane, and so a file, for every thread as long as each gets a row group's
        worth.
        """
        lanes = min(self.limits.threads, max(int(rows.nbytes // self.limits.row_group_bytes), 1))
        share = -(-rows.num_rows // lanes)
        return [self._lane_task(partition, lane, rows.slice(lane * share, share), last=last) for lane in range(lanes)]

    def _lane_task(self, partition: Partition, lane: int, rows: pa.Table, *, last: bool = False) -> Callable[[], None]:
        is_sorted = bool(self.layout.sort)
        writer = self._writers.setdefault((partition, lane), RollingWriter(self._maker, partition, is_sorted))

        def write() -> None:
            writer.write(sort_rows(rows, self.layout.sort))
            if is_sorted or last:  # in a sorted table the next rows start over: they belong in a file of their own
                writer.roll()

        return write

    def _run_all(self, tasks: Sequence[Callable[[], None]]) -> None:
        if len(tasks) < 2 or self.limits.threads < 2:
            for task in tasks:
                task()
            return
        with ThreadPoolExecutor(self.limits.threads, thread_name_prefix="frazil-sink") as pool:
            for done in [pool.submit(task) for task in tasks]:
                done.result()


def _give_back() -> None:
    """Returns to the system what Arrow keeps of freed memory; it would be kept by every thread that had some."""
    pa.default_memory_pool().release_unused()


def _pieces(rows: pa.Table, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """The rows in batches that fit the budget."""
    most_rows = max(int(most_bytes / max(rows.nbytes / max(rows.num_rows, 1), 1)), 1)
    yield from rows.to_batches(max_chunksize=most_rows)
