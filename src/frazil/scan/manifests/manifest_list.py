"""A snapshot's manifest list: its manifests, and what each says about its partitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import ManifestUnreadable
from frazil.scan.manifests.avro import Column, Columns, RecordsColumn, open_avro, read_records
from frazil.scan.manifests.avro_schema import AvroError
from frazil.scan.manifests.bounds import REAL, Range, certain, decode

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType

# Field ids of the specification.
LIST = {
    "path": 500,
    "length": 501,
    "spec_id": 502,
    "content": 517,
    "sequence": 515,
    "min_sequence": 516,
    "snapshot_id": 503,
}
LIST |= {"added": 504, "existing": 505, "deleted": 506, "added_rows": 512, "existing_rows": 513, "first_row_id": 520}
SUMMARIES, CONTAINS_NULL, CONTAINS_NAN, SUMMARY_LOWER, SUMMARY_UPPER = 507, 509, 518, 510, 511


@dataclass(slots=True)
class ManifestList:
    """The manifests of a snapshot, and what each says about its partitions."""

    path: str
    columns: dict[str, list[Any]]
    _starts: list[int]
    _lengths: list[int]
    _summaries: dict[int, pa.Array]
    _ranges: dict[tuple[int, int, str], Range] = field(default_factory=dict)
    _of_spec: dict[int, list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self._of_spec = {}
        for at, spec_id in enumerate(self.columns["spec_id"]):
            self._of_spec.setdefault(spec_id, []).append(at)

    def __len__(self) -> int:
        return len(self.columns["path"])

    @property
    def spec_ids(self) -> list[int]:
        """The partition specs that its manifests were written with."""
        return list(self._of_spec)

    @property
    def nbytes(self) -> int:
        rough = len(self) * len(self.columns) * 16 + sum(len(path) for path in self.columns["path"])
        summaries = sum(array.nbytes for array in self._summaries.values())
        return int(rough + summaries + sum(known.nbytes for known in list(self._ranges.values())))

    def live(self, at: int) -> int | None:
        """The number of live files per manifest; old writers do not record it."""
        added, existing = self.columns["added"][at], self.columns["existing"][at]
        return None if added is None or existing is None else added + existing

    def partition_range(self, spec_id: int, position: int, kind: IcebergType) -> Range:
        """What the manifests of one spec say about its partition field at a position; in the order of `of_spec`."""
        key = (spec_id, position, str(kind))
        if key not in self._ranges:
            self._ranges[key] = self._partition_range(self.of_spec(spec_id), position, kind)
        return self._ranges[key]

    def of_spec(self, spec_id: int) -> list[int]:
        """Which manifests were written with a partition spec."""
        return self._of_spec[spec_id]

    def _partition_range(self, rows: list[int], position: int, kind: IcebergType) -> Range:
        at = pa.array(
            [self._starts[row] + position if position < self._lengths[row] else None for row in rows], pa.int64()
        )
        has_null, has_nan = (self._summaries[column].take(at) for column in (CONTAINS_NULL, CONTAINS_NAN))
        lower, upper = (decode(self._summaries[column].take(at), kind) for column in (SUMMARY_LOWER, SUMMARY_UPPER))
        no_bound = pc.is_null(self._summaries[SUMMARY_LOWER].take(at))
        no_nan, no_null = pc.invert(has_nan), pc.invert(has_null)
        all_null = pc.and_kleene(has_null, no_bound)
        if isinstance(kind, REAL):
            all_null = pc.and_kleene(all_null, no_nan)
        all_nan = pc.and_kleene(pc.and_kleene(has_nan, no_null), no_bound)
        return Range(lower, upper, certain(all_null), certain(no_null), certain(all_nan), certain(no_nan))


def decode_list(path: str, content: bytes) -> ManifestList:
    """A manifest list from the bytes of its file."""
    try:
        records = read_records(open_avro(content))
    except AvroError as exc:
        raise ManifestUnreadable(path, str(exc)) from exc
    count = len(_values(records, LIST["path"]) or [])
    columns = {name: _values(records, field_id) or [None] * count for name, field_id in LIST.items()}
    for name in ("content", "sequence", "min_sequence", "spec_id"):  # format 1 does not have them
        columns[name] = [value or 0 for value in columns[name]]
    summaries = records.get(SUMMARIES)
    lengths = [0] * count
    inner = Columns()
    if isinstance(summaries, RecordsColumn):
        lengths, inner = [length or 0 for length in summaries.lengths], summaries.inner
    starts = [0, *_running(lengths)][:count]
    total = sum(lengths)
    kinds = {
        CONTAINS_NULL: pa.bool_(),
        CONTAINS_NAN: pa.bool_(),
        SUMMARY_LOWER: pa.binary(),
        SUMMARY_UPPER: pa.binary(),
    }
    arrays = {value: inner.plain(value) if value in inner else pa.nulls(total, kind) for value, kind in kinds.items()}
    return ManifestList(path, columns, starts, lengths, arrays)


def _values(columns: Columns, field_id: int) -> list[Any] | None:
    column = columns.get(field_id)
    return column.values if isinstance(column, Column) else None


def _running(lengths: list[int]) -> list[int]:
    """
    >>> _running([2, 0, 3])
    [2, 2, 5]
    """
    total, sums = 0, []
    for length in lengths:
        total += length
        sums.append(total)
    return sums
