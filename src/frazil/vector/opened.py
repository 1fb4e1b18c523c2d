"""Indexes that are open for searches: codebooks, segments and blocks, kept by the names of their files, which never
change.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

from frazil.errors import DataFileMissing, DataFileUnreadable, IndexDamaged
from frazil.vector.blocks import KEPT_BYTES, Blocks
from frazil.vector.codebook import Codebook
from frazil.vector.disk import CachedFiles, DiskCache
from frazil.vector.search import Index
from frazil.vector.segment import Segment

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from frazil.vector.record import IndexRecord

MOST_CODEBOOKS, MOST_SEGMENTS = 16, 1024

log = logging.getLogger("frazil.vector")


class OpenIndexes:
    """What searches of a lake have read of its indexes."""

    def __init__(self, *, max_bytes: int = KEPT_BYTES, disk: DiskCache | None = None) -> None:
        self._disk = disk
        self._codebooks: OrderedDict[str, Codebook] = OrderedDict()
        self._segments: OrderedDict[str, Segment] = OrderedDict()
        self._lock = Lock()
        self._io: FileIO | None = None
        self._blocks = Blocks(self._read, max_bytes=max_bytes)

    def open(self, record: IndexRecord, io: FileIO, *, table: str) -> tuple[Index | None, list[str]]:
        """The index with the segments that are there, and what is wrong with the others: their files are compared
        exactly.
        """
        io = io if self._disk is None else CachedFiles(io, self._disk)
        self._io = io  # always the newest: keys may have a short life
        try:
            codebook = self._codebook(record.codebook, io)
        except DataFileUnreadable as exc:
            return None, [self._warn(table, record, exc)]
        segments, problems = [], []
        for info in record.segments:
            try:
                segments.append(self._segment(info.path, io, dimension=len(codebook.rotation)))
            except DataFileUnreadable as exc:
                problems.append(self._warn(table, record, exc))
        return Index(codebook, segments, self._blocks), problems

    def forget(self, error: DataFileUnreadable) -> None:
        """A file that is damaged is read from the store again: it may be repaired under the same name."""
        if self._disk is not None and isinstance(error.path, str):
            self._disk.forget(error.path)

    def _codebook(self, path: str, io: FileIO) -> Codebook:
        with self._lock:
            if path not in self._codebooks:
                self._codebooks[path] = Codebook.read(io.new_input(path))
                while len(self._codebooks) > MOST_CODEBOOKS:
                    self._codebooks.popitem(last=False)
            return self._codebooks[path]

    def _segment(self, path: str, io: FileIO, *, dimension: int) -> Segment:
        with self._lock:
            if path not in self._segments:
                self._segments[path] = Segment(io.new_input(path), dimension=dimension)
                while len(self._segments) > MOST_SEGMENTS:
                    self._segments.popitem(last=False)
            return self._segments[path]

    def _read(self, path: str, start: int, end: int) -> bytes:
        assert self._io is not None
        try:
            with self._io.new_input(path).open() as stream:
                stream.seek(start)
                return bytes(stream.read(end - start))
        except FileNotFoundError as exc:
            raise DataFileMissing(path) from exc
        except OSError as exc:
            raise IndexDamaged(path, str(exc).partition("\n")[0]) from exc

    def _warn(self, table: str, record: IndexRecord, error: DataFileUnreadable) -> str:
        self.forget(error)
        log.warning(
            "%s: a part of index %s is not used: %s; `frazil index refresh %s %s` repairs it",
            table,
            record.name,
            error.message,
            table,
            record.name,
        )
        return error.message
