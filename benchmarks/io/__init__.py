"""Requests and bytes on S3: one commit per query next to one commit per 10,000 queries.

The rows of the transpile example go through the sink into Iceberg and Delta tables on SeaweedFS. A proxy in front of
SeaweedFS counts what the sink and the catalog send and receive there. The only difference between the two cases is the
sink's `flush_rows`. The claim is that of the document: a buffer "reduces I/O overhead by 100x".
"""

from __future__ import annotations

from benchmarks.report import Figure, Options


def run(options: Options) -> list[Figure]:
    """The figures; the store, the catalog and the tables are made and removed inside."""
    from benchmarks.io.measure import measure_all  # pyarrow and the catalog: not needed for --help

    return measure_all(options)
