"""How many rows a scan has: from metadata where it is certain, from the files where it is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from pyiceberg.expressions import AlwaysTrue

from frazil.scan.planning import EQUALITY, as_list, read_ahead, sure_mask

if TYPE_CHECKING:
    from frazil.scan.planning import FileTask, Planner
    from frazil.scan.reading.datafile import FileReader


def count_rows(planner: Planner, reader: FileReader, *, workers: int) -> int:
    """The number of rows. A file whose rows all match is counted by its manifest, less the positions that are deleted
    in it; only the others are read, and of them only the columns that decide.
    """
    total, unsure = 0, []
    for task, sure in _tasks(planner):
        if sure and all(response.content != EQUALITY for response in task.deletes):
            total += task.rows - _deleted(reader, task)
        else:
            unsure.append(task)
    counts = read_ahead(unsure, lambda task: iter([_read(reader, task)]), workers=workers, ordered=False)
    return total + sum(counts)


def _tasks(planner: Planner) -> Iterator[tuple[FileTask, bool]]:
    """The files, and whether all of their rows match."""
    for group in planner.plan().groups:
        mask = (
            True if isinstance(planner.bound, AlwaysTrue) else sure_mask(planner.bound, planner.schema, group.manifest)
        )
        for task, sure in zip(planner.tasks(group), as_list(mask, group.rows, len(group)), strict=True):
            yield task, sure or isinstance(task.residual, AlwaysTrue)


def _deleted(reader: FileReader, task: FileTask) -> int:
    if not task.deletes:
        return 0
    if len(task.deletes) == 1 and task.deletes[0].is_vector:
        return int(task.deletes[0].fact("records"))
    return int(np.searchsorted(reader.removals.positions(task), task.rows))


def _read(reader: FileReader, task: FileTask) -> int:
    return sum(batch.num_rows for batch in reader.read(task))
