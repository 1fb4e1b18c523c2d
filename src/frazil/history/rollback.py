"""The way back: what it would do, as plain values that can be shown; then the doing, guarded by what was shown.

A pipeline's progress is its ledger, a companion table: rows that go back with their progress take its lines with
them, in one commit. Which lines those are, times tell: in every commit the ledger's snapshot is as old as the table's
or younger, and older than the next of the table's. So the ledger's state that belongs to a snapshot is the one just
before main went on from it. The same holds of the quarantine: rows that were quarantined since come again as well, and
would be quarantined twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.errors import HistoryError, ProgressMismatch
from frazil.history.diff import TableDiff, compare_schemas, diff_points
from frazil.history.log import LogEntry, describe, refs_by_snapshot
from frazil.protocol import LEDGER_SUFFIX, QUARANTINE_SUFFIX
from frazil.scan.planning import MAIN, Point, ancestors, find_ref, find_snapshot, schema_at
from frazil.write.commit import progress_at, read_progress, roll_back

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from frazil.client import FrazilCatalog


@dataclass(frozen=True)
class PartChange:
    """Where a part of a sink stands now, and where it stood then."""

    part: str
    now: Mapping[str, int]
    then: Mapping[str, int]

    @property
    def is_behind(self) -> bool:
        """Whether it had not come as far then."""
        return any(self.then.get(name, -1) < offset for name, offset in self.now.items())

    @property
    def is_ahead(self) -> bool:
        """Whether its progress was further ahead then."""
        return any(self.now.get(name, -1) < offset for name, offset in self.then.items())


@dataclass(frozen=True)
class LedgerChange:
    """The lines that a ledger would lose (their files are loaded again) and get back (they count as loaded); so for
    quarantined rows.
    """

    table: str
    forgets: int
    remembers: int
    live: Table
    snapshot: Snapshot | None


@dataclass(frozen=True)
class RollbackPlan:
    """What a rollback would do; `progress_known` is false if the progress of that time is no longer known."""

    table: str
    ref: str
    head_id: int
    target: Point
    undone: tuple[LogEntry, ...]
    restored: tuple[LogEntry, ...]
    diff: TableDiff
    schema_since: tuple[str, ...]
    parts: tuple[PartChange, ...]
    ledger: LedgerChange | None
    progress_known: bool
    quarantine: LedgerChange | None = None

    @property
    def has_progress(self) -> bool:
        """Whether the caller must decide what happens to progress."""
        return bool(self.parts or self.ledger or not self.progress_known)

    @property
    def repeats(self) -> bool:
        """Whether progress was behind then: if it goes back, its source sends rows again."""
        behind = any(part.is_behind for part in self.parts) or bool(self.ledger and self.ledger.forgets)
        return behind or not self.progress_known

    @property
    def resumes(self) -> bool:
        """Whether progress was ahead then: if it stays, rows that are brought back come in a second time."""
        return any(part.is_ahead for part in self.parts) or bool(self.ledger and self.ledger.remembers)


def plan_rollback(catalog: FrazilCatalog, table: Table, target: Point, *, ref: str = MAIN) -> RollbackPlan:
    """What it would do to bring a branch back to a snapshot."""
    metadata, name = table.metadata, ".".join(table.name())
    head = find_ref(metadata, ref, table=name)
    if head.kind == "tag":
        raise HistoryError(
            f"'{ref}' is a tag of {name}, and tags stay where they are", hint="name a branch with --ref", ref=ref
        )
    if head.snapshot.snapshot_id == target.snapshot.snapshot_id:
        raise HistoryError(
            f"'{ref}' of {name} is at snapshot {head.snapshot.snapshot_id} already",
            problem="nothing-to-undo",
            hint=f"frazil log {name} lists the others",
            snapshot=head.snapshot.snapshot_id,
            ref=ref,
        )
    then = find_snapshot(metadata, target.snapshot.snapshot_id, table=name)
    rollback = [
        _ledger_change(catalog, table, suffix, target.snapshot)
        for suffix in (LEDGER_SUFFIX, QUARANTINE_SUFFIX)
        if ref == MAIN
    ]
    (ledger, ledger_known), (quarantine, quarantine_known) = rollback or [(None, True)] * 2
    parts = _part_changes(metadata, target.snapshot, ref)
    return RollbackPlan(
        table=name,
        ref=ref,
        head_id=head.snapshot.snapshot_id,
        target=target,
        undone=_only_in(metadata, head.snapshot, target.snapshot),
        restored=_only_in(metadata, target.snapshot, head.snapshot),
        diff=diff_points(table, head, then),
        schema_since=tuple(str(change) for change in compare_schemas(schema_at(metadata, then), metadata.schema())),
        parts=parts or (),
        ledger=ledger,
        progress_known=parts is not None and ledger_known and quarantine_known,
        quarantine=quarantine,
    )


def perform_rollback(catalog: FrazilCatalog, plan: RollbackPlan, *, with_progress: bool) -> int:
    """Brings the branch back; gives the new snapshot's id. Refused with `CommitConflict` if the branch has moved since
    the plan.
    """
    if with_progress and not plan.progress_known:
        raise ProgressMismatch(
            f"{plan.table}: what the progress was at {plan.target} is no longer known",
            hint="roll back with --keep-progress",
            table=plan.table,
            problem="expired",
        )
    also = [
        (companion.live, companion.snapshot)
        for companion in (plan.ledger, plan.quarantine)
        if with_progress and companion
    ]
    identifier, snapshot_id = tuple(plan.table.split(".")), plan.target.snapshot.snapshot_id
    return roll_back(
        catalog,
        identifier,
        snapshot_id,
        with_progress=with_progress,
        ref=plan.ref,
        expected_head=plan.head_id,
        also=also,
    )


def _only_in(metadata: TableMetadata, line: Snapshot, other: Snapshot) -> tuple[LogEntry, ...]:
    """The snapshots of one line that are not on the other, the newest first."""
    known, refs = {snapshot.snapshot_id for snapshot in ancestors(metadata, other)}, refs_by_snapshot(metadata)
    some = [snapshot for snapshot in ancestors(metadata, line) if snapshot.snapshot_id not in known]
    return tuple(describe(snapshot, refs=refs.get(snapshot.snapshot_id, ())) for snapshot in some)


def _part_changes(metadata: TableMetadata, target: Snapshot, ref: str) -> tuple[PartChange, ...] | None:
    """The parts whose position differs; None when that of the target is no longer known."""
    now = read_progress(metadata, ref)
    if not now.parts:
        return ()
    then = progress_at(metadata, target, ref)
    if then is None:
        return None
    moved = [(name, part.offsets, then.part(name)) for name, part in sorted(now.parts.items())]
    return tuple(
        PartChange(name, dict(offsets), dict(old.offsets))
        for name, offsets, old in moved
        if (dict(offsets), now.part(name).commits) != (dict(old.offsets), old.commits)
    )


# --- the ledger ------------------------------------------------------------------------------------------------------


def _ledger_change(
    catalog: FrazilCatalog, table: Table, suffix: str, target: Snapshot
) -> tuple[LedgerChange | None, bool]:
    """What happens to the companion table, if there is one and it changes; and whether its state of that time
    is known.
    """
    from pyiceberg.exceptions import NoSuchTableError

    *namespace, name = table.name()
    try:
        live = catalog.load_table((*namespace, f"{name}{suffix}"))
    except NoSuchTableError:
        return None, True
    head = live.metadata.snapshot_by_name(MAIN)
    if head is None:
        return None, True
    until_ms = _left_at(table.metadata, target)
    if until_ms is None:
        return None, False
    return _ledger_until(live, head, until_ms)


def _ledger_until(live: Table, head: Snapshot, until_ms: int) -> tuple[LedgerChange | None, bool]:
    label = ".".join(live.name())
    held = [entry.snapshot_id for entry in live.metadata.snapshot_log if entry.timestamp_ms < until_ms]
    if not held:
        # Before its first line it was empty. A log that expiry has cut short cannot say so: then its first snapshot has
        # a parent.
        first = live.metadata.snapshot_by_id(live.metadata.snapshot_log[0].snapshot_id)
        known = first is not None and first.parent_snapshot_id is None
        return (LedgerChange(label, _total(head), 0, live, None) if known and _total(head) else None), known
    then = live.metadata.snapshot_by_id(held[-1])
    if then is None:
        return None, False
    points = diff_points(
        live, find_ref(live.metadata, MAIN, table=label), find_snapshot(live.metadata, then.snapshot_id, table=label)
    )
    if not points.files:
        return None, True
    return LedgerChange(label, points.sum("-").rows, points.sum("+").rows, live, then), True


def _left_at(metadata: TableMetadata, target: Snapshot) -> int | None:
    """When main last went on from the snapshot; None if its log does not hold it."""
    log = metadata.snapshot_log
    places = [position for position, entry in enumerate(log[:-1]) if entry.snapshot_id == target.snapshot_id]
    if not places:
        return None
    left, came = log[places[-1]], log[places[-1] + 1]
    successor = metadata.snapshot_by_id(came.snapshot_id)
    # A snapshot that was staged on a branch is older than its place in the log, and the ledger's line lies between the
    # two.
    staged = successor is not None and left.timestamp_ms <= successor.timestamp_ms
    return successor.timestamp_ms if successor and staged else came.timestamp_ms


def _total(snapshot: Snapshot) -> int:
    return int(snapshot.summary.get("total-records") or 0) if snapshot.summary else 0
