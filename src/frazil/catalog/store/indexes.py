"""Indexes in SQL: a record for each index of a table, replaced by compare-and-set on its version.

The key is the table's UUID, so that a rename does not touch it, and a table that is registered again has its indexes
again.
"""

from __future__ import annotations

from dataclasses import dataclass

from frazil.catalog.store.database import Sql


@dataclass(frozen=True, slots=True)
class StoredIndex:
    """A row: the index, how often its record was replaced, and the record as JSON."""

    name: str
    uuid: str
    version: int
    record: str
    updated_ms: int


_COLUMNS = "name, uuid, version, record, updated_ms"


def list_of(sql: Sql, table_uuid: str) -> list[StoredIndex]:
    rows = sql.rows(f"SELECT {_COLUMNS} FROM indexes WHERE table_uuid = ? ORDER BY name", table_uuid)  # noqa: S608
    return [StoredIndex(*row) for row in rows]


def find(sql: Sql, table_uuid: str, name: str) -> StoredIndex | None:
    statement = f"SELECT {_COLUMNS} FROM indexes WHERE table_uuid = ? AND name = ?"  # noqa: S608
    rows = sql.rows(statement, table_uuid, name)
    return StoredIndex(*rows[0]) if rows else None


def create(sql: Sql, table_uuid: str, index: StoredIndex) -> bool:
    """Whether the name was free."""
    statement = (
        "INSERT INTO indexes (table_uuid, name, uuid, version, record, updated_ms) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT DO NOTHING"
    )
    values = (index.name, index.uuid, index.version, index.record, index.updated_ms)
    return sql.run(statement, table_uuid, *values) == 1


def replace(sql: Sql, table_uuid: str, index: StoredIndex, *, expected: int) -> bool:
    """Whether the index still had the expected version."""
    statement = (
        "UPDATE indexes SET version = ?, record = ?, updated_ms = ? "
        "WHERE table_uuid = ? AND name = ? AND uuid = ? AND version = ?"
    )
    changed = sql.run(
        statement, index.version, index.record, index.updated_ms, table_uuid, index.name, index.uuid, expected
    )
    return changed == 1


def drop(sql: Sql, table_uuid: str, name: str) -> bool:
    return sql.run("DELETE FROM indexes WHERE table_uuid = ? AND name = ?", table_uuid, name) == 1


def drop_all(sql: Sql, table_uuid: str) -> None:
    """The files of the table are deleted, and those of its indexes with them."""
    sql.run("DELETE FROM indexes WHERE table_uuid = ?", table_uuid)
