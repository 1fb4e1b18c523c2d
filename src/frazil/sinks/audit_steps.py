"""The commits that the audit walks along: out of an Iceberg table's metadata, and out of a Delta table's log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from frazil.errors import SinkError
from frazil.protocol import (
    SUMMARY_COMMIT,
    SUMMARY_PART,
    SUMMARY_PROGRESS,
    SUMMARY_REF,
    SUMMARY_REPLAY,
    SUMMARY_ROLLBACK,
    SUMMARY_ROLLBACK_PROGRESS,
    SUMMARY_STAGED_BY,
)
from frazil.sinks.audit_line import Line, Step
from frazil.write.commit import MAIN, PartProgress, Progress, count_marked, read_progress

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

REPLAY_PART = "quarantine/replay"  # on Delta, replays are a part of their own


def iceberg_line(metadata: TableMetadata, ref: str) -> Line:
    """The snapshots that lead to a ref, as far back as they are kept."""
    if ref not in metadata.refs and (ref != MAIN or metadata.current_snapshot_id is not None):
        raise SinkError(
            f"there is no branch or tag '{ref}'",
            hint=f"there are: {', '.join(sorted(metadata.refs)) or 'none'}",
            ref=ref,
        )
    kept, from_first = _ancestors(metadata, ref)
    recorded = {text for snapshot in metadata.snapshots if (text := _summary(snapshot).get(SUMMARY_PROGRESS))}
    steps = [_iceberg_step(snapshot) for snapshot in kept]
    return Line(
        steps,
        _progress_of(metadata, ref, kept),
        ref,
        from_first,
        is_recorded=lambda progress: progress.dump() in recorded,
    )


def delta_line(uri: str, storage_options: Mapping[str, str]) -> Line:
    """The versions of a Delta table, as far back as its log is kept."""
    from frazil.sinks.delta import open_log

    log = open_log(uri, storage_options)
    table = log.load()
    history = sorted(table.history(), key=lambda entry: int(entry["version"]))
    now = Progress({name: part for name, part in log.progress_of_all(table).parts.items() if name != REPLAY_PART})
    steps: list[Step] = []
    state = Progress()
    for entry in history:
        steps.append(_delta_step(entry, state))
        state = steps[-1].progress or state
    return Line(steps, now, from_first=bool(history) and int(history[0]["version"]) == 0, tells_all=False)


def _ancestors(metadata: TableMetadata, ref: str) -> tuple[list[Snapshot], bool]:
    """The snapshots of a ref, oldest first, and whether none is missing."""
    ancestors: list[Snapshot] = []
    snapshot = metadata.snapshot_by_name(ref)
    while snapshot is not None:
        ancestors.append(snapshot)
        if snapshot.parent_snapshot_id is None:
            return ancestors[::-1], True
        snapshot = metadata.snapshot_by_id(snapshot.parent_snapshot_id)
    return ancestors[::-1], not ancestors


def _progress_of(metadata: TableMetadata, ref: str, kept: list[Snapshot]) -> Progress:
    """The progress of a branch; a tag has none of its own, and is as good as the last record before it."""
    known = metadata.refs.get(ref)
    if known is not None and known.snapshot_ref_type.value == "tag":
        texts = [
            text
            for snapshot in kept
            if (text := _summary(snapshot).get(SUMMARY_PROGRESS)) and _summary(snapshot).get(SUMMARY_REF, MAIN) == MAIN
        ]
        return Progress.parse(texts[-1] if texts else None)
    return read_progress(metadata, ref)


def _summary(snapshot: Snapshot) -> Mapping[str, str]:
    return snapshot.summary.additional_properties if snapshot.summary else {}


def _iceberg_step(snapshot: Snapshot) -> Step:
    summary = _summary(snapshot)
    return Step(
        snapshot.snapshot_id,
        progress=Progress.parse(summary[SUMMARY_PROGRESS]) if SUMMARY_PROGRESS in summary else None,
        claim=json.loads(summary[SUMMARY_COMMIT]) if SUMMARY_COMMIT in summary else None,
        ref=summary.get(SUMMARY_REF, MAIN),
        back_to=summary.get(SUMMARY_ROLLBACK),
        replayed=json.loads(summary[SUMMARY_REPLAY])["rows"] if SUMMARY_REPLAY in summary else None,
        staged=SUMMARY_STAGED_BY in summary,
        operation=snapshot.summary.operation.value if snapshot.summary else "unknown",
        added=int(summary.get("added-records", 0)),
        deleted=int(summary.get("deleted-records", 0)) + count_marked(summary),
    )


def _delta_step(entry: Mapping[str, Any], state: Progress) -> Step:
    """A version; each speaks of one part alone, so the others are what they were."""
    version, operation = int(entry["version"]), str(entry.get("operation", "unknown")).lower()
    claim = json.loads(entry[SUMMARY_COMMIT]) if SUMMARY_COMMIT in entry else None
    if operation == "restore":
        text = entry.get(SUMMARY_ROLLBACK_PROGRESS)
        back_to = str(entry.get("operationParameters", {}).get("version", "an older version"))
        return Step(
            version, progress=Progress.parse(text) if text else None, back_to=f"version {back_to}", operation=operation
        )
    part = entry.get(SUMMARY_PART)
    if part == REPLAY_PART:
        return (
            Step(version, replayed=sum(claim["to"].values()), operation=operation)
            if claim
            else Step(version, operation=operation)
        )
    if part is None:
        return Step(
            version,
            operation=operation,
            added=_metric(entry, "num_added_rows"),
            deleted=_metric(entry, "num_deleted_rows"),
        )
    after = state.with_part(part, PartProgress(**json.loads(entry[SUMMARY_PROGRESS])))
    return Step(version, progress=after, claim=claim, operation=operation)


def _metric(entry: Mapping[str, Any], name: str) -> int:
    return int(entry.get("operationMetrics", {}).get(name, 0) or 0)
