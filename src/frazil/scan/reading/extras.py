"""Columns that a scan gives besides the table's own, when they are named: where a row is, and in format 3 which it is
and since when.

They are the specification's metadata columns. What says which row it is may also lie in the file, where a row moved
there from another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import LongType, NestedField, StringType

from frazil.scan.reading.project import FileColumn

if TYPE_CHECKING:
    from frazil.scan.planning import FileTask

FILE = NestedField(2147483646, "_file", StringType(), required=True)
POSITION = NestedField(2147483645, "_pos", LongType(), required=True)
ROW_ID = NestedField(2147483540, "_row_id", LongType())
UPDATED = NestedField(2147483539, "_last_updated_sequence_number", LongType())
EXTRAS = {column.name: column for column in (FILE, POSITION, ROW_ID, UPDATED)}
LINEAGE = {ROW_ID.field_id, UPDATED.field_id}


class Extras:
    """The metadata columns of a file that a scan returns, made for each batch and added to the columns that
    were read.
    """

    def __init__(self, fields: Sequence[NestedField], task: FileTask, columns: Sequence[FileColumn]) -> None:
        self._task = task
        own = {column.field_id: column.name for column in columns}
        wanted = [field for field in fields if field.field_id in (POSITION.field_id, *LINEAGE)]
        # No column of a file has such a name: one that was called so once may still be there, and read.
        init = [
            FileColumn(f"{field.name}\0", field.field_id, pa.int64()) for field in wanted if field.field_id not in own
        ]
        names = own | {field.field_id: field.name for field in init}
        self._names = {field.field_id: names[field.field_id] for field in wanted}
        self.columns: list[FileColumn] = [*columns, *init]  # those of the file, with those that are made
        self.names = {column.name for column in init}  # not to be read from the file

    @property
    def constants(self) -> dict[int, Any]:
        """What all rows of the file have."""
        return {FILE.field_id: self._task.path}

    def add(self, batch: pa.RecordBatch, start: int) -> pa.RecordBatch:
        """A batch that begins at a position of the file, with the columns that are made."""
        for field_id, name in self._names.items():
            values = self._values(field_id, start, batch.num_rows)
            at = batch.schema.get_field_index(name)
            if at >= 0:  # the file has it for some rows, and null for those that are new in it
                values = pc.coalesce(batch.column(at), values)
            batch = batch.append_column(name, values) if at < 0 else batch.set_column(at, name, values)
        return batch

    def _values(self, field_id: int, start: int, count: int) -> pa.Array:
        """A row that came with the file has the file's next number, and was last changed when the file came. Files from
        before the table had format 3 have no numbers.
        """
        if field_id == POSITION.field_id:
            return pa.array(np.arange(start, start + count, dtype=np.int64))
        sequence, first = self._task.lineage or (None, None)
        if first is None:
            return pa.nulls(count, pa.int64())
        if field_id == ROW_ID.field_id:
            return pa.array(np.arange(first + start, first + start + count, dtype=np.int64))
        return pa.repeat(pa.scalar(sequence, pa.int64()), count)
