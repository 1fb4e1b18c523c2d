"""From a decision to a commit: write the metadata files, then swap all pointers in one transaction.

    plan     read the pointers and the base metadata, decide (commit.py), lay out the new versions (plan.py)
    write    the new metadata files, outside the transaction
    swap     every pointer of the request by compare-and-set, and the idempotency record, in one transaction

A commit ends in one of three ways. *Committed*: the transaction is durable. *Conflict*: a requirement does not hold; or
nothing was changed, for certain, and the client may retry. *Unknown*: the database failed while committing and the
pointers, read again, do not show our files; these files are never deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from frazil.catalog import faults, places, uuid_rights
from frazil.catalog.access.privileges import Target
from frazil.catalog.appends.group import Left
from frazil.catalog.commit import Change
from frazil.catalog.context import Context
from frazil.catalog.http import Request, Response
from frazil.catalog.idempotency import FenceBroken, transact, transact_fenced
from frazil.catalog.metadata import Version
from frazil.catalog.names import Name, show
from frazil.catalog.plan import Plan, plan_change
from frazil.catalog.store import access, relations
from frazil.catalog.store.database import ConstraintBroken, Fence, Sql
from frazil.catalog.store.places import Swapped
from frazil.catalog.store.relations import Swap
from frazil.catalog.warehouse import Warehouse
from frazil.errors import (
    BadRequest,
    CommitConflict,
    CommitUnknown,
    InvalidChange,
    NoSuchNamespace,
    Unavailable,
    UuidTaken,
)

FREE_TRIES = 3  # after this many lost races a commit locks its tables first
MAX_TRIES = 20
DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"

log = logging.getLogger("frazil.catalog")

Respond = Callable[[Sequence[Version]], Response]


class LostRace(Exception):
    """Another commit moved a pointer between our read and our swap; we changed nothing."""


def commit_changes(
    ctx: Context,
    request: Request,
    warehouse: Warehouse,
    changes: Sequence[Change],
    respond: Respond,
    *,
    moves: bool = False,
) -> Response:
    """The answer to a commit of one or more tables, all or nothing. With `moves`, appends may be rebased."""
    names = [change.name for change in changes]
    if len(set(names)) != len(names):
        raise BadRequest(f"A table is changed twice in one commit: {', '.join(map(str, names))}")
    keys = [table_key(warehouse, name) for name in names]
    with certain_failures(creates=any(change.creates for change in changes)), ctx.locks.hold(keys):
        return commit_in_turn(ctx, request, warehouse, changes, respond, moves=moves)


def table_key(warehouse: Warehouse, name: Name) -> tuple[str, str, str]:
    """What commits of one table take turns by."""
    return warehouse.name, name.key, name.name


def commit_in_turn(
    ctx: Context,
    request: Request,
    warehouse: Warehouse,
    changes: Sequence[Change],
    respond: Respond,
    *,
    moves: bool = False,
) -> Response:
    """The same, for a caller that holds the locks of the tables."""
    for _ in range(FREE_TRIES):
        plans = _plan_all(ctx, ctx.database.read(), request, warehouse, changes, moves=moves)
        faults.reach("commit.decided")
        try:
            return publish(ctx, request, warehouse, plans, respond([plan.result for plan in plans]))
        except LostRace:
            continue
    return _publish_locked(ctx, request, warehouse, changes, respond, moves=moves)


def _plan_all(
    ctx: Context, sql: Sql, request: Request, warehouse: Warehouse, changes: Sequence[Change], *, moves: bool
) -> list[Plan]:
    plans = [plan_change(ctx, sql, request, warehouse, change, moves=moves) for change in changes]
    if len(plans) > 1 and not ctx.warehouses.allow_overlap:
        places.check_apart([(plan.name, plan.claims) for plan in plans if plan.claims])
    return plans


@contextmanager
def certain_failures(*, creates: bool) -> Iterator[None]:
    """A database or object store that cannot be reached before the swap is a conflict: nothing was committed, the
    client may retry. Not for a commit that creates: its client takes a 409 for a name that is taken.
    """
    try:
        yield
    except Unavailable as exc:
        if creates:
            raise
        raise CommitConflict(f"Nothing was committed: {exc.message}; retry", hint=exc.hint) from exc


# --- write and swap --------------------------------------------------------------------------------------------------


def publish(
    ctx: Context, request: Request, warehouse: Warehouse, plans: Sequence[Plan], response: Response
) -> Response:
    """The response, after everything that it tells is durable. Raises LostRace when a pointer has moved meanwhile."""
    if all(plan.new is None for plan in plans) and request.key is None:
        return response

    def swap() -> Response:
        return transact_fenced(
            ctx,
            request,
            _fence(ctx, request, warehouse, plans, response),
            lambda sql, fence: _swap_all(ctx, sql, request, warehouse, plans, response, fence),
        )

    return write_and_swap(ctx, warehouse, plans, response, swap)


def write_and_swap(
    ctx: Context, warehouse: Warehouse, plans: Sequence[Plan], response: Response, swap: Callable[[], Response]
) -> Response:
    """The response, after the files of the plans are written and `swap` has moved the pointers in its transaction."""
    _check_sizes(ctx, plans)
    try:
        _write_files(ctx, plans)
        faults.reach("metadata.written")
        answer = swap()
    except (LostRace, UuidTaken, Left):
        # Certain: the transaction was undone, so no pointer can ever lead to these files.
        for plan in plans:
            for location in (*(rebased.location for rebased in plan.moved), *([plan.new.location] if plan.new else [])):
                ctx.files.delete(location)
        raise
    except CommitUnknown:
        answer = _look_again(ctx, warehouse, plans, response)
    _remember(ctx, warehouse, plans)
    faults.reach("commit.before-reply")
    return answer


def _write_files(ctx: Context, plans: Sequence[Plan]) -> None:
    """Manifest lists first: when a metadata file is there, what it names is."""
    if lists := [(rebased.location, rebased.content) for plan in plans for rebased in plan.moved]:
        ctx.files.write_lists(lists)
        faults.reach(faults.LISTS_WRITTEN)
    ctx.files.write_versions([plan.new for plan in plans if plan.new is not None])


def _publish_locked(
    ctx: Context,
    request: Request,
    warehouse: Warehouse,
    changes: Sequence[Change],
    respond: Respond,
    *,
    moves: bool,
) -> Response:
    """The same with the tables' rows locked first, so that no other commit can be faster again.

    The files are then written inside the transaction, which is longer than it should be. But a server whose files are
    far away would else lose every race against one that has them near, and its clients would starve.
    """
    plans: list[Plan] = []

    def work(sql: Sql) -> Response:
        for name in sorted((change.name for change in changes), key=_order):
            relations.lock(sql, warehouse.name, name)
        plans[:] = _plan_all(ctx, sql, request, warehouse, changes, moves=moves)
        _check_sizes(ctx, plans)
        _write_files(ctx, plans)
        return _swap_all(ctx, sql, request, warehouse, plans, respond([plan.result for plan in plans]))

    try:
        answer = transact(ctx, request, work)
    except LostRace:  # only a table that did not exist cannot be locked
        raise CommitConflict(
            f"Cannot commit {', '.join(str(c.name) for c in changes)}: another writer committed first; retry"
        ) from None
    except CommitUnknown:
        answer = _look_again(ctx, warehouse, plans, respond([plan.result for plan in plans]))
    _remember(ctx, warehouse, plans)
    return answer


def _check_sizes(ctx: Context, plans: Sequence[Plan]) -> None:
    """Refuses metadata files that grow past the limit: the server must be able to read what it writes. A smaller one
    may always follow.
    """
    most = min(ctx.limits.new_metadata_bytes, ctx.limits.metadata_bytes)
    for plan in plans:
        size = plan.new.file_size if plan.new is not None else 0
        if size > most and (plan.base is None or size > plan.base.file_size):
            raise InvalidChange(
                f"Cannot commit {plan.name}: its metadata file would have {size} bytes, at most {most} are allowed",
                hint="expire old snapshots and remove properties; an operator can raise "
                "server.limits.new_metadata_bytes",
            )


def _order(name: Name) -> tuple[str, str]:
    """Tables are changed in one order everywhere: so two commits cannot wait for each other."""
    return name.key, name.name


def _fence(
    ctx: Context, request: Request, warehouse: Warehouse, plans: Sequence[Plan], response: Response
) -> Fence | None:
    """What the last pointer carries. Nothing, if a UUID is to be checked: the caller is looked at first."""
    if request.caller is None or any(plan.names_uuid for plan in plans):
        return None
    return ctx.gate.fence(request, response.status, _new_targets(warehouse, plans))


def _new_targets(warehouse: Warehouse, plans: Sequence[Plan]) -> list[Target]:
    return [plan.target(warehouse.name) for plan in plans if plan.base is None]


def _swap_all(
    ctx: Context,
    sql: Sql,
    request: Request,
    warehouse: Warehouse,
    plans: Sequence[Plan],
    response: Response,
    fence: Fence | None = None,
) -> Response:
    for plan in sorted(plans, key=lambda plan: plan.result.metadata[f"{plan.kind}-uuid"]) if len(plans) > 1 else plans:
        if plan.names_uuid:
            uuid_rights.check_uuid(ctx, sql, request, warehouse, plan.result, plan.kind)
    *others, last = sorted(plans, key=lambda plan: _order(plan.name))
    # The places of all, and what the fence carries, together with the last pointer: one round trip.
    for plan, claiming, carried in (*((other, (), None) for other in others), (last, plans, fence)):
        try:
            swapped = swap_pointer(ctx, sql, warehouse, plan, claiming, carried)
        except ConstraintBroken as exc:
            raise FenceBroken if fence is not None else NoSuchNamespace(show(plan.name.namespace)) from exc
        if not swapped:
            raise FenceBroken if fence is not None and access.version(sql) != fence.version else LostRace
    if fence is None:
        ctx.gate.own(sql, request, _new_targets(warehouse, plans))
    return response


def swap_pointer(
    ctx: Context, sql: Sql, warehouse: Warehouse, plan: Plan, claiming: Sequence[Plan], fence: Fence | None = None
) -> bool:
    """Moves the pointer of one table, and claims the places of these plans. False when something has changed meanwhile:
    another commit moved the pointer or took a place that overlaps, or the fence is broken. Then decide again.
    """
    old = plan.base.location if plan.base else None
    target = plan.result  # a table that is only looked at must still be where it was when the others move
    uuid, place = target.metadata[f"{plan.kind}-uuid"], target.metadata["location"]
    swap = Swap(plan.name, plan.kind, old, target.location, uuid, place, keeps_uuid=True)
    statement = relations.swap_statement(warehouse.name, swap, version=fence.version if fence is not None else None)
    claims = [(claimant.name, claimant.claims) for claimant in claiming if claimant.claims]
    swapped = Swapped(statement, fence)
    return places.claim(sql, ctx.warehouses, warehouse, claims, folds=ctx.folds(warehouse), swapped=swapped)


def _look_again(ctx: Context, warehouse: Warehouse, plans: Sequence[Plan], response: Response) -> Response:
    """The response, if the pointers show that the commit went through; else the doubt remains, and is said."""
    try:
        relations_now = [relations.find(ctx.database.read(), warehouse.name, plan.name) for plan in plans]
    except Unavailable:
        relations_now = [None]
    if [relation and relation.metadata_location for relation in relations_now] == [
        plan.result.location for plan in plans
    ]:
        return response
    names = ", ".join(str(plan.name) for plan in plans)
    raise CommitUnknown(
        f"The database failed while committing {names}; it is unknown whether the commit happened",
        hint="load the table and look for the change before trying again",
    )


def _remember(ctx: Context, warehouse: Warehouse, plans: Sequence[Plan]) -> None:
    for plan in plans:
        if plan.new is None:
            continue
        for rebased in plan.moved:
            ctx.appends.count("rebased")
            log.info("append rebased", extra={"fields": rebased.facts})
        ctx.files.cache.put(plan.new)
        if plan.base is not None:
            ctx.files.cache.drop(plan.base.location)
            if plan.kind == "table":
                _delete_expired(ctx, warehouse, plan.base, plan.new)


def _delete_expired(ctx: Context, warehouse: Warehouse, base: Version, new: Version) -> None:
    """Deletes the metadata files that fell out of the log, for tables that ask for it."""
    if new.metadata["properties"].get(DELETE_AFTER_COMMIT, "false").lower() != "true":
        return
    kept = {entry["metadata-file"] for entry in new.metadata["metadata-log"]}
    gone = [entry["metadata-file"] for entry in base.metadata["metadata-log"] if entry["metadata-file"] not in kept]
    if gone:
        ctx.background.submit(ctx.guard.delete_versions, warehouse, new, gone)
