"""Commits: of one table, and of several in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from frazil.catalog import fields
from frazil.catalog.appends.request import is_append
from frazil.catalog.commit import Change, parse_change
from frazil.catalog.context import Context
from frazil.catalog.grouped import commit_append
from frazil.catalog.http import NO_CONTENT, Request, Response
from frazil.catalog.metadata import Version
from frazil.catalog.names import parse_name
from frazil.catalog.operations.tables import table_response
from frazil.catalog.plan import find_pointer
from frazil.catalog.publish import commit_changes
from frazil.catalog.requirements import check_requirements
from frazil.errors import BadRequest

MAX_TABLES = 1000


def refuse_stale(ctx: Context, request: Request) -> None:
    """Raises what `update_table` would raise about requirements that the table, as it is in memory, does not fulfil.

    Among writers of one table most attempts end like that; detected here, such an attempt costs no thread.
    """
    relation = find_pointer(ctx, ctx.database.read(), request, ctx.warehouse(request).name, request.name())
    version = (
        ctx.files.cache.get(relation.metadata_location) if relation is not None and relation.kind == "table" else None
    )
    if version is not None:
        change = parse_change(request.json(), request.name(), most=ctx.limits.commit_updates)
        if not change.creates and not (is_append(change) and ctx.appends.is_on(version.metadata)):
            check_requirements(version.metadata, change.requirements, table=str(change.name))


def update_table(ctx: Context, request: Request) -> Response:
    """Commits updates to a table, if its requirements hold; creates the table when that is what they assert."""
    body, name = request.json(), request.name()
    if body.get("identifier") is not None and parse_name(body["identifier"], "identifier") != name:
        raise BadRequest(f"The body's identifier is not the table of the path, {name}")
    change = parse_change(body, name, most=ctx.limits.commit_updates)
    return _commit_one(ctx, request, change, table_response)


def _commit_one(ctx: Context, request: Request, change: Change, reply: Callable[[Version], Response]) -> Response:
    """The answer to the commit of one table. Remembers whether its appends are rebased, so that the next ones wait
    together.
    """
    key = (request.variables["prefix"], change.name.key, change.name.name)

    def respond(versions: Sequence[Version]) -> Response:
        ctx.appends.note(key, versions[0].metadata)
        return reply(versions[0])

    warehouse = ctx.warehouse(request)
    if ctx.appends.expects(key) and is_append(change):
        return commit_append(ctx, request, warehouse, change, respond)
    return commit_changes(ctx, request, warehouse, [change], respond, moves=is_append(change))


def commit_transaction(ctx: Context, request: Request) -> Response:
    """Commits updates to several tables at once: all, or none. With one table it is the commit of that table: DuckDB
    sends every commit so.
    """
    parts = fields.objects(request.json(), "table-changes", "Commit transaction")
    if not 1 <= len(parts) <= MAX_TABLES:
        raise BadRequest(
            f"Commit transaction: 'table-changes' has {len(parts)} entries; 1 to {MAX_TABLES} are accepted"
        )
    names = [parse_name(part.get("identifier"), f"table-changes[{i}].identifier") for i, part in enumerate(parts)]
    changes = [
        parse_change(part, name, most=ctx.limits.commit_updates) for part, name in zip(parts, names, strict=True)
    ]
    if len(changes) == 1:
        return _commit_one(ctx, request, changes[0], lambda _: NO_CONTENT)
    return commit_changes(ctx, request, ctx.warehouse(request), changes, lambda _: NO_CONTENT)
