"""Files of indexes in object stores, kept on the local disk page by page: a search that was asked before reads nothing
from the store, also in another process.

Files of an index never change, so their names are enough to know them by. A page is kept with its CRC-32: one that is
damaged or half written is read from the store again. Several processes may use one folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile

from frazil.artifacts import cache_folder

if TYPE_CHECKING:
    from frazil.vector.metric import Numbers

PAGE = 4 * 1024
NEAR = 4  # pages between two that are missing that are cheaper to read than to ask for twice
LOOK_BYTES = 16 * 1024 * 1024  # that are written before the size of the folder is looked at
KEPT = 0.9  # of the limit, after files were deleted
THERE, LENGTH = np.uint64(1 << 63), np.uint64(32)  # an entry: whether the page is there, its length, its checksum

Fetch = Callable[[int, int], bytes]  # of the store: from, to


def index_cache_folder() -> Path:
    """Where pages are kept."""
    return cache_folder() / "indexes"


class DiskCache:
    """Pages of files, up to a number of bytes; the files that were not used for longest are deleted first."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder, self._max = folder, max_bytes
        self._lock, self._written, self._used = Lock(), LOOK_BYTES, set[str]()

    def read(self, location: str, start: int, end: int, fetch: Fetch) -> bytes:
        """A range of a file. What is missing of it is fetched in few ranges; a file that ends before gives less."""
        if end <= start:
            return b""
        try:
            with self._open(location) as (pages, entries):
                return self._read(pages, entries, start, end, fetch)
        except _Unusable:
            return fetch(start, end)

    def size(self, location: str, find: Callable[[], int]) -> int:
        """The size of a file, which is asked for once."""
        path = self._path(location, "size")
        with contextlib.suppress(OSError, ValueError):
            return int(path.read_text())
        size = find()
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            path.write_text(str(size))
        return size

    def forget(self, location: str) -> None:
        """The file is read from the store again: what it holds is damaged."""
        for kind in ("entries", "pages", "size"):
            with contextlib.suppress(OSError):
                self._path(location, kind).unlink(missing_ok=True)

    def _path(self, location: str, kind: str) -> Path:
        return self._folder / f"{hashlib.sha256(location.encode()).hexdigest()[:40]}.{kind}"

    @contextlib.contextmanager
    def _open(self, location: str) -> Iterator[tuple[int, int]]:
        if not hasattr(os, "pread"):
            raise _Unusable  # Windows
        with contextlib.ExitStack() as stack:
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                files = []
                for kind in ("pages", "entries"):
                    descriptor = os.open(self._path(location, kind), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                    stack.callback(os.close, descriptor)
                    files.append(descriptor)
                if location not in self._used:
                    self._used.add(location)
                    os.utime(files[0])  # when it was used last
            except OSError as exc:
                raise _Unusable from exc
            yield files[0], files[1]

    def _read(self, pages: int, entries: int, start: int, end: int, fetch: Fetch) -> bytes:
        first, last = start // PAGE, -(-end // PAGE)
        data = bytearray(os.pread(pages, (last - first) * PAGE, first * PAGE).ljust((last - first) * PAGE, b"\0"))
        known = np.zeros(last - first, np.uint64)
        stored = np.frombuffer(os.pread(entries, (last - first) * 8, first * 8), np.uint64)
        known[: len(stored)] = stored
        lengths = _lengths(data, known)
        for run_start, run_end in _runs(np.flatnonzero(lengths < 0)):
            fetched = fetch((first + run_start) * PAGE, (first + run_end) * PAGE)
            place = run_start * PAGE
            data[place : place + len(fetched)] = fetched
            for page in range(run_start, run_end):
                lengths[page] = min(PAGE, max(0, len(fetched) - (page - run_start) * PAGE))
            self._keep(pages, entries, first + run_start, fetched)
        short = np.flatnonzero(lengths < PAGE)
        stop = (int(short[0]) * PAGE + int(lengths[short[0]])) if len(short) else len(data)
        return bytes(data[start - first * PAGE : min(stop, end - first * PAGE)])

    def _keep(self, pages: int, entries: int, first: int, data: bytes) -> None:
        """Writes pages and then that they are there."""
        parts = [data[at : at + PAGE] for at in range(0, len(data), PAGE)]
        sums = [int(THERE) | (len(part) << int(LENGTH)) | zlib.crc32(part) for part in parts]
        try:
            os.pwrite(pages, data, first * PAGE)
            os.pwrite(entries, np.array(sums, np.uint64).tobytes(), first * 8)
        except OSError:
            return  # the disk is full: the page was read, and is not kept
        with self._lock:
            self._written += len(data)
            if self._written < LOOK_BYTES:
                return
            self._written = 0
        self._make_room()

    def _make_room(self) -> None:
        files = []
        for path in self._folder.glob("*.pages"):
            with contextlib.suppress(OSError):
                status = path.stat()
                files.append((status.st_mtime, status.st_blocks * 512, path))
        total = sum(size for _, size, _ in files)
        if total <= self._max:
            return
        for _, size, path in sorted(files):
            for kind in (".entries", ".pages", ".size"):
                with contextlib.suppress(OSError):
                    path.with_suffix(kind).unlink(missing_ok=True)
            total -= size
            if total <= KEPT * self._max:
                return


class _Unusable(Exception):
    """The folder cannot be used: reads go to the store."""


def _lengths(data: bytearray, entries: Numbers) -> Numbers:
    """The length of each page that is there and whole; -1 for the others."""
    lengths = np.full(len(entries), -1, np.int64)
    view = memoryview(data)
    for page in np.flatnonzero(entries & THERE).tolist():
        entry = int(entries[page])
        length = (entry >> int(LENGTH)) & 0x7FFF_FFFF
        if length <= PAGE and zlib.crc32(view[page * PAGE : page * PAGE + length]) == entry & 0xFFFF_FFFF:
            lengths[page] = length
    view.release()
    return lengths


def _runs(pages: Numbers) -> list[tuple[int, int]]:
    """Pages that lie near each other as one.

    >>> _runs(np.array([1, 2, 5, 40]))
    [(1, 6), (40, 41)]
    """
    runs: list[tuple[int, int]] = []
    for page in pages.tolist():
        if runs and page - runs[-1][1] <= NEAR:
            runs[-1] = (runs[-1][0], page + 1)
        else:
            runs.append((page, page + 1))
    return runs


# --- files -----------------------------------------------------------------------------------------------------------


class CachedFiles(FileIO):
    """Files whose ranges are kept on disk, if they lie in an object store."""

    def __init__(self, files: FileIO, cache: DiskCache) -> None:
        super().__init__()
        self._files, self._cache = files, cache

    def new_input(self, location: str) -> InputFile:
        source = self._files.new_input(location)
        return source if is_local(location) else _CachedFile(source, self._cache)

    def new_output(self, location: str) -> OutputFile:
        return self._files.new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._files.delete(location)


def is_local(location: str) -> bool:
    """Whether a file lies on a disk of this machine.

    >>> is_local("file:///a"), is_local("/a"), is_local("s3://a/b")
    (True, True, False)
    """
    return "://" not in location or location.startswith("file:")


class _CachedFile(InputFile):
    def __init__(self, source: InputFile, cache: DiskCache) -> None:
        super().__init__(source.location)
        self._source, self._cache = source, cache

    def __len__(self) -> int:
        return self._cache.size(self.location, lambda: len(self._source))

    def exists(self) -> bool:
        return self._source.exists()

    def open(self, seekable: bool = True) -> InputStream:
        return cast(InputStream, _CachedStream(self._read))

    def _read(self, start: int, end: int) -> bytes:
        return self._cache.read(self.location, start, end, self._fetch)

    def _fetch(self, start: int, end: int) -> bytes:
        with self._source.open() as stream:
            stream.seek(start)
            return bytes(stream.read(end - start))


class _CachedStream(io.RawIOBase):
    """Reads ranges from where it was put."""

    def __init__(self, read: Fetch) -> None:
        super().__init__()
        self._read_range, self._at = read, 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        assert whence == io.SEEK_SET
        self._at = offset
        return offset

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> Any:
        assert size >= 0
        data = self._read_range(self._at, self._at + size)
        self._at += len(data)
        return data
