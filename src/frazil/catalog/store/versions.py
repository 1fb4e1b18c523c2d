"""Metadata files that were current until their table was dropped or its pointer set back: no later version's log names
them.

The sweeper deletes only what was never current, so it has to know these. The record begins when the database gets its
table.
"""

from __future__ import annotations

from collections.abc import Iterable

from frazil.catalog.locations import Place, parse_location
from frazil.catalog.names import Name
from frazil.catalog.store.database import Sql


def keep(sql: Sql, uuid: str, locations: Iterable[str | None]) -> None:
    """Remembers that these metadata files of a table or view were current, or may have been."""
    for location in dict.fromkeys(filter(None, locations)):
        sql.run(
            "INSERT INTO former_versions (metadata_location, uuid) VALUES (?, ?) ON CONFLICT DO NOTHING", location, uuid
        )


def keep_current(sql: Sql, warehouse: str, name: Name) -> None:
    """Remembers the version that a table or view points to now, and the one before: its pointer is about to go or to be
    set back.
    """
    statement = (
        "SELECT uuid, metadata_location, previous_location FROM relations WHERE warehouse = ? AND namespace = "
        "? AND name = ?"
    )
    for uuid, current, previous in sql.rows(statement, warehouse, name.key, name.name):
        keep(sql, uuid, (current, previous))


def is_former(sql: Sql, uuid: str) -> bool:
    """Whether a version of the table or view of this UUID is remembered."""
    return bool(sql.rows("SELECT 1 FROM former_versions WHERE uuid = ? LIMIT 1", uuid))


def has_former_in(sql: Sql, place: Place) -> bool:
    """Whether a version that is remembered lies in a place, however its location is spelled."""
    segment = place.path.rpartition("/")[2]
    for special in "\\%_":
        segment = segment.replace(special, f"\\{special}")
    statement = "SELECT metadata_location FROM former_versions WHERE metadata_location LIKE ? ESCAPE ?"
    return any(place.contains(parse_location(row[0])) for row in sql.rows(statement, f"%/{segment}/%", "\\"))


def all_former(sql: Sql) -> list[tuple[str, str]]:
    """(metadata location, UUID) of every version that is remembered."""
    return [(row[0], row[1]) for row in sql.rows("SELECT metadata_location, uuid FROM former_versions")]


def former_of(sql: Sql, uuid: str) -> list[str]:
    """The versions of one table or view that are remembered."""
    return [str(row[0]) for row in sql.rows("SELECT metadata_location FROM former_versions WHERE uuid = ?", uuid)]


def kept_since_ms(sql: Sql) -> int:
    """Since when versions are remembered."""
    return int(sql.rows("SELECT max(since_ms) FROM former_versions_since")[0][0])
