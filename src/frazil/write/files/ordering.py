"""Rows in the table's sort order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortOrder

from frazil.write.files.partitioning import column_at, path_of
from frazil.write.files.transforms import ArrayFunction, array_transform


@dataclass(frozen=True)
class SortKey:
    """One field of a sort order, ready to be computed."""

    path: tuple[str, ...]
    compute: ArrayFunction
    descending: bool
    nulls_first: bool


def sort_keys(schema: Schema, order: SortOrder) -> tuple[SortKey, ...]:
    """The fields of a table's sort order, checked against its schema."""
    keys = []
    for field in order.fields:
        path = path_of(schema, field.source_id)
        compute = array_transform(field.transform, schema.find_field(field.source_id).field_type, field=".".join(path))
        keys.append(
            SortKey(path, compute, field.direction == SortDirection.DESC, field.null_order == NullOrder.NULLS_FIRST)
        )
    return tuple(keys)


def sort_rows(rows: pa.Table, keys: Sequence[SortKey]) -> pa.Table:
    """The rows in order; equal ones keep theirs, and rows that are in order already are not copied."""
    if not keys or rows.num_rows < 2:
        return rows
    batches = rows.to_batches()
    columns: list[pa.ChunkedArray] = []
    directions: list[str] = []
    for key in keys:
        chunks = [key.compute(column_at(batch, key.path)) for batch in batches]
        values = pa.chunked_array(chunks)
        for column, descending in _ranks(values, key):
            columns.append(column)
            directions.append("descending" if descending else "ascending")
    names = [str(position) for position in range(len(columns))]
    indices = pc.sort_indices(pa.table(columns, names=names), sort_keys=list(zip(names, directions, strict=True)))
    if bool(pc.all(pc.greater_equal(indices[1:], indices[:-1])).as_py()):
        return rows
    return rows.take(indices.cast(pa.uint32()))


def _ranks(values: pa.ChunkedArray, key: SortKey) -> list[tuple[pa.ChunkedArray, bool]]:
    """The columns that order a key: its NULLs, its NaNs (the greatest numbers to Iceberg, next to NULL to Arrow), its
    values.
    """
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.cast(values.type.storage_type)
    ranks = [(values, key.descending)]
    if pa.types.is_floating(values.type) and bool(pc.any(pc.is_nan(values)).as_py()):
        ranks.insert(0, (pc.fill_null(pc.is_nan(values), False), key.descending))
    if values.null_count:
        ranks.insert(0, (values.is_null(), key.nulls_first))
    return ranks
