"""Tables: list, create, load, check, drop, rename, register, unregister."""

from __future__ import annotations

from concurrent.futures import wait

import orjson

from frazil.catalog import fields, metadata, place_rights, places, plan, publish, uuid_rights
from frazil.catalog.access.privileges import Target
from frazil.catalog.commit import new_table
from frazil.catalog.context import Context
from frazil.catalog.http import GZIP_FROM_BYTES, JSON_TYPE, NO_CONTENT, Headers, Request, Response, accepts_gzip
from frazil.catalog.idempotency import transact
from frazil.catalog.metadata import Version, table_version
from frazil.catalog.names import Name, Namespace, check_name, parse_name, show
from frazil.catalog.operations.credentials import access_modes, with_credentials
from frazil.catalog.pages import page_of
from frazil.catalog.plan import Plan
from frazil.catalog.publish import LostRace
from frazil.catalog.store import namespaces, relations, reports, versions
from frazil.catalog.store import places as place_store
from frazil.catalog.store.database import ConstraintBroken, Sql, Statement
from frazil.catalog.store.relations import Relation
from frazil.catalog.warehouse import Warehouse, WouldBlock
from frazil.errors import (
    AlreadyExists,
    BadRequest,
    CommitConflict,
    MetadataCorrupt,
    MetadataMissing,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchView,
    NotFound,
    Unavailable,
)

KINDS = {"table": "Table", "view": "View"}

PURGE_SECONDS = 10.0  # how long the answer to a drop waits for the files to be gone


def table_response(version: Version) -> Response:
    """The table as a load answers it."""
    headers: Headers = [JSON_TYPE, (b"etag", version.etag.encode())]
    kind = "view" if "view-uuid" in version.metadata else "table"
    return Response(200, version.reply, headers, version.location, kind, version.metadata[f"{kind}-uuid"])


# --- read ------------------------------------------------------------------------------------------------------------


def list_tables(ctx: Context, request: Request) -> Response:
    return list_relations(ctx, request, "table")


def list_relations(ctx: Context, request: Request, kind: str) -> Response:
    warehouse, namespace, page = ctx.warehouse(request), request.namespace, page_of(request)
    sql, key = ctx.database.read(), "\x1f".join(namespace)
    seen = ctx.gate.seen_relations(request, warehouse.name, key)
    access_version: int | None
    if page.is_all:
        names, access_version = relations.list_names(sql, warehouse.name, key, kind, seen=seen)
        ctx.gate.confirm(request, access_version)
        token = None
    else:
        after, limit = page.after, page.limit
        more, access_version = relations.page_names(sql, warehouse.name, key, kind, after=after, limit=limit, seen=seen)
        ctx.gate.confirm(request, access_version)
        names, token = page.cut(more)
    if not names and namespaces.find(sql, warehouse.name, namespace) is None:
        raise NoSuchNamespace(show(namespace))
    return Response(200, _listing(namespace, names, token), [JSON_TYPE])


def _listing(namespace: Namespace, names: list[str], token: str | None) -> bytes:
    """The answer to a listing.

    >>> _listing(("a",), ["x", "y"], None)
    b'{"identifiers":[{"namespace":["a"],"name":"x"},{"namespace":["a"],"name":"y"}],"next-page-token":null}'
    """
    quoted = orjson.dumps(names)
    if names and b'\\"' not in quoted:
        # Every entry starts with the same bytes. Put between the names, a list of thousands costs a tenth of building
        # it.
        start = b'{"namespace":' + orjson.dumps(namespace) + b',"name":'
        entries = b"[" + start + quoted[1:-1].replace(b'","', b'"},' + start + b'"') + b"}]"
    else:
        entries = orjson.dumps([{"namespace": namespace, "name": name} for name in names])
    return b'{"identifiers":' + entries + b',"next-page-token":' + orjson.dumps(token) + b"}"


