"""Parquet files in their own types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.errors import PipelineError
from frazil.pipelines.files.slices import Slice

BATCH_ROWS = 10_000


def read_schema(filesystem: Any, path: str) -> pa.Schema:
    """The schema of a file, in types that Spark has: times in microseconds, no dictionaries, no unsigned numbers."""
    with _open(filesystem, path) as file:
        return pa.schema([(field.name, _plain(field.type)) for field in file.schema_arrow])


def read(filesystem: Any, path: str, piece: Slice) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of the row groups that begin in the slice, each batch with the number of its first row; the first row is
    1.
    """
    with _open(filesystem, path) as file:
        first = 1
        for group in range(file.num_row_groups):
            described = file.metadata.row_group(group)
            if _begins_in(described, piece):
                start = first
                for batch in file.iter_batches(BATCH_ROWS, row_groups=[group]):
                    yield start, batch
                    start += batch.num_rows
            first += described.num_rows


def _open(filesystem: Any, path: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, filesystem=filesystem)
    except pa.ArrowInvalid as exc:
        hint = "move it away, or let files appear by renaming them"
        raise PipelineError(f"{path} is no Parquet file: {str(exc).splitlines()[0]}", hint=hint, path=path) from exc


def _begins_in(group: pq.RowGroupMetaData, piece: Slice) -> bool:
    if piece.end is None:
        return True
    column = group.column(0)
    begin = (
        column.dictionary_page_offset
        if column.has_dictionary_page and column.dictionary_page_offset
        else column.data_page_offset
    )
    return piece.start <= int(begin) < piece.end


def _plain(kind: pa.DataType) -> pa.DataType:
    t = pa.types
    if t.is_dictionary(kind):
        return _plain(kind.value_type)
    if t.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if t.is_unsigned_integer(kind):
        return {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}[kind.bit_width]
    if t.is_large_string(kind) or t.is_string_view(kind):
        return pa.string()
    if t.is_large_binary(kind) or t.is_binary_view(kind) or t.is_fixed_size_binary(kind):
        return pa.binary()
    if t.is_date64(kind):
        return pa.date32()
    if t.is_list(kind) or t.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    if t.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if t.is_struct(kind):
        return pa.struct([(field.name, _plain(field.type)) for field in kind])
    return kind
