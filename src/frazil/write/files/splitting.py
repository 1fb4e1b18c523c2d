"""Rows apart by partition: one sort, one copy, then slices.

A filter for each partition reads every row once a partition. Here the keys become small integers, which Arrow sorts by
counting; the rows are copied once, in that order, and each partition is a slice of the copy. Rows that already lie
together are not copied at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import (
    DateType,
    IcebergType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

from frazil.write.files.partitioning import Key, canonical_value, compute_keys

# Internally (spec, appendix D) these are whole numbers.
_AS_INT32 = (DateType,)
_AS_INT64 = (TimeType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)

Partition = tuple[Any, ...]


class Slice(NamedTuple):
    """The rows of one partition; its values are as a manifest holds them (a date is a number of days)."""

    partition: Partition
    rows: pa.Table


@dataclass(frozen=True)
class Run:
    """Rows that lie together by partition: where each partition begins, and how many rows it has."""

    rows: pa.Table
    partitions: list[Partition]
    starts: list[int]
    sizes: list[int]

    def slice(self, number: int) -> Slice:
        """The rows of the partition of this number; nothing is copied."""
        return Slice(self.partitions[number], self.rows.slice(self.starts[number], self.sizes[number]))

    def slices(self) -> list[Slice]:
        return [self.slice(number) for number in range(len(self.partitions))]


def split(rows: pa.Table, keys: Sequence[Key]) -> Run:
    """The rows apart by partition, in the order in which the partitions first appear; inside one, rows keep their
    order.
    """
    if not keys or rows.num_rows == 0:
        return Run(rows, [()], [0], [rows.num_rows]) if rows.num_rows else Run(rows, [], [], [])
    arrays = _keys_of(rows, keys)
    codes = _number_groups(arrays)
    sizes = _sizes(codes)
    starts = list(accumulate(sizes[:-1], initial=0))
    firsts = pa.array(starts, pa.uint64())
    if not _is_ascending(codes):
        order = pc.array_sort_indices(codes)
        firsts = order.take(firsts)
        # Half the index, half the traffic: what waits in memory never has 2**32 rows.
        rows = rows.take(order.cast(pa.uint32()))
    return Run(rows, _values_at(arrays, firsts, keys), starts, sizes)


def _keys_of(rows: pa.Table, keys: Sequence[Key]) -> list[pa.Array]:
    """The partition values of all rows; the keys are joined, the rows stay in their batches until the one copy."""
    by_batch = [compute_keys(batch, keys) for batch in rows.to_batches()]
    return by_batch[0] if len(by_batch) == 1 else [pa.concat_arrays(arrays) for arrays in zip(*by_batch, strict=True)]


def _number_groups(arrays: Sequence[pa.Array]) -> pa.Array:
    """Each row's group, numbered by first appearance."""
    codes, _ = _encode(arrays[0])
    for array in arrays[1:]:
        more, count = _encode(array)
        joined = pc.add(pc.multiply(codes.cast(pa.int64()), pa.scalar(count, pa.int64())), more.cast(pa.int64()))
        codes, _ = _encode(joined)
    return codes


def _encode(array: pa.Array) -> tuple[pa.Array, int]:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    encoded = pc.dictionary_encode(array, null_encoding="encode")
    return encoded.indices, len(encoded.dictionary)


def _values_at(arrays: Sequence[pa.Array], firsts: pa.Array, keys: Sequence[Key]) -> list[Partition]:
    columns = [internal_values(array.take(firsts), key.result) for array, key in zip(arrays, keys, strict=True)]
    return list(zip(*columns, strict=True))


def internal_values(array: pa.Array, kind: IcebergType) -> list[Any]:
    """The values as manifests hold them."""
    if isinstance(kind, _AS_INT32):
        array = array.view(pa.int32())
    elif isinstance(kind, _AS_INT64):
        array = array.view(pa.int64())
    values: list[Any] = array.to_pylist()
    return [canonical_value(value) for value in values] if pa.types.is_floating(array.type) else values


def _is_ascending(codes: pa.Array) -> bool:
    """Whether equal numbers lie together: they are given by first appearance, so any clustered order counts up."""
    return bool(pc.all(pc.greater_equal(codes[1:], codes[:-1])).as_py())


def _sizes(codes: pa.Array) -> list[int]:
    """How many rows each group has; counted by first appearance, which is the order of the numbers."""
    sizes: list[int] = pc.value_counts(codes).field("counts").to_pylist()
    return sizes
