"""Where a table's files are, and how they are opened: what a scan takes along, also into other processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, cast

from frazil.errors import ManifestUnreadable
from frazil.scan.planning.compiled import ScanCache
from frazil.storage_errors import classify, store_unavailable

if TYPE_CHECKING:
    from pyiceberg.io import FileIO


@dataclass(frozen=True, slots=True)
class Files:
    """Opens files by their location, with a table's own access to the store."""

    io: FileIO

    def __call__(self, path: str) -> IO[bytes]:
        return cast(IO[bytes], self.io.new_input(path).open())

    def __reduce__(self) -> tuple[Any, ...]:
        # PyIceberg puts what signs its requests among the properties, and that stays in this process.
        return reopen, (
            type(self.io),
            {key: value for key, value in self.io.properties.items() if isinstance(value, str)},
        )

    def read(self, path: str) -> bytes:
        """All of a manifest or manifest list."""
        try:
            with self(path) as source:
                return source.read()
        except FileNotFoundError as exc:
            raise ManifestUnreadable(path, "there is no such file") from exc
        except OSError as exc:
            if classify(exc).of_the_store:
                raise store_unavailable(path, exc) from exc
            raise ManifestUnreadable(path, str(exc).partition("\n")[0]) from exc


def reopen(kind: type[FileIO], properties: dict[str, str]) -> Files:
    """The same access in another process."""
    return Files(kind(properties))


@dataclass(frozen=True, slots=True)
class Source:
    """A table's files, and what is known of its manifests already."""

    open: Files
    cache: ScanCache

    @classmethod
    def of(cls, io: FileIO, cache: ScanCache | None = None) -> Source:
        """The files behind an access; a cache that is given reads by it from now on."""
        files = Files(io)
        if cache is None:
            return cls(files, ScanCache(files.read))
        cache.read_with(files.read)
        return cls(files, cache)
