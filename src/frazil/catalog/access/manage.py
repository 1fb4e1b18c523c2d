"""What an operator does with keys, roles and grants: each function is one transaction on the catalog's database."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

from frazil.catalog.access import keys
from frazil.catalog.access.privileges import ADMIN, Privilege, Target, grantee_of, included
from frazil.catalog.names import SEPARATOR, Name
from frazil.catalog.store import access as store
from frazil.catalog.store import audit, indexes, namespaces, relations, warehouses
from frazil.catalog.store.access import Grant, StoredKey
from frazil.catalog.store.database import Database, Sql
from frazil.errors import AccessError
from frazil.logs import hide_tokens

# A principal of an issuer is ISSUER/SUBJECT; what that looks like, access/issuers.py decides.
ISSUED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}/[A-Za-z0-9][A-Za-z0-9_.@|:+=-]{0,127}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,127}")
COMMAND_LINE = "command line"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made. Its text is not kept anywhere."""

    id: str
    principal: str
    token: str
    expires_ms: int | None

    def __repr__(self) -> str:
        return f"NewKey(id={self.id!r}, principal={self.principal!r})"


class Writes(Protocol):
    """A database, or a transaction on it that is open."""

    def write(self, work: Callable[[Sql], T]) -> T:
        """The result of `work`."""


@dataclass(frozen=True, slots=True)
class Within:
    """A transaction that is open: what is changed through it takes part in it."""

    sql: Sql

    def write(self, work: Callable[[Sql], T]) -> T:
        return work(self.sql)


# --- keys ------------------------------------------------------------------------------------------------------------


def open_pepper(database: Database, path: Path) -> bytes:
    """The pepper of the database's keys; a new one, when there are no keys yet and no file."""
    check = store.pepper_check(database.read())
    return keys.make_pepper(path) if check is None else keys.read_checked_pepper(path, check)


def create_token(
    database: Writes,
    pepper: bytes,
    principal: str,
    *,
    now_ms: int,
    roles: Sequence[str] = (),
    scopes: Sequence[str] = (),
    expires_ms: int | None = None,
    by: str = COMMAND_LINE,
) -> NewKey:
    """A key for a principal, which is made if it is new and becomes a member of these roles."""
    _check_name(principal, "principal")
    key_id, token = keys.new_key()
    scope_text = ",".join(sorted({_privilege(scope) for scope in scopes}))
    digest = keys.digest_of(pepper, token.encode())
    key = StoredKey(key_id, principal, digest, scope_text, now_ms, expires_ms, None)

    def create(sql: Sql) -> None:
        store.set_pepper_check(sql, keys.check_of(pepper))
        store.add_principal(sql, principal, now_ms=now_ms)
        for role in roles:
            _find_role(sql, role)
            store.add_member(sql, role, principal)
        store.add_key(sql, key)
        _record(sql, by, "createToken", f"key {key_id} of {principal}", now_ms)

    database.write(create)
    return NewKey(key_id, principal, token, expires_ms)


def rotate_token(
    database: Writes, pepper: bytes, key_id: str, *, now_ms: int, keep_ms: int, by: str = COMMAND_LINE
) -> NewKey:
    """A new key with the principal, the scopes and the lifetime of another, which stays valid for `keep_ms` more."""
    new_id, token = keys.new_key()

    def rotate(sql: Sql) -> NewKey:
        old = _find_key(sql, key_id)
        if old.revoked_ms is not None:
            raise AccessError(f"the key {key_id} is revoked", hint="frazil token create makes a new one", got=key_id)
        lifetime = old.expires_ms - old.created_ms if old.expires_ms is not None else None
        expires_ms = now_ms + lifetime if lifetime is not None else None
        digest = keys.digest_of(pepper, token.encode())
        store.add_key(sql, replace(old, id=new_id, digest=digest, created_ms=now_ms, expires_ms=expires_ms))
        store.end_key(sql, key_id, expires_ms=now_ms + keep_ms)
        _record(sql, by, "rotateToken", f"key {key_id} of {old.principal}, new key {new_id}", now_ms)
        return NewKey(new_id, old.principal, token, expires_ms)

    return database.write(rotate)


def revoke_token(database: Writes, key_id: str, *, now_ms: int, by: str = COMMAND_LINE) -> StoredKey:
    """Ends a key at once, on all servers."""

    def revoke(sql: Sql) -> StoredKey:
        key = _find_key(sql, key_id)
        store.end_key(sql, key_id, revoked_ms=now_ms)
        _record(sql, by, "revokeToken", f"key {key.id} of {key.principal}", now_ms)
        return key

    return database.write(revoke)


