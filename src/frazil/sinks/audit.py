"""Proof from the table: the ranges that were consumed abut and never overlap, over the snapshots that are kept.

Every commit of a sink says in its snapshot's summary what it consumed, and what the progress was after it. The audit walks a ref from its
oldest kept snapshot to its newest and checks each step against the one before; below the oldest lies the base, which is reported. Gaps that
the source has itself (Kafka's compaction and transactions leave some) are inside a range and concern nobody here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frazil.sinks.progress import MAIN, SUMMARY_COMMIT, SUMMARY_PROGRESS, PartProgress, Progress, read_progress
from frazil.sinks.rollback import SUMMARY_ROLLBACK

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot


@dataclass(frozen=True)
class PartReport:
    """What is proved of a part: so many commits, from the base's offsets to the ones reached."""

    part: str
    commits: int
    base: dict[str, int]
    reached: dict[str, int]


@dataclass(frozen=True)
class AuditReport:
    """What the audit has found; it is clean when there are no problems."""

    snapshots: int
    parts: tuple[PartReport, ...]
    problems: tuple[str, ...]


def audit(metadata: TableMetadata, ref: str = MAIN) -> AuditReport:
    """Checks the commits of every sink on a ref of a table."""
    now = read_progress(metadata, ref)
    base: dict[str, PartProgress] = {}
    commits: dict[str, int] = {}
    problems: list[str] = []
    state: Progress | None = None
    count = 0
    for snapshot in _kept(metadata, ref):
        summary = dict(snapshot.summary.additional_properties) if snapshot.summary else {}
        if SUMMARY_PROGRESS not in summary:
            continue  # compaction, or another program's rows
        count += 1
        after = Progress.parse(summary[SUMMARY_PROGRESS])
        claim = json.loads(summary[SUMMARY_COMMIT]) if SUMMARY_COMMIT in summary else None
        if state is None:
            base = {name: _before(part, claim if claim and claim["part"] == name else None) for name, part in after.parts.items()}
        elif SUMMARY_ROLLBACK not in summary:
            problems += [f"snapshot {snapshot.snapshot_id}: {text}" for text in compare_steps(state, after, claim)]
        if claim:
            commits[claim["part"]] = commits.get(claim["part"], 0) + 1
        state = after
    if state is None and now.parts:
        problems.append("no kept snapshot says anything of progress: the table's property stands alone")
    elif state is not None and state != now:
        problems.append(f"the progress of '{ref}' is not what its last commit has left; was the table rolled back by another tool?")
    reports = []
    for name, part in now.parts.items():
        first = base.get(name, PartProgress())
        reports.append(PartReport(name, commits.get(name, 0), dict(first.offsets), dict(part.offsets)))
    return AuditReport(count, tuple(reports), tuple(problems))


def compare_steps(before: Progress, after: Progress, claim: dict[str, Any] | None) -> Iterator[str]:
    """What is wrong between two steps that follow each other."""
    for name in sorted({*before.parts, *after.parts}):
        old, new = before.part(name), after.part(name)
        if claim is None or claim["part"] != name:
            if (old.commits, dict(old.offsets)) != (new.commits, dict(new.offsets)):
                yield f"part '{name}' moved from {dict(old.offsets)} to {dict(new.offsets)} without a commit of its own"
            continue
        if claim["commit"] != old.commits + 1:
            yield f"part '{name}': commit {claim['commit']} follows commit {old.commits}"
        for source, end in claim["to"].items():
            start, reached = claim["from"].get(source), old.offsets.get(source)
            if start != reached:
                kind = "overlap" if reached is not None and (start is None or start < reached) else "gap"
                yield f"part '{name}', source partition '{source}': {kind}: {start} to {end} follows {reached}"


def _before(part: PartProgress, claim: dict[str, Any] | None) -> PartProgress:
    """The progress before the oldest kept commit."""
    return PartProgress(offsets={**part.offsets, **claim["from"]}) if claim else part


def _kept(metadata: TableMetadata, ref: str) -> list[Snapshot]:
    """The snapshots of a ref, oldest first, as far back as they are kept."""
    found: list[Snapshot] = []
    snapshot = metadata.snapshot_by_name(ref)
    while snapshot is not None:
        found.append(snapshot)
        snapshot = metadata.snapshot_by_id(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id is not None else None
    return found[::-1]
