"""What authentication and grants cost: our catalog with them on next to the same with them off, and whether the time of
a 404 or 403 tells about tables that a caller may not see. Both servers work in turns, on SQLite and on PostgreSQL; a
ratio is the median of those of neighbouring runs, not that of the two medians next to it. At most 15% slower is the
goal: a ratio of 0.87.

Each refusal is asked for in turns about an object that the caller may not see (foreign) and about a missing one. The
difference has a sign, and stands next to that of halves into which all times are divided by chance.

The caller has a role that may create, and owns what it creates, so every table has a grant.
"""

from __future__ import annotations

from benchmarks.report import Figure, Options


def run(options: Options) -> list[Figure]:
    """The figures; the servers are started and stopped inside."""
    from benchmarks.access.measure import measure_all  # psutil: not needed for --help

    return measure_all(options)