def load_table(ctx: Context, request: Request) -> Response:
    """The table's current metadata; 304 when the client has it already."""
    name, which = request.name(), _snapshots_wanted(request)
    sql, warehouse = ctx.database.read(), ctx.warehouse(request).name
    relation = plan.find_pointer(ctx, sql, request, warehouse, name)
    if relation is None or relation.kind != "table":
        raise NoSuchTable(str(name))
    version = plan.load_current(ctx, name, relation, inline=request.inline)
    if (ctx.vendors or ctx.signers) and access_modes(ctx, request):
        if request.inline:
            raise WouldBlock
        return with_credentials(ctx, request, name, version, which)
    etag = version.etag if which == "all" else version.refs_etag
    tag = (b"etag", etag.encode())
    wanted = request.headers.get(b"if-none-match")
    if wanted is not None and _matches(wanted.decode("latin-1"), etag):
        return Response(304, b"", [tag])
    body = version.reply if which == "all" else version.refs_reply()
    if len(body) >= GZIP_FROM_BYTES and accepts_gzip(request.headers):
        if request.inline and not version.is_packed(which):
            raise WouldBlock
        return Response(
            200, version.packed(which), [JSON_TYPE, tag, (b"content-encoding", b"gzip"), (b"vary", b"accept-encoding")]
        )
    return Response(200, body, [JSON_TYPE, tag])


def load_version(ctx: Context, request: Request) -> Version:
    """The current version of the request's table."""
    name = request.name()
    relation = find_relation(ctx.database.read(), ctx.warehouse(request), name, "table")
    return plan.load_current(ctx, name, relation)


def _snapshots_wanted(request: Request) -> str:
    if not request.query_string:
        return "all"
    which = request.query.get("snapshots", "all").lower()
    if which not in ("all", "refs"):
        raise BadRequest(f"Invalid query parameter snapshots: expected all or refs, got {which[:20]!r}", got=which[:20])
    return which


def _matches(header: str, etag: str) -> bool:
    """
    >>> _matches('"a", W/"b"', '"b"'), _matches("*", '"b"'), _matches('"a"', '"b"')
    (True, True, False)
    """
    return header.strip() == "*" or etag in (tag.strip().removeprefix("W/") for tag in header.split(","))


def table_exists(ctx: Context, request: Request) -> Response:
    find_relation(ctx.database.read(), ctx.warehouse(request), request.name(), "table")
    return NO_CONTENT


def find_relation(sql: Sql, warehouse: Warehouse, name: Name, kind: str) -> Relation:
    """The table or view of this name."""
    relation = relations.find(sql, warehouse.name, name)
    if relation is None or relation.kind != kind:
        raise missing_error(name, kind)
    return relation


def missing_error(name: Name, kind: str) -> NotFound:
    return NoSuchView(str(name)) if kind == "view" else NoSuchTable(str(name))


# --- create and register ---------------------------------------------------------------------------------------------


def create_table(ctx: Context, request: Request) -> Response:
    """A new table; with `stage-create` only its metadata, for a commit that creates it later."""
    body, warehouse = request.json(), ctx.warehouse(request)
    name = Name(request.namespace, check_name(body.get("name"), "table name"))
    stage = fields.boolean(body, "stage-create", "Create table", default=False)
    for _ in range(publish.FREE_TRIES):
        sql = ctx.database.read()
        wanted = fields.text_or_none(body, "location", "Create table")
        if stage:
            wanted = place_rights.staged_location(ctx, sql, request, warehouse, name, wanted)
        location, chosen = new_place(ctx, sql, request, warehouse, name, "table", wanted, stage=stage)
        document = new_table(body, location=location, now_ms=ctx.clock(), uuid=ctx.new_uuid())
        claims = plan.check_places(ctx, sql, request, warehouse, name, document, None, chosen=chosen)
        if stage:
            document["table-uuid"] = place_rights.staged_uuid(
                ctx, sql, request, warehouse, name, location, chosen=bool(chosen)
            )
            folder = plan.metadata_location(document, None, "").rpartition("/")[0]
            ctx.files.make_folders([folder, f"{document['location']}/data"])
            return Response(200, metadata.staged_reply(document), [JSON_TYPE])
        version = table_version(plan.metadata_location(document, None, ctx.new_uuid()), document, rule=ctx.files.rule)
        try:
            return publish.publish(
                ctx, request, warehouse, [Plan(name, None, version, claims=claims)], table_response(version)
            )
        except LostRace:  # the name or the place was taken meanwhile: the next look says which
            continue
    raise Unavailable(
        f"Cannot create table {name}: other tables were created at the same time, {publish.FREE_TRIES} times in a row",
        table=str(name),
    )


