"""The Arrow sink next to raw Parquet, PyIceberg, deltalake, Daft and the way over pandas: uplink rows in random order
of time.

Every case is a process of its own that reads the same memory-mapped Arrow file; CPU seconds and peak memory count (the
program's own memory, without the mapped input), wall time is reported. The catalog runs in another process, and so does
SeaweedFS, where there is one.
"""

from __future__ import annotations

from benchmarks.report import Figure, Options


def run(options: Options) -> list[Figure]:
    """The figures; input, catalog and tables are made and removed inside."""
    from benchmarks.sink.measure import measure_all  # pyarrow and the catalog: not needed for --help

    return measure_all(options)
