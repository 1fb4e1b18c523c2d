"""What one Spark task does with its rows: the contract, the files, and a report of them. It knows no catalog and needs
no Spark.

The task's files are nothing to anyone until the driver commits them. A task that Spark runs twice writes two sets of
files, and Spark hands the report of one of them to the driver; the other set is orphans.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import ProgressMismatch
from frazil.write.commit import QuarantinedRow, QuarantinedRows, as_arrow, exact_position
from frazil.write.contract import Accepted, Contract, Extra, Rejected
from frazil.write.files import Buffer, BufferLimits, FileMaker, TableLayout, WrittenFile

QUARANTINE_SHARE = 8  # of the budget, one part in so many is for rows that are set aside


@dataclass(frozen=True)
class OffsetColumns:
    """The columns of a frame that say where each row came from: the source partition, and the row's offset in it.

    Several columns of the former are joined with `/`: ("topic", "partition") gives `uplink/0`. They are dropped unless
    they are the table's, too (`keep`).
    """

    source: str | Sequence[str]
    offset: str
    keep: bool = False

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.source,) if isinstance(self.source, str) else tuple(self.source)

    @property
    def dropped(self) -> tuple[str, ...]:
        return () if self.keep else (*self.sources, self.offset)


KAFKA = OffsetColumns(("topic", "partition"), "offset")  # as Spark's Kafka source names them


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

    def __add__(self, other: Counts) -> Counts:
        refusal = self.first_refusal or other.first_refusal
        return Counts(self.rows + other.rows, self.refused + other.refused, self.repeated + other.repeated, refusal)

    @property
    def bad_share(self) -> float:
        """The share of bad rows among those that are new, from 0 to 1."""
        return self.refused / max(self.rows + self.refused, 1)


@dataclass(frozen=True)
class TaskReport:
    """What a task has done: `first` and `end` are the first offset and the next one of each source partition that it
    took rows of; it has `stopped` if it gave up at a bad row.
    """

    files: tuple[WrittenFile, ...] = ()
    quarantine_files: tuple[WrittenFile, ...] = ()
    counts: Counts = field(default_factory=Counts)
    first: Mapping[str, int] = field(default_factory=dict)
    end: Mapping[str, int] = field(default_factory=dict)
    stopped: bool = False

    def to_json(self) -> str:
        """The report as one line of text; `from_json` gives it back."""
        value = {
            "files": [file.to_json() for file in self.files],
            "quarantine_files": [file.to_json() for file in self.quarantine_files],
            "counts": asdict(self.counts),
            "first": dict(self.first),
            "end": dict(self.end),
            "stopped": self.stopped,
        }
        return json.dumps(value, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> TaskReport:
        """The report that `to_json` described.

        >>> report = TaskReport((WrittenFile("f", 1, 2),), counts=Counts(2, 1, first_refusal=Refusal("no", "{}", "{}")), end={"e/0": 3})
        >>> TaskReport.from_json(report.to_json()) == report
        True
        """  # noqa: E501
        value: dict[str, Any] = json.loads(text)
        refusal = value["counts"].pop("first_refusal")
        return cls(
            tuple(WrittenFile.from_json(file) for file in value["files"]),
            tuple(WrittenFile.from_json(file) for file in value["quarantine_files"]),
            Counts(**value["counts"], first_refusal=Refusal(**refusal) if refusal else None),
            value["first"],
            value["end"],
            value["stopped"],
        )


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
class TaskPlan:
    """Everything that a task must know; the driver makes it once, and it travels to the executors (with the keys of the
    object store).
    """

    layout: TableLayout
    part: str
    limits: BufferLimits
    checks: tuple[str, ...] = ()
    extra: Extra = "error"
    quarantine: TableLayout | None = None  # None: stop at the first bad row
    offsets: OffsetColumns | None = None
    reached: Mapping[str, int] = field(default_factory=dict)  # rows before these offsets are in the table
    # bad rows before these are in the quarantine, though perhaps not the others
    set_aside: Mapping[str, int] = field(default_factory=dict)
    end: Mapping[str, int] = field(default_factory=dict)  # where the source stands after the frame, if the caller knows

    @property
    def contract(self) -> Contract:
        """What the table asks of the rows."""
        return Contract.of(self.layout, checks=self.checks, extra=self.extra)

    def run(self, batches: Iterable[pa.RecordBatch], *, task: int) -> TaskReport:
        """Writes the rows to files and reports them; whatever goes wrong, it leaves no file behind."""
        work = _Work(self, task)
        try:
            for batch in batches:
                work.add(batch)
                if work.stopped:
                    return work.give_up()
            return work.finish()
        except BaseException:
            work.give_up()
            raise

    def __repr__(self) -> str:
        return f"TaskPlan({self.layout.name}, {self.part})"  # the layout holds keys


class _Work:
    """One task under way."""

    def __init__(self, plan: TaskPlan, task: int) -> None:
        self.plan, self.task = plan, task
        self.contract = plan.contract
        share = plan.limits.budget_bytes // QUARANTINE_SHARE if plan.quarantine else 0
        self.rows = Buffer(
            plan.layout, limits=_with_budget(plan.limits, -share), maker=FileMaker(plan.layout, part=task)
        )
        self.refused: Buffer | None = None
        self.counts, self.seen, self.stopped = Counts(), 0, False
        self.first: dict[str, int] = {}
        self.end = dict(plan.end)

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes the rows of a batch that are not in the table."""
        offsets = None
        if self.plan.offsets is not None:
            batch, offsets = self._fresh(batch, self.plan.offsets)
        found = self.contract.accept(pa.Table.from_batches([batch]))
        self.rows.add(found.rows)
        self._refuse(found, offsets)
        self.counts += Counts(rows=found.rows.num_rows)
        self.seen += batch.num_rows

    def finish(self) -> TaskReport:
        files = tuple(self.rows.flush())
        beside = tuple(self.refused.flush()) if self.refused else ()
        return TaskReport(files, beside, self.counts, self.first, self.end)

    def give_up(self) -> TaskReport:
        """Removes what was written."""
        self.rows.abandon()
        if self.refused:
            self.refused.abandon()
        return TaskReport(counts=self.counts, stopped=self.stopped)

    def _fresh(self, batch: pa.RecordBatch, columns: OffsetColumns) -> tuple[pa.RecordBatch, _Offsets]:
        offsets = _Offsets.of(batch, columns, table=self.plan.layout.name)
        kept = offsets.not_before(self.plan.reached)
        if kept is not None:
            self.counts += Counts(repeated=batch.num_rows - (pc.sum(kept).as_py() or 0))
            batch, offsets = batch.filter(kept), offsets.filter(kept)
        for source, first, last in offsets.ranges():
            self.first[source] = min(first, self.first.get(source, first))
            self.end[source] = max(last + 1, self.end.get(source, last + 1))
        return batch.drop_columns(list(columns.dropped)) if columns.dropped else batch, offsets

    def _refuse(self, found: Accepted, offsets: _Offsets | None) -> None:
        if not found.rejected:
            return
        waiting = QuarantinedRows(self.plan.part)
        now = dt.datetime.now(dt.UTC)
        for row in found.rejected:
            position, end = self._position(row, offsets)
            first = Refusal(row.reason, position, row.raw)
            self.counts += Counts(refused=1, first_refusal=first)
            if self.plan.quarantine is None:
                self.stopped = True
                return
            waiting.add(row, position=position, end=end, now=now)
        assert self.plan.quarantine is not None
        self._set_aside(waiting.take(), self.plan.quarantine)

    def _set_aside(self, rows: Sequence[QuarantinedRow], layout: TableLayout) -> None:
        if self.refused is None:
            budget = self.plan.limits.budget_bytes // QUARANTINE_SHARE
            limits = replace(self.plan.limits, budget_bytes=budget, threads=1)
            self.refused = Buffer(layout, limits=limits, maker=FileMaker(layout, part=self.task))
        new = [row for row in rows if not _is_reached(row.end, self.plan.set_aside)]
        self.refused.add(as_arrow(new, layout.arrow))

    def _position(self, row: Rejected, offsets: _Offsets | None) -> tuple[str, Mapping[str, int]]:
        if offsets is not None:
            source, offset = offsets.at(row.number)
            return exact_position(source, offset), {source: offset + 1}
        where = {
            "task": self.task,
            "row": self.seen + row.number,
            **({"end": dict(self.plan.end)} if self.plan.end else {}),
        }
        return json.dumps(where, separators=(",", ":")), self.plan.end


