"""Which places a caller may name: manage on what contains a place is needed to put a table, view or namespace there.

What contains a place is the table itself, its namespace, the warehouse, or the server for a location that the operator
allowed outside of all warehouses. `create` alone gives the default location, while there is no file in it: those of a
dropped table stay behind, and do not belong to the creator of the next one.

A staged table has files before it exists. The catalog stages it at a place of its own, with a random suffix; its uuid
proves that it was staged for this caller at this location, so nothing has to be stored until the commit that creates
it.
"""

from __future__ import annotations

import hmac
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from frazil.catalog.access.privileges import SERVER, Need, Privilege, Target
from frazil.catalog.context import Context
from frazil.catalog.fields import Json
from frazil.catalog.http import Request
from frazil.catalog.locations import default_location, default_namespace_location, folder_name, parse_location
from frazil.catalog.metadata import parse_file
from frazil.catalog.names import SEPARATOR, Name, Namespace
from frazil.catalog.places import has_twin, keys_of
from frazil.catalog.store import namespaces, versions
from frazil.catalog.store import places as store
from frazil.catalog.store.database import Sql
from frazil.catalog.warehouse import Warehouse
from frazil.errors import LocationOccupied, MetadataCorrupt, MetadataMissing

STAGED_MS = 24 * 3600 * 1000  # that a staged table may wait for its commit
_SUFFIX = r"-[0-9a-f-]{8,36}/"  # of the catalog, or of Trino


def check_places(
    ctx: Context,
    sql: Sql,
    request: Request,
    warehouse: Warehouse,
    name: Name,
    locations: Iterable[str],
    *,
    created: Json | None = None,
    own: Sequence[str] = (),
) -> None:
    """Passes when the caller may have these places for a table or view. `created` is the metadata of a new one, `own`
    are the places (`Place.key`) that it has.
    """
    if request.caller is None:
        return
    held = list(own)
    for location in locations:
        keys = keys_of([location])
        inside = all(any(key.startswith(place) for place in held) for key in keys)
        is_new = created is not None and location == created["location"]
        if not inside and not (is_new and _may_create_at(ctx, sql, request, warehouse, name, created or {})):
            _require(ctx, sql, request, warehouse, name.namespace, keys)
        held += keys


def check_namespace_place(
    ctx: Context, sql: Sql, request: Request, warehouse: Warehouse, namespace: Namespace, location: str | None
) -> None:
    """Passes when the caller may give a namespace this location; None stands for the default one."""
    if request.caller is None:
        return
    default = default_namespace_location(warehouse.root, namespace)
    keys, default_keys = keys_of([location or default]), keys_of([default])
    properties = namespaces.find(sql, warehouse.name, namespace)
    if properties is not None and keys.keys() <= keys_of([properties.get("location") or default]).keys():
        return  # it has this one
    if keys.keys() <= default_keys.keys() and _may_have_default(ctx, sql, request, warehouse, namespace):
        return
    _require(ctx, sql, request, warehouse, namespace if properties is not None else namespace[:-1], keys)


def namespace_place(ctx: Context, sql: Sql, request: Request, warehouse: Warehouse, namespace: Namespace) -> str | None:
    """The location that a new namespace has to have because its folder is another namespace's as well, or there are
    files in it that are not its creator's; None if it needs none.
    """
    if request.caller is None:
        return None
    keys = keys_of([default_namespace_location(warehouse.root, namespace)])
    shared = _is_shared(sql, warehouse, namespace, keys)
    if not shared and _may_have_default(ctx, sql, request, warehouse, namespace):
        return None
    return f"{_folder(sql, warehouse, namespace[:-1])}/{folder_name(namespace[-1])}-{ctx.new_uuid()[:8]}"


def _may_have_default(ctx: Context, sql: Sql, request: Request, warehouse: Warehouse, namespace: Namespace) -> bool:
    """Whether a namespace may have its default location: the caller manages what contains it, or it is empty and no
    one else's. The folder of the parent need not contain it: the parent may have a location of its own.
    """
    location = default_namespace_location(warehouse.root, namespace)
    keys = keys_of([location])
    containers = {_container(sql, warehouse, namespace[:-1], key) for key in keys}
    if _manages(ctx, request, containers):
        return True
    folds = ctx.folds(warehouse)
    occupied = (
        store.find_overlap(sql, key, warehouse=warehouse.name, name=None, folders=(), folds=folds) for key in keys
    )
    return not any(occupied) and not _is_shared(sql, warehouse, namespace, keys) and is_empty(ctx, location)


