"""Back to an older state, in a way that writers see.

A ref that is simply moved back would pass a guard that was read before it moved forward. So a rollback is a new
snapshot with the old one's files; and it must be said whether the progress goes back with them: then the source sends
those rows again, else they stay out for good.

The new snapshot is a child of the old one, not of the one that is undone. Iceberg's snapshot expiry (as Trino calls it)
deletes the files that an expired *ancestor* of the current snapshot had removed: a compaction that was undone, but
stayed an ancestor, would so take the files with it that the rollback has brought back. And a MERGE that began on an
undone snapshot finds that one gone from the line, and stops.

The old snapshot must not expire between the look at the table and the commit: expiry deletes its files. So a tag holds
it first, and the commit requires that the tag is still there, and removes it. A tag that a killed rollback leaves
expires after a day.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pyiceberg.exceptions import RESTError, ValidationError
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update import AssertTableUUID, SetSnapshotRefUpdate
from pyiceberg.typedef import Identifier

from frazil.client import Change
from frazil.errors import CommitConflict, CommitUnknown, ProgressMismatch, SinkError, Unavailable
from frazil.protocol import ROLLBACK_TAG_PREFIX, SUMMARY_PROGRESS, SUMMARY_REF, SUMMARY_ROLLBACK
from frazil.write.commit.builder import Counts, Draft, at_snapshot, drop_ref, guards, head
from frazil.write.commit.progress import MAIN, Progress, progress_at, property_key, read_progress
from frazil.write.commit.publish import CommitCatalog

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

HOLD_MS = 24 * 3_600_000
_HINT = "it may have expired; choose one that is kept: frazil log TABLE --all"


def roll_back(
    catalog: CommitCatalog,
    identifier: Identifier,
    snapshot_id: int,
    *,
    with_progress: bool,
    ref: str = MAIN,
    expected_head: int | None = None,
    also: Sequence[tuple[Table, Snapshot | None]] = (),
) -> int:
    """The table has the rows of an older snapshot, as a new one whose id is returned. If progress goes back, every
    writer is fenced.

    With `expected_head`, only if the ref still is there: what a person has been shown is what is undone. `also` names
    tables whose main goes back in the same commit, to a snapshot of their own or to nothing. A `CommitConflict` says
    that nothing has happened.
    """
    table = catalog.load_table(identifier)
    old, current = table.metadata.snapshot_by_id(snapshot_id), head(table.metadata, ref)
    if old is None or current is None:
        raise SinkError(
            f"{'.'.join(identifier)} has no snapshot {snapshot_id}",
            hint=_HINT,
            table=".".join(identifier),
            snapshot=snapshot_id,
        )
    if expected_head not in (None, current.snapshot_id):
        raise CommitConflict(
            f"'{ref}' of {'.'.join(identifier)} has moved from snapshot {expected_head} to {current.snapshot_id}; "
            f"nothing was changed",
            hint="another writer committed first: check what would be undone now, and run it again",
            snapshot=expected_head,
            ref=ref,
        )
    after = progress_after(table.metadata, old, with_progress=with_progress, ref=ref)
    held = [(identifier, table, old), *((other.name(), other, then) for other, then in also if then is not None)]
    with _holding(catalog, held) as tag:
        change = return_to(table, identifier, old, progress=after if after.parts else None, ref=ref, tag=tag)
        (new_id,) = change.snapshot_ids
        # Built after the table's own: along every commit, a companion's snapshot is never older than the table's (see
        # history.rollback).
        others = [return_to(other, other.name(), then, tag=tag) for other, then in also]
        try:
            catalog.commit_changes([change, *others])
        except CommitUnknown:
            # The snapshot's id is new and random: if it is there, the commit has happened.
            if catalog.load_table(identifier).metadata.snapshot_by_id(new_id) is None:
                raise
    return new_id


@contextlib.contextmanager
def _holding(catalog: CommitCatalog, held: Sequence[tuple[Identifier, Table, Snapshot]]) -> Iterator[str]:
    """The name of a tag that keeps each table's snapshot from expiring; to be removed by the commit that builds
    on it.
    """
    tag = f"{ROLLBACK_TAG_PREFIX}{uuid.uuid4().hex[:8]}"
    try:
        catalog.commit_changes([_hold(identifier, table, snapshot, tag) for identifier, table, snapshot in held])
    except CommitUnknown as exc:
        if tag not in catalog.load_table(held[0][0]).metadata.refs:
            raise Unavailable(
                f"{'.'.join(held[0][0])}: nothing was rolled back: {exc.message}", hint="try again"
            ) from exc
    except (RESTError, ValidationError, ValueError) as exc:  # as catalogs refuse a tag on a snapshot that is not there
        for identifier, _, snapshot in held:
            if catalog.load_table(identifier).metadata.snapshot_by_id(snapshot.snapshot_id) is None:
                raise SinkError(
                    f"{'.'.join(identifier)} has no snapshot {snapshot.snapshot_id} any more",
                    hint=_HINT,
                    table=".".join(identifier),
                    snapshot=snapshot.snapshot_id,
                ) from exc
        raise
    try:
        yield tag
    except BaseException as exc:
        if not isinstance(exc, CommitUnknown):  # else the commit may still come, and needs the tag
            with contextlib.suppress(Exception):
                catalog.commit_changes([_let_go(identifier, snapshot, tag) for identifier, _, snapshot in held])
        raise


def _hold(identifier: Identifier, table: Table, snapshot: Snapshot, tag: str) -> Change:
    ref = {"ref-name": tag, "type": "tag", "snapshot-id": snapshot.snapshot_id, "max-ref-age-ms": HOLD_MS}
    return Change(
        identifier, (AssertTableUUID(uuid=table.metadata.table_uuid),), (SetSnapshotRefUpdate.model_validate(ref),)
    )


def _let_go(identifier: Identifier, snapshot: Snapshot, tag: str) -> Change:
    return Change(identifier, (at_snapshot(tag, snapshot.snapshot_id),), (drop_ref(tag),))


def return_to(
    table: Table,
    identifier: Identifier,
    old: Snapshot | None,
    *,
    tag: str,
    progress: Progress | None = None,
    ref: str = MAIN,
) -> Change:
    """The change that gives a ref the rows of `old` (none: it becomes empty) as a new snapshot.

    Only if the ref still is where `table` saw it, and `tag` still holds the old snapshot.
    """
    metadata, current = table.metadata, head(table.metadata, ref)
    draft = Draft(table, ref, old, metadata.new_snapshot_id(), attempt=0)
    # A list of its own with the old manifests: expiry deletes the old list together with the old snapshot. Measured
    # against its parent the new one changes no rows: a reader that follows the table has nothing to fetch.
    snapshot = draft.write(Operation.REPLACE, draft.manifests, Counts(), _summary(old, progress, ref))
    updates = draft.updates(snapshot, {property_key(ref): progress.dump()} if progress else {})
    required = guards(metadata, ref, current.snapshot_id if current else None)
    if old is None:
        return Change(identifier, required, updates)
    return Change(identifier, (*required, at_snapshot(tag, old.snapshot_id)), (*updates, drop_ref(tag)))


def progress_after(metadata: TableMetadata, old: Snapshot, *, with_progress: bool, ref: str = MAIN) -> Progress:
    """The progress of the ref once it is back at `old`."""
    now = read_progress(metadata, ref)
    if not with_progress:
        return now
    then = progress_at(metadata, old, ref)
    if then is None:
        raise ProgressMismatch(
            f"what the progress was at snapshot {old.snapshot_id} is no longer known: the commits before it have "
            f"expired",
            hint="roll back without the progress, or to a snapshot that a sink has written",
            snapshot=old.snapshot_id,
            problem="expired",
        )
    # Generations never go back: a writer of the time that is undone must not regain ownership.
    return Progress(
        {name: replace(then.part(name), generation=part.generation + 1, writer="") for name, part in now.parts.items()}
    )


def _summary(old: Snapshot | None, after: Progress | None, ref: str) -> dict[str, str]:
    said = {SUMMARY_PROGRESS: after.dump(), **({SUMMARY_REF: ref} if ref != MAIN else {})} if after else {}
    return {**said, SUMMARY_ROLLBACK: str(old.snapshot_id if old else "empty")}
