"""The partitions of a snapshot: how many files, rows and bytes each has, from its manifests. Every partition spec that
files were written with has partitions of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from frazil.catalog import Context, Request, Response
from frazil.console.answers import console_json
from frazil.console.manifests import Walk, reading_slot

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyiceberg.types import NestedField

    from frazil.scan.manifests import Manifest

MOST_PARTITIONS = 10_000  # in an answer, the largest of each spec
MOST_KEPT = 200_000  # while manifests are read


@dataclass(slots=True)
class Partition:
    """What lies in a partition."""

    files: int = 0
    bytes: int = 0
    rows: int = 0
    deletes: int = 0


@dataclass
class Partitions:
    """The partitions of each spec by their values."""

    specs: dict[int, dict[tuple[Any, ...], Partition]] = field(default_factory=dict)
    count: int = 0

    def add(self, manifest: Manifest, spec_id: int, fields: Sequence[NestedField], *, deletes: bool) -> None:
        """Counts the files of a manifest."""
        known = self.specs.setdefault(spec_id, {})
        for values, files, size, rows in _groups(manifest, fields):
            partition = known.get(values)
            if partition is None:
                partition = known[values] = Partition()
                self.count += 1
            if deletes:
                partition.deletes += files
            else:
                partition.files, partition.rows = partition.files + files, partition.rows + rows
            partition.bytes += size


def show_partitions(ctx: Context, request: Request) -> Response:
    """The partitions of each spec in the order of their values, column by column; the largest where there are many."""
    from frazil.console.stored_values import PartitionTexts
    from frazil.scan.planning import DELETES

    with reading_slot(request):
        walk, partitions = Walk.of(ctx, request), Partitions()
        for unit, manifest in walk.manifests():
            spec_id = unit.fact("spec_id")
            deletes = unit.fact("content") == DELETES
            partitions.add(manifest, spec_id, walk.planner.fields(spec_id), deletes=deletes)
            if partitions.count > MOST_KEPT:
                break
    current = walk.scan.state.default_spec_id
    texts = {number: PartitionTexts(walk.planner.spec(number), walk.planner.schema) for number in partitions.specs}
    specs = [to_columns(texts[number], partitions.specs[number], current == number) for number in sorted(texts)[::-1]]
    return console_json({**walk.progress, "specs": specs})


def to_columns(texts: Any, partitions: dict[tuple[Any, ...], Partition], current: bool) -> dict[str, Any]:
    """A spec and its partitions as lists of equal length."""
    largest = sorted(partitions.items(), key=lambda item: -item[1].bytes)[:MOST_PARTITIONS]
    shown = sorted(largest, key=lambda item: _order(item[0]))
    return {
        "spec_id": texts.spec.spec_id,
        "current": current,
        "fields": texts.describe(),
        "partitions": len(partitions),
        "values": [texts.show(values) for values, _ in shown],
        **{name: [getattr(each, name) for _, each in shown] for name in Partition.__slots__},
    }


def _order(values: tuple[Any, ...]) -> tuple[tuple[bool, str, Any], ...]:
    """What partitions are sorted by: nulls come last, and values of different types do not meet.

    >>> sorted([(2,), (None,), ("NaN",), (1,)], key=_order)
    [(1,), (2,), ('NaN',), (None,)]
    """
    return tuple((value is None, type(value).__name__, 0 if value is None else value) for value in values)


def _groups(manifest: Manifest, fields: Sequence[NestedField]) -> list[tuple[tuple[Any, ...], int, int, int]]:
    """The partitions of a manifest's files, each with files, bytes and rows."""
    import pyarrow as pa

    names = [f"value{at}" for at in range(len(fields))]
    numbers = {name: manifest.columns[name] for name in ("bytes", "records")}
    if not fields:
        return [((), len(manifest), manifest.total_bytes, manifest.total_rows)]
    values = {name: _values(manifest, each) for name, each in zip(names, fields, strict=True)}
    grouped = pa.table({**values, **numbers}).group_by(names)
    totals = grouped.aggregate([("bytes", "count"), ("bytes", "sum"), ("records", "sum")])
    keys = zip(*(map(_key, totals[name].to_pylist()) for name in names), strict=True)
    sums = (totals[name].to_pylist() for name in ("bytes_count", "bytes_sum", "records_sum"))
    return list(zip(keys, *sums, strict=True))


def _values(manifest: Manifest, partition_field: NestedField) -> pa.Array:
    """The values of a partition field as they are compared, or where the spec says another type now, as written."""
    import pyarrow as pa

    from frazil.scan.manifests import stored_type

    if partition_field.field_id not in manifest.partition:
        return pa.nulls(len(manifest), pa.int64())  # the field was added later
    values = manifest.partition_values(partition_field) if stored_type(partition_field.field_type) is not None else None
    raw, _ = manifest.partition[partition_field.field_id]
    return raw if values is None else values


def _key(value: Any) -> Any:
    """A value that equals itself."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value