def _find_key(sql: Sql, key_id: str) -> StoredKey:
    key = store.find_key(sql, key_id)
    if key is None:
        # The text may be a whole key: no more of it than an id is repeated.
        raise AccessError(f"there is no key {key_id[:16]!r}", hint="frazil token list shows all ids", got=key_id[:16])
    return key


# --- roles -----------------------------------------------------------------------------------------------------------


def create_role(database: Writes, name: str, *, now_ms: int, by: str = COMMAND_LINE) -> bool:
    """Whether the role is new."""
    _check_name(name, "role")

    def create(sql: Sql) -> bool:
        _record(sql, by, "createRole", f"role {name}", now_ms)
        return store.add_role(sql, name, now_ms=now_ms)

    return database.write(create)


def drop_role(database: Writes, name: str, *, now_ms: int, by: str = COMMAND_LINE) -> None:
    """Removes a role with its members and grants."""
    if name == ADMIN:
        raise AccessError(f"the role {ADMIN} cannot be dropped", got=name)

    def drop(sql: Sql) -> None:
        _find_role(sql, name)
        store.drop_role(sql, name)
        _record(sql, by, "dropRole", f"role {name}", now_ms)

    database.write(drop)


def change_member(
    database: Writes, role: str, principal: str, *, member: bool, now_ms: int, by: str = COMMAND_LINE
) -> bool:
    """Whether the principal was none before, or was one."""

    def change(sql: Sql) -> bool:
        _find_role(sql, role)
        if member and ISSUED.fullmatch(principal):
            store.add_principal(sql, principal, now_ms=now_ms)
        _find_principal(sql, principal)
        _record(sql, by, "addMember" if member else "removeMember", f"{principal} in role {role}", now_ms)
        return store.add_member(sql, role, principal) if member else store.remove_member(sql, role, principal)

    return database.write(change)


# --- grants ----------------------------------------------------------------------------------------------------------


def change_grant(
    database: Database, privilege: str, target: Target, grantee: str, *, adding: bool, by: str, now_ms: int
) -> bool:
    """Gives a privilege to a role, or to a principal as `user:NAME`, or takes it away; false if nothing changed."""
    grant = Grant(grantee, _privilege(privilege), target[1:], by, now_ms)

    def change(sql: Sql) -> bool:
        _find_grantee(sql, grantee)
        _record(sql, by, "grant" if adding else "revoke", f"{privilege} on {target} for {grantee}", now_ms)
        return store.add_grant(sql, grant) if adding else store.remove_grant(sql, grant)

    return database.write(change)


def change_grants(
    sql: Sql,
    target: Target,
    *,
    granted: Sequence[tuple[str, str]],
    revoked: Sequence[tuple[str, str]],
    by: str,
    now_ms: int,
) -> None:
    """Grants and revokes pairs of grantee and privilege on an object, in the transaction of the caller."""
    for pairs, adding in ((granted, True), (revoked, False)):
        for grantee, text in pairs:
            grant = Grant(grantee, _privilege(text), target[1:], by, now_ms)
            _find_grantee(sql, grantee)
            changed = store.add_grant(sql, grant) if adding else store.remove_grant(sql, grant)
            if changed:
                _record(sql, by, "grant" if adding else "revoke", f"{text} on {target} for {grantee}", now_ms)


def find_warehouse_target(sql: Sql, name: str, settings: Collection[str], *, granted: bool) -> Target:
    """The warehouse of this name: of the settings, in the database, or with namespaces there. With `granted` also one
    that is there no more, if grants on it are.
    """
    known = {*settings, *warehouses.known_names(sql, granted=granted)}
    if name not in known:
        raise AccessError(
            f"there is no warehouse {name[:60]!r}: there are {', '.join(sorted(known))}",
            hint="name it in server.warehouses, or frazil warehouse create",
            got=name[:60],
        )
    return Target("warehouse", name)


