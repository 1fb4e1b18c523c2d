"""Indexes that are open for searches: codebooks, segments and blocks, kept by the names of their files, which never
change.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from frazil.errors import DataFileMissing, DataFileUnreadable, IndexDamaged
from frazil.vector.blocks import KEPT_BYTES, Blocks
from frazil.vector.codebook import Codebook, read_codebook
from frazil.vector.decoded import DecodedFiles
from frazil.vector.disk import CachedFiles, DiskCache
from frazil.vector.report import repair_command
from frazil.vector.search import Index
from frazil.vector.segment import Segment, open_segment

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from frazil.vector.record import IndexRecord

MOST_CODEBOOKS, MOST_SEGMENTS, MOST_FILES = 16, 1024, 65_536
T = TypeVar("T")

log = logging.getLogger("frazil.vector")


class Newest(Generic[T]):
    """Things by the name of their file: the last ones that were used. Threads that read one at the same time both read
    it; none waits for another.
    """

    def __init__(self, most: int) -> None:
        self._things: OrderedDict[str, T] = OrderedDict()
        self._most, self._lock = most, Lock()

    def get(self, path: str, read: Callable[[], T]) -> T:
        """The thing of this name, read if it is not there."""
        with self._lock:
            if path in self._things:
                self._things.move_to_end(path)
                return self._things[path]
        return self.put(path, read())

    def forget(self, path: str) -> None:
        """The thing of this name is read again the next time."""
        with self._lock:
            self._things.pop(path, None)

    def put(self, path: str, thing: T) -> T:
        with self._lock:
            self._things[path] = thing
            self._things.move_to_end(path)
            while len(self._things) > self._most:
                self._things.popitem(last=False)
        return thing


class OpenIndexes:
    """What searches of a lake have read of its indexes."""

    def __init__(self, *, max_bytes: int = KEPT_BYTES, disk: DiskCache | None = None) -> None:
        self._disk, self.decoded = disk, DecodedFiles()
        self._codebooks = Newest[Codebook](MOST_CODEBOOKS)
        self._segments = Newest[Segment](MOST_SEGMENTS)
        # How to read each file: keys may belong to one table, and have a short life, so it is always the newest.
        self._ios = Newest["FileIO"](MOST_FILES)
        self._blocks = Blocks(self._read, max_bytes=max_bytes)

    def open(self, record: IndexRecord, io: FileIO, *, table: str) -> tuple[Index | None, list[str]]:
        """The index with the segments that are there, and what is wrong with the others: their files are compared
        exactly.
        """
        io = io if self._disk is None else CachedFiles(io, self._disk)
        try:
            path = record.codebook
            codebook = self._codebooks.get(path, lambda: read_codebook(io, record))
        except DataFileUnreadable as exc:
            return None, [self._warn(table, record, exc)]
        segments, problems = [], []
        for info in record.segments:
            self._ios.put(info.path, io)
            try:
                segments.append(self._segments.get(info.path, partial(open_segment, io.new_input(info.path), codebook)))
            except DataFileUnreadable as exc:
                problems.append(self._warn(table, record, exc))
        return Index(codebook, segments, self._blocks), problems

    def forget(self, error: DataFileUnreadable) -> None:
        """A file that is damaged is read from the store again: it may be repaired under the same name."""
        if not isinstance(error.path, str):
            return
        self._codebooks.forget(error.path)
        self._segments.forget(error.path)
        self._blocks.forget(error.path)
        if self._disk is not None:
            self._disk.forget(error.path)

    def _read(self, path: str, start: int, end: int) -> bytes:
        try:
            with self._ios.get(path, _no_io).new_input(path).open() as stream:
                stream.seek(start)
                return bytes(stream.read(end - start))
        except FileNotFoundError as exc:
            raise DataFileMissing(path) from exc
        except OSError as exc:
            raise IndexDamaged(path, str(exc).partition("\n")[0]) from exc

    def _warn(self, table: str, record: IndexRecord, error: DataFileUnreadable) -> str:
        self.forget(error)
        log.warning(
            "%s: a part of index %s is not used: %s; `%s` repairs it",
            table,
            record.name,
            error.message,
            repair_command(table, record.name),
        )
        return error.message


def _no_io() -> FileIO:
    raise AssertionError("a segment that was not opened")
