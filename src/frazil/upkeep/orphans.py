"""Files in a table's folders that nothing leads to: what failed commits, killed writers and cut-short removals have
left.

A file that is not referred to may belong to a commit that is under way. Only its age tells: nothing younger than the
limit is touched. The folders are listed before the table is loaded, so a file that is committed in between is seen as
the table's. Every spelling of a path counts (`comparable`), and whatever is in doubt is spared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow.fs as pafs
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import Identifier

from frazil.errors import TableBroken, UpkeepError
from frazil.protocol import INDEX_FOLDER
from frazil.units import ms
from frazil.upkeep.others import every_table, find_referenced
from frazil.upkeep.paths import comparable, is_below
from frazil.upkeep.policy import LEAST_ORPHAN_AGE_MS, ORPHANS
from frazil.upkeep.reach import reachable
from frazil.upkeep.removing import Removed, folders_of, is_own, remove_files
from frazil.vector import index_files
from frazil.write.commit import ignore

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from frazil.client import FrazilCatalog

STEP = ORPHANS
AT_ONCE = 500_000  # old files whose names are held in memory; each portion asks all manifests once
LISTED_DEEP = 2  # folders below this depth (data/day=1/) are listed with all that is in them, in one go


@dataclass(frozen=True)
class Orphan:
    """A file that nothing leads to."""

    path: str
    bytes: int
    modified_ms: int


@dataclass(frozen=True)
class OrphanPlan:
    """The orphans that are old enough; younger ones are not looked at."""

    table: str
    orphans: tuple[Orphan, ...] = ()
    listed: int = 0
    older_than_ms: int = 0
    uuid: str = ""  # of the table whose orphans they are
    # files that this table does not lead to, and another one does
    needed: Mapping[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(orphan.bytes for orphan in self.orphans)


@dataclass
class Locations:
    """The folders of all tables of the catalog, asked for once: no files are removed from a folder that two tables
    share.
    """

    catalog: FrazilCatalog
    _found: dict[Identifier, tuple[str, ...]] = field(default_factory=dict)

    def neighbours(self, table: Table) -> list[str]:
        """The other tables with a folder inside one of the table's, or around it."""
        mine = folders_of(table)
        if not self._found:
            self._found = {identifier: self._folders(identifier) for identifier in every_table(self.catalog)}
        return sorted(
            ".".join(identifier)
            for identifier, theirs in self._found.items()
            if identifier != tuple(table.name()) and any(is_below(a, b) or is_below(b, a) for a in mine for b in theirs)
        )

    def _folders(self, identifier: Identifier) -> tuple[str, ...]:
        from pyiceberg.exceptions import NoSuchTableError, RESTError

        try:
            return folders_of(self.catalog.load_table(identifier))
        except NoSuchTableError:
            return ()  # dropped since it was listed
        except (RESTError, TableBroken, ValueError) as exc:
            raise UpkeepError(
                f"no orphans are removed: {'.'.join(identifier)} cannot be loaded, so the location of its files "
                f"is unknown: {exc}",
                hint="repair it first (frazil table), or leave this step out: --only compact,deletes,manifests,expire",
                reason=str(exc),
                problem="not-loadable",
                table=".".join(identifier),
            ) from exc