def new_place(
    ctx: Context,
    sql: Sql,
    request: Request,
    warehouse: Warehouse,
    name: Name,
    kind: str,
    wanted: str | None,
    *,
    stage: bool = False,
) -> tuple[str, dict[str, str]]:
    """The location of a new table or view, whose name must be free, and its keys if the catalog chose it. With
    authentication, one that is staged gets a place that no other one gets meanwhile.
    """
    unique = stage and request.caller is not None
    if wanted:
        check_free(ctx, sql, request, warehouse, name, kind)
        return wanted.rstrip("/"), {}
    keys, occupants = places.default_place(sql, ctx.warehouses, warehouse, name, folds=ctx.folds(warehouse))
    properties, occupied = check_free(ctx, sql, request, warehouse, name, kind, occupants=occupants)
    is_free = not (unique or occupants is None or occupied or "location" in properties)
    if not is_free or not place_rights.empty_place(ctx, request, keys):
        keys = plan.new_location(ctx, sql, request, warehouse, name, properties, unique=unique)
    return next(iter(keys.values())), keys


def check_free(
    ctx: Context,
    sql: Sql,
    request: Request,
    warehouse: Warehouse,
    name: Name,
    wanted: str,
    *,
    occupants: Statement | None = None,
) -> tuple[dict[str, str], bool]:
    """The properties of the namespace, if it exists and the name is free in it; and whether the query finds a row."""
    vacancy = relations.find_free(sql, warehouse.name, name, occupants=occupants)
    ctx.gate.confirm(request, vacancy.access_version)
    if vacancy.properties is None:
        raise NoSuchNamespace(show(name.namespace))
    if vacancy.kind is not None:
        raise taken_error(name, vacancy.kind, wanted=wanted)
    return namespaces.parse_properties(vacancy.properties), vacancy.occupied


def taken_error(name: Name, kind: str, *, wanted: str) -> AlreadyExists:
    text = f"{KINDS[kind]} already exists" if kind == wanted else f"{KINDS[kind]} with same name already exists"
    return AlreadyExists(f"{text}: {name}")


def register_table(ctx: Context, request: Request) -> Response:
    """A table for a metadata file that exists already; with `overwrite` it may replace the table of that name."""
    body, warehouse = request.json(), ctx.warehouse(request)
    name = Name(request.namespace, check_name(body.get("name"), "table name"))
    location = fields.text(body, "metadata-location", "Register table")
    overwrite = fields.boolean(body, "overwrite", "Register table", default=False)
    if not overwrite:
        check_free(ctx, ctx.database.read(), request, warehouse, name, "table")
    check_registered(ctx, request, warehouse, name, location)
    version = _read_foreign(ctx, location)
    fields.uuid_text(version.metadata, "table-uuid", f"Metadata file {location}")
    sql = ctx.database.read()
    check_outside(ctx, sql, request, warehouse, name, location)
    claims = plan.check_places(ctx, sql, request, warehouse, name, version.metadata, None, registers=True)
    return transact(
        ctx,
        request,
        lambda sql: _point_to(
            ctx, sql, request, warehouse, Plan(name, None, version, claims=claims), overwrite=overwrite
        ),
    )


def check_registered(ctx: Context, request: Request, warehouse: Warehouse, name: Name, location: str) -> None:
    """Passes when a metadata file may be read for a registration. Nothing is said about files of others."""
    request.mention(f"file {location}")
    ctx.warehouses.check(warehouse, location)
    place_rights.check_places(ctx, ctx.database.read(), request, warehouse, name, [location])


def check_outside(ctx: Context, sql: Sql, request: Request, warehouse: Warehouse, name: Name, location: str) -> None:
    """Passes when a metadata file that is registered does not lie in a place of another table or view."""
    with place_rights.unnamed_occupants(ctx, request, warehouse):
        places.check_outside(sql, ctx.warehouses, warehouse, name, location)


def _read_foreign(ctx: Context, location: str) -> Version:
    try:
        return ctx.files.load_foreign(location)
    except (MetadataMissing, MetadataCorrupt) as exc:
        raise BadRequest(f"Cannot register {location}: {exc.message}") from exc


def _point_to(
    ctx: Context, sql: Sql, request: Request, warehouse: Warehouse, new: Plan, *, overwrite: bool
) -> Response:
    name, version = new.name, new.result
    if namespaces.find(sql, warehouse.name, name.namespace) is None:
        raise NoSuchNamespace(show(name.namespace))
    relation = relations.find(sql, warehouse.name, name)
    if relation is not None and (relation.kind == "view" or not overwrite):
        raise taken_error(name, relation.kind, wanted="table")
    uuid_rights.check_uuid(ctx, sql, request, warehouse, version, "table")
    old = relation.metadata_location if relation else None
    uuid, place = version.metadata["table-uuid"], version.metadata["location"]
    versions.keep_current(sql, warehouse.name, name)  # the new version's log need not name the one that it replaces
    if not relations.swap(sql, warehouse.name, relations.Swap(name, "table", old, version.location, uuid, place)):
        raise CommitConflict(f"Table {name} was changed at the same time; retry")
    claim_registered(ctx, sql, request, warehouse, new, replaced=relation is not None and relation.uuid != uuid)
    ctx.gate.own(sql, request, [new.target(warehouse.name)])
    return table_response(version)


