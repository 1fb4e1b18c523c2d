"""Rows that equality deletes delete: those that agree with one of their rows in all of the named columns, null with
null, NaN with NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from frazil.scan.reading.rowfilter import Columns
from frazil.scan.reading.values import storage


@dataclass(frozen=True, slots=True)
class _Level:
    """A column: its values in the deletes, and which combinations of these with the columns before there are."""

    field_id: int
    values: pa.Array
    together: pa.Array | None  # None for the first column


class EqualitySet:
    """The rows of equality delete files that name the same columns, ready to be looked up.

    Column after column, each row gets the number of what it agrees with so far: a number for every different beginning
    of a deleted row.
    """

    def __init__(self, ids: Sequence[int], columns: Sequence[pa.Array]) -> None:
        self.ids = tuple(ids)
        self._levels: list[_Level] = []
        self.count = len(columns[0])
        prefix: pa.Array | None = None
        for field_id, column in zip(ids, columns, strict=True):
            plain = storage(column)
            values = pc.unique(plain)
            codes = pc.index_in(plain, value_set=values)
            if prefix is None:
                self._levels.append(_Level(field_id, values, None))
                prefix = codes
            else:
                joined = _join(prefix, codes, len(values))
                together = pc.unique(joined)
                self._levels.append(_Level(field_id, values, together))
                prefix = pc.index_in(joined, value_set=together)

    @property
    def nbytes(self) -> int:
        return sum(
            level.values.nbytes + (0 if level.together is None else level.together.nbytes) for level in self._levels
        )

    def deleted(self, columns: Columns) -> pa.BooleanArray:
        """Which rows of a batch are deleted."""
        prefix: pa.Array | None = None
        for level in self._levels:
            # Null is a value here like any other: it is looked up, not skipped.
            codes = pc.index_in(storage(columns(level.field_id)), value_set=level.values)
            if prefix is None:
                prefix = codes
            else:
                assert level.together is not None
                prefix = pc.index_in(_join(prefix, codes, len(level.values)), value_set=level.together)
        assert prefix is not None
        return prefix.is_valid()


def _join(prefix: pa.Array, codes: pa.Array, count: int) -> pa.Array:
    return pc.add(pc.multiply(prefix.cast(pa.int64()), count), codes.cast(pa.int64()))
