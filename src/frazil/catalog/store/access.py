"""Principals, API keys, roles and grants in SQL. Each function takes what it runs on, so that the caller decides about
the transaction.

`access_state` holds a version. It goes up with every change that takes something away, so that what servers remember
of keys and grants ends at once, in every process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from frazil.catalog.names import SEPARATOR
from frazil.catalog.store.database import Sql, Statement

AFTER_SEPARATOR = chr(ord(SEPARATOR) + 1)
_WAREHOUSE, _NAMESPACE = "COALESCE(warehouse, '')", "COALESCE(namespace, '')"
_NAME, _INDEX = "COALESCE(name, '')", "COALESCE(index_name, '')"

CREATOR = "created it"  # who granted what comes with the creation of an object
Object = tuple[str, str, str, str]  # warehouse, namespace key, name, index; empty where the object is further up


@dataclass(frozen=True, slots=True)
class StoredKey:
    """An API key, without its secret."""

    id: str
    principal: str
    digest: str
    scopes: str  # privileges with commas; empty: no limit
    created_ms: int
    expires_ms: int | None
    revoked_ms: int | None
    used_ms: int | None = None  # about when it was last used


@dataclass(frozen=True, slots=True)
class Grant:
    """A privilege of a role, or of a user as `user:NAME`, on an object."""

    grantee: str
    privilege: str
    object: Object
    granted_by: str = ""
    granted_ms: int = 0


# --- the version -----------------------------------------------------------------------------------------------------


def version(sql: Sql) -> int:
    return int(sql.rows("SELECT version FROM access_state")[0][0])


def raise_version(sql: Sql) -> None:
    sql.run("UPDATE access_state SET version = version + 1")


def pepper_check(sql: Sql) -> str | None:
    check: str | None = sql.rows("SELECT pepper_check FROM access_state")[0][0]
    return check


def set_pepper_check(sql: Sql, check: str) -> None:
    sql.run("UPDATE access_state SET pepper_check = ?", check)


# --- principals and their keys ---------------------------------------------------------------------------------------

_KEY = "id, principal, digest, scopes, created_ms, expires_ms, revoked_ms, used_ms"


def add_principal(sql: Sql, name: str, *, now_ms: int) -> bool:
    """Whether it is new."""
    return sql.run("INSERT INTO principals (name, created_ms) VALUES (?, ?) ON CONFLICT DO NOTHING", name, now_ms) == 1


def has_principal(sql: Sql, name: str) -> bool:
    return bool(sql.rows("SELECT 1 FROM principals WHERE name = ?", name))


def add_key(sql: Sql, key: StoredKey) -> None:
    values = (key.id, key.principal, key.digest, key.scopes, key.created_ms, key.expires_ms, key.revoked_ms)
    sql.run(f"INSERT INTO api_keys ({_KEY}) VALUES (?, ?, ?, ?, ?, ?, ?, NULL)", *values)  # noqa: S608  # a constant


def find_key(sql: Sql, key_id: str) -> StoredKey | None:
    rows = sql.rows(f"SELECT {_KEY} FROM api_keys WHERE id = ?", key_id)  # noqa: S608  # a constant
    return StoredKey(*rows[0]) if rows else None


def list_keys(sql: Sql) -> list[StoredKey]:
    return [StoredKey(*row) for row in sql.rows(f"SELECT {_KEY} FROM api_keys ORDER BY principal, created_ms, id")]  # noqa: S608  # a constant


def end_key(sql: Sql, key_id: str, *, expires_ms: int | None = None, revoked_ms: int | None = None) -> None:
    """Revokes a key, or has it expire, never later than it would have."""
    raise_version(sql)
    if revoked_ms is not None:
        sql.run("UPDATE api_keys SET revoked_ms = ? WHERE id = ? AND revoked_ms IS NULL", revoked_ms, key_id)
    if expires_ms is not None:
        statement = "UPDATE api_keys SET expires_ms = ? WHERE id = ? AND (expires_ms IS NULL OR expires_ms > ?)"
        sql.run(statement, expires_ms, key_id, expires_ms)


def note_use(sql: Sql, key_id: str, *, now_ms: int) -> None:
    """Notes that a key is in use."""
    statement = "UPDATE api_keys SET used_ms = ? WHERE id = ? AND (used_ms IS NULL OR used_ms < ?)"
    sql.run(statement, now_ms, key_id, now_ms)


# --- roles -----------------------------------------------------------------------------------------------------------


def add_role(sql: Sql, name: str, *, now_ms: int) -> bool:
    """Whether it is new."""
    return sql.run("INSERT INTO roles (name, created_ms) VALUES (?, ?) ON CONFLICT DO NOTHING", name, now_ms) == 1


def has_role(sql: Sql, name: str) -> bool:
    return bool(sql.rows("SELECT 1 FROM roles WHERE name = ?", name))


def drop_role(sql: Sql, name: str) -> bool:
    """Removes a role with its members and its grants."""
    raise_version(sql)
    sql.run("DELETE FROM grants WHERE grantee = ?", name)
    return sql.run("DELETE FROM roles WHERE name = ?", name) == 1


def add_member(sql: Sql, role: str, principal: str) -> bool:
    raise_version(sql)  # a caller is remembered with its roles
    statement = "INSERT INTO role_members (principal, role) VALUES (?, ?) ON CONFLICT DO NOTHING"
    return sql.run(statement, principal, role) == 1


def remove_member(sql: Sql, role: str, principal: str) -> bool:
    raise_version(sql)
    return sql.run("DELETE FROM role_members WHERE principal = ? AND role = ?", principal, role) == 1


def roles_of(sql: Sql, principal: str) -> list[str]:
    return [row[0] for row in sql.rows("SELECT role FROM role_members WHERE principal = ? ORDER BY role", principal)]


def all_members(sql: Sql) -> dict[str, list[str]]:
    """The members of every role."""
    members: dict[str, list[str]] = {row[0]: [] for row in sql.rows("SELECT name FROM roles ORDER BY name")}
    for role, principal in sql.rows("SELECT role, principal FROM role_members ORDER BY role, principal"):
        members[role].append(principal)
    return members


# --- grants ----------------------------------------------------------------------------------------------------------


def add_grant(sql: Sql, grant: Grant) -> bool:
    """Whether it is new."""
    statement = (
        "INSERT INTO grants (grantee, privilege, warehouse, namespace, name, index_name, granted_by, granted_ms) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
    )
    names = [name or None for name in grant.object]
    return sql.run(statement, grant.grantee, grant.privilege, *names, grant.granted_by, grant.granted_ms) == 1


def grant_unless_held(grant: Grant, grantees: Sequence[str]) -> Statement:
    """The statement that adds a grant, unless these grantees have its privilege on the object, inherited or not."""
    chain = objects_above(grant.object)
    held = [part for above in chain for part in (*grantees, *above)]
    names = [name or None for name in grant.object]
    values = (grant.grantee, grant.privilege, *names, grant.granted_by, grant.granted_ms)
    return _grant_unless_held(len(grantees), len(chain)), (*values, *held, grant.privilege)


@lru_cache(maxsize=256)
def _grant_unless_held(grantees: int, objects: int) -> str:
    return (
        "INSERT INTO grants (grantee, privilege, warehouse, namespace, name, index_name, granted_by, granted_ms) "  # noqa: S608  # marks only
        f"SELECT ?, ?, ?, ?, ?, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM ({_granted(grantees, objects)}) AS held "
        "WHERE privilege = ?) ON CONFLICT DO NOTHING"
    )


def remove_grant(sql: Sql, grant: Grant) -> bool:
    """Whether there was one."""
    raise_version(sql)
    statement = f"DELETE FROM grants WHERE grantee = ? AND {_is_object()} AND privilege = ?"  # noqa: S608  # a constant
    return sql.run(statement, grant.grantee, *grant.object, grant.privilege) == 1


def forget_index(sql: Sql, target: Object) -> None:
    """Removes the grants on an index that is dropped; those on tables and namespaces go with their rows."""
    sql.run("DELETE FROM grants WHERE warehouse = ? AND namespace = ? AND name = ? AND index_name = ?", *target)


def _is_object() -> str:
    return f"{_WAREHOUSE} = ? AND {_NAMESPACE} = ? AND {_NAME} = ? AND {_INDEX} = ?"


def objects_above(target: Object) -> list[Object]:
    """The object and everything that it inherits from, the server first.

    >>> objects_above(("w", "a\\x1fb", "t", ""))
    [('', '', '', ''), ('w', '', '', ''), ('w', 'a', '', ''), ('w', 'a\\x1fb', '', ''), ('w', 'a\\x1fb', 't', '')]
    """
    warehouse, namespace, name, index = target
    levels = namespace.split(SEPARATOR) if namespace else []
    chain: list[Object] = [("", "", "", "")]
    chain += [(warehouse, "", "", "")] if warehouse else []
    chain += [(warehouse, SEPARATOR.join(levels[: count + 1]), "", "") for count in range(len(levels))]
    chain += [(warehouse, namespace, name, "")] if name else []
    chain += [target] if index else []
    return chain


def granted(sql: Sql, grantees: Sequence[str], target: Object) -> set[str]:
    """The privileges that these grantees have on an object, inherited ones included."""
    chain = objects_above(target)
    parameters = [part for above in chain for part in (*grantees, *above)]
    return {row[0] for row in sql.rows(_granted(len(grantees), len(chain)), *parameters)}


@lru_cache(maxsize=256)
def _granted(grantees: int, objects: int) -> str:
    marks = ", ".join("?" * grantees)
    select = f"SELECT privilege FROM grants WHERE grantee IN ({marks}) AND {_is_object()}"  # noqa: S608  # marks only
    return " UNION ALL ".join([select] * objects)


def sees_inside(sql: Sql, grantees: Sequence[str], target: Object) -> bool:
    """Whether these grantees have a privilege on something in a warehouse, in a namespace or on an index of a table."""
    marks = ", ".join("?" * len(grantees))
    warehouse, namespace, name, _ = target
    start = f"SELECT 1 FROM grants WHERE grantee IN ({marks}) AND {_WAREHOUSE} = ?"  # noqa: S608  # marks only
    if not namespace:
        return bool(sql.rows(f"{start} LIMIT 1", *grantees, warehouse))
    if name:
        statement = f"{start} AND {_NAMESPACE} = ? AND {_NAME} = ? LIMIT 1"
        return bool(sql.rows(statement, *grantees, warehouse, namespace, name))
    if sql.rows(f"{start} AND {_NAMESPACE} = ? LIMIT 1", *grantees, warehouse, namespace):
        return True
    below = f"{start} AND {_NAMESPACE} > ? AND {_NAMESPACE} < ? LIMIT 1"
    return bool(sql.rows(below, *grantees, warehouse, namespace + SEPARATOR, namespace + AFTER_SEPARATOR))


def seen_relations(grantees: Sequence[str], warehouse: str, namespace: str) -> Statement:
    """A condition on `relations`: the tables and views of a namespace that these grantees have a privilege on."""
    marks = ", ".join("?" * len(grantees))
    inside = f"SELECT {_NAME} FROM grants WHERE grantee IN ({marks}) AND {_WAREHOUSE} = ? AND {_NAMESPACE} = ?"  # noqa: S608  # marks only
    return f" AND name IN ({inside})", (*grantees, warehouse, namespace)


def seen_namespaces(grantees: Sequence[str], warehouse: str) -> Statement:
    """A condition on `namespaces`: those in which these grantees have a privilege on something."""
    marks, held = ", ".join("?" * len(grantees)), "COALESCE(held.namespace, '')"
    text = (
        f" AND EXISTS (SELECT 1 FROM grants AS held WHERE held.grantee IN ({marks}) "  # noqa: S608  # marks only
        f"AND COALESCE(held.warehouse, '') = ? AND ({held} = namespaces.namespace OR "
        f"({held} > namespaces.namespace || ? AND {held} < namespaces.namespace || ?)))"
    )
    return text, (*grantees, warehouse, SEPARATOR, AFTER_SEPARATOR)


def grants_on(sql: Sql, target: Object) -> list[Grant]:
    """The grants on an object and on everything that it inherits from, the server's first."""
    statement = (
        "SELECT grantee, privilege, granted_by, granted_ms FROM grants "  # noqa: S608  # a constant
        f"WHERE {_is_object()} ORDER BY grantee, privilege"
    )
    return [
        Grant(row[0], row[1], above, row[2], row[3])
        for above in objects_above(target)
        for row in sql.rows(statement, *above)
    ]