def claim_registered(
    ctx: Context, sql: Sql, request: Request, warehouse: Warehouse, new: Plan, *, replaced: bool = False
) -> None:
    """Claims the places of a table or view that is registered; `replaced` gives up those of the one that had
    its name.
    """
    if replaced:
        place_store.release(sql, warehouse=warehouse.name, name=new.name)
    folds = ctx.folds(warehouse)
    if not places.claim(sql, ctx.warehouses, warehouse, [(new.name, new.claims)], folds=folds):
        with place_rights.unnamed_occupants(ctx, request, warehouse):
            places.check_free(sql, ctx.warehouses, warehouse, new.name, new.claims, folds=folds)  # says which
        raise CommitConflict(f"Cannot register {new.name}: another table took its location at the same time; retry")


# --- drop and rename -------------------------------------------------------------------------------------------------


def drop_table(ctx: Context, request: Request) -> Response:
    """Removes the table from the catalog; with `purgeRequested` its files are deleted, those of a large table after the
    answer.
    """
    warehouse, name, purge = ctx.warehouse(request), request.name(), request.flag("purgeRequested")
    dropped: list[Relation] = []

    def drop(sql: Sql) -> Response:
        dropped[:] = [_remove(sql, warehouse, name)]
        return NO_CONTENT

    response = transact(ctx, request, drop)
    if purge:
        from frazil.catalog.purge import purge_table

        ctx.telemetry.purges.queued()
        deleting = ctx.background.submit(purge_table, ctx, warehouse, dropped[0].metadata_location)
        # Who makes a table of the same name next expects an empty place; Trino insists on it. A large table takes
        # longer than clients wait.
        wait([deleting], timeout=PURGE_SECONDS)
    return response


def _remove(sql: Sql, warehouse: Warehouse, name: Name) -> Relation:
    relation = find_relation(sql, warehouse, name, "table")
    versions.keep_current(sql, warehouse.name, name)
    if not relations.drop(sql, warehouse.name, name, "table", relation.metadata_location):
        raise CommitConflict(f"Table {name} was changed at the same time; retry")
    reports.forget(sql, warehouse.name, name)
    return relation


def unregister_table(ctx: Context, request: Request) -> Response:
    """Removes the table from the catalog and answers with its last metadata; all files stay."""
    warehouse, name = ctx.warehouse(request), request.name()

    def unregister(sql: Sql) -> Response:
        return table_response(plan.load_current(ctx, name, _remove(sql, warehouse, name)))

    return transact(ctx, request, unregister)


def rename_table(ctx: Context, request: Request) -> Response:
    return rename_relation(ctx, request, "table")


def rename_relation(ctx: Context, request: Request, kind: str) -> Response:
    body, warehouse = request.json(), ctx.warehouse(request)
    source, target = parse_name(body.get("source"), "source"), parse_name(body.get("destination"), "destination")
    request.mention(f"new {Target(kind, warehouse.name, target.key, target.name)}")
    return transact(ctx, request, lambda sql: _rename(sql, warehouse, source, target, kind))


def _rename(sql: Sql, warehouse: Warehouse, source: Name, target: Name, kind: str) -> Response:
    find_relation(sql, warehouse, source, kind)
    if namespaces.find(sql, warehouse.name, target.namespace) is None:
        raise NoSuchNamespace(show(target.namespace))
    taken = relations.find(sql, warehouse.name, target)
    if taken is not None:
        raise AlreadyExists(f"Cannot rename {source} to {target}. {KINDS[taken.kind]} already exists")
    try:
        renamed = relations.rename(sql, warehouse.name, source, target, kind)
    except ConstraintBroken as exc:
        raise AlreadyExists(f"Cannot rename {source} to {target}. {KINDS[kind]} already exists") from exc
    if not renamed:
        raise missing_error(source, kind)
    if kind == "table":
        reports.rename(sql, warehouse.name, source, target)
    return NO_CONTENT
