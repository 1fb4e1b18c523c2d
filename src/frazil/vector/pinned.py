"""What searches of one scan share: a scan is pinned to a snapshot, so its plan and the rows it keeps never change."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frazil.scan.planning import FileTask
    from frazil.scan.reading import FileReader, RowScan
    from frazil.vector.live import LiveRows
    from frazil.vector.record import IndexRecord
    from frazil.vector.rows import AnswerRows

_lock = Lock()
_pinned: dict[int, Pinned] = {}  # by the identity of the scan, as long as it lives


@dataclass
class Pinned:
    """The files of a scan, the records of indexes that it was searched with, the live rows of each index, and rows of
    answers.
    """

    plan: Callable[[], list[FileTask]]
    records: dict[str, list[IndexRecord]] = field(default_factory=dict)  # by the column
    live: dict[tuple[str, ...], LiveRows] = field(default_factory=dict)  # by the segments of the index
    rows: AnswerRows | None = None
    readers: dict[int, FileReader] = field(default_factory=dict)  # of vectors, by the field
    searches: int = 0

    @cached_property
    def tasks(self) -> list[FileTask]:
        return self.plan()

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each file by its path."""
        return {task.path: number for number, task in enumerate(self.tasks)}


def pinned(scan: RowScan) -> Pinned:
    """What is kept of a scan until it is gone."""
    key = id(scan)
    with _lock:
        if key not in _pinned:
            planner = scan.planner()
            _pinned[key] = Pinned(lambda: list(planner.plan().tasks()))
            weakref.finalize(scan, _pinned.pop, key, None)
        return _pinned[key]


def pinned_records(scan: RowScan, column: str, load: Callable[[], list[IndexRecord]]) -> list[IndexRecord]:
    """The records of indexes that a column of a scan is searched with: loaded once, if there are any."""
    records = pinned(scan).records
    if not records.get(column):
        records[column] = load()
    return records[column]
