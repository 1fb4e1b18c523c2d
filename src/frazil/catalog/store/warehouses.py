"""Warehouses in SQL: where each one is, its storage profile, and the encrypted secret of its keys.

`warehouse_state` holds a version that goes up with every change, so that servers notice one by reading a number. The
change of the version also locks its only row: transactions that change warehouses take turns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from frazil.catalog.store.database import Sql

_COLUMNS = "name, root, profile, secret, secret_key_id, created_ms, updated_ms"


@dataclass(frozen=True, slots=True)
class StoredWarehouse:
    """A row."""

    name: str
    root: str
    profile: str  # JSON, without secrets
    secret: str | None = field(repr=False)  # encrypted
    secret_key_id: str | None  # of the key that encrypted it
    created_ms: int
    updated_ms: int


def version(sql: Sql) -> int:
    return int(sql.rows("SELECT version FROM warehouse_state")[0][0])


def raise_version(sql: Sql) -> None:
    """Has every server read the rows again, and keeps other changes of warehouses waiting until this one ends."""
    sql.run("UPDATE warehouse_state SET version = version + 1")


def list_all(sql: Sql) -> list[StoredWarehouse]:
    """All rows, the oldest first."""
    return [
        StoredWarehouse(*row)
        for row in sql.rows(f"SELECT {_COLUMNS} FROM warehouses ORDER BY created_ms, name")  # noqa: S608  # a constant
    ]


def add(sql: Sql, row: StoredWarehouse) -> None:
    values = (row.name, row.root, row.profile, row.secret, row.secret_key_id, row.created_ms, row.updated_ms)
    sql.run(f"INSERT INTO warehouses ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", *values)  # noqa: S608  # a constant


def replace(sql: Sql, row: StoredWarehouse) -> None:
    """Stores another profile and secret; name and root stay."""
    statement = "UPDATE warehouses SET profile = ?, secret = ?, secret_key_id = ?, updated_ms = ? WHERE name = ?"
    sql.run(statement, row.profile, row.secret, row.secret_key_id, row.updated_ms, row.name)


def remove(sql: Sql, name: str) -> bool:
    return sql.run("DELETE FROM warehouses WHERE name = ?", name) == 1


def hold(sql: Sql, name: str, root: str) -> bool:
    """Whether the warehouse exists at this root, and will until the transaction ends."""
    return sql.run("UPDATE warehouses SET updated_ms = updated_ms WHERE name = ? AND root = ?", name, root) == 1


@dataclass(frozen=True, slots=True)
class Contents:
    """What the database has under the name of a warehouse."""

    namespaces: int
    tables: int  # and views
    grants: int


def contents(sql: Sql, name: str) -> Contents:
    tables = ("namespaces", "relations", "grants")
    counts = [f"(SELECT count(*) FROM {table} WHERE warehouse = ?)" for table in tables]  # noqa: S608  # constants
    return Contents(*map(int, sql.rows(f"SELECT {', '.join(counts)}", name, name, name)[0]))


def known_names(sql: Sql, *, granted: bool) -> list[str]:
    """The names of the warehouses here and of those with namespaces; with `granted` also of those with grants."""
    statement = "SELECT name FROM warehouses UNION SELECT warehouse FROM namespaces"
    more = " UNION SELECT warehouse FROM grants WHERE warehouse IS NOT NULL" if granted else ""
    return [row[0] for row in sql.rows(statement + more)]


def forget_grants(sql: Sql, name: str) -> None:
    """Removes the grants on a warehouse that is dropped; those on tables and namespaces go with their rows."""
    sql.run("DELETE FROM grants WHERE warehouse = ?", name)
