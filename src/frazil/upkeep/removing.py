"""Files that are removed for good: several at once, each counted, none twice.

A file is removed only if it is a regular file in the table's own folders, and no table of the catalog leads to it.
Everything else is left, counted, and said.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.errors import ReferencesUnknown
from frazil.scan.manifests import comparable, has_dots, in_portions, real_folder
from frazil.scan.manifests import folders_of as folders_at
from frazil.upkeep.others import find_referenced
from frazil.upkeep.paths import is_below
from frazil.write.commit import ignore
from frazil.write.files import eraser

if TYPE_CHECKING:
    from pyiceberg.table import Table

log = logging.getLogger("frazil.upkeep")
THREADS = 8
AT_ONCE = 10_000  # files between two questions who else leads there


@dataclass(frozen=True)
class Removed:
    """How many files are gone, how many were gone before, and which could not be removed or were not ours to remove."""

    files: int = 0
    missing: int = 0
    failed: tuple[str, ...] = ()
    outside: int = 0  # not in the table's folders: added by hand, maybe owned by another program
    needed: int = 0  # other tables lead to them
    needed_by: tuple[str, ...] = ()
    unknown: int = 0  # left, for a table that cannot be read may lead to them
    doubt: str = ""  # which, and why

    def __add__(self, other: Removed) -> Removed:
        return Removed(
            self.files + other.files,
            self.missing + other.missing,
            (*self.failed, *other.failed)[:100],
            self.outside + other.outside,
            self.needed + other.needed,
            tuple(sorted({*self.needed_by, *other.needed_by}))[:10],
            self.unknown + other.unknown,
            self.doubt or other.doubt,
        )


def folders_of(table: Table) -> tuple[str, ...]:
    """Where a table's files lie: its location, and where its properties send data and metadata."""
    return folders_at(table.location(), table.metadata.properties)


def is_own(path: str, folders: Sequence[str]) -> bool:
    """Whether a path is that of a regular file in one of the folders, for every reader and with symbolic links
    followed.

    >>> is_own("s3://b/t/data/f", ["s3://b/t"]), is_own("s3://b/t/../u/f", ["s3://b/t"]), is_own("s3://b/t2/f", ["s3://b/t"])
    (True, False, False)
    """
    if has_dots(path) or not any(is_below(path, folder) for folder in folders):
        return False
    plain = _local(path)
    if plain is None:
        return True
    try:
        if not stat.S_ISREG(os.lstat(plain).st_mode):
            return False
    except OSError:
        return True  # there is nothing to remove
    folder = f"{real_folder(plain.rpartition('/')[0])}/"
    return any(folder.startswith(f"{real_folder(own)}/") for own in map(_local, folders) if own)


def _local(path: str) -> str | None:
    """The path on this machine, as PyIceberg takes it; None in an object store."""
    if not comparable(path).startswith("file:"):
        return None
    return "/" + path.removeprefix("file:").removeprefix("//localhost").lstrip("/")


def remove_files(table: Table, paths: Iterable[str], *, on_step: Callable[[str], None] = ignore) -> Removed:
    """Removes files that lie in the table's own folders and that no table leads to, this one included; the others are
    counted and left.
    """
    folders, result, delete = folders_of(table), Removed(), eraser(table.io, table.location())

    def remove(path: str) -> Removed:
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
        for some in in_portions(paths, AT_ONCE):
            own = [path for path in some if is_own(path, folders)]
            result += Removed(outside=len(some) - len(own))
            free, left = _without_needed(table, own)
            on_step("removing files")
            result = sum(pool.map(remove, free), result + left)
            log.info(
                "%s: removed %d files",
                *(".".join(table.name()), len(free)),
                extra={"fields": {"table": ".".join(table.name()), "files": free}},
            )
    return result


def _without_needed(table: Table, paths: Sequence[str]) -> tuple[list[str], Removed]:
    """The files that nothing leads to, and the count of the others."""
    try:
        needed = find_referenced(table.catalog, paths)
    except ReferencesUnknown as exc:
        log.warning("%s: %d files are left: %s", ".".join(table.name()), len(paths), exc.message)
        return [], Removed(unknown=len(paths), doubt=exc.message)
    for path, label in needed.items():
        log.warning("%s: %s is left: %s leads to it", ".".join(table.name()), path, label)
    return [path for path in paths if path not in needed], Removed(
        needed=len(needed), needed_by=tuple(sorted(set(needed.values())))
    )
