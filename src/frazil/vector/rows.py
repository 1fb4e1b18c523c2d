"""The rows of an answer by their positions in data files. Small row groups are kept for the next search of the scan."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from frazil.vector.metric import Numbers

if TYPE_CHECKING:
    from frazil.scan.planning import FileTask
    from frazil.scan.reading import FileReader, RowGroup

HELD_BYTES = 256 * 1024 * 1024  # of decoded rows that searches of one scan keep
MOST_BYTES = 32 * 1024 * 1024  # of a row group that is kept: of a larger one only the rows of the answer are


class AnswerRows:
    """Reads rows by their positions. Parquet has no way to a single row: a row group's columns are decoded whole. So
    those that are small are kept from the second search on; data files never change.
    """

    def __init__(self, reader: FileReader) -> None:
        self.schema: pa.Schema = reader.plan.arrow
        self._reader, self._lock = reader, Lock()
        self._groups: dict[str, Sequence[RowGroup]] = {}
        self._held: OrderedDict[tuple[str, int], pa.Table] = OrderedDict()
        self._size = 0

    def take(self, task: FileTask, positions: Numbers, *, keep: bool) -> pa.Table:
        """The rows at some positions of a file, which are in order, each once."""
        if not keep:
            return pa.Table.from_batches(self._reader.take(task, positions), schema=self.schema)
        numbers = self._needed(task.path, positions)
        held = {number: self._find(task.path, number) for number in numbers}
        if not numbers or any(table is None for table in held.values()):
            return self._read(task, positions)
        groups = self._groups[task.path]
        return pa.concat_tables([_cut(table, groups[number], positions) for number, table in held.items()])

    def _needed(self, path: str, positions: Numbers) -> list[int]:
        """The row groups of the positions; none if the file was not opened yet."""
        if path not in self._groups:
            return []
        starts = [group.start for group in self._groups[path]]
        return [int(number) for number in np.unique(np.searchsorted(starts, positions, side="right") - 1)]

    def _find(self, path: str, number: int) -> pa.Table | None:
        with self._lock:
            if (path, number) in self._held:
                self._held.move_to_end((path, number))
            return self._held.get((path, number))

    def _read(self, task: FileTask, positions: Numbers) -> pa.Table:
        parts = []
        with self._reader.opened(task) as file:
            self._groups[task.path] = file.groups
            for number in self._needed(task.path, positions):
                group, table = file.groups[number], self._find(task.path, number)
                if table is None and file.output_size(group) <= MOST_BYTES:
                    table = pa.Table.from_batches(file.whole([group]), schema=self.schema).combine_chunks()
                    self._keep((task.path, number), table)
                if table is not None:
                    parts.append(_cut(table, group, positions))
                else:
                    parts.append(pa.Table.from_batches(file.chosen([group], positions), schema=self.schema))
        return pa.concat_tables(parts)

    def _keep(self, key: tuple[str, int], table: pa.Table) -> None:
        with self._lock:
            if key in self._held or table.nbytes > HELD_BYTES:
                return
            self._held[key] = table
            self._size += table.nbytes
            while self._size > HELD_BYTES:
                self._size -= self._held.popitem(last=False)[1].nbytes


def _cut(table: pa.Table, group: RowGroup, positions: Numbers) -> pa.Table:
    """The rows of a row group that are at some of the positions."""
    first, last = np.searchsorted(positions, (group.start, group.start + group.rows))
    return table.take(pa.array(positions[first:last] - group.start))
