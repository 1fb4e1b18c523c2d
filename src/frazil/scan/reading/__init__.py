"""The rows of data files: deletes applied, columns mapped by field id, filters evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.scan.reading.batches import BatchReader, find_fields, identity_values
    from frazil.scan.reading.datafile import FileReader
    from frazil.scan.reading.extras import EXTRAS, ROW_ID, UPDATED, Extras
    from frazil.scan.reading.nearest import NearestRequest, NearestRows, Searchable
    from frazil.scan.reading.openfile import OpenFile, Rows
    from frazil.scan.reading.positions import VECTOR_MAGIC, Positions, kept_rows
    from frazil.scan.reading.project import Misfit, file_columns
    from frazil.scan.reading.read import (
        differing_files,
        file_identity,
        plan_snapshot,
        read_each_file,
        read_tasks,
        scan_rows,
    )
    from frazil.scan.reading.read_plan import ReadPlan
    from frazil.scan.reading.removals import Removals
    from frazil.scan.reading.rowgroups import RowGroup
    from frazil.scan.reading.rows import RowScan, as_filter
    from frazil.scan.reading.values import arrow_schema, storage_type

__all__ = [
    "EXTRAS",
    "ROW_ID",
    "UPDATED",
    "VECTOR_MAGIC",
    "BatchReader",
    "Extras",
    "FileReader",
    "Misfit",
    "NearestRequest",
    "NearestRows",
    "OpenFile",
    "Positions",
    "ReadPlan",
    "Removals",
    "RowGroup",
    "RowScan",
    "Rows",
    "Searchable",
    "arrow_schema",
    "as_filter",
    "differing_files",
    "file_columns",
    "file_identity",
    "find_fields",
    "identity_values",
    "kept_rows",
    "plan_snapshot",
    "read_each_file",
    "read_tasks",
    "scan_rows",
    "storage_type",
]

__getattr__ = lazy_names(__name__)
