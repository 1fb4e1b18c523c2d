"""Upkeep that someone asks for: a worker does it, and says how far it is. Not of the specification, which has no
upkeep.
"""

from __future__ import annotations

from typing import Any

from frazil.catalog import fields
from frazil.catalog.access.privileges import Need, Privilege, Target
from frazil.catalog.context import Context
from frazil.catalog.http import Request, Response, json_response
from frazil.catalog.idempotency import transact
from frazil.catalog.operations.tables import find_relation
from frazil.catalog.store import upkeep as store
from frazil.catalog.store.database import Sql
from frazil.catalog.store.upkeep import Kept
from frazil.catalog.upkeep.on_request import UpkeepOnRequest
from frazil.catalog.upkeep.record import Asked, asked_of
from frazil.catalog.upkeep.status import describe_table
from frazil.errors import BadRequest, NoSuchTable, UpkeepError

WHERE = "Upkeep"
# Not orphans: which files go is known only to who can list the table's folders.
ASKED = ("compact", "deletes", "manifests", "indexes", "expire")
OPEN = "unknown: authentication is off"
SAVED = ("saved_files", "removed_files", "removed_bytes", "expired_snapshots")


def request_upkeep(ctx: Context, request: Request) -> Response:
    """Has the next worker that is free do these steps; a child of this server, if no worker is there."""
    steps = steps_of(request)
    by = request.caller.principal if request.caller is not None else OPEN

    _check_on(ctx, _find(ctx, request, ctx.database.read()))

    def work(sql: Sql) -> Response:
        table = _find(ctx, request, sql)
        asked = Asked(ctx.new_uuid(), tuple(steps), by, table.now_ms)
        asked = asked.after(asked_of(table.request) if table.holder is None else None)
        store.save_request(sql, table.uuid, asked.to_json())
        request.mention(f"steps {', '.join(asked.steps)}")
        return json_response(_describe(ctx, request, _find(ctx, request, sql), sql))

    response = transact(ctx, request, work)
    if ctx.options and not store.count_workers(ctx.database.read()):
        ctx.attached(UpkeepOnRequest, lambda: UpkeepOnRequest(ctx.options)).start_worker()
    return response


def show_upkeep(ctx: Context, request: Request) -> Response:
    """What is asked for, who is at it, and what the last run did."""
    sql = ctx.database.read()
    return json_response(_describe(ctx, request, _find(ctx, request, sql), sql))


def steps_of(request: Request) -> list[str]:
    """The steps of the body, in the order in which they help each other."""
    steps = fields.texts(request.json(), "steps", WHERE)
    if not steps or not set(steps) <= set(ASKED):
        raise BadRequest(f"{WHERE}: 'steps' must be some of {', '.join(ASKED)}", option="steps")
    return [step for step in ASKED if step in steps]


def _find(ctx: Context, request: Request, sql: Sql) -> Kept:
    """The table of the path, as it is in this transaction."""
    warehouse, name = ctx.warehouse(request), request.name()
    relation = find_relation(sql, warehouse, name, "table")
    for table in store.find(sql, relation.uuid):
        if (table.warehouse, table.identifier) == (warehouse.name, (*name.namespace, name.name)):
            return table
    raise NoSuchTable(str(name))


def _check_on(ctx: Context, table: Kept) -> None:
    """Passes unless the table says that it is to be left alone."""
    from frazil.upkeep import Policy

    metadata = ctx.files.load(table.metadata_location, kind="table").metadata
    try:
        off = Policy.of(metadata["properties"], table=table.label).enabled is False
    except UpkeepError as exc:
        raise BadRequest(f"{WHERE}: {exc.message}", hint=exc.hint) from exc
    if off:
        hint = "set the table's property upkeep.enabled to true"
        raise BadRequest(f"{WHERE} of {table.label} is off by its property upkeep.enabled", hint=hint)


def _describe(ctx: Context, request: Request, table: Kept, sql: Sql) -> dict[str, Any]:
    """The state for the caller. Messages, and what was done in words, may name other tables and machines: they are for
    those who maintain the warehouse.
    """
    stored = describe_table(table)
    target = Target("table", table.warehouse, table.namespace, table.name)
    allowed = ctx.gate.allows(sql, request, Need(Privilege.MAINTAIN, target))
    whole = ctx.gate.allows(sql, request, Need(Privilege.MAINTAIN, Target("warehouse", table.warehouse)))
    run, lease, asked = stored["last_run"], stored["lease"], stored["request"]
    if run is not None and not whole:
        run = {key: run[key] for key in ("outcome", "at_ms", "seconds", *SAVED)} | {"problems": len(run["problems"])}
    return {
        "state": stored["state"],
        "request": asked if allowed or asked is None else asked | {"by": None},
        "running": {"since_ms": table.taken_ms, "owner": lease["owner"] if whole else None} if lease else None,
        "last_run": run,
        "details": whole,
        "next_seconds": stored["next_seconds"],
        "workers": store.count_workers(sql),
        "allowed": allowed,
        "now_ms": table.now_ms,
    }
