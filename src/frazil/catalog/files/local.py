"""Local files. A file is durable when `write_new` returns: its content and, on journaling file systems, its name
(fsync).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from typing import IO

from frazil.catalog import faults
from frazil.catalog.files import MOST_BYTES, Entry, NotReadable
from frazil.catalog.locations import Place


class LocalFiles:
    remote = False

    def read(self, place: Place, most_bytes: int = MOST_BYTES) -> bytes:
        # O_NONBLOCK: opening a FIFO would otherwise wait for a writer that never comes.
        descriptor = os.open(place.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return _read_regular(descriptor, place.path, most_bytes)
        finally:
            os.close(descriptor)

    def open(self, place: Place) -> IO[bytes]:
        descriptor = os.open(place.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _check_regular(os.fstat(descriptor), place.path)
            return os.fdopen(descriptor, "rb")
        except BaseException:
            os.close(descriptor)
            raise

    def write_new(self, place: Place, content: bytes | memoryview) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            descriptor = os.open(place.path, flags, 0o644)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(place.path), exist_ok=True)  # noqa: PTH103, PTH120
            descriptor = os.open(place.path, flags, 0o644)
        try:
            view = memoryview(content)
            written = 0
            # The name is new and no pointer knows it yet: a file truncated by a crash is an orphan that is never read.
            if faults.armed("metadata.partly-written"):
                written = os.write(descriptor, view[: len(view) // 2])
                faults.reach("metadata.partly-written")
            while written < len(view):
                written += os.write(descriptor, view[written:])
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def exists(self, place: Place) -> bool:
        try:
            os.stat(place.path)  # noqa: PTH116
        except OSError:
            return False
        return True

    def is_regular(self, place: Place) -> bool:
        """Whether there is a regular file at this place itself, not behind a symbolic link."""
        try:
            return stat.S_ISREG(os.lstat(place.path).st_mode)
        except OSError:
            return False

    def delete(self, place: Place) -> None:
        try:
            os.unlink(place.path)  # noqa: PTH108
        except FileNotFoundError:
            return

    def list(self, place: Place) -> Iterator[Entry]:
        for folder, _, names in os.walk(place.path):
            for name in names:
                path = os.path.join(folder, name)  # noqa: PTH118
                try:
                    status = os.lstat(path)
                except FileNotFoundError:
                    continue
                if not stat.S_ISREG(status.st_mode):
                    continue
                yield Entry(f"file://{path}", status.st_size, int(status.st_mtime * 1000))


def _check_regular(status: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise NotReadable(f"{path} is not a regular file")


def _read_regular(descriptor: int, path: str, most_bytes: int) -> bytes:
    status = os.fstat(descriptor)
    _check_regular(status, path)
    if status.st_size > most_bytes:
        raise NotReadable(f"{path} has {status.st_size:,} bytes; at most {most_bytes:,} are read")
    with open(descriptor, "rb", closefd=False) as file:
        return file.read(status.st_size + 1)  # files never change: one that grows while it is read is not ours
