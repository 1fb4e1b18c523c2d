"""Which rows of a snapshot break a condition: statistics decide as many files as they can, the others are read once.

Data files never change, so what was found in one is remembered for every other snapshot that has it. Only deletes
differ: a row that breaks the condition and is deleted does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysFalse, And, BooleanExpression, Or

from frazil.errors import CheckError
from frazil.scan.planning import DATA, EQUALITY, FileTask, Planner, ScanPlan, ScanRequest, Source, TableState
from frazil.scan.reading import EXTRAS, FileReader, Positions, ReadPlan, arrow_schema, file_identity
from frazil.write.contract import FAILS, HOLDS, NOT_TRUE, PASSES, Check, compile_checks, rows_where

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField

NONE: Positions = np.empty(0, np.int64)


@dataclass
class Effort:
    """What it took: snapshots, and how each of their data files was decided."""

    snapshots: int = 0
    by_statistics: int = 0  # files that partition values and column bounds decide
    known: int = 0  # files that another snapshot has, and that were read for it
    files_read: int = 0
    bytes_read: int = 0  # the size of these files


@dataclass(frozen=True)
class FoundRow:
    """A row, and where it is; a row that a query made is in no file."""

    values: dict[str, Any]
    file: str | None = None
    position: int | None = None


@dataclass(frozen=True)
class Findings:
    """The rows of a snapshot that break a condition: how many, and the first of them."""

    rows: int
    samples: tuple[FoundRow, ...] = ()


@dataclass(frozen=True)
class FoundFile:
    """A data file with rows that were looked for, and their positions."""

    task: FileTask
    positions: Positions


class RowSearch:
    """Finds rows of a table's snapshots that a condition selects.

    `selected` holds for all such rows and maybe for others; `others` for all other rows and maybe for more. Columns are
    those of one schema, whichever snapshot is read: what a file does not have is NULL.
    """

    def __init__(
        self,
        table: Table,
        source: Source,
        schema: Schema,
        *,
        checks: Sequence[Check],
        selected: BooleanExpression,
        others: BooleanExpression,
        breaks: bool,
    ) -> None:
        self.schema, self.effort = schema, Effort()
        self._state = TableState.of(".".join(table.name()), table.metadata)
        self._source, self._checks, self._breaks = source, checks, breaks
        self._selected, self._others = selected, others
        self._found: dict[str, Positions] = {}  # by file, deletes left aside
        self._live: dict[object, Positions] = {}  # by file and deletes, where equality deletes decide

    @classmethod
    def breaking(cls, table: Table, source: Source, schema: Schema, texts: Sequence[str]) -> RowSearch:
        """Finds the rows for which one of the conditions is false. Where it is NULL, a row passes."""
        checks = compile_checks(texts, arrow_schema(schema))
        for check in checks:
            _refuse_null(check, schema)
        selected = reduce(Or, [rows_where(check, schema, FAILS) for check in checks])
        others = reduce(And, [rows_where(check, schema, PASSES) for check in checks])
        return cls(table, source, schema, checks=checks, selected=selected, others=others, breaks=True)

    @classmethod
    def matching(cls, table: Table, source: Source, schema: Schema, text: str) -> RowSearch:
        """Finds the rows for which a condition is true."""
        checks = compile_checks([text], arrow_schema(schema))
        _refuse_null(checks[0], schema)
        selected = rows_where(checks[0], schema, HOLDS)
        others = rows_where(checks[0], schema, NOT_TRUE)
        return cls(table, source, schema, checks=checks, selected=selected, others=others, breaks=False)

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def has_rows(self, snapshot_id: int) -> bool:
        """Whether a snapshot has such a row. It stops at the first file that has one, and reads files last."""
        self.effort.snapshots += 1
        plan, sure = self._plan(snapshot_id)
        self.effort.by_statistics += self._count_files(plan) - len(plan)
        unread = []
        for task in plan.tasks():
            if task.path in sure and not _has_equality(task):
                self.effort.by_statistics += 1
                if len(self._all_positions(task)):
                    return True
            elif task.path in self._found:
                self.effort.known += 1
                if len(self._live_positions(task)):
                    return True
            else:
                unread.append(task)
        return any(len(self._live_positions(task)) for task in unread)

    def still_has_rows(self, snapshot_id: int) -> bool | None:
        """Whether a snapshot has such a row, by statistics and by files that were read; None if that does not tell."""
        plan, sure = self._plan(snapshot_id)
        is_open = False
        for task in plan.tasks():
            is_sure = task.path in sure and not _has_equality(task)
            if not is_sure and task.path not in self._found:
                is_open = True
            elif len(self._all_positions(task) if is_sure else self._live_positions(task)):
                return True
        return None if is_open else False

    def find_files(self, snapshot_id: int) -> Iterator[FoundFile]:
        """The files of a snapshot that have such rows."""
        plan, sure = self._plan(snapshot_id)
        for task in plan.tasks():
            is_sure = task.path in sure and not _has_equality(task)
            positions = self._all_positions(task) if is_sure else self._live_positions(task)
            if len(positions):
                yield FoundFile(task, positions)

    def find(self, snapshot_id: int, limit: int) -> Findings:
        """How many such rows a snapshot has, and the first `limit` of them."""
        total, samples = 0, list[FoundRow]()
        for file in self.find_files(snapshot_id):
            total += len(file.positions)
            samples += self.read_rows(file, limit - len(samples))
        return Findings(total, tuple(samples))

    def adders(self, snapshot_id: int) -> list[int]:
        """The snapshots that added the files with such rows, the oldest first, as the manifests say."""
        paths = {file.task.path for file in self.find_files(snapshot_id)}
        added = added_by(self._plan(snapshot_id)[0])
        return [adder for adder, _ in sorted({added[path] for path in paths}, key=lambda item: item[1])]

    def read_rows(self, file: FoundFile, limit: int) -> list[FoundRow]:
        """The first rows of a file that were found, with all columns."""
        if limit <= 0:
            return []
        positions = file.positions[:limit]
        if file.task.path not in self._found:
            self._count_read(file.task)
        rows = [row for batch in self._whole_reader.take(file.task, positions) for row in batch.to_pylist()]
        return [
            FoundRow(values, file.task.path, int(position)) for values, position in zip(rows, positions, strict=True)
        ]

    # --- files -------------------------------------------------------------------------------------------------------

    def _plan(self, snapshot_id: int) -> tuple[ScanPlan, frozenset[str]]:
        """The files that may have such rows; and those of them that have no others, by their statistics."""
        plan = self._planner(self._selected, snapshot_id).plan()
        if not plan.groups:
            return plan, frozenset()
        mixed = self._planner(self._others, snapshot_id).plan()
        return plan, frozenset(plan.paths()) - frozenset(mixed.paths())

    @staticmethod
    def _count_files(plan: ScanPlan) -> int:
        """All data files of the snapshot, as its manifest list says; at least those of the plan."""
        counts = [unit.listed.live(unit.at) or 0 for unit in plan.planner.units(DATA)]
        return max(sum(counts), len(plan))

    def _planner(self, filter: BooleanExpression, snapshot_id: int | None = None) -> Planner:
        request = ScanRequest(filter, snapshot_id=snapshot_id, schema_id=self.schema.schema_id)
        return Planner(self._state, self._source.cache, request)

    def _all_positions(self, task: FileTask) -> Positions:
        """The positions of all rows of a file that are not deleted by position."""
        rows = np.arange(task.rows, dtype=np.int64)
        return np.setdiff1d(rows, self._reader.removals.positions(task), assume_unique=True)

    def _live_positions(self, task: FileTask) -> Positions:
        """The positions of such rows in a file, without those that are deleted."""
        positions = self._found.get(task.path)
        if positions is None:
            positions = self._found[task.path] = self._read(replace(task, deletes=()))
        if not len(positions) or not task.deletes:
            return positions
        if _has_equality(task):
            key = file_identity(task)
            if key not in self._live:
                self._live[key] = self._read(task)
            return self._live[key]
        return np.setdiff1d(positions, self._reader.removals.positions(task), assume_unique=True)

    def _read(self, task: FileTask) -> Positions:
        self._count_read(task)
        parts = [positions for batch in self._reader.read(task) if len(positions := self._select(batch))]
        return np.concatenate(parts) if parts else NONE

    def _select(self, batch: pa.RecordBatch) -> Positions:
        """The positions of the rows that the condition itself selects; the last column has them."""
        places = batch.column(batch.num_columns - 1)
        rows = pa.Table.from_batches([batch.select(list(range(batch.num_columns - 1)))])
        if not rows.num_columns:  # a condition without columns: only the number of rows counts
            rows = pa.table({"": places})
        mask = self._mask(rows)
        if mask is None:
            return NONE
        chosen = places.filter(mask.combine_chunks())
        return np.asarray(chosen.to_numpy(zero_copy_only=False), np.int64)

    def _mask(self, rows: pa.Table) -> pa.ChunkedArray | None:
        if not self._breaks:
            return self._checks[0].holds(rows)
        masks = [mask for check in self._checks if (mask := check.fails(rows)) is not None]
        return reduce(pc.or_, masks) if masks else None

    def _count_read(self, task: FileTask) -> None:
        self.effort.files_read += 1
        self.effort.bytes_read += task.bytes

    @cached_property
    def _reader(self) -> FileReader:
        """Reads the columns of the conditions, and positions; row groups that cannot have such rows are skipped."""
        names = frozenset[str]().union(*(check.columns for check in self._checks))
        fields = [field for field in self.schema.fields if field.name in names]
        return self._open(self._selected, [*fields, EXTRAS["_pos"]])

    @cached_property
    def _whole_reader(self) -> FileReader:
        return self._open(self._selected, self.schema.fields)

    def _open(self, filter: BooleanExpression, fields: Sequence[NestedField]) -> FileReader:
        return FileReader(ReadPlan.of(self._planner(filter), self._source.open, fields))


def added_by(plan: ScanPlan) -> dict[str, tuple[int, int]]:
    """By file: the snapshot that added it to the table, and its data sequence number."""
    added: dict[str, tuple[int, int]] = {}
    for group in plan.groups:
        ids = group.column("snapshot_id").fill_null(group.unit.fact("snapshot_id")).to_pylist()
        facts = zip(group.column("path").to_pylist(), ids, group.sequences().to_pylist(), strict=True)
        added |= {path: (snapshot_id, sequence) for path, snapshot_id, sequence in facts}
    return added


def _refuse_null(check: Check, schema: Schema) -> None:
    """Refuses a condition that is NULL for every row: it says nothing about any of them."""
    if all(isinstance(rows_where(check, schema, outcomes), AlwaysFalse) for outcomes in (HOLDS, FAILS)):
        raise CheckError(
            f"check '{check.text}' is NULL for every row, so no row can fail it",
            hint="use IS NULL or IS NOT NULL to compare with NULL",
            check=check.text,
            problem="always-null",
        )


def _has_equality(task: FileTask) -> bool:
    return any(delete.content == EQUALITY for delete in task.deletes)