@dataclass(frozen=True)
class _Offsets:
    """The source partition, as a number into `names`, and the offset of each row."""

    names: list[str]
    sources: pa.Array
    offsets: pa.Array

    @classmethod
    def of(cls, batch: pa.RecordBatch, columns: OffsetColumns, *, table: str) -> _Offsets:
        for name in (*columns.sources, columns.offset):
            if batch.column(name).null_count:
                raise ProgressMismatch(
                    f"{table}: column '{name}' is NULL in a row, so where the row came from is not known",
                    table=table,
                    column=name,
                )
        texts = [pc.cast(batch.column(name), pa.string()) for name in columns.sources]
        joined = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, "/")
        encoded = joined.dictionary_encode()
        return cls(encoded.dictionary.to_pylist(), encoded.indices, pc.cast(batch.column(columns.offset), pa.int64()))

    def not_before(self, reached: Mapping[str, int]) -> pa.Array | None:
        """True for the rows that the table does not have; None if it has none of them."""
        if not any(name in reached for name in self.names):
            return None
        floors = pa.array([reached.get(name) for name in self.names], pa.int64()).take(self.sources)
        kept = pc.fill_null(pc.greater_equal(self.offsets, floors), True)
        return None if pc.all(kept).as_py() else kept

    def filter(self, kept: pa.Array) -> _Offsets:
        return _Offsets(self.names, self.sources.filter(kept), self.offsets.filter(kept))

    def ranges(self) -> Iterator[tuple[str, int, int]]:
        """The lowest and the highest offset of each source partition."""
        grouped = pa.table({"source": self.sources, "offset": self.offsets}).group_by("source")
        for found in grouped.aggregate([("offset", "min"), ("offset", "max")]).to_pylist():
            yield self.names[found["source"]], found["offset_min"], found["offset_max"]

    def at(self, number: int) -> tuple[str, int]:
        return self.names[self.sources[number].as_py()], self.offsets[number].as_py()


def _is_reached(end: Mapping[str, int], reached: Mapping[str, int]) -> bool:
    return bool(end) and all(reached.get(name, -1) >= offset for name, offset in end.items())


def _with_budget(limits: BufferLimits, more: int) -> BufferLimits:
    return replace(limits, budget_bytes=limits.budget_bytes + more)
