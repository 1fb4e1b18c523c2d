"""Which row groups of a Parquet file cannot have a row that is wanted: by the file's own statistics, and by the rows
that are deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.types import DecimalType, IcebergType, NestedField

from frazil.scan.manifests import BYTES, DAY_UNITS, REAL, WHOLE, Range, certain, stored_type, without_nan
from frazil.scan.planning import Layer, Term, skip_mask

DELETED_ROWS = "deleted rows"
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group to read: its number, the position of its first row in the file, and how many it has."""

    number: int
    start: int
    rows: int


def all_groups(metadata: pq.FileMetaData) -> list[RowGroup]:
    """Every row group of a file, in order."""
    groups, start = [], 0
    for number in range(metadata.num_row_groups):
        rows = metadata.row_group(number).num_rows
        groups.append(RowGroup(number, start, rows))
        start += rows
    return groups


class GroupRanges:
    """What a file's row groups say about its columns. Nothing about columns inside of lists and maps, nor about what
    was widened since in a way that other values come out.
    """

    def __init__(self, metadata: pq.FileMetaData, leaves: Mapping[int, tuple[str, pa.DataType]]) -> None:
        self._metadata, self._leaves = metadata, leaves
        self._places = {metadata.schema.column(at).path: at for at in range(metadata.num_columns)}
        self._known: dict[int, Range | None] = {}

    def __call__(self, wanted: NestedField) -> Range | None:
        if wanted.field_id not in self._known:
            self._known[wanted.field_id] = self._range(wanted)
        return self._known[wanted.field_id]

    def _range(self, wanted: NestedField) -> Range | None:
        path, kind = self._leaves.get(wanted.field_id, ("", pa.null()))
        at, stored = self._places.get(path), stored_type(wanted.field_type)
        if at is None or stored is None or self._metadata.schema.column(at).max_repetition_level:
            return None
        lower, upper, nulls, sizes = [], [], [], []
        for number in range(self._metadata.num_row_groups):
            chunk = self._metadata.row_group(number).column(at)
            statistics = chunk.statistics
            known = statistics is not None and statistics.has_min_max
            lower.append(_bound(statistics, "min", kind, wanted.field_type) if known else None)
            upper.append(_bound(statistics, "max", kind, wanted.field_type) if known else None)
            nulls.append(statistics.null_count if statistics is not None and statistics.has_null_count else None)
            sizes.append(self._metadata.row_group(number).num_rows)
        low, high, gone = pa.array(lower, stored), pa.array(upper, stored), pa.array(nulls, pa.int64())
        if pa.types.is_floating(stored):
            low, high = without_nan(low), without_nan(high)
        all_null = certain(pc.equal(gone, pa.array(sizes, pa.int64())))
        return Range(low, high, all_null, certain(pc.equal(gone, 0)), None, None)


def _bound(statistics: pq.Statistics, side: str, have: pa.DataType, kind: IcebergType) -> Any:
    """A bound as it is stored for comparisons (bounds.py); None when it says nothing about the table's type."""
    raw = getattr(statistics, f"{side}_raw")
    if isinstance(kind, BYTES):
        return raw if isinstance(raw, bytes) else None
    if isinstance(kind, DecimalType):
        return getattr(statistics, side) if pa.types.is_decimal(have) and have.scale == kind.scale else None
    if isinstance(kind, WHOLE):
        return _whole(raw, have, kind) if isinstance(raw, int) and not isinstance(raw, bool) else None
    if isinstance(kind, REAL):
        return raw if isinstance(raw, float) else None
    return raw if isinstance(raw, bool) else None


def _whole(raw: int, have: pa.DataType, kind: IcebergType) -> int | None:
    unit = DAY_UNITS.get(type(kind))
    if unit is None:  # a number, a date or a time
        if pa.types.is_time(have):
            return raw * (1_000_000 // PER_SECOND[have.unit]) if have.unit != "ns" else None
        return raw if pa.types.is_signed_integer(have) or pa.types.is_date32(have) else None
    if pa.types.is_date32(have):
        return raw * unit
    if not pa.types.is_timestamp(have) or (per := unit // 86_400) < PER_SECOND[have.unit]:
        return None
    return raw * (per // PER_SECOND[have.unit])


def keep_groups(
    groups: Sequence[RowGroup], terms: Iterable[Term], ranges: GroupRanges, *, sizes: Sequence[int], layer: Layer
) -> list[RowGroup]:
    """The row groups that may have rows to read; each that is skipped counts for the first term that does."""
    kept = list(groups)
    layer.total += len(kept)
    layer.bytes += sum(sizes[rejected.number] for rejected in kept)
    for name, term in terms:
        mask = skip_mask(term, ranges)
        if mask is not False:
            kept = drop(
                kept,
                {rejected.number for rejected in kept if mask is True or mask[rejected.number].as_py()},
                name,
                sizes=sizes,
                layer=layer,
            )
    return kept


def drop(
    groups: Sequence[RowGroup], gone: Collection[int], why: str, *, sizes: Sequence[int], layer: Layer
) -> list[RowGroup]:
    """The row groups without some that are skipped, which the layer counts."""
    layer.skip(why, len(gone))
    layer.bytes_skipped += sum(sizes[number] for number in gone)
    return [group for group in groups if group.number not in gone]
