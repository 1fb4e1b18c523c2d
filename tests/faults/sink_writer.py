"""A writer that is killed, stopped and cut off: the program that the sink's fault campaigns run in processes of their
own.

Its source has two partitions and gaps in its offsets, and repeats some rows when it starts again. It is a Kafka topic,
or, where a fault needs no servers, plain numbers. Every 13th row is bad and belongs in the quarantine.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

import frazil.sinks
from frazil.client import FrazilCatalog
from frazil.errors import CommitUnknown, FrazilError, WriterFenced
from frazil.sinks import ArrowSink
from frazil.write.commit.publish import RetryPolicy

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "day", LongType()),
    NestedField(3, "note", StringType()),
)
PARTITION_BY = ["bucket(3, id)", "day"]
SOURCES = ("events/0", "events/1")
FENCED, FAILED = 3, 4
REPEATED_ROWS = 7
OPTIONS: dict[str, Any] = {"bad_rows": "quarantine", "checks": ["note <> 'bad'"]}


@dataclass(frozen=True)
class Job:
    """What a writer is to do, and what is to happen to it at the n-th of its steps."""

    kind: str  # iceberg or delta
    place: str  # the address of the catalog, or of the Delta table
    until: int  # write each source up to this row; a Kafka topic is written up to its end
    host: str = "python"
    table: str = "lake.events"
    connection: Mapping[str, str] = field(default_factory=dict)  # properties of the catalog, or storage options
    brokers: str = ""
    topic: str = ""
    state: str = ""  # where the host keeps what it remembers of itself: Bytewax's recovery store, Spark's checkpoint
    part: int = 0
    parts: int = 2  # of a Bytewax dataflow, each with a worker of its own
    batch_rows: int = 9
    flush_rows: int = 20
    fault: str = ""  # kill, stop, lose reply, lose request
    at_step: int = 0
    step_name: str = ""  # if given, only steps of this name are counted
    broken: str = ""  # a rule to switch off, so that the test can be seen to fail
    merge_mode: str = ""  # if given, the rows are changes, and the table is written so: copy-on-write or merge-on-read
    audit: str = ""  # of changes, on Spark


@dataclass
class Steps:
    """Counts the steps of a commit, and lets the fault happen at its turn."""

    job: Job
    seen: int = 0

    def __call__(self, name: str) -> None:
        if self.job.step_name not in ("", name):
            return
        self.seen += 1
        if self.seen >= self.job.at_step and self.job.fault:
            self._happen(name)

    def _happen(self, name: str) -> None:
        if self.job.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.job.fault == "stop" and self.seen == self.job.at_step:
            # To this thread: sent to the process, it would stop a thread that is not the main one a little later, and
            # Spark has its own.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        due = {"lose reply": "after commit", "lose request": "before commit"}
        if due.get(self.job.fault) == name and self.seen < self.job.at_step + 6:  # a few in a row, not for ever
            raise OSError("unknown outcome") if self.job.kind == "delta" else CommitUnknown("unknown outcome")


def offset_of(row: int) -> int:
    return 5 + row * 2 + row // 10


def row_id(source: int, part: int, row: int) -> int:
    return (source + 2 * part) * 1_000_000 + row


def is_bad(row: int) -> bool:
    return row % 13 == 12


def make_row(source: int, part: int, row: int) -> dict[str, Any]:
    return {"id": row_id(source, part, row), "day": row % 4, "note": "bad" if is_bad(row) else "good"}


def expected_ids(until: int, parts: int = 1) -> tuple[list[int], list[int]]:
    """The ids that belong in the table and in the quarantine."""
    rows = [
        (row_id(source, part, row), is_bad(row))
        for part in range(parts)
        for source in range(len(SOURCES))
        for row in range(until)
    ]
    return sorted(number for number, bad in rows if not bad), sorted(number for number, bad in rows if bad)


def retry_policy_of(job: Job) -> RetryPolicy:
    return RetryPolicy(give_up_seconds=240, longest_pause_seconds=0.05, on_step=Steps(job))


def catalog_of(job: Job) -> FrazilCatalog:
    return FrazilCatalog("lake", **{**job.connection, "uri": job.place})


def write_all(job: Job) -> None:
    """Writes every source up to the end from where the table says; the exit code tells how it went."""
    if job.broken:
        from tests.faults.broken_rules import switch_off

        switch_off(job.broken)
    try:
        _host(job)(job)
    except Exception as exc:
        ours = error_of_ours(exc)
        print(f"{job.host} writer: {type(exc).__name__}: {exc} ({ours!r})", file=sys.stderr, flush=True)
        if isinstance(ours, WriterFenced):
            sys.exit(FENCED)
        # What a host or the store's client says while the store is away is not always ours: it fails, and is started
        # again.
        sys.exit(FAILED)


def error_of_ours(error: BaseException) -> FrazilError | None:
    """The first error of Frazil's behind one of a host's."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, FrazilError):
        cause = cause.__cause__ or cause.__context__
    return cause


def _host(job: Job) -> Callable[[Job], None]:
    if job.merge_mode:
        from tests.faults.upsert_writer import upsert_with_python

        return upsert_with_python
    if job.host == "bytewax":
        from tests.faults.bytewax_writer import write_with_bytewax

        return write_with_bytewax
    return write_with_python


def write_with_python(job: Job) -> None:
    with open_sink(job) as sink:
        for source in range(len(SOURCES)):
            read = _read_topic if job.topic else count_rows
            for name, offsets, rows in read(job, source, sink.position):
                sink.write_with_offsets(pa.Table.from_pylist(rows), source=name, offsets=offsets)


def open_sink(job: Job) -> ArrowSink:
    options: dict[str, Any] = {"flush_rows": job.flush_rows, "threads": 1, **OPTIONS}
    if job.kind == "delta":
        return frazil.sinks.open(
            job.place, name="s", storage_options=job.connection, part=job.part, retry=retry_policy_of(job), **options
        )
    return frazil.sinks.open(
        job.table, name="s", catalog=catalog_of(job), part=job.part, retry=retry_policy_of(job), **options
    )


Batch = tuple[str, list[int], list[dict[str, Any]]]


def count_rows(
    job: Job, source: int, position: Mapping[str, int], make: Callable[[int, int, int], dict[str, Any]] = make_row
) -> Iterator[Batch]:
    """The numbered source."""
    reached = position.get(SOURCES[source], 0)
    first = sum(1 for row in range(job.until) if offset_of(row) < reached)
    for start in range(max(first - REPEATED_ROWS, 0), job.until, job.batch_rows):
        rows = range(start, min(start + job.batch_rows, job.until))
        yield SOURCES[source], [offset_of(row) for row in rows], [make(source, job.part, row) for row in rows]


def _read_topic(job: Job, source: int, position: Mapping[str, int]) -> Iterator[Batch]:
    """One partition of the topic, from a little before where the table stands to its end."""
    from tests.faults.sink_topic import read_partition

    name = f"{job.topic}/{source}"
    start = max(position.get(name, 0) - REPEATED_ROWS, 0)
    for offsets, rows in read_partition(job.brokers, job.topic, source, start=start, batch_rows=job.batch_rows):
        yield name, offsets, rows
