"""Finding metadata files that never became current: what a commit leaves that was cut short after it wrote its file.

A file is an orphan only if it is certain that no table ever pointed to it: it lies in the metadata folder of a table
that exists, in that table's own location; it is not of another table or view; no log of any version names it, current
or former (store/versions.py); no table of any warehouse leads to it; and it was written while the catalog kept a record
of former versions. It must also be older than a limit, so that no commit under way is taken for one. Files of dropped
tables are left alone: dropping without a purge keeps them on purpose.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from frazil.catalog.context import Context
from frazil.catalog.files import Entry
from frazil.catalog.history import Ancestry, ancestry, list_metadata_files, number_of, uuid_in
from frazil.catalog.locations import Place, parse_location
from frazil.catalog.store import versions
from frazil.catalog.store.relations import Pointer
from frazil.scan.manifests import Candidates

log = logging.getLogger("frazil.catalog")


@dataclass(frozen=True)
class Orphan:
    """A metadata file that no table has ever pointed to."""

    table: str
    location: str
    bytes: int
    age_ms: int


@dataclass(frozen=True)
class _Listed:
    """A metadata file, and the table in whose folder it lies."""

    entry: Entry
    table: Pointer


def find_orphans(ctx: Context, *, older_than_ms: int) -> list[Orphan]:
    """The orphans of all warehouses of this server, the oldest first. `ReferencesUnknown`: a table cannot be read."""
    # Files are listed before the pointers are read: one that becomes current in between is then seen as current.
    before = ctx.guard.pointers()
    listed = _list(ctx, before)
    after = ctx.guard.pointers()
    now, since = ctx.clock(), versions.kept_since_ms(ctx.database.read())
    old = [file for file in listed if now - file.entry.modified_ms >= older_than_ms and file.entry.modified_ms >= since]
    known = [ancestry(ctx.files, location) for location in _roots(ctx, old, [*before, *after])]
    never = [file for file in old if not _may_have_been_current(file, known) and _is_of(ctx, file)]
    candidates = Candidates(file.entry.location for file in never)
    ctx.guard.spare_named(candidates, after)
    left = {*candidates.left}
    orphans = [
        Orphan(file.table.label, file.entry.location, file.entry.bytes, now - file.entry.modified_ms)
        for file in never
        if file.entry.location in left
    ]
    return sorted(orphans, key=lambda orphan: -orphan.age_ms)


def _list(ctx: Context, pointers: Sequence[Pointer]) -> list[_Listed]:
    """The files that lie directly in the metadata folders of tables, each folder once."""
    listed: dict[Place, _Listed] = {}
    served = {warehouse.name: warehouse for warehouse in ctx.warehouses}
    for pointer in pointers:
        folder = parse_location(pointer.metadata_location.rpartition("/")[0])
        if (
            pointer.kind != "table"
            or pointer.warehouse not in served
            or not ctx.guard.keeps_metadata_in(pointer, folder)
        ):
            continue
        for entry in list_metadata_files(ctx.files, pointer.metadata_location):
            place = parse_location(entry.location)
            if place.path.rpartition("/")[0] == folder.path:
                listed.setdefault(place, _Listed(entry, pointer))
    return list(listed.values())


def _roots(ctx: Context, files: Sequence[_Listed], pointers: Iterable[Pointer]) -> list[str]:
    """The versions whose logs may name one of the files: all current ones, and former ones of the same tables or
    folders.
    """
    if not files:
        return []
    uuids = {file.table.uuid for file in files}
    folders = {_folder(file.entry.location) for file in files}
    former = [
        where for where, uuid in versions.all_former(ctx.database.read()) if uuid in uuids or _folder(where) in folders
    ]
    current = [
        where for pointer in pointers for where in (pointer.metadata_location, pointer.previous_location) if where
    ]
    return list(dict.fromkeys((*current, *former)))


def _folder(location: str) -> Place:
    return parse_location(location.rpartition("/")[0])


def _may_have_been_current(file: _Listed, known: Iterable[Ancestry]) -> bool:
    place, number = parse_location(file.entry.location), number_of(file.entry.location)
    folder = _folder(file.entry.location)
    for line in known:
        if place in line.places:
            return True
        if folder in line.folders and (number is None or number < line.known_from):
            return True  # older than what the logs tell
    return False


def _is_of(ctx: Context, file: _Listed) -> bool:
    """Whether a file is the table's, as far as it says so: a folder may hold two tables, one after the other."""
    uuid = uuid_in(ctx.files, file.entry.location)
    return uuid is None or uuid == file.table.uuid


def delete_orphans(ctx: Context, orphans: Iterable[Orphan]) -> int:
    """The number of files that were deleted. Pointers are read once more: one that has become current
    meanwhile stays.
    """
    candidates = Candidates(orphan.location for orphan in orphans)
    ctx.guard.spare_named(candidates, ctx.guard.pointers())
    deleted = [path for path in candidates.left if ctx.files.delete(path)]
    log.info("swept %d orphan metadata files", len(deleted), extra={"fields": {"files": deleted}})
    return len(deleted)
