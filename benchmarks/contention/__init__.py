"""Writers that append to one table at the same time, 1, 8 and 32 of them: our catalog with append rebase, without it,
and the Java reference.

All commit to SQLite and local files on the same disk, in the same run, in turns. With rebase every writer sends fast
appends that were prepared before on one head, with real manifests and manifest lists, and every one must come in: such
a writer never loads the table. Without, and on the reference, a writer loads the table after each conflict and tries
again, and those loads are part of its rate; it need not write a manifest list for each attempt, as a real client would.

Real PyIceberg writers keep both cores busy themselves, so they show no rate: 8 and 32 of them, with their retries off,
show what part of their appends succeeds. With rebase it must be all, and the ids in the table those that they wrote.
"""

from __future__ import annotations

from benchmarks.report import Figure, Options


def run(options: Options) -> list[Figure]:
    """The figures; the servers are started and stopped inside."""
    from benchmarks.contention.measure import measure_all  # psutil, pyspark: not needed for --help

    return measure_all(options)
