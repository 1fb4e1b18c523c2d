"""What a manifest says of a data file's columns: sizes, counts and bounds, from the Parquet footer that was just
written.

PyIceberg has a function for this; it takes the bounds of the row groups that have some, even where another row group
has values and none (Arrow leaves out bounds of more than 4 kB): a reader would then skip a file that holds the row. It
also gives no bounds inside structs.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import parquet_path_to_id_mapping
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    PrimitiveType,
    StringType,
)
from pyiceberg.utils.truncate import truncate_upper_bound_binary_string, truncate_upper_bound_text_string

from frazil.errors import SinkError

_MODE = "write.metadata.metrics.column."
_DEFAULT_MODE = "write.metadata.metrics.default"
_MOST_INFERRED = "write.metadata.metrics.max-inferred-column-defaults"


@dataclass(frozen=True)
class ColumnPlan:
    """What is recorded of a column: nothing but its size, counts too, bounds too; a width cuts text bounds."""

    field_id: int
    type: PrimitiveType
    counts: bool
    bounds: bool
    width: int | None


@dataclass
class FileStatistics:
    """The part of a manifest entry that comes from a Parquet footer; all by field id."""

    column_sizes: dict[int, int]
    value_counts: dict[int, int]
    null_counts: dict[int, int]
    lower_bounds: dict[int, bytes]
    upper_bounds: dict[int, bytes]
    split_offsets: list[int]


def plan_columns(schema: Schema, properties: Mapping[str, str], *, table: str) -> dict[str, ColumnPlan]:
    """What to record of every leaf column, by its path in the Parquet file; the modes come from the
    table's properties.
    """
    default = properties.get(_DEFAULT_MODE)
    most = int(properties.get(_MOST_INFERRED, "100"))
    plans = {}
    for number, (path, field_id) in enumerate(parquet_path_to_id_mapping(schema).items()):
        # As in Java: a table of hundreds of columns would otherwise drown its manifests in bounds that were not asked
        # for.
        inferred = default or ("truncate(16)" if number < most else "none")
        mode = properties.get(_MODE + (schema.find_column_name(field_id) or ""), inferred).lower()
        plans[path] = _plan_column(
            schema, field_id, mode, repeated=".list.element" in path or ".key_value." in path, table=table
        )
    return plans


def read_statistics(footer: pq.FileMetaData, plans: Mapping[str, ColumnPlan]) -> FileStatistics:
    """Sizes, counts and bounds of a file from its footer."""
    file_statistics = FileStatistics({}, {}, {}, {}, {}, [])
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    for number in range(footer.num_columns):
        chunks = [group.column(number) for group in groups]
        if chunks:
            _read_column(chunks, plans[chunks[0].path_in_schema], file_statistics)
    file_statistics.split_offsets = sorted(_first_offset(group) for group in groups)
    return file_statistics


def _plan_column(schema: Schema, field_id: int, mode: str, *, repeated: bool, table: str) -> ColumnPlan:
    kind = schema.find_type(field_id)
    assert isinstance(kind, PrimitiveType)
    cut = re.fullmatch(r"truncate\((\d+)\)", mode)
    if not cut and mode not in ("none", "counts", "full"):
        name = schema.find_column_name(field_id)
        raise SinkError(
            f"{table}: metrics mode of column '{name}' is '{mode}', expected none, counts, full or truncate(N)",
            table=table,
            column=name,
            option="write.metadata.metrics",
            expected="none, counts, full or truncate(N)",
            got=mode,
        )
    # A value inside a list has no place in the row's range: engines expect no bounds there.
    bounds = mode not in ("none", "counts") and not repeated
    width = int(cut[1]) if cut and isinstance(kind, StringType | BinaryType) else None
    return ColumnPlan(field_id, kind, mode != "none", bounds, width)


def _read_column(chunks: list[pq.ColumnChunkMetaData], plan: ColumnPlan, file_statistics: FileStatistics) -> None:
    file_statistics.column_sizes[plan.field_id] = sum(chunk.total_compressed_size for chunk in chunks)
    if not plan.counts:
        return
    file_statistics.value_counts[plan.field_id] = sum(chunk.num_values for chunk in chunks)
    statistics = [chunk.statistics for chunk in chunks]
    if not all(statistic is not None and statistic.has_null_count for statistic in statistics):
        return
    file_statistics.null_counts[plan.field_id] = sum(statistic.null_count for statistic in statistics)
    with_values = [statistic for statistic in statistics if statistic.num_values]
    if plan.bounds and with_values and all(value.has_min_max for value in with_values):
        lower = min(_comparable(value.min_raw, plan.type) for value in with_values)
        upper = max(_comparable(value.max_raw, plan.type) for value in with_values)
        _put_bounds(lower, upper, plan, file_statistics)


def _put_bounds(lower: Any, upper: Any, plan: ColumnPlan, file_statistics: FileStatistics) -> None:
    if plan.width is not None:
        cut_up = truncate_upper_bound_text_string if isinstance(upper, str) else truncate_upper_bound_binary_string
        lower, upper = lower[: plan.width], cut_up(upper, plan.width)
    file_statistics.lower_bounds[plan.field_id] = _single_value(lower, plan.type)
    if upper is not None:  # nothing is greater than a prefix of the greatest characters: then there is no upper bound
        file_statistics.upper_bounds[plan.field_id] = _single_value(upper, plan.type)


def _comparable(raw: Any, kind: PrimitiveType) -> Any:
    """A physical Parquet value as something that Python orders as Iceberg does."""
    if isinstance(kind, StringType):
        return raw.decode() if isinstance(raw, bytes) else raw
    if isinstance(kind, DecimalType) and isinstance(raw, bytes):
        return int.from_bytes(raw, "big", signed=True)
    return raw


def _single_value(value: Any, kind: PrimitiveType) -> bytes:
    """The value as the spec's appendix D serialises it."""
    if isinstance(kind, StringType):
        return str(value).encode()
    if isinstance(kind, DecimalType):
        return int(value).to_bytes(((value if value >= 0 else ~value).bit_length() + 8) // 8, "big", signed=True)
    if isinstance(value, bytes):
        return value
    if isinstance(kind, BooleanType):
        return b"\x01" if value else b"\x00"
    if isinstance(kind, FloatType | DoubleType):
        return struct.pack("<f" if isinstance(kind, FloatType) else "<d", value)
    return struct.pack("<i" if isinstance(kind, IntegerType | DateType) else "<q", value)


def _first_offset(group: pq.RowGroupMetaData) -> int:
    first = group.column(0)
    return int(
        min(first.dictionary_page_offset, first.data_page_offset)
        if first.has_dictionary_page
        else first.data_page_offset
    )
