"""Data files: rows wait in a bounded buffer, are split by partition, and become Parquet files with statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.write.files.buffer import MB, Buffer, BufferLimits
    from frazil.write.files.delta_values import json_bound, partition_text
    from frazil.write.files.disk import writing
    from frazil.write.files.erase import eraser
    from frazil.write.files.layout import TableLayout
    from frazil.write.files.options import avro_codec, new_metadata_file
    from frazil.write.files.ordering import SortKey, sort_rows
    from frazil.write.files.parquet import (
        FileMaker,
        RollingWriter,
        abandoning_on_error,
        check_present,
        check_written,
        delete_quietly,
        write_files,
    )
    from frazil.write.files.partitioning import (
        Key,
        canonical_value,
        column_at,
        partition_keys,
        partition_spec,
        truncated_too_far,
    )
    from frazil.write.files.schema import arrow_schema
    from frazil.write.files.splitting import Partition, internal_values, split
    from frazil.write.files.written import WrittenFile

__all__ = [
    "MB",
    "Buffer",
    "BufferLimits",
    "FileMaker",
    "Key",
    "Partition",
    "RollingWriter",
    "SortKey",
    "TableLayout",
    "WrittenFile",
    "abandoning_on_error",
    "arrow_schema",
    "avro_codec",
    "canonical_value",
    "check_present",
    "check_written",
    "column_at",
    "delete_quietly",
    "eraser",
    "internal_values",
    "json_bound",
    "new_metadata_file",
    "partition_keys",
    "partition_spec",
    "partition_text",
    "sort_rows",
    "split",
    "truncated_too_far",
    "write_files",
    "writing",
]

__getattr__ = lazy_names(__name__)