def _is_shared(sql: Sql, warehouse: Warehouse, namespace: Namespace, keys: Iterable[str]) -> bool:
    """Whether the default folder of a namespace is that of another one, or lies in it. The namespaces above do not
    count.
    """
    above = {(warehouse.name, SEPARATOR.join(namespace[:depth])) for depth in range(1, len(namespace) + 1)}
    for key in keys:
        other = store.find_namespace_above(sql, key)
        if other is not None and (other.warehouse, other.namespace) not in above:
            return True
    return has_twin(sql, warehouse, namespace)


def empty_place(ctx: Context, request: Request, chosen: Mapping[str, str]) -> bool:
    """Whether a place that the catalog chose has no files; always true without authentication."""
    return request.caller is None or all(is_empty(ctx, location) for location in chosen.values())


def is_empty(ctx: Context, location: str) -> bool:
    place = parse_location(location)
    return next(iter(ctx.files.store(place).list(place)), None) is None


@contextmanager
def unnamed_occupants(ctx: Context, request: Request, warehouse: Warehouse) -> Iterator[None]:
    """A place that is taken does not tell by whom, unless the caller may see everything in the warehouse."""
    try:
        yield
    except LocationOccupied as exc:
        if ctx.gate.sees_all(request, Target("warehouse", warehouse.name)):
            raise
        raise LocationOccupied(exc.location, occupant="another table, view or namespace") from None


# --- what contains a place -------------------------------------------------------------------------------------------


def _require(
    ctx: Context, sql: Sql, request: Request, warehouse: Warehouse, namespace: Namespace, keys: Iterable[str]
) -> None:
    for key in keys:
        ctx.gate.require(sql, request, Need(Privilege.MANAGE, _container(sql, warehouse, namespace, key)))


def _manages(ctx: Context, request: Request, containers: Iterable[Target]) -> bool:
    return all(Privilege.MANAGE in ctx.gate.privileges(request, container) for container in containers)


def _container(sql: Sql, warehouse: Warehouse, namespace: Namespace, key: str) -> Target:
    folder = next((folder for folder in _folders(sql, warehouse, namespace) if key.startswith(folder)), None)
    if folder is not None:
        own = SEPARATOR.join(namespace)
        inner = store.find_namespace_above(sql, key)
        # The location of another namespace may be the folder of this one, or lie in it.
        if (
            inner is None
            or len(inner.place) < len(folder)
            or (inner.warehouse, inner.namespace) == (warehouse.name, own)
        ):
            return Target("namespace", warehouse.name, own)
    inside = key.startswith((warehouse.place.key, warehouse.real_key))
    return Target("warehouse", warehouse.name) if inside else SERVER


def _folders(sql: Sql, warehouse: Warehouse, namespace: Namespace) -> list[str]:
    """The keys of the folder of a namespace's tables; none at the top of a warehouse."""
    return list(keys_of([_folder(sql, warehouse, namespace)])) if namespace else []


def _folder(sql: Sql, warehouse: Warehouse, namespace: Namespace) -> str:
    """The folder of a namespace's tables, or the root of the warehouse."""
    properties = (namespaces.find(sql, warehouse.name, namespace) if namespace else None) or {}
    return (properties.get("location") or default_namespace_location(warehouse.root, namespace)).rstrip("/")


# --- what `create` gives ---------------------------------------------------------------------------------------------


def _may_create_at(ctx: Context, sql: Sql, request: Request, warehouse: Warehouse, name: Name, metadata: Json) -> bool:
    """Whether this is where the catalog itself would put the new table or view, or where it was staged."""
    if _is_staged(ctx, request, warehouse, name, metadata) and not _was_claimed(ctx, sql, metadata):
        return True
    plain, suffixed = _is_default(sql, warehouse, name, metadata["location"])
    return (plain or suffixed) and is_empty(ctx, metadata["location"])


