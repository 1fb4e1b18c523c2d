"""Keys of changes as numbers: which change a row of the table is meant by, for all rows of a batch at once.

A key of several columns becomes one number, column by column: the numbers so far and those of the next column are
joined and numbered again, so they never grow beyond the square of the number of changes. Arrow hashes; nothing looks at
single values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

CLOSE = 16  # times as many places as keys, at most
CLOSE_SPAN = 1 << 22  # places: 16 MB
ARRIVAL = "_frazil_arrival"
NUMBER = "_frazil_number"


@dataclass(frozen=True)
class CloseKeys:
    """Integers that lie close together, with a number each: an array is asked five times as fast as a hash table, which
    Arrow also makes again for every batch.
    """

    start: int
    numbers: np.ndarray[Any, np.dtype[np.int32]]  # by the distance from `start`; -1 for no key, and at the end

    @classmethod
    def of(cls, keys: pa.Array) -> CloseKeys | None:
        """The keys in their order; None if they are no integers, or too far apart. Of equal ones the last counts."""
        if (not pa.types.is_int32(keys.type) and not pa.types.is_int64(keys.type)) or not len(keys):
            return None
        ends = pc.min_max(keys).as_py()
        span = ends["max"] - ends["min"] + 1
        if span > min(CLOSE * len(keys), CLOSE_SPAN):
            return None
        numbers = np.full(span + 1, -1, np.int32)
        numbers[keys.to_numpy() - ends["min"]] = np.arange(len(keys), dtype=np.int32)
        return cls(ends["min"], numbers)

    @property
    def count(self) -> int:
        """How many different keys there are."""
        return int(np.count_nonzero(self.numbers >= 0))

    def find(self, values: pa.Array) -> pa.Array:
        """The number of each value; NULL where it is not among the keys.

        >>> CloseKeys.of(pa.array([2, 0])).find(pa.array([0, 1, 2, -(2**63), 2**63 - 1, None])).to_pylist()
        [1, None, 0, None, None, None]
        """
        known = pc.fill_null(values, 0) if values.null_count else values
        # Without a sign, what is below the start is far above the end.
        distances = (known.cast(pa.int64()).to_numpy() - np.int64(self.start)).view(np.uint64)
        numbers = self.numbers[np.minimum(distances, np.uint64(len(self.numbers) - 1))]
        if values.null_count:
            numbers[values.is_null().to_numpy(zero_copy_only=False)] = -1
        return pa.array(numbers, mask=numbers < 0)


@dataclass(frozen=True)
class KeyIndex:
    """The keys of some rows, numbered by first appearance."""

    key: tuple[str, ...]
    columns: tuple[pa.Array, ...]  # of each column, the values that occur
    joined: tuple[pa.Array, ...]  # of each column but the first: which pairs of numbers occur
    close: CloseKeys | None = None  # the keys, if they are one column of integers

    @classmethod
    def of(cls, rows: pa.Table, key: Sequence[str]) -> KeyIndex:
        """The index of the keys of these rows; none of them may be NULL."""
        columns, joined = [], []
        numbers: pa.Array | None = None
        for name in key:
            values = plain(rows.column(name))
            if len(key) == 1 and (close := CloseKeys.of(values)) is not None and close.count == len(values):
                return cls(tuple(key), (values,), (), close)
            columns.append(pc.unique(values))
            if len(key) == 1:
                return cls(tuple(key), tuple(columns), (), CloseKeys.of(columns[0]))
            own = pc.index_in(values, value_set=columns[-1])
            if numbers is not None:
                pairs = _pair(numbers, own, len(columns[-1]))
                joined.append(pc.unique(pairs))
                own = pc.index_in(pairs, value_set=joined[-1])
            numbers = own
        return cls(tuple(key), tuple(columns), tuple(joined))

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self.joined[-1] if self.joined else self.columns[0])

    def find(self, rows: pa.Table) -> pa.Array:
        """The number of each row's key; NULL where it is not among them.

        >>> index = KeyIndex.of(pa.table({"a": [1, 1, 2], "b": ["x", "y", "x"]}), ["a", "b"])
        >>> index.find(pa.table({"a": [2, 1, 2, None], "b": ["x", "y", "y", "x"]})).to_pylist()
        [2, 1, None, None]
        """
        if self.close is not None:
            return self.close.find(plain(rows.column(self.key[0])))
        numbers: pa.Array | None = None
        for at, name in enumerate(self.key):
            own = pc.index_in(plain(rows.column(name)), value_set=self.columns[at])
            if numbers is not None:
                own = pc.index_in(_pair(numbers, own, len(self.columns[at])), value_set=self.joined[at - 1])
            numbers = own
        assert numbers is not None
        return numbers


def last_of_each(rows: pa.Table, index: KeyIndex, sequence: str | None) -> pa.Table:
    """Of the rows of one key the last, by the sequence and then by arrival; their keys are numbered 0, 1, ... in this
    order.

    >>> rows = pa.table({"id": [1, 2, 1, 1], "v": [3, 1, 9, 2]})
    >>> last_of_each(rows, KeyIndex.of(rows, ["id"]), "v").to_pylist()
    [{'id': 1, 'v': 9}, {'id': 2, 'v': 1}]
    """
    if len(index) == rows.num_rows:
        return rows
    numbers = index.find(rows)
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
