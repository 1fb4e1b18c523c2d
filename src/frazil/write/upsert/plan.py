"""Which data files may hold a row that a change is meant for: by partition, then by the bounds of the key's columns.

The scan's own planning looks at the smallest and the largest key. What it leaves is looked at once more, with every
key: a file between whose bounds no key lies is not read.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, LessThanOrEqual
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestamptzNanoType,
    UUIDType,
)

from frazil.scan.manifests import stored_type
from frazil.scan.planning import FileTask, Group, Planner, ScanCache, ScanRequest, TableState, partition_rows
from frazil.scan.reading import EXTRAS, FileReader, ReadPlan, file_identity
from frazil.write.files import Partition, TableLayout, partition_keys, split
from frazil.write.upsert.keys import plain
from frazil.write.upsert.rules import UpsertRules

if TYPE_CHECKING:
    from pyiceberg.table import Table

# Partition values of these types are written in one way only, so that whole partitions can be compared.
_ONE_WAY = (IntegerType, LongType, DateType, StringType)
# Values that PyIceberg compares in another order, or not at all: such keys are compared with the bounds of files alone.
_NO_LITERAL = (UUIDType, FixedType, BinaryType, TimestampNanoType, TimestamptzNanoType)
# PyIceberg types the constructors by the model's fields, and takes a name and a value.
_LEAST: Any = GreaterThanOrEqual
_MOST: Any = LessThanOrEqual
POSITION = EXTRAS["_pos"]
# Rows that are looked up at once: Arrow hashes all keys of the changes again for each batch.
LOOKUP_ROWS = 1 << 19
FEW_BOUNDS = 200  # a search for one pair of bounds costs about as much as sorting so many keys


@dataclass(frozen=True)
class Candidate:
    """A data file that may hold such rows, and the manifest that lists it."""

    task: FileTask
    manifest: str
    manifest_bytes: int = 0

    @property
    def state(self) -> tuple[object, ...]:
        """What its rows depend on: the file, and the deletes that concern it."""
        return file_identity(self.task)


@dataclass(frozen=True)
class KeyBounds:
    """The keys of the changes in one column, in order, as bounds are stored."""

    field: NestedField
    keys: pa.Array

    @classmethod
    def of(cls, field: NestedField, values: pa.ChunkedArray) -> KeyBounds | None:
        """None for a type of which no bounds are kept."""
        wanted = stored_type(field.field_type)
        if wanted is None:
            return None
        keys = _stored(values, wanted)
        if pa.types.is_integer(keys.type):
            return cls(field, pa.array(np.sort(keys.to_numpy())))  # ten times as fast as Arrow
        return cls(field, keys.take(pc.array_sort_indices(keys)))

    def meet(self, lower: pa.Array, upper: pa.Array) -> pa.Array:
        """Whether a key lies between each pair of ends, which count; True where an end is not known."""
        if len(lower) * FEW_BOUNDS > len(self.keys):
            return has_between(self.keys, lower, upper)
        pairs = zip(lower.to_pylist(), upper.to_pylist(), strict=True)
        return pa.array([None in (low, high) or self._has(low, high) for low, high in pairs], pa.bool_())

    def _has(self, low: Any, high: Any) -> bool:
        at = bisect_left(range(len(self.keys)), low, key=lambda place: self.keys[place].as_py())
        return at < len(self.keys) and bool(self.keys[at].as_py() <= high)


@dataclass(frozen=True)
class Candidates:
    """The files that must be looked at, and what reads them, deletes applied: `keys` the columns that decide, `rows`
    all of a file; `bounds` are the keys, to be compared with those of row groups.
    """

    files: Sequence[Candidate]
    bounds: Sequence[KeyBounds]
    keys: FileReader
    rows: FileReader


def find_candidates(
    table: Table,
    snapshot_id: int,
    changes: pa.Table,
    rules: UpsertRules,
    cache: ScanCache,
    *,
    with_positions: bool = False,
) -> Candidates:
    """The files of a snapshot that may hold rows of the changes; their keys are read with the positions of the rows if
    it is asked for.
    """
    key, schema = rules.key, table.schema()
    request = ScanRequest(_between(changes, key, schema), snapshot_id)
    planner = Planner(TableState.of(".".join(table.name()), table.metadata), cache, request)
    partitions = _Partitions(changes, key, schema)
    known = [KeyBounds.of(schema.find_field(column), changes.column(column)) for column in key]
    bounds = [column for column in known if column is not None]
    candidates: list[Candidate] = []
    for group in planner.plan().groups:
        rest = _by_partition(group, planner, partitions)
        for column in bounds:
            rest = _by_keys(rest, column)
        where = (group.unit.fact("path"), group.unit.fact("length") or 0)
        candidates += [Candidate(task, *where) for task in (planner.tasks(rest) if len(rest) else ())]
    judged = [schema.find_field(name) for name in rules.judged] + ([POSITION] if with_positions else [])
    return Candidates(candidates, bounds, *_readers(table, planner, judged))


def _readers(table: Table, planner: Planner, judged: Sequence[NestedField]) -> tuple[FileReader, FileReader]:
    def open_file(path: str) -> Any:
        return table.io.new_input(path).open()

    keys = FileReader(ReadPlan.of(planner, open_file, judged, batch_rows=LOOKUP_ROWS))
    every = AlwaysTrue()
    rows = FileReader(ReadPlan(planner.table, planner.schema, planner.schema.fields, (), every, every, open_file))
    rows.removals = keys.removals  # delete files are read once
    return keys, rows


def _between(changes: pa.Table, key: Sequence[str], schema: Schema) -> BooleanExpression:
    """That each column of the key lies where the changes' do."""
    always_true: BooleanExpression = AlwaysTrue()
    for name in key:
        if isinstance(schema.find_type(name), _NO_LITERAL):
            continue
        try:
            ends = pc.min_max(plain(changes.column(name))).as_py()
        except (ValueError, OverflowError):  # a time that Python has no room for
            continue
        always_true = And(always_true, And(_LEAST(name, ends["min"]), _MOST(name, ends["max"])))
    return always_true


