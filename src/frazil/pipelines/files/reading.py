"""Landing files as Arrow batches, read where the task runs: a file's own names, NULL for what it lacks, and where each
row stood.

Read by pyarrow and not by Spark: it reaches S3 with the keys that the tables have (Spark would need Hadoop's S3 jars
and settings), follows each file's own header, and knows the number of every row; see docs/decisions/pipeline-files.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import fs

from frazil.pipelines.files import read_csv, read_json, read_parquet
from frazil.pipelines.files.malformed import OnMalformed
from frazil.pipelines.files.slices import Slice
from frazil.pipelines.sources import FileSource

if TYPE_CHECKING:
    import numpy as np

# the slice's number and the row's, in one: it costs 8 bytes per row on the way through Spark
POSITION = "_frazil_position"
_ROW_BITS = 40


@dataclass(frozen=True)
class Reader:
    """Reads slices of files of one source; it travels to the executors, with the keys of the object store."""

    source: FileSource
    schema: pa.Schema  # of all files together, without the position
    io_properties: Mapping[str, str] = field(repr=False)

    def read(self, piece: Slice, on_malformed: OnMalformed) -> Iterator[pa.RecordBatch]:
        """The rows of a slice in the schema of the run, with their position; what is not a row is reported and left
        out.
        """
        for first, columns in read_columns(self.source, piece, self.io_properties, on_malformed):
            yield self._shape(columns, first, piece)

    def _shape(self, rows: pa.RecordBatch, numbers: np.ndarray | int, piece: Slice) -> pa.RecordBatch:
        columns = [self._column(rows, wanted) for wanted in self.schema]
        return pa.RecordBatch.from_arrays(
            [*columns, _positions(numbers, rows.num_rows, piece)], [*self.schema.names, POSITION]
        )

    def _column(self, rows: pa.RecordBatch, wanted: pa.Field) -> pa.Array:
        at = rows.schema.get_field_index(wanted.name)
        if at < 0:
            return pa.nulls(rows.num_rows, wanted.type)
        values = rows.column(at)
        return values if values.type.equals(wanted.type) else values.cast(wanted.type)


def read_columns(
    source: FileSource, piece: Slice, io_properties: Mapping[str, str], on_malformed: OnMalformed
) -> Iterator[tuple[Any, pa.RecordBatch]]:
    """Batches of the slice's rows in the file's own columns, each with the number of its first row, or of each row."""
    filesystem, path = open_store(piece.path, io_properties)
    if source.format == "csv":
        yield from read_csv.read(filesystem, path, piece, source.csv, on_malformed)
    elif source.format == "json":
        yield from read_json.read(filesystem, path, piece, on_malformed)
    else:
        yield from read_parquet.read(filesystem, path, piece)


def open_store(path: str, io_properties: Mapping[str, str]) -> tuple[Any, str]:
    """The file system of a path, and the path as that one spells it."""
    if not path.startswith("s3://"):
        return fs.LocalFileSystem(), path
    from pyiceberg.io.pyarrow import PyArrowFileIO

    bucket, _, key = path.removeprefix("s3://").partition("/")
    return PyArrowFileIO(dict(io_properties)).fs_by_scheme("s3", bucket), f"{bucket}/{key}"


def unpack_position(position: int) -> tuple[int, int]:
    """The slice's number and the row's.

    >>> unpack_position(pack_position(3, 7))
    (3, 7)
    """
    return position >> _ROW_BITS, position & ((1 << _ROW_BITS) - 1)


def pack_position(number: int, row: int) -> int:
    """A row's place in the run: rows of one file lie in their order, and files in theirs."""
    return (number << _ROW_BITS) + row


def _positions(numbers: np.ndarray | int, count: int, piece: Slice) -> pa.Array:
    import numpy as np

    rows = np.arange(numbers, numbers + count, dtype=np.int64) if isinstance(numbers, int) else numbers
    return pa.array(rows + pack_position(piece.number, 0))


def schema_of_text(names: Sequence[str]) -> pa.Schema:
    """The schema of columns that arrive as text."""
    return pa.schema([(name, pa.string()) for name in names])
