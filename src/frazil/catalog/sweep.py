"""Finding metadata files that never became current: what a commit leaves that was cut short after it wrote its file.

A file counts as an orphan only if it lies in the metadata folder of a table that exists, was never current (the tables' own logs tell),
and is older than a limit, so that no commit under way is taken for one. Files of dropped tables are left alone: dropping without a purge
keeps them on purpose.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from frazil.catalog.context import Context
from frazil.catalog.files import Entry
from frazil.catalog.history import Ancestry, ancestry, list_metadata_files, number_of
from frazil.catalog.locations import parse_location
from frazil.catalog.names import SEPARATOR
from frazil.catalog.store import relations
from frazil.catalog.warehouse import Warehouse


@dataclass(frozen=True)
class Orphan:
    """A metadata file that no table has ever pointed to."""

    table: str
    location: str
    bytes: int
    age_ms: int


def find_orphans(ctx: Context, *, older_than_ms: int) -> list[Orphan]:
    """The orphans of all warehouses, the oldest first."""
    found: list[Orphan] = []
    for warehouse in ctx.warehouses:
        found += _find(ctx, warehouse, older_than_ms)
    return sorted(found, key=lambda orphan: -orphan.age_ms)


def _find(ctx: Context, warehouse: Warehouse, older_than_ms: int) -> list[Orphan]:
    # Files are listed before the pointers are read: one that becomes current in between is then seen as current.
    tables = _tables(ctx, warehouse)
    listed: dict[str, tuple[str, Entry]] = {}
    for name, location in tables:
        listed |= {e.location: (name, e) for e in list_metadata_files(ctx.files, location)}
    known = [ancestry(ctx.files, location) for _, location in _tables(ctx, warehouse)]
    now = ctx.clock()
    old = ((name, entry) for name, entry in listed.values() if now - entry.modified_ms >= older_than_ms)
    return [Orphan(name, e.location, e.bytes, now - e.modified_ms) for name, e in old if _is_orphan(e, known)]


def _tables(ctx: Context, warehouse: Warehouse) -> list[tuple[str, str]]:
    rows = relations.metadata_locations(ctx.database.read(), warehouse.name)
    return [(".".join((*key.split(SEPARATOR), name)), location) for key, name, kind, location in rows if kind == "table"]


def _is_orphan(entry: Entry, known: Iterable[Ancestry]) -> bool:
    place, number = parse_location(entry.location), number_of(entry.location)
    folder = place.path.rpartition("/")[0]
    for line in known:
        if place in line.places:
            return False
        neighbours = any(p.path.rpartition("/")[0] == folder and p.bucket == place.bucket for p in line.places)
        if neighbours and (number is None or number < line.known_from):
            return False  # older than what the logs tell: it may have been current once
    return True


def delete_orphans(ctx: Context, orphans: Iterable[Orphan]) -> int:
    """The number of files that were deleted."""
    count = 0
    for orphan in orphans:
        ctx.files.delete(orphan.location)
        count += 1
    return count
