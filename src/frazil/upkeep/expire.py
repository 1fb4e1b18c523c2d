"""Snapshot expiry: which snapshots go, the commit that lets them go, and then the files that nothing leads to any more.

The order is the safety: first the commit, then, and only when it is certain, the files. What reaches what is worked out
between the two, on the table as it is after the commit: every ref and every kept snapshot of that moment keeps its
files. A program that is killed in between leaves orphans, which the orphan step finds by their age.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.typedef import Identifier

from frazil.client import Change
from frazil.errors import CommitConflict, ReferencesUnknown, UpkeepError
from frazil.upkeep.others import find_referenced
from frazil.upkeep.policy import EXPIRE, Policy
from frazil.upkeep.reach import Doomed, find_doomed
from frazil.upkeep.removing import Removed, folders_of, is_own, remove_files
from frazil.upkeep.retention import Expired, choose_expired
from frazil.write.commit import CommitCatalog, RetryPolicy, property_key, until_decided

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

STEP = EXPIRE


@dataclass(frozen=True)
class ExpiryPlan:
    """What would go: snapshots, refs, and the files that only they reach."""

    table: str
    expired: Expired
    doomed: Doomed = field(default_factory=Doomed)
    uuid: str = ""  # of the table for which it was planned
    needed: Mapping[str, str] = field(default_factory=dict)  # files that stay, for another table leads to them
    outside: int = 0  # files that stay, for they are not in the table's folders
    doubt: str = ""  # why all files stay: a table that cannot be read may lead to them


@dataclass(frozen=True)
class ExpiryResult:
    """What went. Files are removed only where the commit is certain and the table allows it."""

    snapshots: int = 0
    refs: tuple[str, ...] = ()
    removed: Removed = field(default_factory=Removed)


def plan_expiry(table: Table, policy: Policy, *, now_ms: int, keep_since_ms: int | None = None) -> ExpiryPlan:
    """What the policy lets go of the table as it was loaded."""
    expired = choose_expired(table.metadata, policy, now_ms=now_ms, keep_since_ms=keep_since_ms)
    name, uuid = ".".join(table.name()), str(table.metadata.table_uuid)
    if not expired.snapshot_ids or not policy.may_delete:
        return ExpiryPlan(name, expired, uuid=uuid)
    gone = set(expired.snapshot_ids)
    before = [snapshot for snapshot in table.metadata.snapshots if snapshot.snapshot_id in gone]
    after = [snapshot for snapshot in table.metadata.snapshots if snapshot.snapshot_id not in gone]
    doomed, folders = find_doomed(table, before, after), folders_of(table)
    own = [path for path in doomed.in_order() if is_own(path, folders)]
    try:
        needed = find_referenced(table.catalog, own, other_than=tuple(table.name()))
    except ReferencesUnknown as exc:
        return ExpiryPlan(name, expired, uuid=uuid, outside=len(doomed) - len(own), doubt=exc.message)
    free = doomed.only({*own} - needed.keys())
    return ExpiryPlan(name, expired, free, uuid, needed, len(doomed) - len(own))


@dataclass
class Expiry:
    """The work on one table."""

    catalog: CommitCatalog
    identifier: Identifier
    policy: Policy
    clock_ms: Callable[[], int]
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    keep_since_ms: int | None = None
    # of the table for which it was planned: a recreated one of the same name is left alone
    uuid: str | None = None

    def run(self) -> ExpiryResult:
        """Lets snapshots go, then removes the files that nothing leads to any more."""
        before, expired = self._commit()
        if not expired.snapshot_ids:
            return ExpiryResult(refs=expired.refs)
        self.retry.on_step("expired, files not removed")
        removed = self._remove(before, set(expired.snapshot_ids)) if self.policy.may_delete else Removed()
        return ExpiryResult(len(expired.snapshot_ids), expired.refs, removed)

    def _commit(self) -> tuple[Table, Expired]:
        sent: list[tuple[Table, Expired]] = []

        def attempt(_: int) -> tuple[Table, Expired]:
            self.retry.on_step("before load")
            table = self.catalog.load_table(self.identifier)
            if self.uuid and str(table.metadata.table_uuid) != self.uuid:
                raise UpkeepError(
                    f"{'.'.join(self.identifier)}: nothing is expired: the table was dropped and created again since "
                    f"the plan was made",
                    hint="run frazil maintain again",
                    table=".".join(self.identifier),
                    problem="recreated",
                )
            for earlier, expired in sent:
                if _has_happened(table.metadata, expired):
                    return earlier, expired
            expired = choose_expired(
                table.metadata, self.policy, now_ms=self.clock_ms(), keep_since_ms=self.keep_since_ms
            )
            if not expired.snapshot_ids and not expired.refs:
                return table, expired
            self.retry.on_step("before commit")
            try:
                self.catalog.commit_changes([_change(table, self.identifier, expired)])
            except CommitConflict:
                raise
            except Exception:  # the reply may be lost, and the commit not
                sent.append((table, expired))
                raise
            self.retry.on_step("after commit")
            return table, expired

        return until_decided(attempt, name=".".join(self.identifier), retry=self.retry)

    def _remove(self, before: Table, gone: set[int]) -> Removed:
        """Removes the files of the snapshots that went, except those that the table reaches as it is now."""
        now = self.catalog.load_table(self.identifier)
        if now.metadata.table_uuid != before.metadata.table_uuid:
            return Removed()
        expired = [snapshot for snapshot in before.metadata.snapshots if snapshot.snapshot_id in gone]
        doomed = find_doomed(before, expired, now.metadata.snapshots, kept_statistics=statistics_paths(now.metadata))
        return remove_files(now, doomed.in_order(), on_step=self.retry.on_step)


def _has_happened(metadata: TableMetadata, expired: Expired) -> bool:
    """Whether everything that a commit takes away is gone."""
    return not any(metadata.snapshot_by_id(snapshot_id) for snapshot_id in expired.snapshot_ids) and not any(
        name in metadata.refs for name in expired.refs
    )


def statistics_paths(metadata: TableMetadata) -> frozenset[str]:
    """The statistics files that a table's metadata names."""
    return frozenset(statistic.statistics_path for statistic in (*metadata.statistics, *metadata.partition_statistics))


def _change(table: Table, identifier: Identifier, expired: Expired) -> Change:
    """The commit. It is guarded by every ref: one that has moved to a snapshot that would go makes it a conflict."""
    metadata = table.metadata
    refs: Mapping[str, int] = {name: ref.snapshot_id for name, ref in metadata.refs.items()}
    requirements: list[TableRequirement] = [AssertTableUUID(uuid=metadata.table_uuid)]
    requirements += [
        AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": at}) for name, at in sorted(refs.items())
    ]
    updates: list[TableUpdate] = [RemoveSnapshotRefUpdate.model_validate({"ref-name": name}) for name in expired.refs]
    keys = [property_key(name) for name in expired.refs if property_key(name) in metadata.properties]
    updates += [RemovePropertiesUpdate(removals=keys)] if keys else []
    updates += (
        [RemoveSnapshotsUpdate.model_validate({"snapshot-ids": list(expired.snapshot_ids)})]
        if expired.snapshot_ids
        else []
    )
    return Change(identifier, tuple(requirements), tuple(updates))
