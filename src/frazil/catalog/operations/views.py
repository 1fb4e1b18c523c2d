"""Views: list, create, load, replace, check, drop, rename, register."""

from __future__ import annotations

from frazil.catalog import fields, plan, publish
from frazil.catalog.commit import parse_change
from frazil.catalog.context import Context
from frazil.catalog.http import NO_CONTENT, Request, Response
from frazil.catalog.idempotency import transact
from frazil.catalog.names import Name, check_name, show
from frazil.catalog.operations.tables import (
    check_free,
    find_relation,
    list_relations,
    rename_relation,
    table_response,
    taken_error,
)
from frazil.catalog.plan import Plan
from frazil.catalog.publish import LostRace
from frazil.catalog.store import namespaces, relations
from frazil.catalog.store.database import Sql
from frazil.catalog.views import decide_view, new_view, view_version
from frazil.catalog.warehouse import Warehouse
from frazil.errors import BadRequest, CommitConflict, MetadataCorrupt, MetadataMissing, NoSuchNamespace


def list_views(ctx: Context, request: Request) -> Response:
    return list_relations(ctx, request, "view")


def create_view(ctx: Context, request: Request) -> Response:
    body, warehouse = request.json(), ctx.warehouse(request)
    name = Name(request.namespace, check_name(body.get("name"), "view name"))
    check_free(ctx.database.read(), warehouse, name, "view")
    location = fields.text_or_none(body, "location", "Create view")
    location = location.rstrip("/") if location else plan.new_location(ctx, ctx.database.read(), warehouse, name)
    metadata = new_view(body, location=location, now_ms=ctx.clock(), uuid=ctx.new_uuid())
    plan.check_places(ctx, warehouse, metadata, None)
    version = view_version(plan.metadata_location(metadata, None, ctx.new_uuid()), metadata, rule=ctx.files.rule)
    try:
        return publish.publish(ctx, request, warehouse, [Plan(name, None, version, "view")], table_response(version))
    except LostRace:
        relation = relations.find(ctx.database.read(), warehouse.name, name)
        raise taken_error(name, relation.kind if relation else "view", wanted="view") from None


def load_view(ctx: Context, request: Request) -> Response:
    relation = find_relation(ctx.database.read(), ctx.warehouse(request), request.name("view"), "view")
    return table_response(ctx.files.load(relation.metadata_location, kind="view", inline=request.inline))


def view_exists(ctx: Context, request: Request) -> Response:
    find_relation(ctx.database.read(), ctx.warehouse(request), request.name("view"), "view")
    return NO_CONTENT


def replace_view(ctx: Context, request: Request) -> Response:
    """Commits updates to a view, if its requirements hold."""
    warehouse, name = ctx.warehouse(request), request.name("view")
    change = parse_change(request.json(), name)
    with publish.certain_failures(creates=False), ctx.locks.hold([(warehouse.name, name.key, name.name)]):
        for _ in range(publish.MAX_TRIES):
            relation = find_relation(ctx.database.read(), warehouse, name, "view")
            base = ctx.files.load(relation.metadata_location, kind="view")
            metadata = decide_view(base.metadata, change, now_ms=ctx.clock())
            new = None
            if metadata is not None:
                plan.check_places(ctx, warehouse, metadata, base.metadata)
                location = plan.metadata_location(metadata, base.location, ctx.new_uuid())
                new = view_version(location, metadata, rule=ctx.files.rule)
            decided = Plan(name, base, new, "view")
            try:
                return publish.publish(ctx, request, warehouse, [decided], table_response(decided.result))
            except LostRace:
                continue
    raise CommitConflict(f"Cannot commit view {name}: other commits were faster {publish.MAX_TRIES} times in a row; retry")


def drop_view(ctx: Context, request: Request) -> Response:
    warehouse, name = ctx.warehouse(request), request.name("view")

    def drop(sql: Sql) -> Response:
        relation = find_relation(sql, warehouse, name, "view")
        if not relations.drop(sql, warehouse.name, name, "view", relation.metadata_location):
            raise CommitConflict(f"View {name} was changed at the same time; retry")
        return NO_CONTENT

    return transact(ctx, request, drop)


def rename_view(ctx: Context, request: Request) -> Response:
    return rename_relation(ctx, request, "view")


def register_view(ctx: Context, request: Request) -> Response:
    """A view for a metadata file that exists already."""
    body, warehouse = request.json(), ctx.warehouse(request)
    name = Name(request.namespace, check_name(body.get("name"), "view name"))
    location = fields.text(body, "metadata-location", "Register view")
    check_free(ctx.database.read(), warehouse, name, "view")
    ctx.warehouses.check(warehouse, location)
    try:
        version = ctx.files.load(location, kind="view")
    except (MetadataMissing, MetadataCorrupt) as exc:
        raise BadRequest(f"Cannot register {location}: {exc.message}") from exc
    plan.check_places(ctx, warehouse, version.metadata, None)
    swap = relations.Swap(name, "view", None, location, version.metadata["view-uuid"], version.metadata["location"])
    return transact(ctx, request, lambda sql: _point_to(sql, warehouse, swap, table_response(version)))


def _point_to(sql: Sql, warehouse: Warehouse, swap: relations.Swap, response: Response) -> Response:
    if namespaces.find(sql, warehouse.name, swap.name.namespace) is None:
        raise NoSuchNamespace(show(swap.name.namespace))
    if not relations.swap(sql, warehouse.name, swap):
        relation = relations.find(sql, warehouse.name, swap.name)
        raise taken_error(swap.name, relation.kind if relation else "view", wanted="view")
    return response
