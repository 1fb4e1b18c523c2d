"""Points in a table's past, as people name them: a snapshot's id, a time, a branch or a tag. Pure: metadata in, a
snapshot out.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Literal

from frazil.errors import ArgumentError, HistoryError

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

MAIN = "main"
SHOWN = 5  # snapshots that an error names
TIME_HINT = "write 2024-01-18, or '2024-01-18 09:30:00' (UTC unless it says +02:00)"
Kind = Literal["snapshot", "time", "branch", "tag"]
Named = int | str | date  # how callers name a point; a datetime is a date, too


@dataclass(frozen=True)
class Point:
    """A snapshot, and how it was named."""

    snapshot: Snapshot
    name: str
    kind: Kind

    def __str__(self) -> str:
        return (
            f"snapshot {self.name}"
            if self.kind == "snapshot"
            else f"{self.kind} {self.name} (snapshot {self.snapshot.snapshot_id})"
        )


def time_of(metadata: TableMetadata, named: Named) -> int | None:
    """Milliseconds since the epoch if the reference is a time, and not a snapshot id, a branch or a tag."""
    if isinstance(named, date):
        return to_ms(named)
    text = str(named).strip()
    if text.isdigit() or text in metadata.refs:
        return None
    try:
        return parse_time(text)
    except ValueError:
        return None


def find_point(metadata: TableMetadata, named: Named, *, table: str, ref: str = MAIN) -> Point:
    """The snapshot that is meant: a snapshot id, a branch or tag, or else a time on the line of `ref`."""
    if isinstance(named, date):
        return _at_time(metadata, to_ms(named), str(named), table=table, ref=ref)
    if not isinstance(named, int | str) or isinstance(named, bool):
        raise ArgumentError("at", named, expected="a snapshot id, a timestamp, a branch or a tag")
    text = str(named).strip()
    if text.isdigit() and (snapshot := metadata.snapshot_by_id(int(text))):
        return Point(snapshot, text, "snapshot")
    if text in metadata.refs:
        return find_ref(metadata, text, table=table)
    if text.isdigit():
        return find_snapshot(metadata, int(text), table=table)
    try:
        time_ms = parse_time(text)
    except ValueError:
        return find_ref(metadata, text, table=table)
    return _at_time(metadata, time_ms, text, table=table, ref=ref)


def find_snapshot(metadata: TableMetadata, snapshot_id: int, *, table: str) -> Point:
    """The snapshot with this id."""
    snapshot = metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        hint = f"it may have expired; there are {_kept(metadata)}; frazil log {table} --all lists them"
        raise HistoryError(f"{table} has no snapshot {snapshot_id}", hint=hint, table=table, snapshot=snapshot_id)
    return Point(snapshot, str(snapshot_id), "snapshot")


def find_ref(metadata: TableMetadata, name: str, *, table: str) -> Point:
    """Where a branch or tag stands."""
    if not isinstance(name, str):
        raise ArgumentError("ref", name, expected="the name of a branch or tag")
    ref, snapshot = metadata.refs.get(name), metadata.snapshot_by_name(name)
    if ref is None or snapshot is None:
        if name == MAIN:
            raise HistoryError(f"{table} has no snapshot yet", hint="write something to it first", table=table)
        near = difflib.get_close_matches(name, list(metadata.refs), n=3, cutoff=0.5)
        known = (
            f"did you mean {' or '.join(near)}?" if near else f"it has: {', '.join(sorted(metadata.refs)) or 'none'}"
        )
        raise HistoryError(
            f"{table} has no branch or tag '{name}', and that is no snapshot id or time",
            hint=known,
            table=table,
            ref=name,
        )
    return Point(snapshot, name, "branch" if ref.snapshot_ref_type.value == "branch" else "tag")


def find_time(metadata: TableMetadata, when: str | date, *, table: str, ref: str = MAIN) -> Point:
    """What a ref held at a time."""
    if isinstance(when, str):
        try:
            return _at_time(metadata, parse_time(when), when, table=table, ref=ref)
        except ValueError as exc:
            raise HistoryError(f"'{when}' is not a time", hint=TIME_HINT) from exc
    return _at_time(metadata, to_ms(when), str(when), table=table, ref=ref)


def parse_time(text: str) -> int:
    """Milliseconds since the epoch; a time without a zone is UTC.

    >>> parse_time("2024-01-18"), parse_time("2024-01-18 01:00:00.250+01:00"), parse_time("2024-01-18T00:00:00Z")
    (1705536000000, 1705536000250, 1705536000000)
    """
    return to_ms(datetime.fromisoformat(text.removesuffix(" UTC")))


def to_ms(when: date) -> int:
    """Milliseconds since the epoch; without a zone it is UTC, and a date is its midnight.

    >>> to_ms(date(2024, 1, 18)), to_ms(datetime(2024, 1, 18, 1))
    (1705536000000, 1705539600000)
    """
    moment = when if isinstance(when, datetime) else datetime(when.year, when.month, when.day)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return since.days * 86_400_000 + since.seconds * 1000 + since.microseconds // 1000


def show_time(time_ms: int) -> str:
    """
    >>> show_time(1705536000250)
    '2024-01-18 00:00:00.250'
    """
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.") + f"{time_ms % 1000:03d}"


def ancestors(metadata: TableMetadata, snapshot: Snapshot | None) -> Iterator[Snapshot]:
    """The snapshot, its parent and so on, as far back as they are kept."""
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = metadata.snapshot_by_id(parent) if parent is not None else None


def schema_at(metadata: TableMetadata, point: Point) -> Schema:
    """The schema that a reader of the point sees: branches go with the table, everything else stays as it was."""
    schemas = {schema.schema_id: schema for schema in metadata.schemas}
    known = point.snapshot.schema_id
    return metadata.schema() if point.kind == "branch" or known is None else schemas.get(known, metadata.schema())


def _at_time(metadata: TableMetadata, time_ms: int, text: str, *, table: str, ref: str) -> Point:
    for at_ms, snapshot_id in _timeline(metadata, find_ref(metadata, ref, table=table)):
        if at_ms <= time_ms:
            if (snapshot := metadata.snapshot_by_id(snapshot_id)) is None:
                raise HistoryError(
                    f"{table}: snapshot {snapshot_id}, which '{ref}' held at {text}, has expired",
                    hint=_later(metadata),
                    table=table,
                    snapshot=snapshot_id,
                    ref=ref,
                    problem="expired",
                )
            return Point(snapshot, text, "time")
    raise HistoryError(
        f"{table} has no snapshot on '{ref}' at or before {text} (times are UTC)",
        hint=_later(metadata),
        table=table,
        ref=ref,
        problem="too-early",
    )


def _timeline(metadata: TableMetadata, ref: Point) -> Iterator[tuple[int, int]]:
    """When a ref came to which snapshot, the latest first. Only of main a log is kept; elsewhere the ancestors
    must do.
    """
    if ref.name == MAIN and metadata.snapshot_log:
        yield from ((entry.timestamp_ms, entry.snapshot_id) for entry in reversed(metadata.snapshot_log))
    else:
        yield from ((snapshot.timestamp_ms, snapshot.snapshot_id) for snapshot in ancestors(metadata, ref.snapshot))


def _kept(metadata: TableMetadata) -> str:
    """The newest snapshots by their ids."""
    newest = sorted(metadata.snapshots, key=lambda snapshot: -snapshot.timestamp_ms)
    shown = ", ".join(str(snapshot.snapshot_id) for snapshot in newest[:SHOWN]) or "none"
    return shown + (f" and {len(newest) - SHOWN} older ones" if len(newest) > SHOWN else "")


def _later(metadata: TableMetadata) -> str:
    first = min(snapshot.timestamp_ms for snapshot in metadata.snapshots)
    return f"the oldest snapshot that is kept is of {show_time(first)}"
