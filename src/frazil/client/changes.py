"""What one commit asks of a table, and how a later look at the table tells whether it happened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from uuid import UUID

from pyiceberg.table import CommitTableRequest, Namespace, TableIdentifier
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCreate,
    AssertRefSnapshotId,
    AssertTableUUID,
    AssignUUIDUpdate,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.typedef import Identifier

from frazil.protocol import PROPERTY_REBASE_APPENDS

CHERRY_PICKED = "source-snapshot-id"  # in a summary: the snapshot whose changes were applied again


@dataclass(frozen=True)
class Change:
    """The requirements and updates for one table in a commit."""

    identifier: Identifier
    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]

    @property
    def name(self) -> str:
        return ".".join(self.identifier)

    @cached_property
    def request(self) -> CommitTableRequest:
        *namespace, name = self.identifier
        return CommitTableRequest(
            identifier=TableIdentifier(namespace=Namespace(namespace), name=name),
            requirements=self.requirements,
            updates=self.updates,
        )

    @property
    def creates(self) -> bool:
        return any(isinstance(requirement, AssertCreate) for requirement in self.requirements)

    @property
    def table_uuid(self) -> UUID | None:
        """The identity of the table that is changed or created, as far as the change says it."""
        for requirement in self.requirements:
            if isinstance(requirement, AssertTableUUID):
                return requirement.uuid
        return next((update.uuid for update in self.updates if isinstance(update, AssignUUIDUpdate)), None)

    @property
    def snapshot_ids(self) -> set[int]:
        """The snapshots that the change adds; random and new, so that finding them proves the commit."""
        return {update.snapshot.snapshot_id for update in self.updates if isinstance(update, AddSnapshotUpdate)}

    @property
    def moved_refs(self) -> dict[str, int | None]:
        """Where the change itself puts refs; None for those that it removes."""
        moved: dict[str, int | None] = {
            update.ref_name: update.snapshot_id for update in self.updates if isinstance(update, SetSnapshotRefUpdate)
        }
        return moved | {update.ref_name: None for update in self.updates if isinstance(update, RemoveSnapshotRefUpdate)}

    def is_outrun_by(self, metadata: TableMetadata) -> bool:
        """Whether a ref that the change builds on was moved by others, and not by the change: then it can never be
        applied any more, unless the catalog rebases it.
        """
        if self._may_be_rebased(metadata):
            return False
        guards = [requirement for requirement in self.requirements if isinstance(requirement, AssertRefSnapshotId)]
        return any(self._went_another_way(guard, metadata) for guard in guards)

    def _may_be_rebased(self, metadata: TableMetadata) -> bool:
        """Whether the change is an append to a table whose appends are rebased: a request that is still under way can
        come in however often the ref has moved.
        """
        summaries = [update.snapshot.summary for update in self.updates if isinstance(update, AddSnapshotUpdate)]
        only_appends = any(summaries) and all(each and each.operation == Operation.APPEND for each in summaries)
        return only_appends and metadata.properties.get(PROPERTY_REBASE_APPENDS, "").strip().lower() == "true"

    def _went_another_way(self, guard: AssertRefSnapshotId, metadata: TableMetadata) -> bool:
        """Whether the ref's history leads back to the guarded snapshot without a gap and without the change.

        Where snapshots have expired in between, the change may have been among them: its files may be in use in later
        snapshots.
        """
        ref = metadata.refs.get(guard.ref)
        if ref is None or ref.snapshot_id == guard.snapshot_id:
            return False
        snapshot = metadata.snapshot_by_id(ref.snapshot_id)
        while snapshot is not None and not self._may_have_made(snapshot, guard.ref):
            if snapshot.parent_snapshot_id == guard.snapshot_id:
                return True
            parent = snapshot.parent_snapshot_id
            snapshot = metadata.snapshot_by_id(parent) if parent is not None else None
        return False

    def _may_have_made(self, snapshot: Snapshot, ref: str) -> bool:
        """Whether the snapshot is on the ref because of the change: added or moved there by it, or cherry-picked from
        its snapshot.
        """
        source = snapshot.summary.get(CHERRY_PICKED) if snapshot.summary else None
        ours = self.snapshot_ids | {self.moved_refs.get(ref)}
        return snapshot.snapshot_id in ours or (source is not None and source.isdecimal() and int(source) in ours)


class Verdict(Enum):
    """What a look at the table says about a commit of unknown fate."""

    COMMITTED = "committed"
    REFUSED = "refused"  # it has not happened, and its requirements can never hold again
    UNDECIDED = "undecided"


def judge(change: Change, metadata: TableMetadata | None) -> Verdict:
    """Whether the change is in the table as it is now; `None` means that there is no such table."""
    if metadata is None:
        return Verdict.UNDECIDED  # not created yet, or dropped since
    if change.table_uuid is not None and metadata.table_uuid != change.table_uuid:
        return Verdict.UNDECIDED  # the table that it was meant for may have been renamed or dropped after the commit
    if change.creates:
        return Verdict.COMMITTED if change.table_uuid is not None else Verdict.UNDECIDED
    if change.snapshot_ids and all(metadata.snapshot_by_id(number) for number in change.snapshot_ids):
        return Verdict.COMMITTED
    return Verdict.REFUSED if change.is_outrun_by(metadata) else Verdict.UNDECIDED


def judge_all(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a commit of several tables: one table decides for all, unless they contradict each other.

    >>> judge_all([Verdict.UNDECIDED, Verdict.COMMITTED])
    <Verdict.COMMITTED: 'committed'>
    >>> judge_all([Verdict.REFUSED, Verdict.COMMITTED])  # a server that is not atomic
    <Verdict.UNDECIDED: 'undecided'>
    """
    decided = {verdict for verdict in verdicts if verdict is not Verdict.UNDECIDED}
    return decided.pop() if len(decided) == 1 else Verdict.UNDECIDED
