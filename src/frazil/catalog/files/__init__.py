"""Reading and writing metadata files: local files and S3 behind one protocol."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Protocol

from frazil.catalog.locations import Place

__all__ = ["MOST_BYTES", "Entry", "FileStore", "NotReadable", "Place"]

MOST_BYTES = 256 * 1024 * 1024  # of a metadata file, a manifest list or a manifest


class NotReadable(OSError):
    """A FIFO, a device or a socket where a file should be, or a file larger than any that Iceberg writes."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file as a listing shows it."""

    location: str
    bytes: int
    modified_ms: int


class FileStore(Protocol):
    """Where files live. `FileNotFoundError` and `OSError` come out as they are."""

    remote: bool  # a look costs a round trip

    def read(self, place: Place, most_bytes: int = MOST_BYTES) -> bytes:
        """The whole file. `NotReadable`: it is not a regular file, or larger than `most_bytes`."""

    def open(self, place: Place) -> IO[bytes]:
        """The file for reads of some of its ranges: a data file of a search. `NotReadable`: it is not a regular
        file.
        """

    def write_new(self, place: Place, content: bytes | memoryview) -> None:
        """Writes a file that did not exist; when it returns, the file is durable."""

    def exists(self, place: Place) -> bool: ...

    def is_regular(self, place: Place) -> bool:
        """Whether there is an ordinary file at this place, as far as that is known without a round trip."""

    def delete(self, place: Place) -> None:
        """Deletes a file; it is no error when there is none."""

    def list(self, place: Place) -> Iterator[Entry]:
        """All files below a place."""
