"""A writer that is killed, stopped and cut off: the program that the sink's fault campaigns run in processes of their own.

Its source has two partitions with gaps in their offsets, as Kafka's have, and repeats some rows when it starts again, as Kafka's does.
Every 13th row is bad and belongs in the quarantine.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType

import frazil.sinks
from frazil.client import FrazilCatalog
from frazil.errors import CommitUnknown, WriterFenced
from frazil.sinks import ArrowSink
from frazil.sinks.publish import Patience

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "day", LongType()), NestedField(3, "note", StringType()))
PARTITION_BY = ["bucket(3, id)", "day"]
SOURCES = ("events/0", "events/1")
FENCED = 3
REPEATED_ROWS = 7


@dataclass(frozen=True)
class Job:
    """What a writer is to do, and what is to happen to it at the n-th of its steps."""

    kind: str  # iceberg or delta
    place: str  # the address of the catalog, or of the Delta table
    until: int  # write each source up to this row
    part: int = 0
    batch_rows: int = 9
    flush_rows: int = 20
    fault: str = ""  # kill, stop, lose reply, lose request
    at_step: int = 0
    broken: str = ""  # a rule to switch off, so that the test can be seen to fail


@dataclass
class Steps:
    """Counts the steps of a commit, and lets the fault happen at its turn."""

    job: Job
    seen: int = 0
    names: list[str] = field(default_factory=list)

    def __call__(self, name: str) -> None:
        self.seen += 1
        if self.seen >= self.job.at_step and self.job.fault:
            self._happen(name)

    def _happen(self, name: str) -> None:
        if self.job.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.job.fault == "stop" and self.seen == self.job.at_step:
            os.kill(os.getpid(), signal.SIGSTOP)
        due = {"lose reply": "after commit", "lose request": "before commit"}
        if due.get(self.job.fault) == name and self.seen < self.job.at_step + 6:  # a few in a row, not for ever
            raise OSError("nobody knows") if self.job.kind == "delta" else CommitUnknown("nobody knows")


def offset_of(row: int) -> int:
    return 5 + row * 2 + row // 10


def row_id(source: str, part: int, row: int) -> int:
    return (SOURCES.index(source) + 2 * part) * 1_000_000 + row


def is_bad(row: int) -> bool:
    return row % 13 == 12


def expected_ids(until: int, parts: int = 1) -> tuple[list[int], list[int]]:
    """The ids that belong in the table and in the quarantine."""
    rows = [(row_id(source, part, row), is_bad(row)) for part in range(parts) for source in SOURCES for row in range(until)]
    return sorted(number for number, bad in rows if not bad), sorted(number for number, bad in rows if bad)


def open_sink(job: Job, steps: Callable[[str], None]) -> ArrowSink:
    patience = Patience(give_up_seconds=60, longest_pause_seconds=0.05, on_step=steps)
    options: dict[str, Any] = {"flush_rows": job.flush_rows, "bad_rows": "quarantine", "checks": ["note <> 'bad'"], "threads": 1}
    if job.kind == "delta":
        return frazil.sinks.open_delta(job.place, name="s", part=job.part, patience=patience, **options)
    catalog = FrazilCatalog("lake", uri=job.place)
    return frazil.sinks.open("lake.events", name="s", catalog=catalog, part=job.part, patience=patience, **options)


def write_all(job: Job) -> None:
    """Writes every source up to the end from where the table says."""
    if job.broken:
        _switch_off(job.broken)
    try:
        with open_sink(job, Steps(job)) as sink:
            for source in SOURCES:
                _write_source(sink, source, job)
    except WriterFenced:
        sys.exit(FENCED)


def _write_source(sink: ArrowSink, source: str, job: Job) -> None:
    reached = sink.position.get(source, 0)
    first = sum(1 for row in range(job.until) if offset_of(row) < reached)
    for start in range(max(first - REPEATED_ROWS, 0), job.until, job.batch_rows):
        rows = range(start, min(start + job.batch_rows, job.until))
        batch = {
            "id": [row_id(source, job.part, row) for row in rows],
            "day": [row % 4 for row in rows],
            "note": ["bad" if is_bad(row) else "good" for row in rows],
        }
        sink.write_with_offsets(pa.table(batch), source=source, offsets=[offset_of(row) for row in rows])


def _switch_off(rule: str) -> None:
    """Removes one of the rules that make it exactly once. Only here, in a process that a test has started for this."""
    from frazil.sinks import progress, publish, snapshots

    if rule == "guard":
        build = snapshots.Append.build

        def commit_on_whatever_is_there(self: publish.Publisher, changes: list[Any]) -> None:
            """As PyIceberg's own retry does: what was decided on one snapshot is appended to another."""
            self.patience.on_step("before commit")
            self.catalog.commit_changes([late() for late in changes])
            self.patience.on_step("after commit")

        def build_late(self: snapshots.Append, table: Table, **options: Any) -> Any:
            late = lambda: build(self, table.refresh(), **options)  # noqa: E731
            late.snapshot_ids = ()
            return late

        publish.Publisher._commit = commit_on_whatever_is_there
        snapshots.Append.build = build_late
    elif rule == "fence":

        def believe(before: progress.Progress, claim: progress.Claim, *, table: str) -> progress.Progress:
            return before.with_part(claim.part, progress.PartProgress(claim.generation, claim.writer, claim.commit, claim.end))

        publish.apply_claim = believe
    else:
        raise ValueError(rule)
