"""Keys of changes as numbers: which change a row of the table is meant by, for all rows of a batch at once.

A key of several columns becomes one number, column by column: the numbers so far and those of the next column are
joined and numbered again, so they never grow beyond the square of the number of changes. Arrow hashes; nothing looks at
single values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

ARRIVAL = "_frazil_arrival"
NUMBER = "_frazil_number"


@dataclass(frozen=True)
class KeyIndex:
    """The keys of some rows, numbered by first appearance."""

    key: tuple[str, ...]
    columns: tuple[pa.Array, ...]  # of each column, the values that occur
    joined: tuple[pa.Array, ...]  # of each column but the first: which pairs of numbers occur

    @classmethod
    def of(cls, rows: pa.Table, key: Sequence[str]) -> KeyIndex:
        """The index of the keys of these rows; none of them may be NULL."""
        columns, joined = [], []
        numbers: pa.Array | None = None
        for name in key:
            values = plain(rows.column(name))
            columns.append(pc.unique(values))
            own = pc.index_in(values, value_set=columns[-1])
            if numbers is not None:
                pairs = _pair(numbers, own, len(columns[-1]))
                joined.append(pc.unique(pairs))
                own = pc.index_in(pairs, value_set=joined[-1])
            numbers = own
        return cls(tuple(key), tuple(columns), tuple(joined))

    def find(self, rows: pa.Table) -> pa.Array:
        """The number of each row's key; NULL where it is not among them.

        >>> index = KeyIndex.of(pa.table({"a": [1, 1, 2], "b": ["x", "y", "x"]}), ["a", "b"])
        >>> index.find(pa.table({"a": [2, 1, 2, None], "b": ["x", "y", "y", "x"]})).to_pylist()
        [2, 1, None, None]
        """
        numbers: pa.Array | None = None
        for at, name in enumerate(self.key):
            own = pc.index_in(plain(rows.column(name)), value_set=self.columns[at])
            if numbers is not None:
                own = pc.index_in(_pair(numbers, own, len(self.columns[at])), value_set=self.joined[at - 1])
            numbers = own
        assert numbers is not None
        return numbers


def last_of_each(rows: pa.Table, key: Sequence[str], sequence: str | None) -> pa.Table:
    """Of the rows of one key the last, by the sequence and then by arrival; their keys are numbered 0, 1, ... in this
    order.

    >>> last_of_each(pa.table({"id": [1, 2, 1, 1], "v": [3, 1, 9, 2]}), ["id"], "v").to_pylist()
    [{'id': 1, 'v': 9}, {'id': 2, 'v': 1}]
    """
    numbers = KeyIndex.of(rows, key).find(rows)
    if len(pc.unique(numbers)) == len(numbers):
        return rows
    judged = {NUMBER: numbers, ARRIVAL: count_up(len(numbers))}
    orders = [(NUMBER, "ascending"), (ARRIVAL, "ascending")]
    if sequence is not None:
        judged[sequence] = plain(rows.column(sequence))
        orders.insert(1, (sequence, "ascending"))
    order = pc.sort_indices(pa.table(judged), sort_keys=orders)
    sorted_numbers = numbers.take(order)
    is_last = pc.not_equal(sorted_numbers[:-1], sorted_numbers[1:])
    return rows.take(order.filter(pa.concat_arrays([is_last, pa.array([True])])))


def count_up(count: int, kind: pa.DataType | None = None, *, start: int = 0) -> pa.Array:
    """The numbers from `start` on, made by Arrow: from Python's own they take longer than all else that is done to as
    many rows.

    >>> count_up(3, start=2).to_pylist(), len(count_up(0))
    ([2, 3, 4], 0)
    """
    numbers = pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count), start=start - 1)
    return numbers if kind is None else numbers.cast(kind)


def plain(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column as one array that Arrow can hash and sort: a UUID as its bytes."""
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):  # of no chunks at all, or too large for one
            values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    return values.storage if isinstance(values, pa.ExtensionArray) else values


def _pair(numbers: pa.Array, own: pa.Array, count: int) -> pa.Array:
    return pc.add(pc.multiply(numbers.cast(pa.int64()), pa.scalar(count, pa.int64())), own.cast(pa.int64()))
