"""Which data files may hold a row that a change is meant for: by partition, then by the bounds of the key's columns.

The scan's own planning looks at the smallest and the largest key. What it leaves is looked at once more, with every
key: a file between whose bounds no key lies is not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, LessThanOrEqual
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, DateType, FixedType, IntegerType, LongType, NestedField, StringType, UUIDType

from frazil.scan.manifests import stored_type
from frazil.scan.planning import FileTask, Group, Planner, ScanCache, ScanRequest, TableState, partition_rows
from frazil.scan.reading import FileReader, ReadPlan
from frazil.write.files import partition_keys, split
from frazil.write.upsert.keys import plain
from frazil.write.upsert.rules import UpsertRules

if TYPE_CHECKING:
    from pyiceberg.table import Table

# Partition values of these types are written in one way only, so that whole partitions can be compared.
_ONE_WAY = (IntegerType, LongType, DateType, StringType)
# PyIceberg types the constructors by the model's fields, and takes a name and a value.
_LEAST: Any = GreaterThanOrEqual
_MOST: Any = LessThanOrEqual


@dataclass(frozen=True)
class Candidate:
    """A data file that may hold such rows, and the manifest that lists it."""

    task: FileTask
    manifest: str

    @property
    def state(self) -> tuple[str, ...]:
        """What its rows depend on: the file, and the deletes that concern it."""
        return (self.task.path, *sorted(response.path for response in self.task.deletes))


@dataclass(frozen=True)
class Candidates:
    """The files that must be looked at, and what reads them, deletes applied: `keys` the columns that decide, in row
    groups that may hold a key; `rows` all of a file.
    """

    files: Sequence[Candidate]
    keys: FileReader
    rows: FileReader


def find_candidates(
    table: Table, snapshot_id: int, changes: pa.Table, rules: UpsertRules, cache: ScanCache
) -> Candidates:
    """The files of a snapshot that may hold rows of the changes."""
    key, schema = rules.key, table.schema()
    request = ScanRequest(_between(changes, key, schema), snapshot_id)
    planner = Planner(TableState.of(".".join(table.name()), table.metadata), cache, request)
    partitions = _Partitions(changes, key, schema)
    candidates = []
    for group in planner.plan().groups:
        rest = _by_partition(group, planner, partitions)
        for column in key:
            rest = _by_keys(rest, schema.find_field(column), changes.column(column))
        candidates += [Candidate(task, group.unit.fact("path")) for task in (planner.tasks(rest) if len(rest) else ())]
    return Candidates(candidates, *_readers(table, planner, [schema.find_field(name) for name in rules.judged]))


def _readers(table: Table, planner: Planner, judged: Sequence[NestedField]) -> tuple[FileReader, FileReader]:
    def open_file(path: str) -> Any:
        return table.io.new_input(path).open()

    keys = FileReader(ReadPlan.of(planner, open_file, judged))
    every = AlwaysTrue()
    rows = FileReader(ReadPlan(planner.table, planner.schema, planner.schema.fields, (), every, every, open_file))
    rows.removals = keys.removals  # delete files are read once
    return keys, rows


def _between(changes: pa.Table, key: Sequence[str], schema: Schema) -> BooleanExpression:
    """That each column of the key lies where the changes' do."""
    always_true: BooleanExpression = AlwaysTrue()
    for name in key:
        if isinstance(schema.find_type(name), UUIDType | FixedType | BinaryType):
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


def _by_keys(group: Group, field: NestedField, keys: pa.ChunkedArray) -> Group:
    """The files between whose bounds a key lies; one that says nothing stays."""
    wanted = stored_type(field.field_type)
    if wanted is None or not len(group):
        return group
    known = group.manifest.column_range(field)
    lower, upper = (ends if group.rows is None else ends.take(group.rows) for ends in (known.lower, known.upper))
    return _filter(group, has_between(_stored(keys, wanted), lower, upper))


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
    values = pc.unique(plain(keys))
    if pa.types.is_date(values.type):
        values = values.view(pa.int32())
    elif pa.types.is_temporal(values.type):
        values = values.view(pa.int64())
    return values.cast(wanted)


def _filter(group: Group, kept: pa.Array) -> Group:
    rows = pc.indices_nonzero(kept).cast(pa.int64())
    return replace(group, rows=rows if group.rows is None else group.rows.take(rows))
