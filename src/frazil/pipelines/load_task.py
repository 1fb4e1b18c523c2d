"""What one task of a load does with its rows: types, checks, duplicates of one key, data files, quarantine files, and a
report of them.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from frazil.pipelines.files import POSITION, Slice, TextContract, unpack_position
from frazil.write.contract import Accepted, Rejected
from frazil.write.files import Buffer, BufferLimits, FileMaker, TableLayout, WrittenFile

QUARANTINE_SHARE = 8  # of the budget, one part in so many is for rows that are set aside
MOST_REASONS = 100
Range = tuple[int, int]  # the first offset and the last


@dataclass(frozen=True)
class LoadReport:
    """What a task has written and counted. `reasons` counts bad rows by what is wrong with them, without the values.

    Of messages it also says which offsets it has seen, by topic and partition, and which fields the table does not
    have.
    """

    files: tuple[WrittenFile, ...] = ()
    quarantine_files: tuple[WrittenFile, ...] = ()
    rows: int = 0
    duplicates: int = 0
    quarantined: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    seen: Mapping[str, Range] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    def __add__(self, other: LoadReport) -> LoadReport:
        return LoadReport(
            (*self.files, *other.files),
            (*self.quarantine_files, *other.quarantine_files),
            self.rows + other.rows,
            self.duplicates + other.duplicates,
            self.quarantined + other.quarantined,
            dict(Counter(self.reasons) + Counter(other.reasons)),
            join_ranges(self.seen, other.seen),
            tuple(dict.fromkeys([*self.unknown, *other.unknown])),
        )

    def to_json(self) -> str:
        """The report as one line of text; `from_json` gives it back."""
        files = {
            "files": [one.to_json() for one in self.files],
            "quarantine_files": [one.to_json() for one in self.quarantine_files],
        }
        counts = {
            "rows": self.rows,
            "duplicates": self.duplicates,
            "quarantined": self.quarantined,
            "reasons": dict(self.reasons),
        }
        messages = {"seen": dict(self.seen), "unknown": list(self.unknown)}
        return json.dumps(files | counts | messages, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> LoadReport:
        """The report that `to_json` described.

        >>> report = LoadReport((WrittenFile("f", 1, 2),), rows=2, quarantined=1, reasons={"no": 1}, seen={"t/0": (3, 7)})
        >>> LoadReport.from_json(report.to_json()) == report
        True
        """  # noqa: E501
        value: dict[str, Any] = json.loads(text)
        for name in ("files", "quarantine_files"):
            value[name] = tuple(WrittenFile.from_json(one) for one in value[name])
        seen = {source: (first, last) for source, (first, last) in value.pop("seen").items()}
        return cls(**value | {"seen": seen, "unknown": tuple(value["unknown"])})


def join_ranges(one: Mapping[str, Range], other: Mapping[str, Range]) -> dict[str, Range]:
    """
    >>> join_ranges({"t/0": (3, 7)}, {"t/0": (8, 9), "t/1": (0, 1)})
    {'t/0': (3, 9), 't/1': (0, 1)}
    """
    joined = dict(one)
    for source, (first, last) in other.items():
        known = joined.get(source, (first, last))
        joined[source] = (min(first, known[0]), max(last, known[1]))
    return joined


@dataclass(frozen=True)
class Placed:
    """Rows, and where they stood: told of those that are asked for, and, as numbers that rise, of all (None, if nobody
    knows).
    """

    rows: pa.RecordBatch
    tell: Callable[[list[int]], list[Any]]
    arrival: Callable[[], pa.Array | None]


@dataclass(frozen=True)
class LoadPlan:
    """Everything that a task must know; the driver makes it once, and it travels to the executors (with the keys of the
    object store).
    """

    layout: TableLayout
    quarantine: TableLayout
    part: str
    limits: BufferLimits
    slices: tuple[Slice, ...]  # by their numbers; the paths are those of the ledger
    checks: tuple[str, ...] = ()
    key: tuple[str, ...] = ()  # rows come sorted by it, the one to keep last

    def run(self, batches: Iterable[pa.RecordBatch], *, task: int) -> LoadReport:
        """Writes the rows to files and reports them; whatever goes wrong, it leaves no file behind."""
        work = self.begin(task)
        try:
            for batch in batches:
                work.add(batch)
            return work.finish()
        except BaseException:
            work.abandon()
            raise

    def begin(self, task: int) -> LoadWork:
        """The work of one task."""
        return LoadWork(self, task)

    def spell(self, position: Any) -> str:
        """Where a row stood, as JSON; from where the file was cut into pieces, rows are counted from there."""
        if position is None:
            return "{}"  # the pipeline's function dropped the column
        number, row = unpack_position(position)
        piece = self.slices[number]
        where = {"file": piece.path, **({"from_byte": piece.start} if piece.start else {}), "row": row}
        return json.dumps(where, ensure_ascii=False, separators=(",", ":"))

    def __repr__(self) -> str:
        return f"LoadPlan({self.layout.name}, {self.part})"  # the layout holds keys


class Judge(Protocol):
    """What tells good rows from bad ones: a contract of rows, or one of changes."""

    def accept(self, rows: pa.Table) -> Accepted:
        """The good rows, and what is wrong with the others."""


class LoadWork:
    """One task under way."""

    def __init__(self, plan: LoadPlan, task: int) -> None:
        self.plan, self.task = plan, task
        self.contract = TextContract.of(plan.layout, checks=plan.checks)
        share = plan.limits.budget_bytes // QUARANTINE_SHARE
        limits = replace(plan.limits, budget_bytes=plan.limits.budget_bytes - share)
        self.rows = Buffer(plan.layout, limits=limits, maker=FileMaker(plan.layout, part=task))
        self.last: pa.Table | None = None  # the row whose duplicates may come in the next batch
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes rows: of the table's columns, as text or in other types that fit, and their position."""
        rows = self.sift(self.read(batch), self.contract).rows
        self._keep(self._without_duplicates(rows) if self.plan.key else rows)

    def read(self, batch: pa.RecordBatch) -> Placed:
        """The rows of a batch, without their position."""
        if (at := batch.schema.get_field_index(POSITION)) < 0:
            return Placed(batch, lambda wanted: [None] * len(wanted), lambda: None)
        positions = batch.column(at)
        return Placed(
            batch.remove_column(at),
            lambda wanted: positions.take(pa.array(wanted, pa.int64())).to_pylist(),
            lambda: _arrival(positions),
        )

    def sift(self, placed: Placed, contract: Judge) -> Accepted:
        """The good rows, for which the contract decides; the bad ones are set aside. Places are asked for
        these alone.
        """
        found = contract.accept(pa.Table.from_batches([placed.rows]))
        if found.rejected:
            where = placed.tell([row.number for row in found.rejected])
            self.set_aside(found.rejected, [self.plan.spell(position) for position in where])
        return found

    def set_aside(self, rejected: Sequence[Rejected], positions: Sequence[str]) -> None:
        """Takes rows for the quarantine."""
        count, now = len(rejected), dt.datetime.now(dt.UTC)
        columns = {
            "raw": [row.raw for row in rejected],
            "reason": [row.reason for row in rejected],
            "position": list(positions),
            "part": [self.plan.part] * count,
            "quarantined_at": [now] * count,
        }
        self.refused.add(
            pa.table(
                [pa.array(columns[one.name], one.type) for one in self.refused.layout.arrow], self.refused.layout.arrow
            )
        )
        self.counts["quarantined"] += count
        self.reasons.update(reason_kind(row.reason) for row in rejected)

    def finish(self) -> LoadReport:
        """The finished files."""
        if self.last is not None:
            self._keep(self.last)
        beside = tuple(self.refused.flush()) if "refused" in self.__dict__ else ()
        rows, duplicates, quarantined = (self.counts[name] for name in ("rows", "duplicates", "quarantined"))
        reasons = dict(self.reasons.most_common(MOST_REASONS))
        return LoadReport(tuple(self.rows.flush()), beside, rows, duplicates, quarantined, reasons)

    def abandon(self) -> None:
        """Removes what was written."""
        self.rows.abandon()
        if "refused" in self.__dict__:
            self.refused.abandon()

    @cached_property
    def refused(self) -> Buffer:
        limits = replace(self.plan.limits, budget_bytes=self.plan.limits.budget_bytes // QUARANTINE_SHARE, threads=1)
        return Buffer(self.plan.quarantine, limits=limits, maker=FileMaker(self.plan.quarantine, part=self.task))

    def _keep(self, rows: pa.Table) -> None:
        self.rows.add(rows)
        self.counts["rows"] += rows.num_rows

    def _without_duplicates(self, rows: pa.Table) -> pa.Table:
        """The rows, but of neighbours with one key the last alone; the very last row waits for the next batch."""
        if self.last is not None:
            rows = pa.concat_tables([self.last, rows])
        if not rows.num_rows:
            return rows
        self.last = rows.slice(rows.num_rows - 1)
        kept = rows.slice(0, rows.num_rows - 1).filter(_key_changes(rows, self.plan.key))
        self.counts["duplicates"] += rows.num_rows - 1 - kept.num_rows
        return kept


def _arrival(positions: pa.Array) -> pa.Array:
    """What tells of two rows which came later: the place in the file, or the offset that a message's place ends with.

    >>> _arrival(pa.array(["uplink/0/17", "uplink/0/18"])).to_pylist()
    [17, 18]
    """
    if pa.types.is_integer(positions.type):
        return positions.cast(pa.int64())
    return pc.struct_field(pc.extract_regex(positions, r"(?P<offset>\d+)$"), "offset").cast(pa.int64())


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


def reason_kind(reason: str) -> str:
    """A reason without the value that was found.

    >>> reason_kind("field 'amount': expected decimal(12, 2), found 'much'"), reason_kind("check 'amount >= 0' failed")
    ("field 'amount': expected decimal(12, 2)", "check 'amount >= 0' failed")
    """
    head, found, value = reason.partition(", found ")
    return reason if not found or value == "NULL" else head
