"""Follows rows back to the snapshots in which they got their present values.

An append brings new rows. Every other snapshot may also have rewritten rows that were there: those are the rows that it
took away with the same values in every column. Identical rows cannot be distinguished, so a row may have several
possible ends; all of them are given.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, IsNull, Or

from frazil.history.row_checks import FoundRow, added_by
from frazil.scan.planning import FileTask, Planner, ScanPlan, ScanRequest, Source, TableState
from frazil.scan.reading import EXTRAS, ROW_ID, UPDATED, FileReader, ReadPlan, file_identity

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

MOST_COLUMNS = 16  # that a filter compares; the values of all columns are compared afterwards
Place = tuple[str, int]  # a file and a position in it
RowKey = tuple[object, ...]

EXPIRED = "it has expired, so whether it brought the row or rewrote it is no longer known"
PARENT_EXPIRED = "the snapshot before it has expired, so whether it brought the row or rewrote it is no longer known"
NOT_FOUND = "it rewrote files without changing rows, but none of the files that it replaced has the row"
UNNUMBERED = "the snapshot of the row's last change has expired"


@dataclass(frozen=True)
class End:
    """A snapshot in which a row may have got its values; None if only its sequence number is known. `doubt` says why it
    is not certain.
    """

    snapshot_id: int | None
    sequence: int
    doubt: str = ""


@dataclass(frozen=True)
class Trace:
    """The way of a row: the snapshot that added its file, those that rewrote it, newest first, and where it ends."""

    added_id: int
    rewritten_by: tuple[int, ...]
    ends: tuple[End, ...]
    row_id: int | None = None


@dataclass(frozen=True)
class _Thread:
    """A row on its way back: the snapshot that is looked at next, and those that rewrote the row so far."""

    row: int
    snapshot_id: int
    sequence: int
    rewritten_by: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Taken:
    """The copies of a row that a snapshot took away, by the snapshots that had added them; and how many it added."""

    adders: tuple[tuple[int, int], ...]
    removed: int
    added: int


class RowTracer:
    """Traces rows of one snapshot of a table."""

    def __init__(self, table: Table, source: Source, schema: Schema) -> None:
        self._metadata, self._source, self._schema = table.metadata, source, schema
        self._state = TableState.of(".".join(table.name()), table.metadata)

    def trace(self, rows: Sequence[FoundRow], snapshot_id: int) -> list[Trace]:
        """The way of each row back from a snapshot."""
        if not rows:
            return []
        plan = self._plan(AlwaysTrue(), snapshot_id)
        added, lineage = added_by(plan), self._read_lineage(plan, rows)
        walk = _Walk(self, [row_key(row.values) for row in rows], rows)
        starts = []
        for number, row in enumerate(rows):
            adder, sequence = added[str(row.file)]
            starts.append(adder)
            walk.start(number, adder, sequence, lineage[number][1])
        walk.run()
        return [
            Trace(adder, walk.rewrites[number], tuple(walk.ends[number]), lineage[number][0])
            for number, adder in enumerate(starts)
        ]

    def snapshot(self, snapshot_id: int | None) -> Snapshot | None:
        return None if snapshot_id is None else self._metadata.snapshot_by_id(snapshot_id)

    def by_sequence(self, sequence: int) -> Snapshot | None:
        """The snapshot that a sequence number belongs to."""
        return next((known for known in self._metadata.snapshots if known.sequence_number == sequence), None)

    def taken_away(self, snapshot: Snapshot, parent: Snapshot, rows: Mapping[RowKey, FoundRow]) -> dict[RowKey, _Taken]:
        """The copies of rows that a snapshot took away and added. Only files that differ and may have them are read."""
        wanted = reduce(Or, [self._like(row) for row in rows.values()])
        before, after = (self._plan(wanted, point.snapshot_id) for point in (parent, snapshot))
        old, new = ({file_identity(task): task for task in plan.tasks()} for plan in (before, after))
        gone = self._places(before, [task for key, task in old.items() if key not in new], rows)
        come = self._places(after, [task for key, task in new.items() if key not in old], rows)
        added = added_by(before)
        taken = {}
        for key in rows:
            removed = gone[key] - come[key]  # a file whose deletes changed is on both sides
            adders = sorted({added[file] for file, _ in removed}, key=lambda adder: -adder[1])
            taken[key] = _Taken(tuple(adders), len(removed), len(come[key] - gone[key]))
        return taken

    def _places(
        self, plan: ScanPlan, tasks: Sequence[FileTask], rows: Mapping[RowKey, FoundRow]
    ) -> defaultdict[RowKey, set[Place]]:
        """Where some files have copies of the rows."""
        fields = [*self._schema.fields, EXTRAS["_pos"]]
        reader = FileReader(ReadPlan.of(plan.planner, self._source.open, fields))
        places: defaultdict[RowKey, set[Place]] = defaultdict(set)
        names = [field.name for field in self._schema.fields]
        for task in tasks:
            for batch in reader.read(task):
                *columns, positions = (column.to_pylist() for column in batch.columns)
                for position, *values in zip(positions, *columns, strict=True):
                    key = row_key(dict(zip(names, values, strict=True)))
                    if key in rows:
                        places[key].add((task.path, position))
        return places

    def _read_lineage(self, plan: ScanPlan, rows: Sequence[FoundRow]) -> list[tuple[int | None, int | None]]:
        """The row id and the sequence number of the last change of each row; None if the table does not keep them."""
        if self._metadata.format_version < 3:
            return [(None, None)] * len(rows)
        reader = FileReader(ReadPlan.of(plan.planner, self._source.open, [ROW_ID, UPDATED, EXTRAS["_pos"]]))
        wanted: defaultdict[str, list[int]] = defaultdict(list)
        for row in rows:
            wanted[str(row.file)].append(int(row.position or 0))
        known = {
            (task.path, number[2]): (number[0], number[1])
            for task in plan.tasks()
            if task.path in wanted
            for batch in reader.take(task, _sorted(wanted[task.path]))
            for number in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        }
        return [known[str(row.file), int(row.position or 0)] for row in rows]

    def _plan(self, filter: BooleanExpression, snapshot_id: int) -> ScanPlan:
        request = ScanRequest(filter, snapshot_id=snapshot_id, schema_id=self._schema.schema_id)
        lineage = self._metadata.format_version >= 3
        return Planner(self._state, self._source.cache, request, lineage=lineage).plan()

    def _like(self, row: FoundRow) -> BooleanExpression:
        """A filter that holds for every row with the same values."""
        names = [field.name for field in self._schema.fields if field.field_type.is_primitive]
        terms = [term for name in names for term in _equal(name, row.values[name])]
        return reduce(And, terms[:MOST_COLUMNS]) if terms else AlwaysTrue()


class _Walk:
    """The way back of all rows at once, from the newest snapshot to the oldest: rows that one rewrote are looked for
    together.
    """

    def __init__(self, tracer: RowTracer, keys: Sequence[RowKey], rows: Sequence[FoundRow]) -> None:
        self._tracer, self._keys, self._rows = tracer, keys, rows
        self._pending: dict[int, dict[int, _Thread]] = {}  # by snapshot and row
        self._sequences: dict[int, int] = {}
        self.ends: list[list[End]] = [[] for _ in rows]
        self.rewrites: list[tuple[int, ...]] = [() for _ in rows]

    def start(self, row: int, adder: int, sequence: int, updated: int | None) -> None:
        """Begins at the snapshot that added the row's file, or at that of its last change, if its lineage tells."""
        snapshot = None if updated is None else self._tracer.by_sequence(updated)
        if updated is None or (snapshot is None and updated == sequence):
            self._add(_Thread(row, adder, self._number(adder, sequence)))
        elif snapshot is None:
            self._end(_Thread(row, adder, updated, (adder,)), End(None, updated, UNNUMBERED))
        else:
            rewritten = () if snapshot.snapshot_id == adder else (adder,)
            self._add(_Thread(row, snapshot.snapshot_id, updated, rewritten))

    def run(self) -> None:
        while self._pending:
            snapshot_id = max(self._pending, key=lambda pending: self._sequences[pending])
            threads = list(self._pending.pop(snapshot_id).values())
            for thread, taken in self._look(snapshot_id, threads):
                self._go_on(thread, taken)

    def _look(self, snapshot_id: int, threads: Sequence[_Thread]) -> Iterator[tuple[_Thread, _Taken]]:
        """The rows that a snapshot took away with the same values; rows that end there are done."""
        snapshot = self._tracer.snapshot(snapshot_id)
        parent = None if snapshot is None else self._tracer.snapshot(snapshot.parent_snapshot_id)
        doubt = _decide(snapshot, parent)
        if snapshot is None or parent is None or doubt is not None:
            for thread in threads:
                self._end(thread, End(snapshot_id, thread.sequence, doubt or ""))
            return
        rows = {self._keys[thread.row]: self._rows[thread.row] for thread in threads}
        taken = self._tracer.taken_away(snapshot, parent, rows)
        for thread in threads:
            yield thread, taken[self._keys[thread.row]]

    def _go_on(self, thread: _Thread, taken: _Taken) -> None:
        snapshot = self._tracer.snapshot(thread.snapshot_id)
        if not taken.adders:
            is_rewrite = snapshot is not None and _operation(snapshot) == "replace"
            self._end(thread, End(thread.snapshot_id, thread.sequence, NOT_FOUND if is_rewrite else ""))
            return
        if taken.added > taken.removed:  # some of the copies are new
            self._end(thread, End(thread.snapshot_id, thread.sequence))
        for adder, sequence in taken.adders:
            rewritten = (*thread.rewritten_by, thread.snapshot_id)
            self._add(_Thread(thread.row, adder, self._number(adder, sequence), rewritten))

    def _add(self, thread: _Thread) -> None:
        self._sequences[thread.snapshot_id] = thread.sequence
        self._pending.setdefault(thread.snapshot_id, {}).setdefault(thread.row, thread)

    def _end(self, thread: _Thread, end: End) -> None:
        if not self.ends[thread.row]:
            self.rewrites[thread.row] = thread.rewritten_by
        self.ends[thread.row].append(end)

    def _number(self, snapshot_id: int, sequence: int) -> int:
        """The sequence number of a snapshot; compaction gives its files older ones."""
        snapshot = self._tracer.snapshot(snapshot_id)
        return sequence if snapshot is None or snapshot.sequence_number is None else snapshot.sequence_number


