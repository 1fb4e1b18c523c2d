"""Namespaces in SQL. Each function takes what it runs on, so that the caller decides about the transaction."""

from __future__ import annotations

import json

from frazil.catalog.names import SEPARATOR, Namespace, show
from frazil.catalog.store.database import Sql, Statement
from frazil.errors import AlreadyExists, NamespaceNotEmpty, NoSuchNamespace

Properties = dict[str, str]


def find(sql: Sql, warehouse: str, namespace: Namespace) -> Properties | None:
    """The namespace's properties, or None when there is no such namespace."""
    text = find_text(sql, warehouse, namespace)
    return None if text is None else parse_properties(text)


def find_text(sql: Sql, warehouse: str, namespace: Namespace) -> str | None:
    """The properties as they are stored."""
    rows = sql.rows(
        "SELECT properties FROM namespaces WHERE warehouse = ? AND namespace = ?", warehouse, SEPARATOR.join(namespace)
    )
    return str(rows[0][0]) if rows else None


def parse_properties(text: str) -> Properties:
    return dict(json.loads(text))


def load(sql: Sql, warehouse: str, namespace: Namespace) -> Properties:
    properties = find(sql, warehouse, namespace)
    if properties is None:
        raise NoSuchNamespace(show(namespace))
    return properties


def create(sql: Sql, warehouse: str, namespace: Namespace, properties: Properties) -> None:
    parent = namespace[:-1]
    if parent:
        load(sql, warehouse, parent)
    created = sql.run(
        "INSERT INTO namespaces (warehouse, namespace, parent, properties) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        warehouse,
        SEPARATOR.join(namespace),
        SEPARATOR.join(parent) if parent else None,
        json.dumps(properties),
    )
    if not created:
        raise AlreadyExists(f"Namespace already exists: {show(namespace)}")


def update(sql: Sql, warehouse: str, namespace: Namespace, properties: Properties, *, seen: Properties) -> bool:
    """Whether the properties were replaced; false when they are no longer the ones that were seen."""
    changed = sql.run(
        "UPDATE namespaces SET properties = ? WHERE warehouse = ? AND namespace = ? AND properties = ?",
        json.dumps(properties),
        warehouse,
        SEPARATOR.join(namespace),
        json.dumps(seen),
    )
    return changed == 1


def drop(sql: Sql, warehouse: str, namespace: Namespace) -> None:
    load(sql, warehouse, namespace)
    key = SEPARATOR.join(namespace)
    inside = "SELECT 1 FROM relations WHERE warehouse = ? AND namespace = ? LIMIT 1"
    below = "SELECT 1 FROM namespaces WHERE warehouse = ? AND parent = ? LIMIT 1"
    if sql.rows(inside, warehouse, key):
        raise NamespaceNotEmpty(
            f"Namespace {show(namespace)} is not empty: it contains tables or views", name=show(namespace)
        )
    if sql.rows(below, warehouse, key):
        raise NamespaceNotEmpty(
            f"Namespace {show(namespace)} is not empty: it contains namespaces", name=show(namespace)
        )
    sql.run("DELETE FROM namespaces WHERE warehouse = ? AND namespace = ?", warehouse, key)


def list_children(
    sql: Sql, warehouse: str, parent: Namespace, *, after: str, limit: int, seen: Statement | None = None
) -> list[str]:
    """The keys of the namespaces right below `parent` (the top level when it is empty), in order, from the one after
    `after`; `seen` is a condition on them.
    """
    condition, parameters = seen or ("", ())
    below, key = ("= ?", (SEPARATOR.join(parent),)) if parent else ("IS NULL", ())
    statement = (
        f"SELECT namespace FROM namespaces WHERE warehouse = ? AND parent {below} AND namespace > ?"  # noqa: S608  # constants
        f"{condition} ORDER BY namespace LIMIT ?"
    )
    return [row[0] for row in sql.rows(statement, warehouse, *key, after, *parameters, limit)]
