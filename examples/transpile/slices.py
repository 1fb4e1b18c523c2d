"""Files of queries, cut: into what is committed at once, and that into the tasks of Spark. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from frazil.pipelines.sources import SourceFile


@dataclass(frozen=True)
class Slice:
    """Rows `start` to `end` of a file that has `total`."""

    file: SourceFile
    start: int
    end: int
    total: int

    @property
    def rows(self) -> int:
        return self.end - self.start

    @property
    def is_last(self) -> bool:
        return self.end == self.total


def cut(slices: Iterable[Slice], rows: int) -> Iterator[list[Slice]]:
    """The same rows in the same order, in lists of a given number of rows; only the last may have fewer.

    >>> a, b = SourceFile("a", 1, ""), SourceFile("b", 1, "")
    >>> for part in cut([Slice(a, 0, 5, 5), Slice(b, 0, 3, 3)], 4):
    ...     [(one.file.path, one.start, one.end) for one in part]
    [('a', 0, 4)]
    [('a', 4, 5), ('b', 0, 3)]
    """
    if rows < 1:
        raise ValueError(f"rows in a commit: expected 1 or more, got {rows}")
    waiting: list[Slice] = []
    for whole in slices:
        rest = whole
        while (room := rows - count(waiting)) < rest.rows:
            if room:
                waiting.append(replace(rest, end=rest.start + room))
            yield waiting
            waiting, rest = [], replace(rest, start=rest.start + room)
        waiting.append(rest)
    if waiting:
        yield waiting


def share(slices: Sequence[Slice], parts: int) -> list[list[Slice]]:
    """The same rows in at most so many lists of equal size."""
    return list(cut(slices, max(-(-count(slices) // parts), 1)))


def count(slices: Iterable[Slice]) -> int:
    """How many rows they have."""
    return sum(slice_.rows for slice_ in slices)
