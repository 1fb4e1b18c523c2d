"""Tables and views in SQL: one name belongs to one of them. The pointer to the metadata file is swapped by
compare-and-set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frazil.catalog.names import SEPARATOR, Name
from frazil.catalog.store.database import Sql, Statement


@dataclass(frozen=True, slots=True)
class Relation:
    """A row: what kind of thing has this name, where its current metadata file is, and where the one before."""

    kind: str
    uuid: str
    metadata_location: str
    previous_location: str | None = None


@dataclass(frozen=True, slots=True)
class Swap:
    """A pointer to be moved: from `old` (None for a new table) to `new`."""

    name: Name
    kind: str
    old: str | None
    new: str
    uuid: str
    location: str
    keeps_uuid: bool = False  # the row has this UUID; SQLite would write its index again


def find(sql: Sql, warehouse: str, name: Name) -> Relation | None:
    rows = sql.rows(
        "SELECT kind, uuid, metadata_location, previous_location FROM relations WHERE warehouse = ? AND namespace = ? "
        "AND name = ?",
        warehouse,
        name.key,
        name.name,
    )
    return Relation(*rows[0]) if rows else None


def find_with_version(sql: Sql, warehouse: str, name: Name) -> tuple[Relation | None, int]:
    """The same, and the version of keys, roles and grants at that moment."""
    row = sql.rows(
        "SELECT version, kind, uuid, metadata_location, previous_location FROM access_state LEFT JOIN relations "
        "ON warehouse = ? AND namespace = ? AND name = ?",
        warehouse,
        name.key,
        name.name,
    )[0]
    return (Relation(*row[1:]) if row[1] is not None else None), int(row[0])


@dataclass(frozen=True, slots=True)
class Vacancy:
    """What stands in the way of a new table or view."""

    properties: str | None  # of the namespace, as they are stored; None without a namespace
    kind: str | None  # of the table or view that has the name
    occupied: bool  # whether the query for occupants found a row
    access_version: int  # of keys, roles and grants at that moment


def find_free(sql: Sql, warehouse: str, name: Name, *, occupants: Statement | None = None) -> Vacancy:
    """What is known about the name, and whether the query `occupants` finds a row. One round trip for all of it."""
    query, values = occupants or ("SELECT 1 WHERE 1 = 0", ())
    statement = (
        f"SELECT namespaces.properties, relations.kind, EXISTS ({query}), version FROM access_state "  # noqa: S608
        "LEFT JOIN namespaces ON namespaces.warehouse = ? AND namespaces.namespace = ? "
        "LEFT JOIN relations ON relations.warehouse = namespaces.warehouse AND "
        "relations.namespace = namespaces.namespace AND relations.name = ?"
    )
    properties, kind, occupied, version = sql.rows(statement, *values, warehouse, name.key, name.name)[0]
    return Vacancy(properties, kind, bool(occupied), int(version))


def lock(sql: Sql, warehouse: str, name: Name) -> None:
    """Keeps others from changing the row until the transaction ends; nothing happens when there is none."""
    statement = "UPDATE relations SET location = location WHERE warehouse = ? AND namespace = ? AND name = ?"
    sql.run(statement, warehouse, name.key, name.name)


def swap(sql: Sql, warehouse: str, change: Swap) -> bool:
    """Whether the pointer was moved; false when it was no longer at `old` (or, for a new table, when the name is
    taken).
    """
    statement, parameters = swap_statement(warehouse, change)
    return sql.run(statement, *parameters) == 1


_INSERT = (
    "INSERT INTO relations (warehouse, namespace, name, kind, uuid, metadata_location, location, places_known) "
    "SELECT ?, ?, ?, ?, ?, ?, ?, 1 WHERE 1 = 1{} ON CONFLICT DO NOTHING"
)
_UPDATE = (
    "UPDATE relations SET previous_location = metadata_location, metadata_location = ?, location = ?{} "
    "WHERE warehouse = ? AND namespace = ? AND name = ? AND kind = ? AND metadata_location = ?{}"
)
_AT_VERSION = " AND (SELECT version FROM access_state) = ?"


def swap_statement(warehouse: str, change: Swap, *, version: int | None = None) -> Statement:
    """The statement that moves the pointer; it changes no row when the pointer was no longer at `old`, nor when the
    version of keys, roles and grants is not this one.
    """
    condition, fenced = (_AT_VERSION, (version,)) if version is not None else ("", ())
    name = change.name
    if change.old is None:
        values = (warehouse, name.key, name.name, change.kind, change.uuid, change.new, change.location)
        return _INSERT.format(condition), (*values, *fenced)
    column, uuid = ("", ()) if change.keeps_uuid else (", uuid = ?", (change.uuid,))
    key = (warehouse, name.key, name.name, change.kind, change.old)
    return _UPDATE.format(column, condition), (change.new, change.location, *uuid, *key, *fenced)


def drop(sql: Sql, warehouse: str, name: Name, kind: str, metadata_location: str) -> bool:
    """Whether the row was removed; false when its pointer has moved since it was read."""
    statement = (
        "DELETE FROM relations WHERE warehouse = ? AND namespace = ? AND name = ? AND kind = ? AND "
        "metadata_location = ?"
    )
    return sql.run(statement, warehouse, name.key, name.name, kind, metadata_location) == 1


def rename(sql: Sql, warehouse: str, source: Name, target: Name, kind: str) -> bool:
    statement = (
        "UPDATE relations SET namespace = ?, name = ? WHERE warehouse = ? AND namespace = ? AND name = ? AND kind = ?"
    )
    return sql.run(statement, target.key, target.name, warehouse, source.key, source.name, kind) == 1


def list_names(
    sql: Sql, warehouse: str, namespace_key: str, kind: str, *, seen: Statement | None = None
) -> tuple[list[str], int]:
    """All names in a namespace, in order, and the version of keys, roles and grants at that moment; `seen` is a
    condition on the names.
    """
    condition, parameters = seen or ("", ())
    # The database joins them: one long text is read twice as fast as thousands of rows. No name holds a control
    # character.
    statement = (
        f"SELECT {sql.join_names}, (SELECT version FROM access_state) FROM relations "  # noqa: S608  # constants
        f"WHERE warehouse = ? AND namespace = ? AND kind = ?{condition}"
    )
    joined, version = sql.rows(statement, warehouse, namespace_key, kind, *parameters)[0]
    return sorted(joined.split(SEPARATOR)) if joined else [], int(version)


def page_names(
    sql: Sql, warehouse: str, namespace_key: str, kind: str, *, after: str, limit: int, seen: Statement | None = None
) -> tuple[list[str], int | None]:
    """Names in a namespace, in order, from the one after `after`, and the version as above, if there are any; `seen` is
    a condition on the names.
    """
    condition, parameters = seen or ("", ())
    statement = (
        "SELECT name, (SELECT version FROM access_state) FROM relations "  # noqa: S608  # constants
        f"WHERE warehouse = ? AND namespace = ? AND kind = ? AND name > ?{condition} ORDER BY name LIMIT ?"
    )
    rows = sql.rows(statement, warehouse, namespace_key, kind, after, *parameters, limit)
    return [row[0] for row in rows], int(rows[0][1]) if rows else None


def uuid_is_used(sql: Sql, uuid: str) -> bool:
    """Whether a table or view of any warehouse has this UUID."""
    return bool(sql.rows("SELECT 1 FROM relations WHERE uuid = ? LIMIT 1", uuid))


def metadata_locations(sql: Sql, warehouse: str) -> list[tuple[str, str, str, str]]:
    """(namespace key, name, kind, metadata location) of all tables and views of a warehouse."""
    return [
        (row[0], row[1], row[2], row[3])
        for row in sql.rows(
            "SELECT namespace, name, kind, metadata_location FROM relations WHERE warehouse = ?", warehouse
        )
    ]


@dataclass(frozen=True, slots=True)
class Pointer:
    """A table or view of any warehouse, and the metadata files that its row names."""

    warehouse: str
    namespace: str  # as a key
    name: str
    kind: str
    uuid: str
    metadata_location: str
    previous_location: str | None
    location: str

    @property
    def label(self) -> str:
        return ".".join((*self.namespace.split(SEPARATOR), self.name))


_POINTER = "warehouse, namespace, name, kind, uuid, metadata_location, previous_location, location"


def all_pointers(sql: Sql) -> list[Pointer]:
    """Every table and view of every warehouse in the database, also of warehouses that this server does not have."""
    statement = f"SELECT {_POINTER} FROM relations ORDER BY uuid, warehouse, namespace, name"  # noqa: S608  # a constant
    return [Pointer(*row) for row in sql.rows(statement)]


def having_uuid(sql: Sql, uuid: str) -> list[Pointer]:
    """The tables and views of any warehouse with this UUID, whatever their names are now."""
    statement = f"SELECT {_POINTER} FROM relations WHERE uuid = ? ORDER BY warehouse, namespace, name"  # noqa: S608
    return [Pointer(*row) for row in sql.rows(statement, uuid)]


def pointers_with(sql: Sql, uuid: str, locations: Sequence[str]) -> list[Pointer]:
    """The tables and views of any warehouse that have this UUID, or point to one of these metadata files."""
    marks = ", ".join("?" * len(locations))
    where = f"uuid = ? OR metadata_location IN ({marks}) OR previous_location IN ({marks})"
    query = f"SELECT {_POINTER} FROM relations WHERE {where}"  # noqa: S608
    return [Pointer(*row) for row in sql.rows(query, uuid, *locations, *locations)]
