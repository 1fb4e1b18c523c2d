"""Reading rows: ours next to PyIceberg, Daft and DuckDB on the same table, and next to raw pyarrow on the same files,
which is the limit.
"""

from __future__ import annotations

from benchmarks.report import Figure, Options


def run(options: Options) -> list[Figure]:
    """The figures; the table is made and removed inside."""
    from benchmarks.read.measure import measure_all  # pyarrow and PyIceberg: not needed for --help

    return measure_all(options)
