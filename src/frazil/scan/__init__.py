"""Reads: rows of a point in a table's past as an Arrow stream, and SQL on DuckDB."""
