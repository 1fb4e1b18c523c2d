"""Credentials for the files of a table, vended to clients that ask for them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from urllib.parse import quote

import orjson

from frazil.catalog import plan
from frazil.catalog.context import Context
from frazil.catalog.fields import Json
from frazil.catalog.http import JSON_TYPE, Headers, Request, Response
from frazil.catalog.locations import Place, parse_key
from frazil.catalog.metadata import Version, with_config
from frazil.catalog.names import Name
from frazil.catalog.operations.rights import allowed_rights
from frazil.catalog.operations.signing import NO_STORE, signing_config, staged_config
from frazil.catalog.places import PATH_PROPERTIES
from frazil.catalog.storage import Credentials, outermost
from frazil.catalog.store import places as place_store
from frazil.catalog.store import relations
from frazil.catalog.warehouse import Warehouse
from frazil.errors import LocationRefused, MalformedLocation, NoSuchTable, NotSupported, NotVendable, Unavailable

log = logging.getLogger("frazil.catalog")

HEADER = b"x-iceberg-access-delegation"
VENDING, SIGNING = b"vended-credentials", b"remote-signing"


def access_modes(ctx: Context, request: Request) -> frozenset[bytes]:
    """The ways to the files that the client asks for, and its warehouse offers."""
    if not (ctx.vendors or ctx.signers) or (asked := request.headers.get(HEADER)) is None:
        return frozenset()
    warehouse = ctx.warehouse(request).name
    offered = [VENDING] if warehouse in ctx.vendors else []
    offered += [SIGNING] if warehouse in ctx.signers else []
    return frozenset(mode.strip() for mode in asked.lower().split(b",")).intersection(offered)


def load_credentials(ctx: Context, request: Request) -> Response:
    """Fresh credentials for a table. `planId` is accepted: plans are read with the credentials of their table."""
    warehouse, name = ctx.warehouse(request), request.name()
    relation = relations.find(ctx.database.read(), warehouse.name, name)
    if relation is None or relation.kind != "table":
        raise NoSuchTable(str(name))
    if warehouse.name not in ctx.vendors:
        raise NotSupported(
            f"Warehouse {warehouse.name} does not vend credentials",
            hint=f"frazil warehouse update {warehouse.name} --role-arn ROLE"
            if warehouse.stored
            else f"set server.storage.{warehouse.name}.role_arn",
            name=warehouse.name,
        )
    metadata = plan.load_current(ctx, name, relation).metadata
    body = orjson.dumps({"storage-credentials": _vend(ctx, request, name, metadata).by_prefix()})
    return Response(200, body, [JSON_TYPE, NO_STORE], relation.metadata_location)


def with_credentials(ctx: Context, request: Request, name: Name, version: Version, which: str) -> Response:
    """The answer to a load, with credentials, or with what signing needs. The version's cached bytes stay as they are,
    and there is no ETag: a 304 would leave the client with what it had.
    """
    reply = version.reply if which == "all" else version.refs_reply()
    return _answer(ctx, request, name, version.metadata, Response(200, reply, [JSON_TYPE], version.location))


def finish_created(ctx: Context, request: Request, response: Response) -> Response:
    """The answer to a create or register, with credentials or signing if the client asks for them. The table exists
    whether they can be had or not: without, the client asks again when it loads. A request that is sent again with its
    idempotency key gets them only if the table is still there.
    """
    if response.status != 200 or not access_modes(ctx, request):
        return response
    answer = orjson.loads(response.body)
    name, metadata = Name(request.namespace, request.json()["name"]), answer["metadata"]
    staged = "metadata-location" not in answer
    try:
        if not staged and not _is_there(ctx, request, name, metadata["table-uuid"]):
            return response
        return _answer(ctx, request, name, metadata, response, staged=staged)
    except Unavailable as exc:
        log.warning("table %s is answered without credentials: %s", name, exc.message)
        return response


def _is_there(ctx: Context, request: Request, name: Name, uuid: str) -> bool:
    relation = relations.find(ctx.database.read(), ctx.warehouse(request).name, name)
    return relation is not None and (relation.kind, relation.uuid) == ("table", uuid)


def _answer(
    ctx: Context, request: Request, name: Name, metadata: Json, plain: Response, *, staged: bool = False
) -> Response:
    """Credentials are preferred where both can be had: with them, a client asks once."""
    modes = access_modes(ctx, request)
    body = _with_credentials(ctx, request, name, metadata, plain.body, staged=staged) if VENDING in modes else None
    if body is None and SIGNING in modes:
        body = _with_signing(ctx, request, name, metadata, plain.body, staged=staged)
    if body is None:
        return plain
    headers: Headers = [header for header in plain.headers if header[0] != b"etag"]
    # With a location it is not packed: the length of a packed answer would tell about the secrets in it.
    return Response(plain.status, body, [*headers, NO_STORE], plain.metadata_location or metadata["location"])


def _with_credentials(
    ctx: Context, request: Request, name: Name, metadata: Json, reply: bytes, *, staged: bool
) -> bytes | None:
    try:
        vended = _vend(ctx, request, name, metadata, staged=staged)
    except NotVendable as exc:
        # Clients such as PyIceberg always ask, also those that have keys of their own.
        log.warning("table %s is answered without credentials: %s", name, exc.message)
        return None
    return with_config(reply, vended.config, storage_credentials=vended.by_prefix())


def _with_signing(
    ctx: Context, request: Request, name: Name, metadata: Json, reply: bytes, *, staged: bool
) -> bytes | None:
    warehouse = ctx.warehouse(request)
    try:
        if _check(ctx, warehouse, metadata["location"]).scheme != "s3":
            return None
    except NotVendable as exc:
        log.warning("table %s is answered without signing: %s", name, exc.message)
        return None
    more = {"remote_signing_config": staged_config(metadata)} if staged else {}
    return with_config(reply, signing_config(warehouse, name), **more)


@dataclass(frozen=True, slots=True)
class _Vended:
    locations: list[str]  # those that clients look up
    config: dict[str, str] = field(repr=False)

    def by_prefix(self) -> list[Json]:
        return [{"prefix": f"{location.rstrip('/')}/", "config": self.config} for location in self.locations]


def _vend(ctx: Context, request: Request, name: Name, metadata: Json, *, staged: bool = False) -> _Vended:
    """Credentials for a table's folders: those that its metadata names, and those that it has left, for its older
    files.
    """
    warehouse = ctx.warehouse(request)
    principal, rights = allowed_rights(ctx, request, name, staged=staged)
    named = {location: _check(ctx, warehouse, location) for location in locations_of(metadata)}
    sql = ctx.database.read()
    stored = place_store.list_own(sql, warehouse=warehouse.name, name=name)
    left = [parse_key(key) for key in stored if key.startswith("s3:/")]
    places = outermost([*named.values(), *(place for place in left if _is_reached(ctx, warehouse, place))])

    def others() -> list[str]:
        return place_store.list_near(sql, [place.key for place in places], warehouse=warehouse.name, name=name)

    credentials = ctx.vendors[warehouse.name].vend(principal, metadata["table-uuid"], places, rights, others)
    kept = outermost(named.values())
    prefixes = [location for location, place in named.items() if place in kept]
    return _Vended(prefixes, _config(warehouse, name, credentials))


def _check(ctx: Context, warehouse: Warehouse, location: str) -> Place:
    try:
        place = ctx.warehouses.check(warehouse, location)
    except (LocationRefused, MalformedLocation) as exc:
        raise NotVendable(location, exc.message, hint=exc.hint) from exc
    if not _is_reached(ctx, warehouse, place):
        raise NotVendable(
            location,
            f"it is in another object store than warehouse {warehouse.name}, or is reached with other keys",
            hint="create the table again in its warehouse",
        )
    return place


def _is_reached(ctx: Context, warehouse: Warehouse, place: Place) -> bool:
    """Whether the server reaches a place as it reaches the warehouse: only then is the warehouse's role about it."""
    return ctx.warehouses.access_to(place) == warehouse.access


def locations_of(metadata: Json) -> list[str]:
    """The folders that a table's current metadata names.

    >>> locations_of({"location": "s3://b/t", "properties": {"write.data.path": "s3://b/d", "owner": "ana"}})
    ['s3://b/t', 's3://b/d']
    """
    properties = metadata["properties"]
    return [metadata["location"], *(properties[key] for key in PATH_PROPERTIES if key in properties)]


def _config(warehouse: Warehouse, name: Name, credentials: Credentials) -> dict[str, str]:
    """What a client needs to reach the files, and to get fresh credentials before these end."""
    segments = (warehouse.name, "namespaces", "\x1f".join(name.namespace), "tables", name.name, "credentials")
    refresh = "/".join(quote(segment, safe="") for segment in segments)
    return {
        **warehouse.access.public(),
        **credentials.config(),
        "client.refresh-credentials-enabled": "true",
        "client.refresh-credentials-endpoint": f"v1/{refresh}",
    }
