"""Remote signing: a client describes a request to the object store, and gets it signed if it is one to the files of its
table.

Every request is checked against the grants and the places of the table as they are now, and answered with `no-store`:
Java clients keep a signature for half a minute where they may, for all users and catalogs of their process.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import orjson

from frazil.catalog import fields, place_rights, places
from frazil.catalog.access.needs import STAGED_LOCATION, STAGED_UUID
from frazil.catalog.access.privileges import Need, Privilege, Target
from frazil.catalog.context import Context
from frazil.catalog.fields import Json
from frazil.catalog.http import JSON_TYPE, Request, Response
from frazil.catalog.locations import Place, parse_key
from frazil.catalog.names import Name
from frazil.catalog.operations.rights import allowed_rights
from frazil.catalog.storage import Described, Rights, decide, outermost
from frazil.catalog.store import places as place_store
from frazil.catalog.store import relations
from frazil.catalog.store.database import Sql
from frazil.catalog.warehouse import Warehouse
from frazil.errors import BadRequest, LocationOccupied, LocationRefused, NoSuchTable, NotSigned, NotSupported
from frazil.logs import redact

NO_STORE = (b"cache-control", b"no-store")
_WHAT = "Sign request"


def sign_request(ctx: Context, request: Request) -> Response:
    """The request that the client describes, signed."""
    warehouse, name, body = ctx.warehouse(request), request.name(), request.json()
    wanted = _described(body)
    own, rights = _table(ctx, request, warehouse, name, fields.properties(body, "properties", _WHAT, optional=True))
    signer = ctx.signers.get(warehouse.name)
    if signer is None:
        raise NotSupported(
            f"Warehouse {warehouse.name} does not sign requests",
            hint=f"set server.storage.{warehouse.name}.remote_signing",
            name=warehouse.name,
        )
    try:
        _check_apart(ctx.database.read(), warehouse, name, own)
        signable = decide(wanted, own, rights, signer.access)
        headers = signer.sign(signable)
    except NotSigned as exc:
        request.refused = True  # for the audit log
        shown = redact(f"{wanted.method[:10]} {wanted.uri[:500]}")  # it may be a URL that is signed, or has a password
        request.mention(shown)
        raise NotSigned(f"{exc.reason} ({shown})", hint=exc.hint) from None
    answer = {"uri": signable.url, "headers": {header: [value] for header, value in headers.items()}}
    return Response(200, orjson.dumps(answer), [JSON_TYPE, NO_STORE])


def _described(body: Json) -> Described:
    if fields.text_or_none(body, "provider", _WHAT) not in (None, "s3"):
        raise BadRequest(f"{_WHAT}: 'provider' must be s3", option="provider")
    headers = fields.mapping(body, "headers", _WHAT)
    return Described(
        fields.text(body, "method", _WHAT),
        fields.text(body, "region", _WHAT),
        fields.text(body, "uri", _WHAT),
        {header: fields.texts(headers, header, f"{_WHAT}: headers") for header in headers},
        fields.text_or_none(body, "body", _WHAT),
    )


def _table(
    ctx: Context, request: Request, warehouse: Warehouse, name: Name, properties: dict[str, str]
) -> tuple[list[Place], Rights]:
    """The places of the table, and what the caller may do there."""
    sql = ctx.database.read()
    relation = relations.find(sql, warehouse.name, name)
    if relation is not None and relation.kind == "table":
        if STAGED_UUID in properties:  # it is there by now, and the caller may be another one
            ctx.gate.require(sql, request, Need(Privilege.READ, Target("table", warehouse.name, name.key, name.name)))
        stored = place_store.list_own(sql, warehouse=warehouse.name, name=name)
        return _allowed_places(ctx, warehouse, stored), allowed_rights(ctx, request, name)[1]
    if relation is not None or STAGED_UUID not in properties:
        raise NoSuchTable(str(name))
    location = fields.text(properties, STAGED_LOCATION, _WHAT)
    keys = places.checked_keys(ctx.warehouses, warehouse, [location])
    place_rights.check_staged(ctx, sql, request, warehouse, name, location, properties[STAGED_UUID])
    try:
        places.check_free(sql, ctx.warehouses, warehouse, name, keys, folds=ctx.folds(warehouse))
    except LocationOccupied as exc:
        raise LocationOccupied(exc.location, occupant="another table, view or namespace") from None
    return _allowed_places(ctx, warehouse, keys), allowed_rights(ctx, request, name, staged=True)[1]


def _allowed_places(ctx: Context, warehouse: Warehouse, keys: Sequence[str] | dict[str, str]) -> list[Place]:
    """The places of these keys in S3, as far as they lie where the operator allows tables, and in this store."""
    allowed = []
    for place in (parse_key(key) for key in keys if key.startswith("s3:/")):
        try:
            ctx.warehouses.check(warehouse, f"s3://{place.bucket}/{place.path}")
        except LocationRefused:
            continue
        if ctx.warehouses.access_to(place) == warehouse.access:
            allowed.append(place)
    return outermost(allowed)


def _check_apart(sql: Sql, warehouse: Warehouse, name: Name, own: Sequence[Place]) -> None:
    """Passes when no other table has a place in, at or above these: a signature for one would open the other."""
    keys = [place.key for place in own]
    others = place_store.list_near(sql, keys, warehouse=warehouse.name, name=name)
    if any(other.startswith(key) or key.startswith(other) for key in keys for other in others):
        raise NotSigned("the table's folder overlaps that of another table")


# --- what a client needs ---------------------------------------------------------------------------------------------


def signing_config(warehouse: Warehouse, name: Name) -> dict[str, str]:
    """What a client needs to have its requests signed. From Iceberg 1.12 on, Java clients know the endpoint by
    themselves; older ones take it from here.
    """
    segments = (warehouse.name, "namespaces", "\x1f".join(name.namespace), "tables", name.name, "sign")
    endpoint = "/".join(quote(segment, safe="") for segment in segments)
    return {
        **warehouse.access.public(),
        "s3.remote-signing-enabled": "true",
        "s3.signer.endpoint": f"v1/{endpoint}",
    }


def staged_config(metadata: Json) -> Json:
    """What the client sends back with each request, for a table that does not exist yet."""
    return {"properties": {STAGED_UUID: metadata["table-uuid"], STAGED_LOCATION: metadata["location"]}}
