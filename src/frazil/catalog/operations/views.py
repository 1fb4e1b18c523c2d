"""Views: list, create, load, replace, check, drop, rename, register."""

from __future__ import annotations

from frazil.catalog import fields, plan, publish, uuid_rights
from frazil.catalog.commit import parse_change
from frazil.catalog.context import Context
from frazil.catalog.http import NO_CONTENT, Request, Response
from frazil.catalog.idempotency import transact
from frazil.catalog.names import Name, check_name, show
from frazil.catalog.operations.tables import (
    check_free,
    check_outside,
    check_registered,
    claim_registered,
    find_relation,
    list_relations,
    new_place,
    rename_relation,
    table_response,
    taken_error,
)
from frazil.catalog.plan import Plan
from frazil.catalog.publish import LostRace
from frazil.catalog.store import namespaces, relations, versions
from frazil.catalog.store.database import Sql
from frazil.catalog.views import decide_view, new_view, view_version
from frazil.catalog.warehouse import Warehouse
from frazil.errors import BadRequest, CommitConflict, MetadataCorrupt, MetadataMissing, NoSuchNamespace, Unavailable


def list_views(ctx: Context, request: Request) -> Response:
    return list_relations(ctx, request, "view")


def create_view(ctx: Context, request: Request) -> Response:
    body, warehouse = request.json(), ctx.warehouse(request)
    name = Name(request.namespace, check_name(body.get("name"), "view name"))
    for _ in range(publish.FREE_TRIES):
        sql = ctx.database.read()
        wanted = fields.text_or_none(body, "location", "Create view")
        location, chosen = new_place(ctx, sql, request, warehouse, name, "view", wanted)
        metadata = new_view(body, location=location, now_ms=ctx.clock(), uuid=ctx.new_uuid())
        claims = plan.check_places(ctx, sql, request, warehouse, name, metadata, None, chosen=chosen)
        version = view_version(plan.metadata_location(metadata, None, ctx.new_uuid()), metadata, rule=ctx.files.rule)
        try:
            return publish.publish(
                ctx, request, warehouse, [Plan(name, None, version, "view", claims)], table_response(version)
            )
        except LostRace:  # the name or the place was taken meanwhile: the next look says which
            continue
    raise Unavailable(
        f"Cannot create view {name}: other views were created at the same time, {publish.FREE_TRIES} times in a row"
    )


def load_view(ctx: Context, request: Request) -> Response:
    relation = find_relation(ctx.database.read(), ctx.warehouse(request), request.name("view"), "view")
    return table_response(ctx.files.load(relation.metadata_location, kind="view", inline=request.inline))


def view_exists(ctx: Context, request: Request) -> Response:
    find_relation(ctx.database.read(), ctx.warehouse(request), request.name("view"), "view")
    return NO_CONTENT


def replace_view(ctx: Context, request: Request) -> Response:
    """Commits updates to a view, if its requirements hold."""
    warehouse, name = ctx.warehouse(request), request.name("view")
    change = parse_change(request.json(), name, most=ctx.limits.commit_updates)
    with publish.certain_failures(creates=False), ctx.locks.hold([(warehouse.name, name.key, name.name)]):
        for _ in range(publish.MAX_TRIES):
            relation = find_relation(ctx.database.read(), warehouse, name, "view")
            base = ctx.files.load(relation.metadata_location, kind="view")
            metadata = decide_view(base.metadata, change, now_ms=ctx.clock())
            new, claims = None, dict[str, str]()
            if metadata is not None:
                sql = ctx.database.read()
                claims = plan.check_places(ctx, sql, request, warehouse, name, metadata, base.metadata)
                location = plan.metadata_location(metadata, base.location, ctx.new_uuid())
                new = view_version(location, metadata, rule=ctx.files.rule)
            decided = Plan(name, base, new, "view", claims)
            try:
                return publish.publish(ctx, request, warehouse, [decided], table_response(decided.result))
            except LostRace:
                continue
    raise CommitConflict(
        f"Cannot commit view {name}: other writers committed first {publish.MAX_TRIES} times in a row; retry"
    )


def drop_view(ctx: Context, request: Request) -> Response:
    warehouse, name = ctx.warehouse(request), request.name("view")

    def drop(sql: Sql) -> Response:
        relation = find_relation(sql, warehouse, name, "view")
        versions.keep_current(sql, warehouse.name, name)
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
    check_free(ctx, ctx.database.read(), request, warehouse, name, "view")
    check_registered(ctx, request, warehouse, name, location)
    try:
        version = ctx.files.load_foreign(location, kind="view")
    except (MetadataMissing, MetadataCorrupt) as exc:
        raise BadRequest(f"Cannot register {location}: {exc.message}") from exc
    fields.uuid_text(version.metadata, "view-uuid", f"Metadata file {location}")
    sql = ctx.database.read()
    check_outside(ctx, sql, request, warehouse, name, location)
    claims = plan.check_places(ctx, sql, request, warehouse, name, version.metadata, None, registers=True)
    return transact(
        ctx, request, lambda sql: _point_to(ctx, sql, request, warehouse, Plan(name, None, version, "view", claims))
    )


def _point_to(ctx: Context, sql: Sql, request: Request, warehouse: Warehouse, new: Plan) -> Response:
    version = new.result
    swap = relations.Swap(
        new.name, "view", None, version.location, version.metadata["view-uuid"], version.metadata["location"]
    )
    if namespaces.find(sql, warehouse.name, swap.name.namespace) is None:
        raise NoSuchNamespace(show(swap.name.namespace))
    uuid_rights.check_uuid(ctx, sql, request, warehouse, version, "view")
    if not relations.swap(sql, warehouse.name, swap):
        relation = relations.find(sql, warehouse.name, swap.name)
        raise taken_error(swap.name, relation.kind if relation else "view", wanted="view")
    claim_registered(ctx, sql, request, warehouse, new)
    ctx.gate.own(sql, request, [new.target(warehouse.name)])
    return table_response(version)
