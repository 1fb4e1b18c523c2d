"""From a decision to a commit: write the metadata files, then swap all pointers in one transaction.

    plan     read the pointers and the base metadata, decide (commit.py), lay out the new versions
    write    the new metadata files, outside the transaction
    swap     every pointer of the request by compare-and-set, and the idempotency record, in one transaction

A commit ends in one of three ways. *Committed*: the transaction is durable. *Conflict*: a requirement does not hold; or nothing was
changed, for certain, and the client may retry. *Unknown*: the database failed while committing and the pointers, read again, do not show
our files; these files are never deleted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from frazil.catalog import faults
from frazil.catalog.commit import Change, decide
from frazil.catalog.context import Context
from frazil.catalog.fields import Json
from frazil.catalog.http import Request, Response
from frazil.catalog.idempotency import transact
from frazil.catalog.locations import default_location
from frazil.catalog.metadata import Version, table_version
from frazil.catalog.names import Name, show
from frazil.catalog.store import namespaces, relations
from frazil.catalog.store.database import ConstraintBroken, Sql
from frazil.catalog.store.relations import Relation, Swap
from frazil.catalog.warehouse import Warehouse
from frazil.errors import AlreadyExists, BadRequest, CommitConflict, CommitUnknown, NoSuchNamespace, NoSuchTable, Unavailable

MAX_TRIES = 20
METADATA_PATH = "write.metadata.path"
DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"
PATH_PROPERTIES = (METADATA_PATH, "write.data.path", "write.object-storage.path", "write.folder-storage.path")

Respond = Callable[[Sequence[Version]], Response]


class LostRace(Exception):
    """A pointer was moved by somebody else between our look and our swap; nothing of ours was changed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What will happen to one table: from `base` (None for a new one) to `new` (None when nothing changes)."""

    name: Name
    base: Version | None
    new: Version | None
    kind: str = "table"

    @property
    def result(self) -> Version:
        found = self.new or self.base
        assert found is not None, "a plan has a base or a new version"
        return found


def commit_changes(ctx: Context, request: Request, warehouse: Warehouse, changes: Sequence[Change], respond: Respond) -> Response:
    """The answer to a commit of one or more tables, all or nothing."""
    names = [change.name for change in changes]
    if len(set(names)) != len(names):
        raise BadRequest(f"A table is changed twice in one commit: {', '.join(map(str, names))}")
    keys = [(warehouse.name, name.key, name.name) for name in names]
    with certain_failures(creates=any(change.creates for change in changes)), ctx.locks.hold(keys):
        for _ in range(MAX_TRIES):
            plans = [_plan(ctx, warehouse, change) for change in changes]
            faults.reach("commit.decided")
            try:
                return publish(ctx, request, warehouse, plans, respond([plan.result for plan in plans]))
            except LostRace:
                continue
    raise CommitConflict(f"Cannot commit {', '.join(map(str, names))}: other commits were faster {MAX_TRIES} times in a row; retry")


@contextmanager
def certain_failures(*, creates: bool) -> Iterator[None]:
    """A database or object store that cannot be reached before the swap is a conflict: nothing was committed, the client may retry.
    Not for a commit that creates: its client takes a 409 for a name that is taken."""
    try:
        yield
    except Unavailable as exc:
        if creates:
            raise
        raise CommitConflict(f"Nothing was committed: {exc.message}; retry", hint=exc.hint) from exc


# --- plan ------------------------------------------------------------------------------------------------------------------------


def _plan(ctx: Context, warehouse: Warehouse, change: Change) -> Plan:
    relation = relations.find(ctx.database.read(), warehouse.name, change.name)
    base = _check_free(ctx, warehouse, change.name, relation) if change.creates else load_base(ctx, change.name, relation)
    old, old_location = (base.metadata, base.location) if base else (None, None)
    metadata = decide(old, change, base_location=old_location, now_ms=ctx.clock(), new_uuid=ctx.new_uuid())
    if metadata is None:
        return Plan(change.name, base, None)
    if base is None and "location" not in metadata:
        metadata["location"] = new_location(ctx, warehouse, change.name)
    check_places(ctx, warehouse, metadata, old)
    location = metadata_location(metadata, old_location, ctx.new_uuid())
    return Plan(change.name, base, table_version(location, metadata, base))


def _check_free(ctx: Context, warehouse: Warehouse, name: Name, relation: Relation | None) -> Version | None:
    if relation is None:
        if namespaces.find(ctx.database.read(), warehouse.name, name.namespace) is None:
            raise NoSuchNamespace(show(name.namespace))
        return None
    if relation.kind == "view":
        raise AlreadyExists(f"View with same name already exists: {name}")
    return load_base(ctx, name, relation)


def load_base(ctx: Context, name: Name, relation: Relation | None) -> Version:
    """The table's current version."""
    if relation is None or relation.kind != "table":
        raise NoSuchTable(str(name))
    return ctx.files.load(relation.metadata_location)


