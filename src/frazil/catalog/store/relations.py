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


def find(sql: Sql, warehouse: str, name: Name) -> Relation | None:
    rows = sql.rows(
        "SELECT kind, uuid, metadata_location, previous_location FROM relations WHERE warehouse = ? AND namespace = ? "
        "AND name = ?",
        warehouse,
        name.key,
        name.name,
    )
    return Relation(*rows[0]) if rows else None


def find_with_version(sql: Sql, warehouse: str, name: Name) -> tuple[Relation | None, int | None]:
    """The same, and the version of keys, roles and grants at that moment; nothing of both without a row."""
    rows = sql.rows(
        "SELECT kind, uuid, metadata_location, previous_location, (SELECT version FROM access_state) FROM relations "
        "WHERE warehouse = ? AND namespace = ? AND name = ?",
        warehouse,
        name.key,
        name.name,
    )
    return (Relation(*rows[0][:4]), int(rows[0][4])) if rows else (None, None)


def find_free(
    sql: Sql, warehouse: str, name: Name, *, occupants: Statement | None = None
) -> tuple[str, str | None, bool] | None:
    """The properties of the namespace, as they are stored, the kind of the table or view that has the name, if any, and
    whether the query `occupants` finds a row; None without a namespace. One round trip for all three.
    """
    query, values = occupants or ("SELECT 1 WHERE 1 = 0", ())
    statement = (
        f"SELECT namespaces.properties, relations.kind, EXISTS ({query}) FROM namespaces LEFT JOIN relations "  # noqa: S608
        "ON relations.warehouse = namespaces.warehouse AND relations.namespace = namespaces.namespace AND "
        "relations.name = ? "
        "WHERE namespaces.warehouse = ? AND namespaces.namespace = ?"
    )
    rows = sql.rows(statement, *values, name.name, warehouse, name.key)
    return (str(rows[0][0]), rows[0][1], bool(rows[0][2])) if rows else None


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


def swap_statement(warehouse: str, change: Swap) -> Statement:
    """The statement that moves the pointer; it changes no row when the pointer was no longer at `old`."""
    if change.old is None:
        statement = (
            "INSERT INTO relations (warehouse, namespace, name, kind, uuid, metadata_location, location, places_known) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, 1) ON CONFLICT DO NOTHING"
        )
        name = change.name
        return statement, (warehouse, name.key, name.name, change.kind, change.uuid, change.new, change.location)
    statement = (
        "UPDATE relations SET previous_location = metadata_location, metadata_location = ?, uuid = ?, location = ? "
        "WHERE warehouse = ? AND namespace = ? AND name = ? AND kind = ? AND metadata_location = ?"
    )
    key = (warehouse, change.name.key, change.name.name, change.kind, change.old)
    return statement, (change.new, change.uuid, change.location, *key)


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


def list_names(sql: Sql, warehouse: str, namespace_key: str, kind: str, *, seen: Statement | None = None) -> list[str]:
    """All names in a namespace, in order; `seen` is a condition on them."""
    condition, parameters = seen or ("", ())
    # The database joins them: one long text is read twice as fast as thousands of rows. No name holds a control
    # character.
    statement = f"SELECT {sql.join_names} FROM relations WHERE warehouse = ? AND namespace = ? AND kind = ?{condition}"  # noqa: S608  # constants
    joined = sql.rows(statement, warehouse, namespace_key, kind, *parameters)[0][0]
    return sorted(joined.split(SEPARATOR)) if joined else []


def page_names(
    sql: Sql, warehouse: str, namespace_key: str, kind: str, *, after: str, limit: int, seen: Statement | None = None
) -> list[str]:
    """Names in a namespace, in order, from the one after `after`; `seen` is a condition on them."""
    condition, parameters = seen or ("", ())
    statement = (
        "SELECT name FROM relations WHERE warehouse = ? AND namespace = ? AND kind = ? AND name > ?"  # noqa: S608  # constants
        f"{condition} ORDER BY name LIMIT ?"
    )
    return [row[0] for row in sql.rows(statement, warehouse, namespace_key, kind, after, *parameters, limit)]


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
    """The tables and views of any warehouse with this UUID, whatever their names are now. Reads all rows."""
    statement = f"SELECT {_POINTER} FROM relations WHERE uuid = ? ORDER BY warehouse, namespace, name"  # noqa: S608
    return [Pointer(*row) for row in sql.rows(statement, uuid)]


def pointers_with(sql: Sql, uuid: str, locations: Sequence[str]) -> list[Pointer]:
    """The tables and views of any warehouse that have this UUID, or point to one of these metadata files."""
    marks = ", ".join("?" * len(locations))
    where = f"uuid = ? OR metadata_location IN ({marks}) OR previous_location IN ({marks})"
    query = f"SELECT {_POINTER} FROM relations WHERE {where}"  # noqa: S608
    return [Pointer(*row) for row in sql.rows(query, uuid, *locations, *locations)]
