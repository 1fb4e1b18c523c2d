"""What one commit asks of a table, and how a later look at the table tells whether it happened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from uuid import UUID

from pyiceberg.table import CommitTableRequest, Namespace, TableIdentifier
from pyiceberg.table.metadata import TableMetadata
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
            identifier=TableIdentifier(namespace=Namespace(namespace), name=name), requirements=self.requirements, updates=self.updates
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
        moved: dict[str, int | None] = {one.ref_name: one.snapshot_id for one in self.updates if isinstance(one, SetSnapshotRefUpdate)}
        return moved | {one.ref_name: None for one in self.updates if isinstance(one, RemoveSnapshotRefUpdate)}

    def is_outrun_by(self, metadata: TableMetadata) -> bool:
        """Whether a ref that the change builds on has moved: then it can never be applied any more."""
        guards = [requirement for requirement in self.requirements if isinstance(requirement, AssertRefSnapshotId)]
        current = {ref: metadata.refs[ref].snapshot_id for ref in metadata.refs}
        # A ref that is where the change puts it may have come there by the change: that is no sign of somebody else.
        return any(current.get(guard.ref) not in (guard.snapshot_id, self.moved_refs.get(guard.ref, guard.snapshot_id)) for guard in guards)


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
        return Verdict.REFUSED
    if change.creates:
        return Verdict.COMMITTED
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
