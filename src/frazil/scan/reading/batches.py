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
        have = {one.field_id: one for one in columns}
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
        made: dict[int, pa.Array] = {}

        def column(field_id: int) -> pa.Array:
            if field_id not in made:
                top, path = self._paths[field_id]
                whole = self._make(batch, top) if top not in made else made[top]
                made[top] = whole
                made[field_id] = pc.struct_field(whole, path) if path else whole
            return made[field_id]

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
        arrays = [self._make(batch, one.field_id) for one in self._fields]
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
    found: dict[int, tuple[str, pa.DataType]] = {}
    for one in columns:
        path = f"{above}{one.name}"
        if pa.types.is_struct(one.type):
            found |= leaves(one.parts, f"{path}.")
        elif not one.parts and one.field_id is not None:
            found[one.field_id] = (path, one.type)
    return found


def paths_in(fields: Sequence[NestedField]) -> dict[int, tuple[int, list[int]]]:
    """Where each field is, also inside of structs: the id of the column, and the way down from there."""
    found: dict[int, tuple[int, list[int]]] = {}

    def add(one: NestedField, top: int, way: list[int]) -> None:
        found[one.field_id] = (top, way)
        if isinstance(one.field_type, StructType):
            for at, part in enumerate(one.field_type.fields):
                add(part, top, [*way, at])

    for one in fields:
        add(one, one.field_id, [])
    return found


def find_fields(table: TableState, schema: Schema, ids: Sequence[int]) -> tuple[NestedField, ...]:
    """The columns that have these ids, or have them inside: of the schema that is read, or else of the last that had
    them.
    """
    known = paths_in(schema.fields)
    found: dict[int, NestedField] = {}
    for field_id in ids:
        if field_id in known:
            top = known[field_id][0]
            found[top] = next(one for one in schema.fields if one.field_id == top)
        else:
            dropped = table.find_dropped(field_id)
            found[dropped.field_id] = dropped
    return tuple(found.values())


def identity_values(spec: PartitionSpec, partition: Sequence[object], schema: Schema) -> dict[int, Any]:
    """The columns whose values the partition tells."""
    found: dict[int, Any] = {}
    for one, value in zip(spec.fields, partition, strict=True):
        if isinstance(one.transform, IdentityTransform):
            kind = fields_by_id(schema).get(one.source_id)
            is_nan = value == "NaN" and kind is not None and isinstance(kind.field_type, REAL)
            found[one.source_id] = math.nan if is_nan else value
    return found
