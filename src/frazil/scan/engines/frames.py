"""A scan's rows in other libraries of this process: pandas, Polars, DuckDB, Daft."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.errors import MissingExtra
from frazil.scan.reading import storage_type

if TYPE_CHECKING:
    import daft
    import duckdb
    import pandas  # type: ignore[import-untyped]
    import polars

    from frazil.scan.reading import RowScan


def to_pandas(scan: RowScan) -> pandas.DataFrame:
    """The rows as a pandas frame."""
    return as_pandas(scan.to_arrow())


def as_pandas(rows: pa.Table) -> pandas.DataFrame:
    """An Arrow table as a pandas DataFrame."""
    try:
        import pandas  # noqa: F401  # Arrow needs it
    except ImportError as exc:
        raise MissingExtra("pandas", extra="pandas") from exc
    return rows.to_pandas()


def to_polars(scan: RowScan) -> polars.DataFrame:
    """The rows as a Polars frame; UUIDs as their bytes."""
    return as_polars(scan.to_arrow())


def as_polars(rows: pa.Table) -> polars.DataFrame:
    """An Arrow table as a Polars DataFrame; UUIDs as their bytes."""
    try:
        import polars
    except ImportError as exc:
        raise MissingExtra("polars", extra="polars") from exc
    frame = polars.from_arrow(without_extensions(rows))
    assert isinstance(frame, polars.DataFrame)
    return frame


def to_duckdb(scan: RowScan, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
    """The rows as a relation. What it is asked for (columns, filters) is asked of the scan."""
    from frazil.scan.engines.duck import import_duckdb
    from frazil.scan.engines.pushdown import ScanDataset

    con = import_duckdb().connect() if connection is None else connection
    return con.from_arrow(ScanDataset.of(scan))


def to_daft(scan: RowScan) -> daft.DataFrame:
    """The rows as a Daft frame."""
    try:
        import daft
    except ImportError as exc:
        raise MissingExtra("daft", extra="daft") from exc
    return daft.from_arrow(without_extensions(scan.to_arrow()))


def without_extensions(table: pa.Table) -> pa.Table:
    """The table with the values below extension types such as UUID, which not every library knows."""
    for at, field in enumerate(table.schema):
        if isinstance(field.type, pa.BaseExtensionType):
            plain = pa.chunked_array([chunk.storage for chunk in table.column(at).chunks], storage_type(field.type))
            table = table.set_column(at, field.with_type(plain.type), plain)
    return table
