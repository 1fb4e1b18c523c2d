"""Credentials for the files of a table, vended to clients that ask for them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import quote

import orjson

from frazil.catalog import plan
from frazil.catalog.access.privileges import Privilege, Target
from frazil.catalog.context import Context
from frazil.catalog.fields import Json
from frazil.catalog.http import JSON_TYPE, Headers, Request, Response
from frazil.catalog.locations import Place, parse_location
from frazil.catalog.metadata import Version, with_config
from frazil.catalog.names import Name
from frazil.catalog.places import PATH_PROPERTIES
from frazil.catalog.storage import Credentials, Rights, outermost
from frazil.catalog.store import places as place_store
from frazil.catalog.store import relations
from frazil.catalog.warehouse import Warehouse
from frazil.errors import LocationRefused, MalformedLocation, NoSuchTable, NotSupported, NotVendable, Unavailable

log = logging.getLogger("frazil.catalog")

HEADER = b"x-iceberg-access-delegation"
ANONYMOUS = "anonymous"
NO_STORE = (b"cache-control", b"no-store")


def allowed_rights(ctx: Context, request: Request, name: Name, *, staged: bool = False) -> tuple[str, Rights]:
    """The caller, and what it may do with the files of the table. Without authentication everyone may do everything.
    The caller may write the files of a table whose creation it stages: the place is free.
    """
    if request.caller is None:
        return ANONYMOUS, Rights.ALL
    rights = rights_of(ctx.gate.privileges(request, Target("table", ctx.warehouse(request).name, name.key, name.name)))
    if staged and Privilege.CREATE in request.caller.ceiling:
        rights |= Rights.READ | Rights.WRITE
    if Rights.READ not in rights:
        raise NotVendable(str(name), "the caller may not read the table")
    return request.caller.principal, rights


def rights_of(privileges: Iterable[Privilege]) -> Rights:
    """What privileges on a table allow with its files: writers may add files, and delete none.

    >>> rights_of([Privilege.READ, Privilege.WRITE]) == Rights.READ | Rights.WRITE
    True
    >>> rights_of([Privilege.READ, Privilege.DROP]) == Rights.READ | Rights.DELETE
    True
    """
    held, rights = frozenset(privileges), Rights(0)
    if Privilege.READ in held:
        rights |= Rights.READ
        if Privilege.WRITE in held:
            rights |= Rights.WRITE
        if held & {Privilege.DROP, Privilege.MAINTAIN}:
            rights |= Rights.DELETE
    return rights


def wants_credentials(ctx: Context, request: Request) -> bool:
    """Whether the client asks for credentials, and its warehouse can vend them."""
    if not ctx.vendors or (asked := request.headers.get(HEADER)) is None:
        return False
    modes = (mode.strip() for mode in asked.lower().split(b","))
    return b"vended-credentials" in modes and ctx.warehouse(request).name in ctx.vendors


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
    """The answer to a load, with credentials. The version's cached bytes stay as they are, and there is no ETag: a 304
    would leave the client with old credentials.
    """
    reply = version.reply if which == "all" else version.refs_reply()
    return _answer(ctx, request, name, version.metadata, Response(200, reply, [JSON_TYPE], version.location))


def finish_created(ctx: Context, request: Request, response: Response) -> Response:
    """The answer to a create or register, with credentials if the client asks for them. The table exists whether they
    can be had or not: without, the client asks again when it loads.
    """
    if response.status != 200 or not wants_credentials(ctx, request):
        return response
    answer = orjson.loads(response.body)
    name = Name(request.namespace, request.json()["name"])
    try:
        return _answer(ctx, request, name, answer["metadata"], response, staged="metadata-location" not in answer)
    except Unavailable as exc:
        log.warning("table %s is answered without credentials: %s", name, exc.message)
        return response


def _answer(
    ctx: Context, request: Request, name: Name, metadata: Json, plain: Response, *, staged: bool = False
) -> Response:
    try:
        vended = _vend(ctx, request, name, metadata, staged=staged)
    except NotVendable as exc:
        # Clients such as PyIceberg always ask, also those that have keys of their own.
        log.warning("table %s is answered without credentials: %s", name, exc.message)
        return plain
    body = with_config(plain.body, vended.config, storage_credentials=vended.by_prefix())
    headers: Headers = [header for header in plain.headers if header[0] != b"etag"]
    # With a location it is not packed: the length of a packed answer would tell about the secrets in it.
    return Response(plain.status, body, [*headers, NO_STORE], plain.metadata_location or metadata["location"])


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
    left = [_place(key) for key in stored if key.startswith("s3:/")]
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


def _place(key: str) -> Place:
    """The place of a stored key."""
    scheme, _, rest = key.partition(":/")
    return parse_location(f"{scheme}://{rest}")


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
