"""What an operator does with the warehouses of the database: each function is one transaction.

Changes of warehouses take turns, so that of two that are created at once the second one sees the first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from frazil.catalog.files.access import S3Access
from frazil.catalog.storage.profile import SIGNED, VENDED, WarehouseProfile
from frazil.catalog.storage.secrets import Sealed, SecretKeys, require_keys
from frazil.catalog.storage.signer import can_sign
from frazil.catalog.store import access, audit, places
from frazil.catalog.store import warehouses as store
from frazil.catalog.store.database import Database, Sql
from frazil.catalog.store.warehouses import Contents, StoredWarehouse
from frazil.catalog.warehouse import Warehouse, find_conflict, open_warehouse
from frazil.errors import ConfigError, WarehouseError


@dataclass(frozen=True, slots=True)
class Operator:
    """Who changes warehouses, when, with which keys, and next to which warehouses of the settings."""

    by: str
    now_ms: int
    keys: SecretKeys | None = None
    settings: Mapping[str, str] = field(default_factory=dict)  # name -> root
    allow_overlap: bool = False


def list_warehouses(sql: Sql) -> list[StoredWarehouse]:
    """All warehouses of the database, the oldest first."""
    return store.list_all(sql)


def find_warehouse(sql: Sql, name: str) -> StoredWarehouse:
    rows = store.list_all(sql)
    for row in rows:
        if row.name == name:
            return row
    known = ", ".join(row.name for row in rows) or "none"
    raise WarehouseError(f"the database has no warehouse {name[:60]!r}", hint=f"it has: {known}", name=name[:60])


def describe_warehouse(row: StoredWarehouse) -> dict[str, Any]:
    """A warehouse for people and programs, without its secret."""
    profile = WarehouseProfile.model_validate_json(row.profile)
    return {
        "name": row.name,
        "root": row.root,
        **profile.model_dump(mode="json"),
        "secret_key_id": row.secret_key_id,
        "created_ms": row.created_ms,
        "updated_ms": row.updated_ms,
    }


# --- create and update -----------------------------------------------------------------------------------------------


def create_warehouse(
    database: Database, name: str, root: str, fields: Mapping[str, object], secret: str | None, operator: Operator
) -> StoredWarehouse:
    """A new warehouse. `fields` are those of its storage profile, `secret` is that of its access key."""
    warehouse = open_warehouse(name, root, S3Access(), stored=True)
    profile = _profile(warehouse, fields)
    sealed = _seal(name, profile, secret, operator.keys)
    row = _row(warehouse, profile, sealed, created_ms=operator.now_ms, updated_ms=operator.now_ms)

    def create(sql: Sql) -> StoredWarehouse:
        store.raise_version(sql)
        rows = store.list_all(sql)
        _check_free(sql, warehouse, rows, operator)
        _check_one_key(sealed, rows)
        store.add(sql, row)
        _record(sql, operator, "createWarehouse", f"warehouse {name} at {warehouse.root}")
        return row

    return database.write(create)


def update_warehouse(
    database: Database,
    name: str,
    changes: Mapping[str, object],
    secret: str | None,
    operator: Operator,
    *,
    forget_keys: bool = False,
) -> StoredWarehouse:
    """Changes the storage profile or the keys of a warehouse; its root stays, for its tables lie there."""

    def update(sql: Sql) -> StoredWarehouse:
        store.raise_version(sql)
        row = find_warehouse(sql, name)
        profile = _changed_profile(row, changes, secret, forget_keys=forget_keys)
        sealed = _stored_secret(row) if secret is None else _seal(name, profile, secret, operator.keys)
        sealed = None if profile.access_key_id is None else sealed
        if secret is not None:
            _check_one_key(sealed, [other for other in store.list_all(sql) if other.name != name])
        warehouse = open_warehouse(name, row.root, S3Access(), stored=True)
        new = _row(warehouse, profile, sealed, created_ms=row.created_ms, updated_ms=operator.now_ms)
        store.replace(sql, new)
        changed = sorted({*changes, *(["secret"] if secret is not None else []), *(["keys"] if forget_keys else [])})
        _record(sql, operator, "updateWarehouse", f"warehouse {name}: {', '.join(changed)}")
        return new

    return database.write(update)


def _changed_profile(
    row: StoredWarehouse, changes: Mapping[str, object], secret: str | None, *, forget_keys: bool
) -> WarehouseProfile:
    before = json.loads(row.profile)
    fields = {**before, **changes, **({"access_key_id": None} if forget_keys else {})}
    if "role_arn" in changes and "delegation" not in changes:
        others = [mode for mode in before.get("delegation", ()) if mode != VENDED]
        fields["delegation"] = [*([VENDED] if changes["role_arn"] else []), *others]
    if fields.get("access_key_id") != before.get("access_key_id") and secret is None and not forget_keys:
        raise WarehouseError(
            f"another access key id for warehouse '{row.name}' needs its secret",
            hint="add --secret-file FILE or --secret-from-env NAME",
            name=row.name,
            option="access_key_id",
        )
    return _profile(open_warehouse(row.name, row.root, S3Access()), fields)


def _profile(warehouse: Warehouse, fields: Mapping[str, object]) -> WarehouseProfile:
    """The profile, if it fits the warehouse."""
    values = dict(fields)
    values.setdefault("path_style", values.get("endpoint") is not None)
    values.setdefault("delegation", [VENDED] if values.get("role_arn") else [])
    try:
        profile = WarehouseProfile.model_validate(values)
    except ValidationError as exc:
        fault = exc.errors(include_url=False, include_input=False)[0]
        option = str(fault["loc"][0])
        raise WarehouseError(
            f"warehouse '{warehouse.name}', {option.replace('_', ' ')}: {fault['msg'].removeprefix('Value error, ')}",
            name=warehouse.name,
            option=option,
        ) from None
    _check_fits(warehouse, profile)
    return profile


def _check_fits(warehouse: Warehouse, profile: WarehouseProfile) -> None:
    if warehouse.place.scheme != "s3":
        fields = profile.model_dump(exclude_defaults=True)
        if fields:
            option = next(iter(fields))
            raise WarehouseError(
                f"warehouse '{warehouse.name}' is a folder of this machine, which has no {option.replace('_', ' ')}",
                hint="s3://bucket/path is a place in an object store",
                name=warehouse.name,
                option=option,
            )
    if VENDED in profile.delegation and profile.role_arn is None:
        raise WarehouseError(
            f"warehouse '{warehouse.name}' cannot vend credentials without a role",
            hint="add --role-arn ROLE",
            name=warehouse.name,
            option="role_arn",
        )
    if SIGNED in profile.delegation and not can_sign(profile.endpoint):
        raise WarehouseError(
            f"warehouse '{warehouse.name}' cannot sign requests: its endpoint has a path",
            hint="use an endpoint of scheme, host and port",
            name=warehouse.name,
            option="endpoint",
        )


def _seal(name: str, profile: WarehouseProfile, secret: str | None, keys: SecretKeys | None) -> Sealed | None:
    if profile.access_key_id is None and secret is None:
        return None
    if profile.access_key_id is None or not secret:
        missing = "access_key_id" if profile.access_key_id is None else "secret"
        raise WarehouseError(
            f"the keys of warehouse '{name}' are an access key id and its secret",
            hint="--access-key-id ID with --secret-file FILE, --secret-from-env NAME, or a prompt for it",
            name=name,
            option=missing,
        )
    return require_keys(keys, name).encrypt(name, secret)


def _row(
    warehouse: Warehouse, profile: WarehouseProfile, sealed: Sealed | None, *, created_ms: int, updated_ms: int
) -> StoredWarehouse:
    secret, key_id = (sealed.text, sealed.key_id) if sealed is not None else (None, None)
    return StoredWarehouse(
        warehouse.name, warehouse.root, profile.model_dump_json(), secret, key_id, created_ms, updated_ms
    )


def _stored_secret(row: StoredWarehouse) -> Sealed | None:
    return Sealed(row.secret, row.secret_key_id or "") if row.secret is not None else None


# --- checks ----------------------------------------------------------------------------------------------------------


def _check_free(sql: Sql, warehouse: Warehouse, rows: Iterable[StoredWarehouse], operator: Operator) -> None:
    """Passes when name and root are free: of other warehouses, and of their tables, views and namespaces."""
    others = [open_warehouse(row.name, row.root, S3Access(), stored=True) for row in rows]
    if any(other.name == warehouse.name for other in others):
        hint = f"frazil warehouse update {warehouse.name} changes it"
        raise WarehouseError(f"warehouse '{warehouse.name}' exists already", hint=hint, name=warehouse.name)
    if warehouse.name in operator.settings:
        raise WarehouseError(
            f"warehouse '{warehouse.name}' is one of the settings, at {operator.settings[warehouse.name]}",
            hint="choose another name, or leave it out of server.warehouses",
            name=warehouse.name,
        )
    others += [open_warehouse(name, root, S3Access()) for name, root in operator.settings.items()]
    if (conflict := find_conflict(warehouse, others, allow_overlap=operator.allow_overlap)) is not None:
        raise conflict
    if operator.allow_overlap:
        return
    for key in {warehouse.place.key, warehouse.real_key}:
        if (occupant := places.find_foreign(sql, key, warehouse=warehouse.name)) is not None:
            raise WarehouseError(
                f"warehouse '{warehouse.name}' cannot be at {warehouse.root}: {occupant} lies there",
                hint="choose another location",
                name=warehouse.name,
                path=warehouse.root,
            )


def _check_one_key(sealed: Sealed | None, rows: Iterable[StoredWarehouse]) -> None:
    """Passes when all secrets are encrypted with one key: a server has one."""
    if sealed is None:
        return
    other = next((row for row in rows if row.secret is not None and row.secret_key_id != sealed.key_id), None)
    if other is not None:
        raise ConfigError(
            f"the secret of warehouse '{other.name}' is encrypted with the key {other.secret_key_id}; "
            f"this is {sealed.key_id}",
            hint="use the key of the servers, or frazil warehouse rekey to change it",
            option="server.secret_key_file",
            name=other.name,
        )


# --- drop and rekey --------------------------------------------------------------------------------------------------


def warehouse_contents(sql: Sql, name: str) -> Contents:
    """What the database has in a warehouse that exists."""
    return store.contents(sql, find_warehouse(sql, name).name)


def drop_warehouse(database: Database, name: str, operator: Operator) -> None:
    """Removes an empty warehouse with its grants; no file is deleted."""

    def drop(sql: Sql) -> None:
        store.raise_version(sql)
        row = find_warehouse(sql, name)
        store.remove(sql, name)  # first: a namespace that is being created waits for this, or this for the namespace
        held = store.contents(sql, name)
        if held.namespaces or held.tables:
            raise WarehouseError(
                f"warehouse '{name}' has {held.namespaces} namespaces and {held.tables} tables and views",
                hint="drop them first; frazil tables lists them",
                name=name,
                problem="not-empty",
            )
        store.forget_grants(sql, name)
        access.raise_version(sql)  # what servers remember of them ends
        _record(sql, operator, "dropWarehouse", f"warehouse {name} at {row.root}, {held.grants} grants")

    database.write(drop)


def rekey_warehouses(database: Database, operator: Operator) -> list[str]:
    """The names of the warehouses whose secrets are now encrypted with the first key, and were not before."""

    def rekey(sql: Sql) -> list[str]:
        store.raise_version(sql)
        changed = []
        for row in store.list_all(sql):
            sealed = _stored_secret(row)
            if sealed is None:
                continue
            keys = require_keys(operator.keys, row.name)
            secret = keys.decrypt(row.name, sealed)  # also where nothing changes: it proves that the key works
            if sealed.key_id != keys.id:
                new = keys.encrypt(row.name, secret)
                fresh = replace(row, secret=new.text, secret_key_id=new.key_id, updated_ms=operator.now_ms)
                store.replace(sql, fresh)
                changed.append(row.name)
        if changed:
            _record(sql, operator, "rekeyWarehouses", f"warehouses {', '.join(changed)}")
        return changed

    return database.write(rekey)


def _record(sql: Sql, operator: Operator, operation: str, what: str) -> None:
    audit.add(sql, audit.Record(operator.now_ms, operator.by, "", "", "", operation, what, "allowed"))
