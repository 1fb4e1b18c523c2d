"""Which data files may hold a row that a change is meant for: by partition, then by the bounds of the key's columns.

The scan's own planning looks at the smallest and the largest key. What it leaves is looked at once more, with every key: a file between
whose bounds no key lies is not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, GreaterThanOrEqual, LessThanOrEqual
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.typedef import Record
from pyiceberg.types import BinaryType, DateType, FixedType, IntegerType, LongType, NestedField, StringType, UUIDType

from frazil.errors import SinkError
from frazil.scan.bounds import stored_type
from frazil.scan.compiled import ScanCache
from frazil.scan.deletes import EQUALITY, DeleteFile
from frazil.scan.partitions import partition_rows
from frazil.scan.plan import FileTask, Group, Planner, ScanRequest
from frazil.scan.table import TableState
from frazil.sinks.partitioning import partition_keys
from frazil.sinks.split import split
from frazil.sinks.upsert_keys import plain

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
        return (self.task.path, *sorted(one.path for one in self.task.deletes))

    def as_scan_task(self) -> FileScanTask:
        """The file as PyIceberg reads it."""
        data = _data_file(self.task.path, self.task.format, DataFileContent.DATA, self.task)
        return FileScanTask(data, {_delete_file(one) for one in self.task.deletes})


def find_candidates(table: Table, snapshot_id: int, changes: pa.Table, key: Sequence[str], cache: ScanCache) -> list[Candidate]:
    """The files of a snapshot that must be looked at; refuses those of which the rows cannot be told here."""
    name = ".".join(table.name())
    request = ScanRequest(_between(changes, key, table.schema()), snapshot_id)
    planner = Planner(TableState.of(name, table.metadata), cache, request)
    partitions = _Partitions(changes, key, table.schema())
    found = []
    for group in planner.plan().groups:
        rest = _by_partition(group, planner, partitions)
        for column in key:
            rest = _by_keys(rest, table.schema().find_field(column), changes.column(column))
        found += [Candidate(task, group.unit.fact("path")) for task in _tasks(planner, rest, name)]
    return found


def _tasks(planner: Planner, group: Group, table: str) -> Iterator[FileTask]:
    for task in planner.tasks(group) if len(group) else ():
        if any(one.content == EQUALITY for one in task.deletes):
            raise SinkError(
                f"{table}: rows of {task.path} are deleted by equality deletes, which cannot be applied here",
                hint="compact the table first (Spark: rewrite_data_files, with delete-file-threshold 1), or upsert with Spark",
            )
        yield task


def _between(changes: pa.Table, key: Sequence[str], schema: Schema) -> BooleanExpression:
    """That each column of the key lies where the changes' do."""
    found: BooleanExpression = AlwaysTrue()
    for name in key:
        if isinstance(schema.find_type(name), UUIDType | FixedType | BinaryType):
            continue
        try:
            ends = pc.min_max(plain(changes.column(name))).as_py()
        except (ValueError, OverflowError):  # a time that Python has no room for
            continue
        found = And(found, And(_LEAST(name, ends["min"]), _MOST(name, ends["max"])))
    return found


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
        if not spec.fields or any(one.source_id not in ids or str(one.transform) == "void" for one in spec.fields):
            return None
        keys = partition_keys(self._schema, spec)
        if not all(isinstance(one.result, _ONE_WAY) for one in keys):
            return None
        return {one.partition for one in split(self._changes.select(list(self._key)), keys).slices()}


def _by_partition(group: Group, planner: Planner, partitions: _Partitions) -> Group:
    spec = planner.spec(group.unit.fact("spec_id"))
    wanted = partitions.of(spec)
    if wanted is None:
        return group
    found = partition_rows(group.manifest, planner.fields(spec.spec_id), group.rows)
    return _filter(group, pa.array([partition in wanted for partition in found], pa.bool_()))


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
    # In one stable sort, equal values stay in this order: so a lower end stands before the keys that it lets in, an upper one behind them.
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


def _data_file(path: str, kind: str, content: DataFileContent, task: FileTask) -> DataFile:
    made = DataFile.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat[kind.upper()],
        partition=Record(*task.partition),
        record_count=task.rows,
        file_size_in_bytes=task.bytes,
    )
    made.spec_id = task.spec_id
    return made


def _delete_file(file: DeleteFile) -> DataFile:
    kind = file.manifest.columns["format"][file.row].as_py()
    return DataFile.from_args(
        content=DataFileContent.POSITION_DELETES, file_path=file.path, file_format=FileFormat[kind.upper()], partition=Record()
    )
