"""Sales rows from CSV through a pipeline with its contract, next to plain Spark that appends the same files to Iceberg
with no checks.

- 10 million rows in 30 files, a day each; one row in a hundred is bad. Both write the same partitioned table with
  Snappy.
- Each case runs in a process of its own, in turns. CPU seconds are those of driver, JVM and all Python workers, from
  the moment that the Spark session is there; memory is the highest sum of their own pages.
- Duplicates are measured apart, next to Spark's `dropDuplicates`; and the same rows in many files, for memory.
"""

from __future__ import annotations

from benchmarks.report import Figure, Options


def run(options: Options) -> list[Figure]:
    """The figures of this benchmark."""
    from benchmarks.batch.measure import measure_all

    return measure_all(options)
