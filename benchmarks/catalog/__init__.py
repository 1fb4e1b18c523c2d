"""Our catalog server next to the Java reference: creates, loads, appends, transactions and lists at 1, 8 and 32
clients.

Both serve SQLite and local files on the same disk, in the same run, in turns. Durability: both commit to SQLite with
`synchronous=FULL` (the reference with its driver's defaults: rollback journal, FULL; ours in WAL mode, FULL), so that
an acknowledged commit's pointer is on disk. Ours also syncs the metadata file before the pointer moves; the reference
does not (Hadoop's local file system closes without fsync).
"""

from __future__ import annotations

from benchmarks.report import Figure, Options


def run(options: Options) -> list[Figure]:
    """The figures; the servers are started and stopped inside."""
    from benchmarks.catalog.measure import measure_all  # psutil, pyspark: not needed for --help

    return measure_all(options)