class _Partitions:
    """The partitions that rows with the changes' keys lie in, for specs that the key decides alone."""

    def __init__(self, changes: pa.Table, key: Sequence[str], schema: Schema) -> None:
        self._changes, self._key, self._schema = changes, key, schema
        self._known: dict[int, set[tuple[object, ...]] | None] = {}

    def of(self, spec: PartitionSpec) -> set[tuple[object, ...]] | None:
        """All of them; None where they are not known."""
        if spec.spec_id not in self._known:
            self._known[spec.spec_id] = self._find(spec)
        return self._known[spec.spec_id]

    def _find(self, spec: PartitionSpec) -> set[tuple[object, ...]] | None:
        ids = {self._schema.find_field(name).field_id for name in self._key}
        if not spec.fields or any(key.source_id not in ids or str(key.transform) == "void" for key in spec.fields):
            return None
        keys = partition_keys(self._schema, spec)
        if not all(isinstance(key.result, _ONE_WAY) for key in keys):
            return None
        return {key.partition for key in split(self._changes.select(list(self._key)), keys).slices()}


def _by_partition(group: Group, planner: Planner, partitions: _Partitions) -> Group:
    spec = planner.spec(group.unit.fact("spec_id"))
    wanted = partitions.of(spec)
    if wanted is None:
        return group
    values = partition_rows(group.manifest, planner.fields(spec.spec_id), group.rows)
    return _filter(group, pa.array([partition in wanted for partition in values], pa.bool_()))


def _by_keys(group: Group, bounds: KeyBounds) -> Group:
    """The files between whose bounds a key lies; one that says nothing stays."""
    if not len(group):
        return group
    known = group.manifest.column_range(bounds.field)
    lower, upper = (ends if group.rows is None else ends.take(group.rows) for ends in (known.lower, known.upper))
    return _filter(group, bounds.meet(lower, upper))


def has_between(keys: pa.Array, lower: pa.Array, upper: pa.Array) -> pa.Array:
    """Whether a key lies between each pair of ends, which count; True where an end is not known.

    >>> has_between(pa.array([2, 9]), pa.array([0, 3, 9, None]), pa.array([2, 8, 9, 1])).to_pylist()
    [True, False, True, True]
    """
    # In one stable sort, equal values stay in this order: so a lower end stands before the keys that it lets in, an
    # upper one behind them.
    order = pc.array_sort_indices(pa.concat_arrays([lower, keys, upper]), null_placement="at_end")
    is_key = pc.and_(pc.greater_equal(order, len(lower)), pc.less(order, len(lower) + len(keys)))
    keys_before = pc.cumulative_sum(is_key.cast(pa.int64())).take(pc.array_sort_indices(order))
    at_lower, at_upper = keys_before.slice(0, len(lower)), keys_before.slice(len(lower) + len(keys))
    return pc.or_(pc.greater(at_upper, at_lower), pc.or_(lower.is_null(), upper.is_null()))


def _stored(keys: pa.ChunkedArray, wanted: pa.DataType) -> pa.Array:
    """Keys in the type in which bounds are compared."""
    values = plain(keys)
    if pa.types.is_date(values.type):
        values = values.view(pa.int32())
    elif pa.types.is_temporal(values.type):
        values = values.view(pa.int64())
    return values.cast(wanted)


def _filter(group: Group, kept: pa.Array) -> Group:
    rows = pc.indices_nonzero(kept).cast(pa.int64())
    return replace(group, rows=rows if group.rows is None else group.rows.take(rows))


def written_partition(partition: Sequence[object], layout: TableLayout) -> Partition:
    """A file's partition as the writer has it: a scan gives NaN as a word, which can be compared, and a UUID as its
    bytes.
    """
    return tuple(_written(value, key.result) for value, key in zip(partition, layout.keys, strict=True))


def _written(value: Any, kind: IcebergType) -> Any:
    if isinstance(kind, FloatType | DoubleType):
        return math.nan if value == "NaN" else value
    return UUID(bytes=value) if isinstance(kind, UUIDType) and isinstance(value, bytes) else value
