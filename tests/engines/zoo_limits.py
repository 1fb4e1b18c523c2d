"""What engines cannot do with the zoo, and why: the only reasons for which test_engine_matrix.py takes another answer
than the right one.

A line that has become untrue fails the test, so that the list stays honest. `make docs` makes the page
docs/engine-matrix.md of it.
"""

from __future__ import annotations

from dataclasses import dataclass

MIXED = ("every kind of delete together", "every kind of delete, filtered", "every kind of delete, counted")
EQUALITY = ("equality deletes", "equality deletes, without their column", "equality deletes, counted", *MIXED)
VECTORS = ("deletion vectors", "deletion vectors, counted")
DEFAULTS = ("a default for old rows", "filter on a default")
NAN = ("NaN is above no number",)


@dataclass(frozen=True)
class Limit:
    """Questions that an engine refuses (its error says `says`) or, without `says`, answers with other rows."""

    engine: str
    queries: tuple[str, ...]
    reason: str
    says: str | None = None
    instead: str = (
        "read it with `lake.table(...).scan(...)`, in the same library: `.to_polars()`, `.to_daft()`, `.to_duckdb()`"
    )


_NAN_ORDER = (
    "orders NaN above all numbers, as PostgreSQL does; Iceberg's bounds, Trino, PyArrow and our scans leave "
    "NaN out of comparisons"
)
_NOT_NAN = "add `AND NOT isnan(d)`"
_FORMAT_2 = "keep tables that Trino reads at format 2"
_PYTHON = "read it in Python: `lake.table(...).scan(...)`"
LIMITS = [
    Limit("pyiceberg", EQUALITY, "PyIceberg 0.12 reads no equality deletes", "does not yet support equality deletes"),
    Limit(
        "polars",
        EQUALITY,
        "Polars 2.1 plans with PyIceberg, which reads no equality deletes",
        "does not yet support equality deletes",
    ),
    Limit(
        "daft",
        EQUALITY,
        "Daft 0.7 plans with PyIceberg, which reads no equality deletes",
        "does not yet support equality deletes",
    ),
    Limit(
        "daft", VECTORS, "Daft 0.7 takes the Puffin file of a deletion vector for Parquet", "not a valid parquet file"
    ),
    Limit("daft", DEFAULTS, "**wrong rows:** Daft 0.7 reads null where the column has a default for older rows"),
    Limit("trino", VECTORS, "Trino 476 reads no deletion vectors", "Unexpected PUFFIN file format", _FORMAT_2),
    # Which of its splits fails first is a matter of chance, and so are its words.
    Limit("trino", MIXED, "Trino 476 reads no deletion vectors", "name=ICEBERG_", _FORMAT_2),
    Limit(
        "trino",
        DEFAULTS,
        "**wrong rows:** Trino 476 reads null where the column has a default for older rows",
        None,
        _FORMAT_2,
    ),
    Limit(
        "spark",
        ("time of day",),
        "Spark 4.1 with Iceberg 1.12 has no time of day",
        "does not support time fields",
        _PYTHON,
    ),
    Limit(
        "spark",
        ("nanoseconds",),
        "Spark 4.1 has no times in nanoseconds",
        "Cannot convert unsupported type to Spark: timestamp_ns",
        _PYTHON,
    ),
    Limit(
        "trino",
        ("nanoseconds",),
        "Trino 476 has no nanoseconds of Iceberg",
        "Cannot convert from Iceberg type 'timestamp_ns'",
        _FORMAT_2,
    ),
    Limit(
        "polars",
        ("a value of a map",),
        "Polars 2.1 has maps, and no lookup of a key in its SQL",
        "expected List data type",
        "whole maps are read; look the key up in Python",
    ),
    Limit("duckdb", NAN, _NAN_ORDER, None, _NOT_NAN),
    Limit("polars", NAN, _NAN_ORDER, None, _NOT_NAN),
    Limit("daft", NAN, _NAN_ORDER, None, _NOT_NAN),
    Limit("spark", NAN, _NAN_ORDER, None, _NOT_NAN),
]


def limit_of(engine: str, query: str) -> Limit | None:
    """Why an engine's answer to a question is not the right one; None if it has to be."""
    return next((limit for limit in LIMITS if limit.engine == engine and query in limit.queries), None)
