"""Uplink messages from Kafka into Iceberg by day: a stream with contract, quarantine and progress, next to plain
Structured Streaming.

- 2 million messages of 230 bytes in a topic of two partitions; ours with one in a hundred that cannot be read, as the
  plain one. Both read all that is there (AvailableNow) in batches of the same size, and write the same partitioned
  table with zstd.
- Plain Spark decodes with `from_json`, appends with Iceberg's own streaming sink, and checks nothing: what cannot be
  read is NULL.
- Each case runs in a process of its own, in turns. CPU seconds are those of driver, JVM and all Python workers, from
  the moment that the Spark session is there.
"""

from __future__ import annotations

from benchmarks.report import Figure, Options


def run(options: Options) -> list[Figure]:
    """The figures of this benchmark."""
    from benchmarks.stream.measure import measure_all

    return measure_all(options)
