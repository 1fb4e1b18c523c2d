"""Namespaces: list, create, load, check, drop, and change their properties."""

from __future__ import annotations

from frazil.catalog import fields, place_rights, places
from frazil.catalog.access.privileges import Target
from frazil.catalog.context import Context
from frazil.catalog.http import NO_CONTENT, Request, Response, json_response
from frazil.catalog.idempotency import transact
from frazil.catalog.locations import default_namespace_location
from frazil.catalog.names import SEPARATOR, Namespace, check_namespace, show, split_namespace
from frazil.catalog.pages import page_of
from frazil.catalog.store import namespaces as store
from frazil.catalog.store import warehouses as warehouse_store
from frazil.catalog.store.database import ConstraintBroken, Sql
from frazil.catalog.warehouse import Warehouse, WouldBlock
from frazil.errors import BadRequest, CommitConflict, NamespaceNotEmpty, NoSuchNamespace, NoSuchWarehouse, Unprocessable

INLINE_LENGTH = 8192  # characters of properties


def list_namespaces(ctx: Context, request: Request) -> Response:
    """The namespaces right below the parent, or at the top."""
    warehouse, page = ctx.warehouse(request), page_of(request)
    text = request.query.get("parent", "")
    parent = split_namespace(text) if text else ()
    sql = ctx.database.read()
    if parent:
        store.load(sql, warehouse.name, parent)
    seen = ctx.gate.seen_namespaces(request, warehouse.name, SEPARATOR.join(parent))
    keys, token = page.cut(
        store.list_children(sql, warehouse.name, parent, after=page.after, limit=page.limit, seen=seen)
    )
    return json_response({"namespaces": [key.split(SEPARATOR) for key in keys], "next-page-token": token})


def create_namespace(ctx: Context, request: Request) -> Response:
    body = request.json()
    levels = body.get("namespace")
    if not isinstance(levels, list):
        raise BadRequest("Create namespace: 'namespace' must be a list of text")
    namespace = check_namespace(levels)
    properties = fields.properties(body, "properties", "Create namespace", optional=True)
    _check_size(ctx, properties)
    warehouse = ctx.warehouse(request)
    _check_location(ctx, request, warehouse, namespace, properties)
    if "location" not in properties:
        location = place_rights.namespace_place(ctx, ctx.database.read(), request, warehouse, namespace)
        properties = properties if location is None else {**properties, "location": location}
    response = json_response({"namespace": list(namespace), "properties": properties})

    def create(sql: Sql) -> Response:
        hold_warehouse(sql, warehouse)
        try:
            store.create(sql, warehouse.name, namespace, properties)
            if "location" in properties:
                places.set_namespace_place(sql, warehouse, namespace, properties["location"])
        except ConstraintBroken as exc:  # the parent went away in between
            raise NoSuchNamespace(show(namespace[:-1])) from exc
        ctx.gate.own(sql, request, [Target("namespace", warehouse.name, SEPARATOR.join(namespace))])
        return response

    return transact(ctx, request, create)


def hold_warehouse(sql: Sql, warehouse: Warehouse) -> None:
    """Passes when the warehouse exists, and will until the transaction ends. A server may not have noticed yet that it
    was dropped: then it must get no namespace and no grant.
    """
    if warehouse.stored and not warehouse_store.hold(sql, warehouse.name, warehouse.root):
        raise NoSuchWarehouse(f"Warehouse does not exist: {warehouse.name}", name=warehouse.name)


def load_namespace(ctx: Context, request: Request) -> Response:
    """The properties, unless the caller sees the namespace only because of something in it."""
    namespace, warehouse = request.namespace, ctx.warehouse(request)
    properties = _shown(warehouse, namespace, _load(ctx, request))
    if not ctx.gate.sees_all(request, Target("namespace", warehouse.name, SEPARATOR.join(namespace))):
        properties = {}
    return json_response({"namespace": list(namespace), "properties": properties})


def _shown(warehouse: Warehouse, namespace: Namespace, properties: dict[str, str]) -> dict[str, str]:
    """The properties with the location that holds if none is set: without one, Trino creates unstaged and trips over
    our own file.
    """
    return {"location": default_namespace_location(warehouse.root, namespace), **properties}


def namespace_exists(ctx: Context, request: Request) -> Response:
    _load(ctx, request)
    return NO_CONTENT


def _load(ctx: Context, request: Request) -> dict[str, str]:
    """The properties; those of some length are not parsed in the event loop."""
    text = store.find_text(ctx.database.read(), ctx.warehouse(request).name, request.namespace)
    if text is None:
        raise NoSuchNamespace(show(request.namespace))
    if request.inline and len(text) > INLINE_LENGTH:
        raise WouldBlock
    return store.parse_properties(text)


def drop_namespace(ctx: Context, request: Request) -> Response:
    warehouse, namespace = ctx.warehouse(request), request.namespace

    def drop(sql: Sql) -> Response:
        try:
            store.drop(sql, warehouse.name, namespace)
        except ConstraintBroken as exc:  # something was created inside in between
            raise NamespaceNotEmpty(f"Namespace {show(namespace)} is not empty", name=show(namespace)) from exc
        return NO_CONTENT

    return transact(ctx, request, drop)


def update_properties(ctx: Context, request: Request) -> Response:
    """Sets and removes properties; what is in neither list stays."""
    body, namespace, warehouse = request.json(), request.namespace, ctx.warehouse(request)
    where = f"Properties of {show(namespace)}"
    removals = fields.texts(body, "removals", where) if body.get("removals") is not None else []
    updates = fields.properties(body, "updates", where, optional=True)
    both = sorted(set(removals) & set(updates))
    if both:
        raise Unprocessable(f"Invalid namespace update, cannot simultaneously set and remove keys: {', '.join(both)}")
    _check_location(ctx, request, warehouse, namespace, updates)
    if "location" in removals:
        place_rights.check_namespace_place(ctx, ctx.database.read(), request, warehouse, namespace, None)
    return transact(ctx, request, lambda sql: _change(ctx, sql, warehouse, namespace, set(removals), updates))


def _change(
    ctx: Context, sql: Sql, warehouse: Warehouse, namespace: Namespace, removals: set[str], updates: dict[str, str]
) -> Response:
    seen = store.load(sql, warehouse.name, namespace)
    changed = {k: v for k, v in (seen | updates).items() if k not in removals}
    if updates:
        _check_size(ctx, changed)
    if not store.update(sql, warehouse.name, namespace, changed, seen=seen):
        raise CommitConflict(f"Properties of {show(namespace)} were changed at the same time; retry")
    if "location" in updates or "location" in removals:
        places.set_namespace_place(sql, warehouse, namespace, changed.get("location"))
    answer = {
        "updated": sorted(updates),
        "removed": sorted(removals & set(seen)),
        "missing": sorted(removals - set(seen)),
    }
    return json_response(answer)


def _check_size(ctx: Context, properties: dict[str, str]) -> None:
    size, most = sum(len(key) + len(value) for key, value in properties.items()), ctx.limits.namespace_bytes
    if size > most:
        raise BadRequest(f"The namespace's properties have {size} characters; at most {most} are kept")


def _check_location(
    ctx: Context, request: Request, warehouse: Warehouse, namespace: Namespace, properties: dict[str, str]
) -> None:
    if "location" in properties:
        location, sql = properties["location"], ctx.database.read()
        ctx.warehouses.check(warehouse, location)
        place_rights.check_namespace_place(ctx, sql, request, warehouse, namespace, location)
        with place_rights.unnamed_occupants(ctx, request, warehouse):
            places.check_outside(sql, ctx.warehouses, warehouse, None, location)
