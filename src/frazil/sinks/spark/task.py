"""One Spark task: rows of a source, held against the table's contract, become data files, quarantine files and a
report of them.

Batch loads, streams, frames and upserts all run this code, without a catalog and without Spark. A `RowSource` says what
differs: which rows a batch holds and where each came from.

The task's files are nothing to anyone until the driver commits them. A task that Spark runs twice writes two sets of
files, and Spark hands the report of one of them to the driver; the other set is orphans.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from frazil.write.contract import Accepted, Contract, Extra, Rejected, reason_kind
from frazil.write.files import Buffer, BufferLimits, FileMaker, TableLayout, WrittenFile

QUARANTINE_SHARE = 8  # one part in 8 of the memory budget is for quarantined rows
MOST_REASONS = 100
Range = tuple[int, int]  # the first offset and the last
Place = tuple[str, Mapping[str, int]]  # where a row stood, as JSON, and the progress that covers it, if any does


@dataclass(frozen=True)
class Refusal:
    """A row that the table does not take: why not, where it stood, and the row as JSON."""

    reason: str
    position: str
    raw: str


@dataclass(frozen=True)
class Counts:
    """What became of the rows of a frame."""

    rows: int = 0  # good ones: they are in the files
    refused: int = 0  # bad ones: they are in the quarantine's files
    repeated: int = 0  # left out, because the table has them
    first_refusal: Refusal | None = None
    duplicates: int = 0  # left out, because a later row has their key

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.rows + other.rows,
            self.refused + other.refused,
            self.repeated + other.repeated,
            self.first_refusal or other.first_refusal,
            self.duplicates + other.duplicates,
        )

    @property
    def bad_share(self) -> float:
        """The share of bad rows among those that are new, from 0 to 1."""
        return self.refused / max(self.rows + self.refused, 1)


@dataclass(frozen=True)
class TaskReport:
    """What a task has written and counted; reports of several tasks add up.

    `reasons` counts bad rows by what is wrong with them, without the values. `first` and `end` are the first offset and
    the next one of each source partition that the task took rows of. `unknown` names fields of messages that the table
    does not have. A task that gave up at a bad row has `stopped`.
    """

    files: tuple[WrittenFile, ...] = ()
    quarantine_files: tuple[WrittenFile, ...] = ()
    counts: Counts = field(default_factory=Counts)
    reasons: Mapping[str, int] = field(default_factory=dict)
    first: Mapping[str, int] = field(default_factory=dict)
    end: Mapping[str, int] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    stopped: bool = False

    @property
    def seen(self) -> dict[str, Range]:
        """The first and the last offset of each source partition."""
        return {source: (first, self.end[source] - 1) for source, first in self.first.items()}

    def __add__(self, other: TaskReport) -> TaskReport:
        return TaskReport(
            (*self.files, *other.files),
            (*self.quarantine_files, *other.quarantine_files),
            self.counts + other.counts,
            dict(Counter(self.reasons) + Counter(other.reasons)),
            join_offsets(self.first, other.first, min),
            join_offsets(self.end, other.end, max),
            tuple(dict.fromkeys([*self.unknown, *other.unknown])),
            self.stopped or other.stopped,
        )

    def to_json(self) -> str:
        """The report as one line of text; `from_json` gives it back."""
        values = {name: getattr(self, name) for name in ("reasons", "first", "end", "unknown", "stopped")}
        files = {name: [file.to_json() for file in getattr(self, name)] for name in ("files", "quarantine_files")}
        return json.dumps(files | {"counts": asdict(self.counts)} | values, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> TaskReport:
        """The report that `to_json` described.

        >>> counts = Counts(2, 1, first_refusal=Refusal("no", "{}", "{}"))
        >>> report = TaskReport((WrittenFile("f", 1, 2),), (), counts, {"no": 1}, end={"e/0": 3}, unknown=("a",))
        >>> TaskReport.from_json(report.to_json()) == report
        True
        """
        value: dict[str, Any] = json.loads(text)
        for name in ("files", "quarantine_files"):
            value[name] = tuple(WrittenFile.from_json(file) for file in value[name])
        if (refusal := value["counts"]["first_refusal"]) is not None:
            value["counts"]["first_refusal"] = Refusal(**refusal)
        return cls(**value | {"counts": Counts(**value["counts"]), "unknown": tuple(value["unknown"])})


def join_offsets(some: Mapping[str, int], more: Mapping[str, int], choose: Callable[[int, int], int]) -> dict[str, int]:
    """The offsets of both; of those of one source partition, the one that `choose` picks.

    >>> join_offsets({"t/0": 3}, {"t/0": 8, "t/1": 0}, min)
    {'t/0': 3, 't/1': 0}
    """
    return {**some, **{source: choose(offset, some.get(source, offset)) for source, offset in more.items()}}


@dataclass(frozen=True)
class Staged:
    """Files of a frame that are written and not committed; `start` and `end` say which part of the source
    they cover.
    """

    files: tuple[WrittenFile, ...] = ()
    quarantine_files: tuple[WrittenFile, ...] = ()
    counts: Counts = field(default_factory=Counts)
    start: Mapping[str, int] = field(default_factory=dict)
    end: Mapping[str, int] = field(default_factory=dict)
    was_in: bool = False  # the table had reached the frame's position: nothing was computed


@dataclass(frozen=True)
class Placed:
    """Rows, and where they stood: `places` of those asked for, and for all of them, in `arrival`, numbers that rise
    (None: not known).
    """

    rows: pa.RecordBatch
    places: Callable[[list[int]], list[Place]]
    arrival: Callable[[], pa.Array | None] = lambda: None


class RowSource(Protocol):
    """Where the rows of a task come from: a frame, landing files, messages. Travels to the executors."""

    def read(self, batch: pa.RecordBatch, work: TaskWork) -> Placed:
        """The rows of a batch, in the columns that the contract expects. Offsets, repeated rows and rows that cannot be
        read are reported to `work`.
        """


class RowContract(Protocol):
    """What tells good rows from bad ones: a contract of rows, or one of changes."""

    def accept(self, rows: pa.Table) -> Accepted:
        """The good rows, and what is wrong with the others."""


@dataclass(frozen=True)
class TaskPlan:
    """Everything that a task must know; the driver makes it once, and it travels to the executors (with the keys of the
    object store).
    """

    layout: TableLayout
    part: str
    limits: BufferLimits
    source: RowSource
    quarantine: TableLayout | None = None  # None: stop at the first bad row
    checks: tuple[str, ...] = ()
    extra: Extra = "error"
    kind: type[Contract] = Contract
    key: tuple[str, ...] = ()  # rows come sorted by it; of those with the same key the last is kept
    # bad rows before these offsets are in the quarantine, though perhaps not the others
    quarantined: Mapping[str, int] = field(default_factory=dict)

    @property
    def contract(self) -> Contract:
        """What the table asks of the rows."""
        return self.kind.of(self.layout, checks=self.checks, extra=self.extra)

    def run(self, batches: Iterable[pa.RecordBatch], *, task: int) -> TaskReport:
        """Writes the rows to files and reports them."""
        with self.begin(task) as work:
            for batch in batches:
                work.add(batch)
                if work.stopped:
                    break
            return work.finish()

    @contextmanager
    def begin(self, task: int, contract: RowContract | None = None) -> Iterator[TaskWork]:
        """The work of one task; if the block fails, it leaves no file behind."""
        work = TaskWork(self, task, contract or self.contract)
        try:
            yield work
        except BaseException:
            work.abandon()
            raise

    def __repr__(self) -> str:
        return f"TaskPlan({self.layout.name}, {self.part})"  # the layout holds keys


class TaskWork:
    """One task under way."""

    def __init__(self, plan: TaskPlan, task: int, contract: RowContract) -> None:
        self.plan, self.task, self.contract = plan, task, contract
        share = plan.limits.budget_bytes // QUARANTINE_SHARE if plan.quarantine else 0
        self.rows = self._buffer(plan.layout, replace(plan.limits, budget_bytes=plan.limits.budget_bytes - share))
        self.last: pa.Table | None = None  # the row whose duplicates may come in the next batch
        self.counts, self.taken, self.stopped = Counts(), 0, False
        self.reasons: Counter[str] = Counter()
        self.first: dict[str, int] = {}
        self.end: dict[str, int] = {}
        self.unknown: dict[str, None] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes the rows of a batch for the data files."""
        rows = self.take(batch)[1].rows
        self._keep(self._without_duplicates(rows) if self.plan.key else rows)

    def take(self, batch: pa.RecordBatch) -> tuple[Placed, Accepted]:
        """The rows of a batch, and which of them the contract accepts; the others go to the quarantine."""
        placed = self.plan.source.read(batch, self)
        accepted = self.contract.accept(pa.Table.from_batches([placed.rows]))
        self.taken += placed.rows.num_rows
        if accepted.rejected:
            self.quarantine(accepted.rejected, placed.places([row.number for row in accepted.rejected]))
        return placed, accepted

    def reach(self, first: Mapping[str, int], end: Mapping[str, int]) -> None:
        """Notes the first offset and the next one of the source partitions of some rows."""
        self.first = join_offsets(self.first, first, min)
        self.end = join_offsets(self.end, end, max)

    def quarantine(self, rejected: Sequence[Rejected], places: Sequence[Place]) -> None:
        """Takes rows for the quarantine; stops the task, where there is none."""
        if self.plan.quarantine is None:
            rejected, self.stopped = rejected[:1], True
        first = Refusal(rejected[0].reason, places[0][0], rejected[0].raw)
        self.counts += Counts(refused=len(rejected), first_refusal=first)
        self.reasons.update(reason_kind(row.reason) for row in rejected)
        if not self.stopped:
            new = [
                (row, place)
                for row, (place, end) in zip(rejected, places, strict=True)
                if not _is_reached(end, self.plan.quarantined)
            ]
            self.refused.add(self._quarantined(new))

    def finish(self) -> TaskReport:
        """The finished files; none, where the task has stopped."""
        if self.stopped:
            self.abandon()
            return TaskReport(counts=self.counts, stopped=True)
        if self.last is not None:
            self._keep(self.last)
        files = tuple(self.rows.flush())
        quarantine_files = tuple(self.refused.flush()) if "refused" in self.__dict__ else ()
        reasons = dict(self.reasons.most_common(MOST_REASONS))
        return TaskReport(files, quarantine_files, self.counts, reasons, self.first, self.end, tuple(self.unknown))

    def abandon(self) -> None:
        """Removes what was written."""
        self.rows.abandon()
        if "refused" in self.__dict__:
            self.refused.abandon()

    @cached_property
    def refused(self) -> Buffer:
        """The rows for the quarantine."""
        assert self.plan.quarantine is not None
        budget = self.plan.limits.budget_bytes // QUARANTINE_SHARE
        return self._buffer(self.plan.quarantine, replace(self.plan.limits, budget_bytes=budget, threads=1))

    def _buffer(self, layout: TableLayout, limits: BufferLimits) -> Buffer:
        return Buffer(layout, limits=limits, maker=FileMaker(layout, part=self.task))

    def _quarantined(self, rows: Sequence[tuple[Rejected, str]]) -> pa.Table:
        now, schema = dt.datetime.now(dt.UTC), self.refused.layout.arrow
        columns = {
            "raw": [row.raw for row, _ in rows],
            "reason": [row.reason for row, _ in rows],
            "position": [place for _, place in rows],
            "part": [self.plan.part] * len(rows),
            "quarantined_at": [now] * len(rows),
        }
        return pa.table([pa.array(columns[column.name], column.type) for column in schema], schema)

    def _keep(self, rows: pa.Table) -> None:
        self.rows.add(rows)
        self.counts += Counts(rows=rows.num_rows)

    def _without_duplicates(self, rows: pa.Table) -> pa.Table:
        """The rows, but of neighbours with one key the last alone; the very last row waits for the next batch."""
        if self.last is not None:
            rows = pa.concat_tables([self.last, rows])
        if not rows.num_rows:
            return rows
        self.last = rows.slice(rows.num_rows - 1)
        kept = rows.slice(0, rows.num_rows - 1).filter(_key_changes(rows, self.plan.key))
        self.counts += Counts(duplicates=rows.num_rows - 1 - kept.num_rows)
        return kept


def _key_changes(rows: pa.Table, key: Sequence[str]) -> pa.ChunkedArray:
    """True for each row but the last whose key is not that of the next one. A NULL is no key: it is equal to nothing.

    >>> _key_changes(pa.table({"k": [1, 1, 2, None, None]}), ["k"]).to_pylist()
    [False, True, True, True]
    """
    changes = None
    for name in key:
        values = rows.column(name).combine_chunks()
        differs = pc.fill_null(pc.not_equal(values.slice(0, len(values) - 1), values.slice(1)), True)
        changes = differs if changes is None else pc.or_(changes, differs)
    return changes


def _is_reached(end: Mapping[str, int], reached: Mapping[str, int]) -> bool:
    return bool(end) and all(reached.get(name, -1) >= offset for name, offset in end.items())