def _is_default(sql: Sql, warehouse: Warehouse, name: Name, location: str) -> tuple[bool, bool]:
    """Whether this is the default location of a table or view, and whether it is one with a suffix."""
    properties = namespaces.find(sql, warehouse.name, name.namespace) or {}
    defaults, keys = keys_of([default_location(warehouse.root, name, properties.get("location"))]), keys_of([location])
    patterns = [re.compile(re.escape(default[:-1]) + _SUFFIX) for default in defaults]
    suffixed = all(any(pattern.fullmatch(key) for pattern in patterns) for key in keys)
    return keys.keys() <= defaults.keys(), suffixed


# --- staged tables ---------------------------------------------------------------------------------------------------


def staged_location(
    ctx: Context, sql: Sql, request: Request, warehouse: Warehouse, name: Name, wanted: str | None
) -> str | None:
    """The location that a staged table gets of those that its creator names; None if the catalog has to choose. The
    default one may be another table's before the commit: it needs manage.
    """
    if request.caller is None or not wanted or not _is_default(sql, warehouse, name, wanted)[0]:
        return wanted
    containers = {_container(sql, warehouse, name.namespace, key) for key in keys_of([wanted])}
    return wanted if _manages(ctx, request, containers) else None


def staged_uuid(
    ctx: Context, sql: Sql, request: Request, warehouse: Warehouse, name: Name, location: str, *, chosen: bool
) -> str:
    """The uuid of a table that is staged (version 7: it has the time in it). It proves nothing for a place that the
    caller may name only with manage: that is checked again.
    """
    if request.caller is None or not (chosen or _is_default(sql, warehouse, name, location)[1]):
        return ctx.new_uuid()
    return _sign(ctx.gate.plan_secret(request), ctx.clock(), warehouse, name, location)


def check_staged(
    ctx: Context, sql: Sql, request: Request, warehouse: Warehouse, name: Name, location: str, table_uuid: str
) -> None:
    """Passes when the caller may write the files of a table that it has staged, before the commit that creates it."""
    if request.caller is None:
        return
    staged = {"location": location, "table-uuid": table_uuid}
    # Its own metadata folder alone is listed, for each request that is signed: there may be many data files by now.
    if not _is_staged(ctx, request, warehouse, name, staged) or _was_claimed(ctx, sql, staged, folder="metadata"):
        _require(ctx, sql, request, warehouse, name.namespace, keys_of([location]))


def _is_staged(ctx: Context, request: Request, warehouse: Warehouse, name: Name, metadata: Json) -> bool:
    try:
        wanted = uuid.UUID(metadata.get("table-uuid", ""))
    except ValueError:
        return False
    staged_ms = wanted.int >> 80
    if not 0 <= ctx.clock() - staged_ms <= STAGED_MS:
        return False
    signed = _sign(ctx.gate.plan_secret(request), staged_ms, warehouse, name, metadata["location"])
    return hmac.compare_digest(signed, str(wanted))


def _was_claimed(ctx: Context, sql: Sql, metadata: Json, *, folder: str | None = None) -> bool:
    """Whether a table or view has had the place of a staged table: it leaves a metadata file when it is dropped. One
    place can be staged twice, so that the uuid alone does not tell.
    """
    place, own = parse_location(metadata["location"]), metadata["table-uuid"]
    if versions.is_former(sql, own) or versions.has_former_in(sql, place):
        return True
    searched = replace(place, path=f"{place.path}/{folder}") if folder else place
    files = (entry.location for entry in ctx.files.store(place).list(searched))
    return any(_uuid_in(ctx, file) != own for file in files if file.endswith(".metadata.json"))


def _uuid_in(ctx: Context, file: str) -> object:
    """The UUID of the table that a metadata file describes. A commit that broke off leaves one of its own table."""
    try:
        return parse_file(file, ctx.files.read_bytes(file)).get("table-uuid")
    except (MetadataMissing, MetadataCorrupt):
        return None


def _sign(secret: bytes, at_ms: int, warehouse: Warehouse, name: Name, location: str) -> str:
    text = "\x00".join(("frazil staged", str(at_ms), warehouse.name, name.key, name.name, parse_location(location).key))
    raw = bytearray(at_ms.to_bytes(6, "big") + hmac.digest(secret, text.encode(), "sha256")[:10])
    raw[6], raw[8] = raw[6] & 0x0F | 0x70, raw[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(raw)))