def find_target(sql: Sql, warehouse: str, name: str, *, index: str = "", namespace: bool = False) -> Target:
    """The table, view, index of a table, or namespace of a dotted name."""
    levels = tuple(name.split("."))
    table = Name(levels[:-1], levels[-1])
    relation = relations.find(sql, warehouse, table) if len(levels) > 1 and not namespace else None
    if relation is not None and index:
        if indexes.find(sql, relation.uuid, index) is None:
            hint = f"frazil index list {name} shows its indexes"
            raise AccessError(f"{relation.kind} {name} has no index {index[:60]!r}", hint=hint, got=index[:60])
        return Target("index", warehouse, table.key, table.name, index)
    if relation is not None:
        return Target(relation.kind, warehouse, table.key, table.name)
    if not index and namespaces.find(sql, warehouse, levels) is not None:
        return Target("namespace", warehouse, SEPARATOR.join(levels))
    raise AccessError(
        f"warehouse {warehouse} has no table, view or namespace {name}", hint="frazil tables lists them", got=name
    )


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a principal has a privilege on an object."""

    principal: str
    privilege: str  # that was granted
    grantee: str
    on: str  # the object that it was granted on
    granted_by: str


def explain(
    sql: Sql,
    target: Target,
    *,
    principal: str | None = None,
    privilege: str | None = None,
    groups: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Reason]:
    """The grants that give a principal, or anyone, a privilege, or any, on an object. `groups` are the roles of the
    groups of each issuer of OpenID Connect: who is in them is in tokens alone.
    """
    if principal is not None:
        _find_principal(sql, principal)
    members = store.all_members(sql)
    wanted = _privilege(privilege) if privilege is not None else None
    reasons = []
    for grant in store.grants_on(sql, target[1:]):
        if wanted is not None and wanted not in included([grant.privilege]):
            continue
        holders = members.get(grant.grantee, [grant.grantee.removeprefix("user:")])
        for holder in holders:
            if principal in (None, holder):
                on = str(_target_of(grant.object, target))
                reasons.append(Reason(holder, grant.privilege, grant.grantee, on, grant.granted_by))
        for issuer, group in _groups_of(grant.grantee, groups or {}):
            if principal is None or principal.startswith(f"{issuer}/"):
                on, holder = str(_target_of(grant.object, target)), f"{issuer}/* in the group {group}"
                reasons.append(Reason(holder, grant.privilege, grant.grantee, on, grant.granted_by))
    return reasons


def _groups_of(role: str, groups: Mapping[str, Mapping[str, str]]) -> list[tuple[str, str]]:
    """The issuers and their groups that have a role.

    >>> _groups_of("analyst", {"corp": {"data": "analyst", "ops": "admin"}})
    [('corp', 'data')]
    """
    return [(issuer, group) for issuer, roles in groups.items() for group, named in roles.items() if named == role]


def _target_of(names: store.Object, target: Target) -> Target:
    warehouse, namespace, name, index = names
    kind = (
        "index"
        if index
        else ("view" if target.kind == "view" else "table")
        if name
        else "namespace"
        if namespace
        else "warehouse"
        if warehouse
        else "server"
    )
    return Target(kind, *names)


def _record(sql: Sql, by: str, operation: str, what: str, now_ms: int) -> None:
    """Records a change of the command line, in its own transaction."""
    audit.add(sql, audit.Record(now_ms, by, "", "", "", operation, what, "allowed"))


# --- checks ----------------------------------------------------------------------------------------------------------


def _check_name(name: str, what: str) -> None:
    if hide_tokens(name) != name:  # it would be in lists and logs
        raise AccessError(f"{what}: expected a name, got a key or token", got=hide_tokens(name)[:60])
    if not NAME.fullmatch(name):
        raise AccessError(
            f"{what} {name[:60]!r}: expected letters, digits, '_', '.', '@' and '-', at most 128", got=name[:60]
        )


def _privilege(text: str) -> str:
    try:
        return Privilege(text).value
    except ValueError:
        names = ", ".join(Privilege)
        raise AccessError(f"privilege {text[:40]!r}: expected one of {names}", got=text[:40]) from None


def _find_role(sql: Sql, name: str) -> None:
    if not store.has_role(sql, name):
        raise AccessError(f"there is no role {name[:60]!r}", hint=f"frazil role create {name[:60]}", got=name[:60])


def _find_principal(sql: Sql, name: str) -> None:
    if not ISSUED.fullmatch(name) and not store.has_principal(sql, name):
        raise AccessError(
            f"there is no principal {name[:60]!r}", hint=f"frazil token create {name[:60]}", got=name[:60]
        )


def _find_grantee(sql: Sql, grantee: str) -> None:
    if grantee.startswith(grantee_of("")):
        _find_principal(sql, grantee.removeprefix(grantee_of("")))
    else:
        _find_role(sql, grantee)
