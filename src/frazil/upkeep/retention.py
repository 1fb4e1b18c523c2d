"""Which snapshots and refs of a table may go by its policy. Pure and light: lists of all tables score each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.protocol import STAGING_PREFIX
from frazil.scan.planning import MAIN
from frazil.upkeep.policy import Policy

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot


@dataclass(frozen=True)
class Expired:
    """The snapshots and refs that go, and how many snapshots stay."""

    snapshot_ids: tuple[int, ...] = ()
    refs: tuple[str, ...] = ()
    kept: int = 0


def choose_expired(
    metadata: TableMetadata, policy: Policy, *, now_ms: int, keep_since_ms: int | None = None
) -> Expired:
    """What the policy lets go, by Iceberg's rules: each ref keeps its own, and may say for itself how long.

    A branch keeps its newest `min_snapshots` and all that are young enough, without a gap; a tag keeps its snapshot. A
    snapshot that no ref leads to (a rollback has undone it) stays while it is young. With `keep_since_ms`, whatever
    tells of the table since then stays.
    """
    refs = {name for name, ref in metadata.refs.items() if name != MAIN and _is_old_ref(metadata, name, policy, now_ms)}
    kept: set[int] = set()
    for name, ref in metadata.refs.items():
        head = metadata.snapshot_by_id(ref.snapshot_id)
        if name in refs or head is None:
            continue
        if ref.snapshot_ref_type.value == "tag":
            kept.add(head.snapshot_id)
            continue
        age = policy.max_snapshot_age_ms if ref.max_snapshot_age_ms is None else ref.max_snapshot_age_ms
        least = policy.min_snapshots if ref.min_snapshots_to_keep is None else ref.min_snapshots_to_keep
        kept |= set(_young_line(metadata, head, cutoff_ms=now_ms - age, least=least, since_ms=keep_since_ms))
    on_lines = _reached(metadata, [name for name in metadata.refs if name not in refs])
    cutoff = min(now_ms - policy.max_snapshot_age_ms, keep_since_ms if keep_since_ms is not None else now_ms)
    kept |= {
        snapshot.snapshot_id
        for snapshot in metadata.snapshots
        if snapshot.snapshot_id not in on_lines and snapshot.timestamp_ms >= cutoff
    }
    gone = [
        snapshot.snapshot_id
        for snapshot in sorted(metadata.snapshots, key=lambda snapshot: snapshot.timestamp_ms)
        if snapshot.snapshot_id not in kept
    ]
    return Expired(tuple(gone), tuple(sorted(refs)), len(metadata.snapshots) - len(gone))


def _is_old_ref(metadata: TableMetadata, name: str, policy: Policy, now_ms: int) -> bool:
    ref, snapshot = metadata.refs[name], metadata.snapshot_by_name(name)
    limit = policy.max_ref_age_ms if ref.max_ref_age_ms is None else ref.max_ref_age_ms
    if name.startswith(STAGING_PREFIX) and ref.max_ref_age_ms is None:
        # A stage begins at main's head, which may be old while the stage is alive. Once something is staged there, it
        # is published within moments: one that is as old as an orphan was left by a program that died.
        is_begun = snapshot not in list(_line(metadata, metadata.snapshot_by_name(MAIN)))
        limit = policy.orphan_age_ms if is_begun else None
    return limit is not None and snapshot is not None and now_ms - snapshot.timestamp_ms > limit


def _reached(metadata: TableMetadata, names: Sequence[str]) -> set[int]:
    """The snapshots that refs lead to. What one ref has reached is not walked again for the next one."""
    by_id, reached = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}, set[int]()
    for name in names:
        snapshot = metadata.snapshot_by_name(name)
        while snapshot is not None and snapshot.snapshot_id not in reached:
            reached.add(snapshot.snapshot_id)
            parent = snapshot.parent_snapshot_id
            snapshot = by_id.get(parent) if parent is not None else None
    return reached


def _young_line(
    metadata: TableMetadata, head: Snapshot, *, cutoff_ms: int, least: int, since_ms: int | None
) -> list[int]:
    """The newest snapshots of a line, down to the oldest that must stay. Clocks differ: an old one may lie above a
    young one.
    """
    line = list(_line(metadata, head))
    needed = [
        position for position, snapshot in enumerate(line) if position < least or snapshot.timestamp_ms >= cutoff_ms
    ]
    if since_ms is not None:  # down to what it held at that time
        needed.append(
            next(
                (position for position, snapshot in enumerate(line) if snapshot.timestamp_ms <= since_ms), len(line) - 1
            )
        )
    return [snapshot.snapshot_id for snapshot in line[: max(needed, default=0) + 1]]


def _line(metadata: TableMetadata, head: Snapshot | None) -> Iterator[Snapshot]:
    # PyIceberg's own look goes through all of them each time
    known, seen = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}, set[int]()
    while head is not None and head.snapshot_id not in seen:  # metadata is a client's: parents may form a circle
        seen.add(head.snapshot_id)
        yield head
        head = known.get(head.parent_snapshot_id) if head.parent_snapshot_id is not None else None
