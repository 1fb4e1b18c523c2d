"""A Parquet file that is being read: its row groups, and its rows without those that are deleted or not wanted.

A stream is read batch by batch and holds no more than a few. For a table, whose rows are held anyway, row groups are
decoded whole, by Arrow's own threads: fewer and larger pieces are faster. If there is something to decide, the columns
that decide come first, and the others only as far as there are rows that are wanted; except in a stream of row groups
that are too large to be held, and where processors would wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import extract_field_ids

from frazil.scan.reading.batches import BatchReader, find_fields, identity_values, leaves
from frazil.scan.reading.dictionaries import repeated_texts
from frazil.scan.reading.equality import EqualitySet
from frazil.scan.reading.extras import Extras
from frazil.scan.reading.positions import NONE, Positions, among, kept_rows
from frazil.scan.reading.project import file_columns
from frazil.scan.reading.rowfilter import wanted_rows
from frazil.scan.reading.rowgroups import GroupRanges, RowGroup, all_groups

if TYPE_CHECKING:
    from frazil.scan.planning import FileTask
    from frazil.scan.reading.read_plan import ReadPlan

RUN_BYTES = 64 * 1024 * 1024  # of a file that are fetched at once
HELD_BATCHES = 8  # of the columns that decide, in a stream
WORTH_WAITING = 0.25  # how much of what is decoded the columns that decide may be, where processors would wait for them


@dataclass(frozen=True, slots=True)
class Rows:
    """Which rows of a file are left out."""

    residual: BooleanExpression
    positions: Positions
    sets: Sequence[EqualitySet]

    @property
    def field_ids(self) -> set[int]:
        """The columns that it takes to tell."""
        return set(extract_field_ids(self.residual)).union(*(deletes.ids for deletes in self.sets))

    def mask(self, start: int, count: int, columns: Callable[[int], pa.Array]) -> pa.BooleanArray | bool:
        """The rows of a batch that are given out."""
        keep: pa.BooleanArray | bool = wanted_rows(self.residual, columns)
        masks = [] if isinstance(keep, bool) else [keep]
        if keep is False:
            return False
        if (alive := kept_rows(self.positions, start, count)) is not None:
            masks.append(alive)
        masks += [pc.invert(deletes.deleted(columns)) for deletes in self.sets]
        if not masks:
            return True
        mask_ = masks[0]
        for mask in masks[1:]:
            mask_ = pc.and_kleene(mask_, mask)
        return mask_


@dataclass(frozen=True, slots=True)
class Chosen:
    """Rows of a file by their positions, in order."""

    positions: Positions

    @property
    def field_ids(self) -> set[int]:
        """No column decides."""
        return set()

    def mask(self, start: int, count: int, columns: Callable[[int], pa.Array]) -> pa.BooleanArray:
        """The rows of a batch that are given out."""
        mask = np.zeros(count, bool)
        mask[among(self.positions, start, count)] = True
        return pa.array(mask)


class OpenFile:
    """A Parquet file that is being read."""

    def __init__(self, task: FileTask, source: Any, plan: ReadPlan) -> None:
        self._plan, self._task = plan, task
        self._parquet = _open(source)
        self._columns = file_columns(self._parquet.schema_arrow, plan.table.name_mapping)
        if texts := repeated_texts(self._parquet.metadata, self._columns, plan.fields):
            self._parquet = _open(source, metadata=self._parquet.metadata, read_dictionary=texts)
            self._columns = file_columns(self._parquet.schema_arrow, plan.table.name_mapping)
        self._extras = Extras(plan.fields, task, self._columns)
        metadata = self._parquet.metadata
        self.groups = all_groups(metadata)
        self.sizes = [metadata.row_group(group.number).total_byte_size for group in self.groups]
        self.ranges = GroupRanges(metadata, leaves(self._columns))

    def batches(self, groups: Sequence[RowGroup], rows: Rows | Chosen) -> Iterator[pa.RecordBatch]:
        """The rows of some row groups that are given out."""
        plan = self._plan
        tested = find_fields(plan.table, plan.schema, sorted(rows.field_ids))
        partition = identity_values(plan.table.specs[self._task.spec_id], self._task.partition, plan.schema)
        test = BatchReader(tested, self._columns, partition)
        # A column that is given out may be only a part of one that is tested: they are made apart.
        give = BatchReader(plan.fields, self._extras.columns, partition | self._extras.constants)
        for run in self._runs(groups, most_rows=self._held_rows if test.names and not plan.whole else None):
            read = self._tested_first if self._can_wait(run, test, give) else self._in_step
            yield from read(run, rows, test, give)

    def chosen(self, groups: Sequence[RowGroup], positions: Positions) -> Iterator[pa.RecordBatch]:
        """The rows of some row groups that are at these positions, whatever the filter and the deletes say of them."""
        return self.batches(groups, Chosen(positions))

    def whole(self, groups: Sequence[RowGroup]) -> Iterator[pa.RecordBatch]:
        """All rows of some row groups, whatever the filter and the deletes say of them."""
        return self.batches(groups, Rows(AlwaysTrue(), NONE, ()))

    def output_size(self, group: RowGroup) -> int:
        """The bytes of a row group's columns that are given out, as Parquet has them before compression."""
        sizes, ids = self._column_sizes(group), {field.field_id for field in self._plan.fields}
        return sum(sizes.get(column.name, 0) for column in self._columns if column.field_id in ids)

    def _can_wait(self, run: Sequence[RowGroup], test: BatchReader, give: BatchReader) -> bool:
        """Whether the columns that are given out are better decoded after those that decide."""
        if (
            not test.names
            or not give.names
            or not (self._plan.whole or sum(row_group.rows for row_group in run) <= self._held_rows)
        ):
            return False
        if not self._plan.spare:
            return True
        sizes = self._column_sizes(run[0])
        total = sum(sizes.get(name, 0) for name in test.names | give.names)
        return sum(sizes.get(name, 0) for name in test.names) <= WORTH_WAITING * total

    def _column_sizes(self, group: RowGroup) -> dict[str, int]:
        """What there is to decode of each column."""
        sizes: dict[str, int] = {}
        metadata = self._parquet.metadata.row_group(group.number)
        for chunk in map(metadata.column, range(metadata.num_columns)):
            name = chunk.path_in_schema.partition(".")[0]
            sizes[name] = sizes.get(name, 0) + chunk.total_uncompressed_size
        return sizes

    def _in_step(
        self, run: Sequence[RowGroup], rows: Rows | Chosen, test: BatchReader, give: BatchReader
    ) -> Iterator[pa.RecordBatch]:
        start = run[0].start
        for batch in self._read(run, test.names | give.names, whole=self._plan.whole):
            keep = rows.mask(start, batch.num_rows, test.bind(batch))
            start += batch.num_rows
            if (output := give.take(batch, keep, self._plan.arrow)) is not None:
                yield output

    def _tested_first(
        self, run: Sequence[RowGroup], rows: Rows | Chosen, test: BatchReader, give: BatchReader
    ) -> Iterator[pa.RecordBatch]:
        tested = self._table(run, sorted(test.names))
        keep = _mask(tested, run[0].start, rows, test)
        left, start, known = _count(keep), 0, tested.select(sorted(test.names & give.names))
        for batch in self._read(run, give.names - test.names, whole=False) if left else ():
            count = batch.num_rows
            if matching := _count(chosen := keep.slice(start, count)):
                table = _side_by_side(known.slice(start, count), batch)
                yield from self._give(table if matching == count else table.filter(chosen), give)
            left, start = left - matching, start + count
            if not left:
                break  # what comes after the last row that is wanted is not decoded

    def _give(self, table: pa.Table, give: BatchReader) -> Iterator[pa.RecordBatch]:
        outputs = (give.take(batch, True, self._plan.arrow) for batch in table.to_batches())
        return (batch for batch in outputs if batch is not None)

    def _read(self, run: Sequence[RowGroup], names: set[str], *, whole: bool) -> Iterator[pa.RecordBatch]:
        """Columns of some row groups that follow each other, with those that are made."""
        start, columns = run[0].start, sorted(names - self._extras.names)
        for batch in self._table(run, columns).to_batches() if whole else self._stream(run, columns):
            yield self._extras.add(batch, start)
            start += batch.num_rows

    def _stream(self, run: Sequence[RowGroup], names: list[str]) -> Iterator[pa.RecordBatch]:
        numbers = [row_group.number for row_group in run]
        iter_batches: Iterator[pa.RecordBatch] = self._parquet.iter_batches(
            self._plan.batch_rows, row_groups=numbers, columns=names
        )
        return iter_batches

    def _table(self, run: Sequence[RowGroup], names: list[str]) -> pa.Table:
        return self._parquet.read_row_groups([row_group.number for row_group in run], columns=names)

    def _runs(self, groups: Sequence[RowGroup], *, most_rows: int | None) -> Iterator[list[RowGroup]]:
        """Row groups that follow each other, as many as are fetched at once."""
        run: list[RowGroup] = []
        for group in groups:
            if run and not self._follows(group, run, most_rows):
                yield run
                run = []
            run.append(group)
        if run:
            yield run

    def _follows(self, group: RowGroup, run: Sequence[RowGroup], most_rows: int | None) -> bool:
        size, rows = (
            sum(self.sizes[row_group.number] for row_group in run),
            sum(row_group.rows for row_group in (*run, group)),
        )
        return group.number == run[-1].number + 1 and size < RUN_BYTES and (most_rows is None or rows <= most_rows)

    @property
    def _held_rows(self) -> int:
        return HELD_BATCHES * self._plan.batch_rows


def _open(source: Any, **how: Any) -> pq.ParquetFile:
    return pq.ParquetFile(source, pre_buffer=True, coerce_int96_timestamp_unit="us", **how)


def _mask(table: pa.Table, start: int, rows: Rows | Chosen, test: BatchReader) -> pa.ChunkedArray:
    """Which rows of a table are given out; its first is at a position of the file."""
    masks = []
    for batch in table.to_batches():
        keep = rows.mask(start, batch.num_rows, test.bind(batch))
        masks.append(pa.array(np.full(batch.num_rows, keep)) if isinstance(keep, bool) else keep)
        start += batch.num_rows
    return pa.chunked_array(masks, pa.bool_())


def _count(mask: pa.ChunkedArray) -> int:
    return int(pc.sum(mask).as_py() or 0)


def _side_by_side(table: pa.Table, batch: pa.RecordBatch) -> pa.Table:
    """The columns of both."""
    return pa.Table.from_arrays([*table.columns, *batch.columns], names=[*table.column_names, *batch.schema.names])