def new_location(ctx: Context, warehouse: Warehouse, name: Name) -> str:
    """A place for a table whose creator names none: after its name, unless another table lives there (a renamed one, say)."""
    properties = namespaces.find(ctx.database.read(), warehouse.name, name.namespace) or {}
    location = default_location(warehouse.root, name, properties.get("location"))
    if relations.location_is_used(ctx.database.read(), location):
        return f"{location}-{ctx.new_uuid()[:8]}"
    return location


def check_places(ctx: Context, warehouse: Warehouse, metadata: Json, base: Json | None) -> None:
    """Passes when every place that the table says it writes to is allowed; places that it had before are not looked at again."""
    if base is None or base["location"] != metadata["location"]:
        ctx.warehouses.check(warehouse, metadata["location"])
    properties = metadata["properties"]
    if base is None or properties is not base["properties"]:
        for key in PATH_PROPERTIES:
            if key in properties and (base is None or base["properties"].get(key) != properties[key]):
                ctx.warehouses.check(warehouse, properties[key])


_NUMBER = re.compile(r"(?:v)?(\d{1,9})")


def metadata_location(metadata: Json, previous: str | None, uuid: str) -> str:
    """The name of the next metadata file: a number one above the file before, and a UUID that no other commit has.

    >>> metadata_location({"location": "s3://b/t", "properties": {}}, "s3://b/t/metadata/00041-x.metadata.json", "u")
    's3://b/t/metadata/00042-u.metadata.json'
    """
    number = 0
    if previous is not None:
        found = _NUMBER.match(previous.rpartition("/")[2])
        number = int(found[1]) + 1 if found else 1
    folder = metadata["properties"].get(METADATA_PATH, f"{metadata['location']}/metadata").rstrip("/")
    packed = ".gz" if metadata["properties"].get("write.metadata.compression-codec", "none").lower() == "gzip" else ""
    return f"{folder}/{number:05d}-{uuid}{packed}.metadata.json"


# --- write and swap --------------------------------------------------------------------------------------------------------------


def publish(ctx: Context, request: Request, warehouse: Warehouse, plans: Sequence[Plan], response: Response) -> Response:
    """The response, after everything that it tells is durable. Raises LostRace when a pointer has moved meanwhile."""
    changed = [plan.new for plan in plans if plan.new is not None]
    if not changed and request.key is None:
        return response
    try:
        ctx.files.write_versions(changed)
        faults.reach("metadata.written")
        answer = transact(ctx, request, lambda sql: _swap_all(sql, warehouse, plans, response))
    except LostRace:
        # Certain: the transaction was undone, so no pointer can ever lead to these files.
        for version in changed:
            ctx.files.delete(version.location)
        raise
    except CommitUnknown:
        answer = _look_again(ctx, warehouse, plans, response)
    _remember(ctx, plans)
    faults.reach("commit.before-reply")
    return answer


def _swap_all(sql: Sql, warehouse: Warehouse, plans: Sequence[Plan], response: Response) -> Response:
    for plan in sorted(plans, key=lambda plan: (plan.name.key, plan.name.name)):  # in one order everywhere: no deadlock
        old = plan.base.location if plan.base else None
        target = plan.result  # a table that is only looked at must still be where it was when the others move
        uuid, place = target.metadata[f"{plan.kind}-uuid"], target.metadata["location"]
        swap = Swap(plan.name, plan.kind, old, target.location, uuid, place)
        try:
            moved = relations.swap(sql, warehouse.name, swap)
        except ConstraintBroken as exc:
            raise NoSuchNamespace(show(plan.name.namespace)) from exc
        if not moved:
            raise LostRace
    return response


def _look_again(ctx: Context, warehouse: Warehouse, plans: Sequence[Plan], response: Response) -> Response:
    """The response, if the pointers show that the commit went through; else the doubt remains, and is said."""
    try:
        found = [relations.find(ctx.database.read(), warehouse.name, plan.name) for plan in plans]
    except Unavailable:
        found = [None]
    if [relation and relation.metadata_location for relation in found] == [plan.result.location for plan in plans]:
        return response
    names = ", ".join(str(plan.name) for plan in plans)
    raise CommitUnknown(
        f"The database failed while committing {names}, and it cannot be told whether the commit happened",
        hint="load the table and look for the change before trying again",
    )


def _remember(ctx: Context, plans: Sequence[Plan]) -> None:
    for plan in plans:
        if plan.new is None:
            continue
        ctx.files.cache.put(plan.new)
        if plan.base is not None:
            ctx.files.cache.drop(plan.base.location)
            if plan.kind == "table":
                _delete_expired(ctx, plan.base, plan.new)


def _delete_expired(ctx: Context, base: Version, new: Version) -> None:
    """Deletes the metadata files that fell out of the log, for tables that ask for it."""
    if new.metadata["properties"].get(DELETE_AFTER_COMMIT, "false").lower() != "true":
        return
    kept = {entry["metadata-file"] for entry in new.metadata["metadata-log"]}
    for entry in base.metadata["metadata-log"]:
        if entry["metadata-file"] not in kept:
            ctx.background.submit(ctx.files.delete, entry["metadata-file"])
