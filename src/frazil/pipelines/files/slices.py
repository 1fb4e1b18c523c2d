"""Which task reads which bytes of which file: small files together, large ones in pieces. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

MB = 1 << 20
TASK_BYTES = 128 * MB
LEAST_TASK_BYTES = 4 * MB
TASKS_A_CORE = 2  # so that a core that is done early finds more


@dataclass(frozen=True)
class Slice:
    """The bytes of a file that one task reads, no end meaning all of it; `number` counts the slices of a run, `file`
    its files.
    """

    number: int
    file: int
    path: str
    start: int = 0
    end: int | None = None


Task = tuple[Slice, ...]


def plan_tasks(
    paths: Sequence[str], sizes: Sequence[int], *, cores: int, can_split: bool, task_bytes: int | None = None
) -> list[Task]:
    """The files in as many tasks as keep the cores busy, in order, so that neighbours (of one day, say) share a task
    and its data files.

    >>> [len(task) for task in plan_tasks(["a", "b", "c"], [10, 10, 10], cores=2, can_split=True)]
    [3]
    """
    room = task_bytes or min(max(sum(sizes) // (cores * TASKS_A_CORE), LEAST_TASK_BYTES), TASK_BYTES)
    tasks: list[list[Slice]] = [[]]
    filled = count = 0
    for file, (path, size) in enumerate(zip(paths, sizes, strict=True)):
        for start, end in _cuts(size, room if can_split and is_splittable(path) else None):
            length = size if end is None else end - start
            if tasks[-1] and filled + length > room * 1.25:
                tasks.append([])
                filled = 0
            tasks[-1].append(Slice(count, file, path, start, end))
            filled += length
            count += 1
    return [tuple(task) for task in tasks if task]


def is_splittable(path: str) -> bool:
    """Whether a reader can begin in the middle of the file."""
    return not path.endswith((".gz", ".bz2", ".zst", ".lz4", ".br"))


def _cuts(size: int, room: int | None) -> list[tuple[int, int | None]]:
    """
    >>> _cuts(100, None), _cuts(100, 90), _cuts(100, 40)
    ([(0, None)], [(0, None)], [(0, 33), (33, 66), (66, 100)])
    """
    if room is None or size <= room * 1.25:
        return [(0, None)]
    count = -(-size // room)
    cuts = [size * part // count for part in range(count + 1)]
    return list(itertools.pairwise(cuts))
