"""Sorted runs on disk: where rows of many partitions wait until each partition has enough for a file.

The files have no name: the system frees them when the process ends, even by kill -9. They are read back through memory maps, so what waits
here counts against the page cache, which gives way, and not against the program's memory.
"""

from __future__ import annotations

import mmap
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from frazil.sinks.disk import writing
from frazil.sinks.split import Partition, Slice

_BUFFER_BYTES = 1 << 20


class Spool:
    """Runs of rows, each apart by partition, in a temporary folder."""

    def __init__(self, schema: pa.Schema, folder: Path | None = None) -> None:
        self._schema = schema
        self._folder = Path(tempfile.gettempdir()) if folder is None else folder
        self._readers: list[pa.RecordBatchFileReader] = []
        self._places: dict[Partition, list[tuple[int, int]]] = defaultdict(list)  # partition -> (run, number of the batch in it)

    @property
    def partitions(self) -> list[Partition]:
        return list(self._places)

    def add_run(self, slices: Iterable[Slice]) -> None:
        """Writes a run; the rows may then be forgotten."""
        number = 0
        with writing(f"temporary file in {self._folder}"), tempfile.TemporaryFile(dir=self._folder, buffering=_BUFFER_BYTES) as file:
            with pa.ipc.new_file(file, self._schema) as writer:
                for one in slices:
                    for batch in one.rows.to_batches():
                        writer.write_batch(batch)
                        self._places[one.partition].append((len(self._readers), number))
                        number += 1
            file.flush()
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # it keeps the file when this one is closed
        self._readers.append(pa.ipc.open_file(pa.py_buffer(mapped)))

    def rows_of(self, partition: Partition) -> list[pa.RecordBatch]:
        """The rows of a partition, in the order in which they came; they lie in the file until they are touched."""
        return [self._readers[run].get_batch(number) for run, number in self._places.get(partition, [])]

    def clear(self) -> None:
        """Forgets all runs and frees their space."""
        self._readers.clear()
        self._places.clear()
