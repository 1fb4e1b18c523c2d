"""What happened to an input table since a model last read it. Pure: it reads metadata and decides, and does nothing.

The model's progress names the snapshot that it read last. The way from there to the snapshot that is read now, parent
by parent, says what is new: appends add rows, `replace` (compaction) changes no row, everything else changes rows. A
table that was rolled back has changed rows, too, as long as the snapshot that was read is still known. Where it has
expired, or the table was made again, only reading all of it is right; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from frazil.write.commit import MAIN, InputState, head

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot


class News(Enum):
    """What is new in an input, from nothing to everything."""

    NOTHING = "unchanged"
    APPENDED = "appended"
    CHANGED = "changed"
    UNKNOWN = "unknown"
    FIRST = "never read"


@dataclass(frozen=True)
class Arrived:
    """What is new in an input between two snapshots of it; `reason` says it in words."""

    news: News
    since: InputState | None
    now: InputState
    reason: str
    rows_added: int = 0

    @property
    def is_new(self) -> bool:
        return self.news is not News.NOTHING


def current_state(metadata: TableMetadata, ref: str = MAIN) -> InputState:
    """The state of a table that a run fixes at its start: the head of a ref."""
    now = head(metadata, ref)
    return InputState(str(metadata.table_uuid), now.snapshot_id if now else None)


def find_news(metadata: TableMetadata, since: InputState | None, now: InputState, *, name: str) -> Arrived:
    """What is new in the table `name` since a model has read it."""
    if since is None:
        return Arrived(News.FIRST, None, now, f"{name} was never read")
    if since.uuid != now.uuid:
        return Arrived(News.UNKNOWN, since, now, f"{name} was dropped and made again")
    if since.snapshot_id == now.snapshot_id:
        return Arrived(News.NOTHING, since, now, f"{name} is unchanged")
    if now.snapshot_id is None:
        return Arrived(News.UNKNOWN, since, now, f"{name} has no snapshot any more")
    since = _heir(metadata, since, now.snapshot_id)
    between = _between(metadata, since.snapshot_id, now.snapshot_id)
    if between is not None:
        return _sum_up(between, since, now, name)
    if since.snapshot_id is None or metadata.snapshot_by_id(since.snapshot_id) is None:
        reason = f"{name}: snapshot {since.snapshot_id}, which was read last, has expired"
        return Arrived(News.UNKNOWN, since, now, reason)
    on_main = (snapshot.snapshot_id for snapshot in _line(metadata, metadata.current_snapshot_id))
    why = "is read on another branch" if since.snapshot_id in on_main else "was rolled back"
    reason = f"{name} {why}: snapshot {since.snapshot_id}, which was read last, is not in its history"
    return Arrived(News.CHANGED, since, now, reason)


def waiting_times(metadata: TableMetadata, arrived: Arrived) -> tuple[int, ...]:
    """When the rows that a model has not read were committed, in milliseconds, the oldest first; of a table whose
    history is not known to the end, when it became what it is.
    """
    if not arrived.is_new or arrived.now.snapshot_id is None:
        return ()
    since_id = arrived.since.snapshot_id if arrived.since is not None else None
    between = _between(metadata, since_id, arrived.now.snapshot_id)
    if between is None:
        return (_became_current(metadata, arrived.now.snapshot_id),)
    return tuple(snapshot.timestamp_ms for snapshot in reversed(between) if _changes_rows(snapshot))


def _became_current(metadata: TableMetadata, snapshot_id: int) -> int:
    """When a snapshot became the table's, by a commit or by a rollback."""
    snapshot = metadata.snapshot_by_id(snapshot_id)
    times = [entry.timestamp_ms for entry in metadata.snapshot_log if entry.snapshot_id == snapshot_id]
    return max(times, default=snapshot.timestamp_ms if snapshot else metadata.last_updated_ms)


def only_grew_last(metadata: TableMetadata, ref: str = MAIN) -> bool:
    """Whether the last snapshot of a ref that changed rows has only added some."""
    now = head(metadata, ref)
    line = _line(metadata, now.snapshot_id if now else None)
    last = next((snapshot for snapshot in line if _changes_rows(snapshot)), None)
    return last is not None and _operation(last) == "append"


def _heir(metadata: TableMetadata, since: InputState, now_id: int) -> InputState:
    """The state itself; if its snapshot has expired, a snapshot on top of it that has the same rows: what a group has
    staged is read, and expires before what has published it.
    """
    if since.snapshot_id is None or metadata.snapshot_by_id(since.snapshot_id) is not None:
        return since
    *_, oldest = _line(metadata, now_id)
    if oldest.parent_snapshot_id == since.snapshot_id and not _changes_rows(oldest):
        return InputState(since.uuid, oldest.snapshot_id)
    return since


def _between(metadata: TableMetadata, since_id: int | None, now_id: int) -> list[Snapshot] | None:
    """The snapshots after one up to another, the newest first; None if the way is not known to the end."""
    line: list[Snapshot] = []
    for snapshot in _line(metadata, now_id):
        if snapshot.snapshot_id == since_id:
            return line
        line.append(snapshot)
    is_complete = bool(line) and line[-1].parent_snapshot_id is None
    return line if since_id is None and is_complete else None


def _line(metadata: TableMetadata, snapshot_id: int | None) -> Iterator[Snapshot]:
    snapshot = None if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
    while snapshot is not None:
        yield snapshot
        parent_id = snapshot.parent_snapshot_id
        snapshot = None if parent_id is None else metadata.snapshot_by_id(parent_id)


def _sum_up(between: list[Snapshot], since: InputState, now: InputState, name: str) -> Arrived:
    changing = [snapshot for snapshot in between if _changes_rows(snapshot)]
    others = [snapshot for snapshot in changing if _operation(snapshot) != "append"]
    rows = sum(_count(snapshot, "added-records") or 0 for snapshot in changing if _operation(snapshot) == "append")
    if others:
        last = others[0]
        reason = f"{name}: snapshot {last.snapshot_id} changed rows ({_operation(last)})"
        return Arrived(News.CHANGED, since, now, reason, rows)
    if changing:
        return Arrived(News.APPENDED, since, now, f"{name}: {rows:,} rows were appended", rows)
    return Arrived(News.NOTHING, since, now, f"{name} has the same rows")


def _operation(snapshot: Snapshot) -> str:
    return snapshot.summary.operation.value if snapshot.summary else "append"


def _changes_rows(snapshot: Snapshot) -> bool:
    """Whether a snapshot has other rows than its parent. Writers leave counts out that are zero; one that leaves out
    the total, too, does not count, and its snapshot may have changed anything.
    """
    if _operation(snapshot) == "replace":  # the specification: files are replaced, the rows are the same
        return False
    if _count(snapshot, "total-records") is None:
        return True
    return any(
        _count(snapshot, name) for name in ("added-records", "deleted-records", "added-delete-files", "added-dvs")
    )


def _count(snapshot: Snapshot, name: str) -> int | None:
    values = snapshot.summary.additional_properties if snapshot.summary else {}
    text = values.get(name)
    return int(text) if text is not None and text.isdecimal() else None