def plan_orphans(
    load: Callable[[], Table],
    *,
    now_ms: int,
    older_than_ms: int,
    locations: Locations,
    on_step: Callable[[str], None] = ignore,
) -> OrphanPlan:
    """The orphans of a table that are older than the limit. `load` gives the table as it is when it is called."""
    if older_than_ms < LEAST_ORPHAN_AGE_MS:
        raise UpkeepError(
            f"orphans younger than an hour are not removed, got a limit of {ms(older_than_ms)}",
            hint="files of a commit that is under way look like orphans; choose a longer time",
            problem="too-young",
        )
    table = load()
    name = ".".join(table.name())
    if others := locations.neighbours(table):
        raise UpkeepError(
            f"{name}: no orphans are removed: its folder is shared with {', '.join(others[:3])}",
            hint="give each table a folder of its own",
            table=name,
            problem="shared-folder",
            got=tuple(others),
        )
    listed, orphans = 0, list[Orphan]()
    for some in _portions(_old_files(table, now_ms - older_than_ms)):
        on_step("listed")
        listed += len(some)
        orphans += _unreferenced(some, load())  # loaded after the listing: what was committed in between is the table's
    folders = folders_of(table)
    orphans = [
        orphan for orphan in orphans if is_own(orphan.path, folders)
    ]  # a symbolic link may have led the listing elsewhere
    needed = find_referenced(table.catalog, (orphan.path for orphan in orphans), other_than=tuple(table.name()))
    left = sorted((orphan for orphan in orphans if orphan.path not in needed), key=lambda orphan: orphan.path)
    return OrphanPlan(name, tuple(left), listed, older_than_ms, str(table.metadata.table_uuid), needed)


def remove_orphans(table: Table, plan: OrphanPlan, *, on_step: Callable[[str], None] = ignore) -> Removed:
    """Removes what was found, and what the table, loaded just now, still does not lead to: a writer may have slept for
    days.

    Nothing, if a table of the same name has been recreated since.
    """
    if str(table.metadata.table_uuid) != plan.uuid:
        return Removed()
    return remove_files(table, (orphan.path for orphan in _unreferenced(plan.orphans, table)), on_step=on_step)


def _unreferenced(files: Sequence[Orphan], table: Table) -> list[Orphan]:
    left = {comparable(file.path): file for file in files}
    for path in index_files(table.catalog, table.name()):
        left.pop(comparable(path), None)
    for paths in reachable(table):
        for path in paths.to_pylist():
            left.pop(comparable(path), None)
        if not left:
            break
    return list(left.values())


def _portions(files: Iterable[Orphan]) -> Iterator[list[Orphan]]:
    waiting: list[Orphan] = []
    for file in files:
        waiting.append(file)
        if len(waiting) >= AT_ONCE:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _old_files(table: Table, until_ms: int) -> Iterator[Orphan]:
    """The files of the table's folders that were last written before a time; each once, though folders may lie in each
    other.
    """
    io = table.io
    if not isinstance(io, PyArrowFileIO):
        raise UpkeepError(
            f"{'.'.join(table.name())}: its files cannot be listed through {type(io).__name__}",
            hint="set py-io-impl to PyArrow's",
            table=".".join(table.name()),
        )
    folders = folders_of(table)
    for folder in folders:
        if any(folder != other and is_below(folder, other) for other in folders):
            continue  # the other one has it
        scheme, netloc, path = io.parse_location(folder, io.properties)
        prefix = folder[: folder.rindex(path)] if path in folder else f"{scheme}://"
        for info in _walk(io.fs_by_scheme(scheme, netloc), path, 0):
            # no time known: too young
            modified = int(info.mtime.timestamp() * 1000) if info.mtime is not None else until_ms
            if modified < until_ms and not _is_hidden(info.path.removeprefix(path)):
                yield Orphan(prefix + info.path, info.size or 0, modified)


def _walk(fs: pafs.FileSystem, path: str, depth: int) -> Iterator[pafs.FileInfo]:
    deep = depth >= LISTED_DEEP
    for info in fs.get_file_info(pafs.FileSelector(path, allow_not_found=True, recursive=deep)):
        if info.type == pafs.FileType.File:
            yield info
        elif info.type == pafs.FileType.Directory and not deep:
            yield from _walk(fs, info.path, depth + 1)


def _is_hidden(path: str) -> bool:
    """Whether a folder or file on the way is hidden: `_temporary`, `.crc`; a partition such as `_day=1` is not, nor are
    the files of indexes.

    >>> _is_hidden("data/_temporary/0/f.parquet"), _is_hidden("data/_day=1/f.parquet"), _is_hidden("metadata/.v1.json.crc")
    (True, False, True)
    """  # noqa: E501
    parts = path.strip("/").split("/")
    return any(part.startswith(("_", ".")) and "=" not in part for part in parts[parts[0] == INDEX_FOLDER :])
