"""Local files. A file is durable when `write_new` returns: its content and, on journaling file systems, its name (fsync)."""

from __future__ import annotations

import os
from collections.abc import Iterator

from frazil.catalog import faults
from frazil.catalog.files import Entry
from frazil.catalog.locations import Place


class LocalFiles:
    remote = False

    def read(self, place: Place) -> bytes:
        with open(place.path, "rb") as file:  # noqa: PTH123  # a tenth of a commit's Python time would go into Path objects
            return file.read()

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
            # The name is new and no pointer knows it yet: a file cut short by a crash is an orphan that nobody reads.
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
                    found = os.lstat(path)
                except FileNotFoundError:
                    continue
                yield Entry(f"file://{path}", found.st_size, int(found.st_mtime * 1000))
