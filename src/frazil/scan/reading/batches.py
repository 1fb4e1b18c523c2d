"""The table's columns out of the batches of a file: also those inside of structs, dropped ones, and those of a
partition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField, StructType

from frazil.pyiceberg_compat import fields_by_id
from frazil.scan.manifests import REAL
from frazil.scan.planning import TableState
from frazil.scan.reading.project import Convert, FileColumn, converter, missing


class BatchReader:
    """Some of the table's columns out of the batches of a file."""

    def __init__(
        self, fields: Sequence[NestedField], columns: Sequence[FileColumn], partition: Mapping[int, Any]
    ) -> None:
        self._fields = fields
        have = {column.field_id: column for column in columns}
        self._found: dict[int, tuple[str, Convert | None]] = {}
        self._default: dict[int, Callable[[int], pa.Array]] = {}
        for wanted in fields:
            if (column := have.get(wanted.field_id)) is not None:
                self._found[wanted.field_id] = (column.name, converter(wanted, column))
            else:
                self._default[wanted.field_id] = missing(wanted, partition)
        self._paths = paths_in(fields)

    @property
    def names(self) -> set[str]:
        """The file's columns that are read."""
        return {name for name, _ in self._found.values()}

    def bind(self, batch: pa.RecordBatch) -> Callable[[int], pa.Array]:
        """The columns of a batch by field id, also those inside of structs; each is made when it is asked for, and
        once.
        """
        bound: dict[int, pa.Array] = {}

        def column(field_id: int) -> pa.Array:
            if field_id not in bound:
                top, path = self._paths[field_id]
                whole = self._make(batch, top) if top not in bound else bound[top]
                bound[top] = whole
                bound[field_id] = pc.struct_field(whole, path) if path else whole
            return bound[field_id]

        return column

    def take(self, batch: pa.RecordBatch, keep: pa.BooleanArray | bool, schema: pa.Schema) -> pa.RecordBatch | None:
        """The rows that are kept, as they are given out; None when there are none."""
        if keep is False or batch.num_rows == 0:
            return None
        if keep is not True:
            # Only the columns that are given out are copied.
            names = [name for name in batch.schema.names if name in self.names]
            count = pc.sum(keep).as_py() or 0
            if count == 0:
                return None
            if count < batch.num_rows:
                batch = batch.select(names).filter(keep) if names else _empty_rows(count)
        arrays = [self._make(batch, field.field_id) for field in self._fields]
        return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else _empty_rows(batch.num_rows)

    def _make(self, batch: pa.RecordBatch, field_id: int) -> pa.Array:
        if field_id in self._default:
            return self._default[field_id](batch.num_rows)
        name, convert = self._found[field_id]
        array = batch.column(name)
        return array if convert is None else convert(array)


def _empty_rows(count: int) -> pa.RecordBatch:
    """Rows without columns."""
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), count, [None]))


# --- fields ----------------------------------------------------------------------------------------------------------


def leaves(columns: Sequence[FileColumn], above: str = "") -> dict[int, tuple[str, pa.DataType]]:
    """The columns of a file that have statistics of their own: path and type by field id. None inside of lists and
    maps.
    """
    by_id: dict[int, tuple[str, pa.DataType]] = {}
    for column in columns:
        path = f"{above}{column.name}"
        if pa.types.is_struct(column.type):
            by_id |= leaves(column.parts, f"{path}.")
        elif not column.parts and column.field_id is not None:
            by_id[column.field_id] = (path, column.type)
    return by_id


def paths_in(fields: Sequence[NestedField]) -> dict[int, tuple[int, list[int]]]:
    """Where each field is, also inside of structs: the id of the column, and the way down from there."""
    paths: dict[int, tuple[int, list[int]]] = {}

    def add(nested_field: NestedField, top: int, way: list[int]) -> None:
        paths[nested_field.field_id] = (top, way)
        if isinstance(nested_field.field_type, StructType):
            for at, part in enumerate(nested_field.field_type.fields):
                add(part, top, [*way, at])

    for field in fields:
        add(field, field.field_id, [])
    return paths


def find_fields(table: TableState, schema: Schema, ids: Sequence[int]) -> tuple[NestedField, ...]:
    """The columns that have these ids, or have them inside: of the schema that is read, or else of the last that had
    them.
    """
    known = paths_in(schema.fields)
    fields: dict[int, NestedField] = {}
    for field_id in ids:
        if field_id in known:
            top = known[field_id][0]
            fields[top] = next(field for field in schema.fields if field.field_id == top)
        else:
            dropped = table.find_dropped(field_id)
            fields[dropped.field_id] = dropped
    return tuple(fields.values())


def identity_values(spec: PartitionSpec, partition: Sequence[object], schema: Schema) -> dict[int, Any]:
    """The columns whose values the partition tells."""
    values: dict[int, Any] = {}
    for field, value in zip(spec.fields, partition, strict=True):
        if isinstance(field.transform, IdentityTransform):
            kind = fields_by_id(schema).get(field.source_id)
            is_nan = value == "NaN" and kind is not None and isinstance(kind.field_type, REAL)
            values[field.source_id] = math.nan if is_nan else value
    return values
