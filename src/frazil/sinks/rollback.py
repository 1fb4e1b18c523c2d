"""Back to an older state, in a way that writers see.

A ref that is simply moved back would pass a guard that was read before it moved forward. So a rollback is a new snapshot with the old one's
files; and it must be said whether the progress goes back with them: then the source sends those rows again, else they stay out for good.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.typedef import Identifier

from frazil.client.changes import Change
from frazil.errors import ProgressMismatch, SinkError
from frazil.sinks.manifests import write_list
from frazil.sinks.progress import MAIN, SUMMARY_PROGRESS, Progress, progress_at, property_key, read_progress
from frazil.sinks.publish import CommitCatalog
from frazil.sinks.snapshots import guards, head, move_ref, set_properties

if TYPE_CHECKING:
    from pyiceberg.table import Table

SUMMARY_ROLLBACK = "frazil.rollback-to"


def roll_back(catalog: CommitCatalog, identifier: Identifier, snapshot_id: int, *, with_progress: bool, ref: str = MAIN) -> int:
    """The table has the rows of an older snapshot, as a new one whose id is returned. If progress goes back, every writer is fenced."""
    table = catalog.load_table(identifier)
    old, current = table.metadata.snapshot_by_id(snapshot_id), head(table.metadata, ref)
    if old is None or current is None:
        raise SinkError(f"{'.'.join(identifier)} has no snapshot {snapshot_id}", hint="it may have expired; choose one that is kept")
    after = _progress_after(table, old, with_progress=with_progress, ref=ref)
    new_id = table.metadata.new_snapshot_id()
    snapshot = Snapshot.model_validate(
        {
            "snapshot-id": new_id,
            "parent-snapshot-id": current.snapshot_id,
            "sequence-number": table.metadata.next_sequence_number(),
            "timestamp-ms": max(int(time.time() * 1000), current.timestamp_ms),
            "manifest-list": write_list(table, old.manifests(table.io), snapshot_id=new_id, parent_id=current.snapshot_id, attempt=0),
            "schema-id": table.metadata.current_schema_id,
            "summary": _summary(old, after),
        }
    )
    properties = set_properties({property_key(ref): after.dump()})
    updates = (AddSnapshotUpdate(snapshot=snapshot), move_ref(table.metadata, ref, new_id), *properties)
    catalog.commit_changes([Change(identifier, guards(table.metadata, ref, current.snapshot_id), updates)])
    return new_id


def _progress_after(table: Table, old: Snapshot, *, with_progress: bool, ref: str) -> Progress:
    now = read_progress(table.metadata, ref)
    if not with_progress:
        return now
    then = progress_at(table.metadata, old)
    if then is None:
        raise ProgressMismatch(
            f"what the progress was at snapshot {old.snapshot_id} is not known any more: the commits before it have expired",
            hint="roll back without the progress, or to a snapshot that a sink has written",
        )
    # Generations never go back: a writer of the time that is undone must not find itself in office again.
    return Progress({name: replace(then.part(name), generation=part.generation + 1, writer="") for name, part in now.parts.items()})


def _summary(old: Snapshot, after: Progress) -> Summary:
    known = old.summary.additional_properties if old.summary else {}
    totals = {key: value for key, value in known.items() if key.startswith("total-")}
    return Summary(Operation.OVERWRITE, **totals, **{SUMMARY_PROGRESS: after.dump(), SUMMARY_ROLLBACK: str(old.snapshot_id)})
