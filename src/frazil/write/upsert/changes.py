"""Changes that wait to be applied, and what becomes of the rows that they meet. Pure: Arrow in, Arrow out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import SchemaMismatch, SinkError
from frazil.scan.reading import EXTRAS
from frazil.write.contract import null_violations
from frazil.write.files import Partition, TableLayout, split
from frazil.write.upsert.keys import NUMBER, KeyIndex, count_up, last_of_each, plain
from frazil.write.upsert.rules import DELETED, UpsertRules

# what becomes of a row that a change is meant for: it stays, it goes, the change takes its place
KEEP, DROP, PUT = 0, 1, 2
ELSEWHERE = -1
POSITION = EXTRAS["_pos"]  # of stored rows, in addition to the columns that decide


@dataclass(frozen=True)
class Changes:
    """At most one change for each key: of several, the last by the sequence, then by arrival."""

    rows: pa.Table  # the table's columns, and DELETED
    rules: UpsertRules
    layout: TableLayout
    index: KeyIndex = field(repr=False, compare=False)  # of the keys: the number of each is that of its row

    @classmethod
    def of(cls, rows: pa.Table, rules: UpsertRules, layout: TableLayout) -> Changes:
        """The changes among these rows that count."""
        joined = rows.combine_chunks()
        index = KeyIndex.of(joined, rules.key)
        # Keys are numbered by first appearance, and so are the rows that are left: the index is that of both.
        return cls(last_of_each(joined, index, rules.sequence).combine_chunks(), rules, layout, index)

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @cached_property
    def deleted(self) -> pa.Array:
        """Which of them are deletes."""
        return plain(self.rows.column(DELETED))

    @cached_property
    def new_rows(self) -> pa.Table:
        """The rows as the table is to have them."""
        return self.rows.drop_columns([DELETED])

    @cached_property
    def sequences(self) -> pa.Array | None:
        return plain(self.rows.column(self.rules.sequence)) if self.rules.sequence else None

    @cached_property
    def _groups(self) -> tuple[pa.Array, dict[Partition, int]]:
        """The partition of each change, numbered."""
        names = list(dict.fromkeys(key.path[0] for key in self.layout.keys))
        rows = self.new_rows.select(names).append_column(NUMBER, count_up(len(self), pa.int32()))
        slices = split(rows, self.layout.keys).slices()
        numbers = pa.concat_arrays(
            [pa.array([], pa.int32()), *(plain(slice_.rows.column(NUMBER)) for slice_ in slices)]
        )
        groups = [pa.repeat(pa.scalar(at, pa.int32()), slice_.rows.num_rows) for at, slice_ in enumerate(slices)]
        joined = pa.concat_arrays([pa.array([], pa.int32()), *groups])
        return joined.take(pc.array_sort_indices(numbers)), {slice_.partition: at for at, slice_ in enumerate(slices)}

    def lie_in(self, partition: Partition, spec_id: int) -> pa.Array:
        """Which of them belong in a partition."""
        groups, known = self._groups
        at = known.get(tuple(partition), ELSEWHERE) if spec_id == self.layout.spec.spec_id else ELSEWHERE
        return pc.equal(groups, at)

    def meet(self, rows: pa.Table) -> tuple[pa.Array, pa.Array, pa.Array | None]:
        """The numbers of the changes that stored rows are meant by, one for each such row, of those the ones that come
        too late, and the positions of the rows, if they have any.
        """
        matches = self.index.find(rows)
        numbers, is_met = matches.drop_null(), matches.is_valid()
        at = rows.schema.get_field_index(POSITION.name)
        positions = None if at < 0 else plain(rows.column(at)).filter(is_met)
        if self.sequences is None or self.rules.sequence is None or not len(numbers):
            return numbers, numbers.slice(0, 0), positions
        stored = plain(rows.column(self.rules.sequence)).filter(is_met)
        # A stored row without a sequence is older than any change.
        late = pc.fill_null(_is_higher(stored, self.sequences.take(numbers)), False)
        return numbers, numbers.filter(late), positions

    def apply(self, rows: pa.Table, verdicts: pa.Array) -> pa.Table:
        """Stored rows as they are to be, by a verdict on each change."""
        matches = self.index.find(rows)
        verdict = pc.fill_null(verdicts.take(matches), KEEP)
        put, drop = pc.equal(verdict, PUT), pc.equal(verdict, DROP)
        has_put, has_drop = (pc.any(mask, min_count=0).as_py() for mask in (put, drop))
        if has_put:
            # The new rows stand behind the old ones, in the order of those whose places they take.
            behind = pc.cumulative_sum(put.cast(pa.int64()), start=rows.num_rows - 1)
            places = pc.if_else(put, behind, count_up(rows.num_rows))
            joined = pa.concat_tables([rows, self.new_rows.take(matches.filter(put))])
            rows = joined.take(places.filter(pc.invert(drop)) if has_drop else places)
        elif has_drop:
            rows = rows.filter(pc.invert(drop))
        return rows

    def relaid(self, layout: TableLayout) -> Changes:
        """The same changes for the table as it has become: columns are found by their id."""
        ids = {field.field_id: field.name for field in self.layout.schema.fields}
        names = {ids[field.field_id]: field.name for field in layout.schema.fields if field.field_id in ids}
        if gone := [name for name in self.rules.judged if name not in names]:
            raise SinkError(
                f"{layout.name}: column '{gone[0]}', by which changes find their rows, is gone",
                table=layout.name,
                column=gone[0],
            )
        if added := [field.name for field in layout.schema.fields if field.required and field.field_id not in ids]:
            raise SinkError(
                f"{layout.name}: column '{added[0]}' is new and required, and the waiting changes do not have it",
                table=layout.name,
                column=added[0],
            )
        sequence = names[self.rules.sequence] if self.rules.sequence else None
        rules = UpsertRules(tuple(names[name] for name in self.rules.key), sequence, self.rules.op)
        rows = relay_columns(self.rows, self.layout, layout)
        puts = rows.filter(pc.invert(self.deleted))
        for column in layout.arrow:
            if null_violations(plain(puts.column(column.name)), column) is not None:
                raise SchemaMismatch(
                    layout.name,
                    column.name,
                    expected="a value: the column was made required",
                    got="NULLs in changes that were taken before",
                    hint="repeat the write, or open the sink again and go on from its position: they are checked again",
                )
        return Changes(rows, rules, layout, KeyIndex.of(rows, rules.key))


def _is_higher(stored: pa.Array, changed: pa.Array) -> pa.Array:
    """Whether stored sequences are higher than those of the changes; NaN is the highest, as in sorting and on Spark."""
    if not pa.types.is_floating(stored.type):
        return pc.greater(stored, changed)
    is_nan = pc.and_(pc.is_nan(stored), pc.invert(pc.is_nan(changed)))
    return pc.or_(is_nan, pc.greater(stored, changed))


def relay_columns(rows: pa.Table, old: TableLayout, new: TableLayout) -> pa.Table:
    """Changes with the columns of another layout of their table, found by id; a column that they do not have
    is NULL.
    """
    ids = {field.field_id: field.name for field in old.schema.fields}
    columns = [
        rows.column(ids[field.field_id]).cast(kind.type)
        if field.field_id in ids
        else pa.nulls(rows.num_rows, kind.type)
        for field, kind in zip(new.schema.fields, new.arrow, strict=True)
    ]
    schema = pa.schema([*(kind.with_nullable(True) for kind in new.arrow), rows.schema.field(DELETED)])
    return pa.table([*columns, rows.column(DELETED)], schema=schema)


@dataclass(frozen=True)
class Decision:
    """What is to be done for each change, once it is known which rows of the table they meet."""

    changes: Changes
    late: pa.Array  # the table has a newer row: nothing is done
    count: pa.Array  # how many rows of the table have the key; one, or none, if it is a key

    @classmethod
    def of(cls, changes: Changes, met: Sequence[pa.Array], late: Sequence[pa.Array]) -> Decision:
        """The decision, by what the changes have met in all files."""
        counts = [_count_each(numbers, len(changes)) for numbers in (late, met)]
        return cls(changes, pc.greater(counts[0], 0), counts[1])

    def verdicts(self, partition: Partition, spec_id: int) -> pa.Array:
        """For each change, what becomes of its row in a file of a partition.

        A change takes the place of its row if it belongs there. Otherwise it is one of `new`, as it is where a key was
        in the table twice.
        """
        in_place = pc.and_(pc.equal(self.count, 1), self.changes.lie_in(partition, spec_id))
        applied = pc.if_else(pc.and_(in_place, pc.invert(self.changes.deleted)), PUT, DROP)
        return pc.if_else(self.late, KEEP, applied).cast(pa.int8())

    def new(self, placed: Sequence[pa.Array]) -> pa.Array:
        """Which changes are rows that no file has a place for, given the numbers of those that have found one."""
        has_place = pc.greater(_count_each(placed, len(self.changes)), 0)
        return pc.invert(pc.or_(pc.or_(self.late, self.changes.deleted), has_place))

    def tally(self) -> dict[str, int]:
        """How many changes came to what."""
        known, deleted = pc.greater(self.count, 0), self.changes.deleted
        on_time = pc.invert(self.late)
        masks = {
            "inserted": pc.and_(pc.invert(known), pc.invert(deleted)),
            "updated": pc.and_(pc.and_(known, on_time), pc.invert(deleted)),
            "deleted": pc.and_(pc.and_(known, on_time), deleted),
            "late": self.late,
        }
        return {name: int(pc.sum(mask, min_count=0).as_py()) for name, mask in masks.items()}


def _count_each(numbers: Sequence[pa.Array], count: int) -> pa.Array:
    """How often each number below `count` occurs in all of the arrays."""
    none: pa.Array = pa.array([], pa.int32())
    return pa.array(np.bincount(pa.concat_arrays([none, *numbers]).to_numpy(), minlength=count), pa.int64())
