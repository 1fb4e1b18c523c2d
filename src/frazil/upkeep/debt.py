"""The debt of a table: how much upkeep it needs, from its metadata alone. No manifest is read.

Snapshots say how many files they have added, and to how many partitions. What was added since upkeep looked at the
table for the last time is held against the table's policy; a score of 1 means that a run is worth it. The numbers are
estimates: a run plans on the manifests, and finds out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from frazil.protocol import SUMMARY_UPKEEP
from frazil.scan.planning import MAIN
from frazil.units import count
from frazil.upkeep.groups import MANY_DELETE_FILES, TOO_SMALL
from frazil.upkeep.policy import COMPACT, DAY_MS, DELETES, EXPIRE, MANIFESTS, Policy
from frazil.upkeep.retention import choose_expired

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

MANY_COMMITS = 100  # each leaves a manifest
MANY_EXPIRED = 20
MOST_FACTOR = 32  # how often a table in which runs find nothing to do may double what starts the next one


@dataclass(frozen=True)
class Look:
    """Where main was when a run looked at the table: the snapshot, and its sequence number (0 in format 1)."""

    snapshot_id: int
    sequence: int = 0

    @classmethod
    def at(cls, metadata: TableMetadata) -> Look | None:
        """The look at a table as it is now; None if it is empty."""
        head = metadata.snapshot_by_name(MAIN)
        return cls(head.snapshot_id, head.sequence_number or 0) if head is not None else None

    def covers(self, snapshot: Snapshot) -> bool:
        """Whether a snapshot was there; the one that was main may have expired since."""
        return snapshot.snapshot_id == self.snapshot_id or 0 < (snapshot.sequence_number or 0) <= self.sequence


@dataclass(frozen=True)
class Debt:
    """What has come since the last run. `small_files` and `delete_files` are per partition that a commit has changed;
    `due` has the steps that are worth it, each with its score.
    """

    small_files: float = 0.0
    delete_files: float = 0.0
    commits: int = 0
    expired_snapshots: int = 0
    data_files: int = 0
    bytes: int = 0
    score: float = 0.0
    steps: Mapping[str, float] | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """What the score comes from, in words.

        >>> Debt(small_files=12.5, commits=40, expired_snapshots=1).reasons
        ('13 small files per partition', '40 commits', '1 snapshot to expire')
        """
        said = [f"{count(round(self.small_files + 0.49), 'small file')} per partition"] if self.small_files else []
        said += [f"{count(round(self.delete_files + 0.49), 'delete file')} per partition"] if self.delete_files else []
        said += [f"{count(self.commits, 'commit')}"] if self.commits else []
        said += [f"{count(self.expired_snapshots, 'snapshot')} to expire"] if self.expired_snapshots else []
        return tuple(said)

    def at_least(self, score: float) -> Debt:
        """The same debt, with this score or a higher one."""
        return replace(self, score=max(self.score, score))

    def to_json(self) -> dict[str, object]:
        """As plain values."""
        return {**asdict(self), "reasons": list(self.reasons)}


def debt_of(
    metadata: TableMetadata,
    policy: Policy,
    *,
    now_ms: int,
    looked: Mapping[str, Look] | None = None,
    factor: int = 1,
) -> Debt:
    """The debt of a table. `looked` is what the last run of each step has looked at; `factor` raises all thresholds of
    a table in which runs have found nothing to do.
    """
    looks = looked or {}
    small = _small_files(metadata, policy, looks.get(COMPACT))
    removed = sum(
        (_number(snapshot, "added-delete-files") or 0) / _partitions(snapshot)
        for snapshot in _since(metadata, looks.get(DELETES))
    )
    commits = sum(1 for _ in _since(metadata, looks.get(MANIFESTS)))
    expired, overdue = _expired(metadata, policy, now_ms)
    scores = {
        COMPACT: max(small / policy.min_input_files, removed / MANY_DELETE_FILES),
        DELETES: removed / MANY_DELETE_FILES,
        MANIFESTS: commits / MANY_COMMITS,
        EXPIRE: max(expired / MANY_EXPIRED, float(overdue)),
    }
    steps = {step: round(score / factor, 3) for step, score in scores.items()}
    head = metadata.snapshot_by_name(MAIN)
    files, size = (_number(head, key) or 0 for key in ("total-data-files", "total-files-size"))
    return Debt(round(small, 3), round(removed, 3), commits, expired, files, size, max(steps.values()), steps)


def _small_files(metadata: TableMetadata, policy: Policy, looked: Look | None) -> float:
    """Small data files per partition since the last look; without one, of all that is known about the table."""
    head, most_bytes = metadata.snapshot_by_name(MAIN), policy.target_file_bytes * TOO_SMALL
    small, files, size = 0.0, 0, 0
    for snapshot in _since(metadata, looked):
        added, added_bytes = (_number(snapshot, key) or 0 for key in ("added-data-files", "added-files-size"))
        if added and added_bytes / added < most_bytes:
            small += added / _partitions(snapshot)
        files, size = files + added, size + added_bytes
    older, older_bytes = (
        (_number(head, "total-data-files") or 0) - files,
        (_number(head, "total-files-size") or 0) - size,
    )
    if looked is None and older > 0 and older_bytes / older < most_bytes:
        small += older  # of snapshots that have expired: their partitions are not known
    return small


def _expired(metadata: TableMetadata, policy: Policy, now_ms: int) -> tuple[int, bool]:
    """How many snapshots may go, and whether one should have gone a day ago."""
    gone = set(choose_expired(metadata, policy, now_ms=now_ms).snapshot_ids)
    latest_ms = now_ms - policy.max_snapshot_age_ms - DAY_MS
    overdue = any(item.timestamp_ms < latest_ms for item in metadata.snapshots if item.snapshot_id in gone)
    return len(gone), overdue


def _since(metadata: TableMetadata, looked: Look | None) -> Iterator[Snapshot]:
    """The snapshots of main since a look, without those of upkeep itself."""
    for snapshot in _line(metadata, metadata.snapshot_by_name(MAIN)):
        if looked is not None and looked.covers(snapshot):
            return
        if snapshot.summary is None or SUMMARY_UPKEEP not in snapshot.summary.additional_properties:
            yield snapshot


def _partitions(snapshot: Snapshot) -> int:
    return max(_number(snapshot, "changed-partition-count") or 1, 1)


def _line(metadata: TableMetadata, head: Snapshot | None) -> Iterator[Snapshot]:
    """A snapshot and its ancestors that are still there."""
    by_id, seen = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}, set[int]()
    while head is not None and head.snapshot_id not in seen:
        seen.add(head.snapshot_id)
        yield head
        head = by_id.get(head.parent_snapshot_id) if head.parent_snapshot_id is not None else None


def _number(snapshot: Snapshot | None, key: str) -> int | None:
    """A number of a snapshot's summary: whatever writers have put there that is no number is not known."""
    text = snapshot.summary.additional_properties.get(key) if snapshot and snapshot.summary else None
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= 18 else None