def _decide(snapshot: Snapshot | None, parent: Snapshot | None) -> str | None:
    """Whether a row ends at the snapshot that added its file, without looking at rows: the doubt about it, which may be
    none. None if rows have to be looked at.
    """
    if snapshot is None:
        return EXPIRED
    if snapshot.parent_snapshot_id is None or _operation(snapshot) == "append":
        return ""
    return PARENT_EXPIRED if parent is None else None


def _operation(snapshot: Snapshot) -> str:
    return snapshot.summary.operation.value if snapshot.summary else "unknown"


def row_key(values: Mapping[str, Any]) -> RowKey:
    """What identical rows have in common; NaN is NaN.

    >>> row_key({"a": math.nan, "b": [1]}) == row_key({"a": math.nan, "b": [1]}), row_key({"a": 1}) == row_key({"a": 2})
    (True, False)
    """
    return tuple(_hashable(value) for value in values.values())


def _hashable(value: Any) -> object:
    if isinstance(value, float) and math.isnan(value):
        return "NaN", "float"
    if isinstance(value, Mapping):
        return tuple((name, _hashable(part)) for name, part in value.items())
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value


def _equal(name: str, value: Any) -> Iterator[BooleanExpression]:
    """The condition that a column has a value; none for values that filters do not compare exactly."""
    if value is None:
        yield IsNull(name)  # type: ignore[call-arg, arg-type]
    elif (
        isinstance(value, bool | int | str | Decimal)
        or _is_plain_date(value)
        or (isinstance(value, float) and math.isfinite(value))
    ):
        yield EqualTo(name, value)  # type: ignore[call-arg, arg-type]


def _is_plain_date(value: Any) -> bool:
    return isinstance(value, date) and not isinstance(value, datetime)


def _sorted(positions: Sequence[int]) -> Any:
    import numpy as np

    return np.unique(np.asarray(positions, np.int64))
