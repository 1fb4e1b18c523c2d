"""Scan planning next to PyIceberg and Java: tables of 1,000 to a million files that are metadata alone, by day, with
bounds of 12 columns.

Every case is a process of its own that has planned a table of one file before, so that libraries are loaded. Cold is
then the first plan of the large table, warm the best of those after it. CPU counts, since wall time depends on who else
is on the machine; Java's is that of all its threads, those that compile among them.
"""

from __future__ import annotations

from benchmarks.report import Figure, Options


def run(options: Options) -> list[Figure]:
    """The figures; the tables are made and removed inside."""
    from benchmarks.planning.measure import measure_all  # pyarrow and PyIceberg: not needed for --help

    return measure_all(options)
