"""Sorted runs on disk: where rows of many partitions wait until each partition has enough for a file.

The files have no name: the system frees them when the process ends, even by kill -9. They are read back through memory
maps, so what waits here counts against the page cache, which gives way, and not against the program's memory.
"""

from __future__ import annotations

import mmap
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from frazil.write.files.disk import writing
from frazil.write.files.splitting import Partition, Run

_BUFFER_BYTES = 1 << 20


class Spool:
    """Runs of rows, each apart by partition, in a temporary folder."""

    def __init__(self, schema: pa.Schema, folder: Path | None = None) -> None:
        self._schema = schema
        self._folder = Path(tempfile.gettempdir()) if folder is None else folder
        self._ranges: list[pa.RecordBatch] = []  # rows of partitions that lie side by side in a run
        # partition -> (range, start in it, rows)
        self._places: dict[Partition, list[tuple[int, int, int]]] = defaultdict(list)

    @property
    def partitions(self) -> list[Partition]:
        return list(self._places)

    def add_run(self, run: Run, numbers: Sequence[int]) -> None:
        """Writes the partitions of these numbers, in ascending order, of a run; its rows may then be forgotten.

        Partitions that lie side by side are written as one batch: what a batch costs would be paid for every partition
        of every run.
        """
        rows = run.rows.combine_chunks()
        ranges = list(_side_by_side(numbers))
        with (
            writing(f"temporary file in {self._folder}"),
            tempfile.TemporaryFile(dir=self._folder, buffering=_BUFFER_BYTES) as file,
        ):
            with pa.ipc.new_file(file, self._schema) as writer:
                for first, last in ranges:
                    start, end = run.starts[first], run.starts[last] + run.sizes[last]
                    writer.write_table(rows.slice(start, end - start))
            file.flush()
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # it keeps the file when this one is closed
        reader = pa.ipc.open_file(pa.py_buffer(mapped))
        for position, (first, last) in enumerate(ranges):
            for number in range(first, last + 1):
                place = (len(self._ranges), run.starts[number] - run.starts[first], run.sizes[number])
                self._places[run.partitions[number]].append(place)
            self._ranges.append(reader.get_batch(position))

    def rows_of(self, partition: Partition) -> list[pa.RecordBatch]:
        """The rows of a partition, in the order in which they came; they lie in the file until they are touched."""
        return [self._ranges[number].slice(start, rows) for number, start, rows in self._places.get(partition, [])]

    def clear(self) -> None:
        """Forgets all runs and frees their space."""
        self._ranges.clear()
        self._places.clear()


def _side_by_side(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of each stretch of numbers that follow one another."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last
