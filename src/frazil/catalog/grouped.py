"""Appends that wait for each other, committed together: one metadata file, one swap of the pointer, a snapshot each.

The request that leads takes the table's lock, in the process and between processes, and commits for all that wait; each
of them gets its outcome at once, without the lock. So a request that does not wait pays nothing. Each request is
checked, recorded and answered by itself: its rights, its record in the audit log and its idempotency key are part of
the one transaction. A request that cannot be part of it is left out, gets its own outcome, and the others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from frazil.catalog.access.gate import AccessChanged
from frazil.catalog.appends.group import Key, Left, Ticket
from frazil.catalog.commit import Change
from frazil.catalog.context import Context
from frazil.catalog.http import Request, Response
from frazil.catalog.idempotency import KeyTaken, keep_key
from frazil.catalog.metadata import Version, table_version
from frazil.catalog.plan import Plan, decide_or_rebase, load_base, metadata_location
from frazil.catalog.publish import (
    FREE_TRIES,
    LostRace,
    Respond,
    certain_failures,
    commit_in_turn,
    swap_pointer,
    table_key,
    write_and_swap,
)
from frazil.catalog.store import relations
from frazil.catalog.store.database import Sql
from frazil.catalog.warehouse import Warehouse
from frazil.errors import CatalogError, CommitUnknown, Unavailable

log = logging.getLogger("frazil.catalog")


def commit_append(ctx: Context, request: Request, warehouse: Warehouse, change: Change, respond: Respond) -> Response:
    """The answer to an append, which is committed together with those that wait for the same table."""
    ticket, key = Ticket(request, change, respond), table_key(warehouse, change.name)
    ctx.appends.groups.add(key, ticket)
    ticket.turn.wait()
    with certain_failures(creates=False):
        if not ticket.done:
            _lead(ctx, warehouse, key, ticket)
        return ticket.result()


def _lead(ctx: Context, warehouse: Warehouse, key: Key, leader: Ticket) -> None:
    """Commits for all that wait when this one gets the table's lock."""
    taken: list[Ticket] = []
    try:
        with ctx.locks.hold([key]):
            taken = ctx.appends.groups.take(key)
            _commit_all(ctx, warehouse, taken)
    finally:
        ctx.appends.groups.end(key, leader, taken)


def _commit_all(ctx: Context, warehouse: Warehouse, tickets: Sequence[Ticket]) -> None:
    """Gives each ticket its outcome."""
    try:
        waiting = list(tickets)
        for _ in range(FREE_TRIES + len(tickets)):
            if len(waiting) < 2 or _commit_group(ctx, warehouse, waiting):
                break
            waiting = _open(waiting)
        for ticket in _open(tickets):
            _commit_alone(ctx, warehouse, ticket)
    finally:
        for ticket in _open(tickets):  # an error that is not ours: what it has left is not known
            ticket.error = CommitUnknown(f"The commit of {ticket.change.name} was interrupted")


def _open(tickets: Sequence[Ticket]) -> list[Ticket]:
    """Those that have no outcome yet."""
    return [ticket for ticket in tickets if not ticket.done]


def _commit_alone(ctx: Context, warehouse: Warehouse, ticket: Ticket) -> None:
    try:
        ticket.answer = commit_in_turn(ctx, ticket.request, warehouse, [ticket.change], ticket.respond, moves=True)
    except Exception as exc:
        ticket.error = exc


def _commit_group(ctx: Context, warehouse: Warehouse, tickets: Sequence[Ticket]) -> bool:
    """Whether the group has ended, so that each ticket either has its outcome or goes alone. Else try again with those
    that have none.
    """
    refused: dict[Ticket, Exception] = {}
    try:
        plan, members = _plan(ctx, warehouse, tickets, refused)
        if plan is None:
            return True
        answers = [ticket.respond([plan.result]) for ticket in members]
        write_and_swap(
            ctx,
            warehouse,
            [plan],
            answers[0],
            lambda: ctx.database.write(lambda sql: _swap(ctx, sql, warehouse, plan, members, answers)),
        )
    except LostRace:
        return False
    except Left as left:
        left.ticket.error = left.cause
        return False
    except CommitUnknown as exc:
        for ticket in _open(tickets):
            ticket.error = refused.get(ticket) or CommitUnknown(exc.message, hint=exc.hint)
        return True
    except Unavailable as exc:  # nothing was committed: the reasons of the refused ones may never have been true
        for ticket in _open(tickets):
            ticket.error = Unavailable(exc.message, hint=exc.hint)
        return True
    except CatalogError:
        return True  # about the table, or the file of all together: each alone gets its own error
    for ticket, answer in zip(members, answers, strict=True):
        ticket.answer = answer
    for ticket, error in refused.items():
        ticket.error = error
    ctx.appends.count("groups")
    ctx.appends.count("grouped", len(members))
    return True


def _plan(
    ctx: Context, warehouse: Warehouse, tickets: Sequence[Ticket], refused: dict[Ticket, Exception]
) -> tuple[Plan | None, list[Ticket]]:
    """What becomes of the table, and whose appends are in it; None if fewer than two are. Notes the errors of the
    others.
    """
    name = tickets[0].change.name
    relation, access_version = relations.find_with_version(ctx.database.read(), warehouse.name, name)
    base = load_base(ctx, name, relation)
    metadata, members, moved, keys = base.metadata, list[Ticket](), [], set[str | None]()
    for ticket in tickets:
        if ticket.request.key in keys:  # another one has it: alone, it sees what became of that
            continue
        try:
            ctx.gate.confirm(ticket.request, access_version)
            location = None if members else base.location
            decided, rebased = decide_or_rebase(ctx, metadata, ticket.change, base_location=location, moves=True)
        except AccessChanged as exc:  # its own thread looks at its caller again
            ticket.error = exc
            continue
        except Exception as exc:  # also a fault of ours: it is about this request, not about the others
            refused[ticket] = exc
            continue
        if decided is not None:
            metadata = decided
            members.append(ticket)
            keys |= {ticket.request.key} - {None}
            moved += [rebased] if rebased is not None else []
    if len(members) < 2:
        return None, members
    version = _version(ctx, metadata, base)
    return Plan(name, base, version, moved=tuple(moved)), members


def _version(ctx: Context, metadata: dict[str, object], base: Version) -> Version:
    location = metadata_location(metadata, base.location, ctx.new_uuid())
    return table_version(location, metadata, base, rule=ctx.files.rule)


def _swap(
    ctx: Context, sql: Sql, warehouse: Warehouse, plan: Plan, members: Sequence[Ticket], answers: Sequence[Response]
) -> Response:
    """Moves the pointer once, after the rights of each caller, and with the records of each request."""
    for ticket in members:
        try:
            ctx.gate.recheck(sql, ticket.request)
        except CatalogError as exc:
            raise Left(ticket, exc) from exc
    if not swap_pointer(ctx, sql, warehouse, plan, ()):
        raise LostRace
    for ticket, answer in zip(members, answers, strict=True):
        ctx.gate.record(sql, ticket.request, answer.status)
        if not keep_key(ctx, sql, ticket.request, answer):
            raise Left(ticket, KeyTaken())
    return answers[0]
