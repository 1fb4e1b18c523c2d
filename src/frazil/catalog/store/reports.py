"""Metrics reports in SQL, the newest of each table."""

from __future__ import annotations

from frazil.catalog.names import Name
from frazil.catalog.store.database import Sql

KEEP_PER_TABLE = 1000


def keep(sql: Sql, warehouse: str, name: Name, *, kind: str, report: str, now_ms: int) -> None:
    """Adds a report, and drops those of the table that are older than the newest thousand."""
    sql.run(
        "INSERT INTO reports (warehouse, namespace, name, received_ms, kind, report) VALUES (?, ?, ?, ?, ?, ?)",
        warehouse,
        name.key,
        name.name,
        now_ms,
        kind,
        report,
    )
    key = (warehouse, name.key, name.name)
    sql.run(
        "DELETE FROM reports WHERE warehouse = ? AND namespace = ? AND name = ? AND id < "
        "(SELECT id FROM reports WHERE warehouse = ? AND namespace = ? AND name = ? ORDER BY id DESC LIMIT 1 OFFSET ?)",
        *key,
        *key,
        KEEP_PER_TABLE - 1,
    )


def forget(sql: Sql, warehouse: str, name: Name) -> None:
    """Deletes the reports of a table that is dropped: the next one of its name starts without."""
    sql.run("DELETE FROM reports WHERE warehouse = ? AND namespace = ? AND name = ?", warehouse, name.key, name.name)


def rename(sql: Sql, warehouse: str, source: Name, target: Name) -> None:
    """Gives the reports of a table to its new name; what a former table left there goes."""
    forget(sql, warehouse, target)
    statement = "UPDATE reports SET namespace = ?, name = ? WHERE warehouse = ? AND namespace = ? AND name = ?"
    sql.run(statement, target.key, target.name, warehouse, source.key, source.name)


def newest(sql: Sql, warehouse: str, name: Name, *, limit: int = 100) -> list[tuple[int, str, str]]:
    """(received at, kind, report as JSON text), the newest first."""
    statement = (
        "SELECT received_ms, kind, report FROM reports WHERE warehouse = ? AND namespace = ? AND name = ? "
        "ORDER BY id DESC LIMIT ?"
    )
    return [(int(row[0]), row[1], row[2]) for row in sql.rows(statement, warehouse, name.key, name.name, limit)]
