"""Scans in other libraries: pandas, Polars, DuckDB, Daft and Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.scan.engines.duck import connect_closed, first_line, import_duckdb, literal, s3_address
    from frazil.scan.engines.engine_plans import ScannedTable, explain_engine
    from frazil.scan.engines.frames import (
        as_pandas,
        as_polars,
        to_daft,
        to_duckdb,
        to_pandas,
        to_polars,
        without_extensions,
    )
    from frazil.scan.engines.nearest import NearestDataset
    from frazil.scan.engines.pushdown import ScanDataset
    from frazil.scan.engines.spark import active_session, files_to_spark, run_sql, to_spark
    from frazil.scan.engines.two_versions import AFTER, BEFORE, changed_rows, quoted, repeated_key, row_pairs

__all__ = [
    "AFTER",
    "BEFORE",
    "NearestDataset",
    "ScanDataset",
    "ScannedTable",
    "active_session",
    "as_pandas",
    "as_polars",
    "changed_rows",
    "connect_closed",
    "explain_engine",
    "files_to_spark",
    "first_line",
    "import_duckdb",
    "literal",
    "quoted",
    "repeated_key",
    "row_pairs",
    "run_sql",
    "s3_address",
    "to_daft",
    "to_duckdb",
    "to_pandas",
    "to_polars",
    "to_spark",
    "without_extensions",
]

__getattr__ = lazy_names(__name__)
