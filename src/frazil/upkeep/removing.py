"""Files that are removed for good: several at once, each counted, none twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from frazil.sinks.erase import eraser
from frazil.sinks.publish import ignore
from frazil.upkeep.paths import is_below

if TYPE_CHECKING:
    from pyiceberg.table import Table

THREADS = 8
AT_ONCE = 512


@dataclass(frozen=True)
class Removed:
    """How many files are gone, how many were gone before, and which could not be removed or were not ours to remove."""

    files: int = 0
    missing: int = 0
    failed: tuple[str, ...] = ()
    outside: int = 0  # not in the table's folders: added by hand, maybe somebody else's

    def __add__(self, other: Removed) -> Removed:
        return Removed(
            self.files + other.files, self.missing + other.missing, (*self.failed, *other.failed)[:100], self.outside + other.outside
        )


def folders_of(table: Table) -> tuple[str, ...]:
    """Where a table's files lie: its location, and where its properties send data and metadata."""
    properties = table.metadata.properties
    others = (properties.get("write.data.path"), properties.get("write.metadata.path"), properties.get("write.object-storage.path"))
    return tuple(dict.fromkeys(folder.rstrip("/") for folder in (table.location(), *others) if folder))


def remove_files(table: Table, paths: Iterable[str], *, on_step: Callable[[str], None] = ignore) -> Removed:
    """Removes files that lie in the table's folders; the others are counted and left."""
    folders, result, delete = folders_of(table), Removed(), eraser(table.io, table.location())

    def remove(path: str) -> Removed:
        if not any(is_below(path, folder) for folder in folders):
            return Removed(outside=1)
        if "?" in path or "#" in path:  # PyIceberg takes these for the end of the name, and would remove another file
            return Removed(failed=(f"{path}: a name with ? or # is not removed here",))
        try:
            delete(path)
        except FileNotFoundError:
            return Removed(missing=1)
        except Exception as exc:  # whatever a store says: the file stays, is named, and is an orphan
            return Removed(failed=(f"{path}: {exc}",))
        return Removed(files=1)

    with ThreadPoolExecutor(THREADS, thread_name_prefix="frazil-upkeep") as pool:
        for some in _portions(paths):
            on_step("removing files")
            result = sum(pool.map(remove, some), result)
    return result


def _portions(paths: Iterable[str]) -> Iterator[list[str]]:
    waiting = iter(paths)
    while some := list(islice(waiting, AT_ONCE)):
        yield some
