"""Which rows of a data file the changes are meant for: only the columns that decide are read, in row groups that may
hold a key.

Files are streamed: what is kept of them are the numbers of the changes that were met, and where.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue

from frazil.scan.planning import FileTask
from frazil.scan.reading import EXTRAS, FileReader, OpenFile, Positions, RowGroup, Rows
from frazil.write.upsert.changes import Changes
from frazil.write.upsert.plan import Candidate, Candidates, KeyBounds

POSITION = EXTRAS["_pos"]


@dataclass(frozen=True)
class Met:
    """The changes whose rows a file holds: their numbers, one for each such row, and of those the late ones."""

    file: Candidate
    numbers: pa.Array
    late: pa.Array
    positions: pa.Array | None = None  # of those rows in the file, in order; if it was asked for them


@dataclass(frozen=True)
class Lookup:
    """Finds the rows of some changes in data files."""

    changes: Changes
    reader: FileReader
    bounds: Sequence[KeyBounds]

    @classmethod
    def of(cls, changes: Changes, candidates: Candidates) -> Lookup:
        """The lookup in the files that may hold rows of the changes."""
        return cls(changes, candidates.keys, candidates.bounds)

    @property
    def has_positions(self) -> bool:
        """Whether it tells where the rows are."""
        return POSITION in self.reader.plan.fields

    def look(self, file: Candidate) -> Met:
        """What the changes meet in a file; rows that are deleted already are not met."""
        pieces = [self.changes.meet(rows) for rows in self._read(file.task)]
        none = pa.array([], pa.int32())
        numbers, late = (pa.concat_arrays([none, *(piece[at] for piece in pieces)]) for at in (0, 1))
        places = [piece[2] for piece in pieces if piece[2] is not None]
        positions = pa.concat_arrays([pa.array([], pa.int64()), *places]) if self.has_positions else None
        return Met(file, numbers, late, positions)

    def deleted(self, task: FileTask) -> Positions:
        """The rows of a file that position deletes and deletion vectors have deleted before, by their positions."""
        return self.reader.removals.positions(task)

    def _read(self, task: FileTask) -> Iterator[pa.Table]:
        positions, sets = self.deleted(task), self.reader.removals.equality_sets(task)
        wanted = self._wanted
        with self.reader.opened(task) as file:
            groups = self._groups(file)
            for batch in file.batches(groups, Rows(AlwaysTrue(), positions, sets)) if groups else ():
                yield pa.Table.from_batches([batch]).cast(wanted)

    def _groups(self, file: OpenFile) -> list[RowGroup]:
        """The row groups between whose bounds a key lies, column by column of the key."""
        kept = pa.array([True] * len(file.groups), pa.bool_())
        for bounds in self.bounds:
            known = file.ranges(bounds.field)
            if known is not None:
                kept = pc.and_(kept, bounds.meet(known.lower, known.upper))
        return [group for group, is_kept in zip(file.groups, kept.to_pylist(), strict=True) if is_kept]

    @property
    def _wanted(self) -> pa.Schema:
        arrow = self.changes.layout.arrow
        return pa.schema(
            [
                pa.field(POSITION.name, pa.int64())
                if field == POSITION
                else arrow.field(field.name).with_nullable(True)
                for field in self.reader.plan.fields
            ]
        )
