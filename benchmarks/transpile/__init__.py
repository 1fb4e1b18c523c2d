"""The transpile example next to bare sqlglot in a loop: queries per second on one core and on two, plain Python and
Spark; the sink's cost.

Every case is a process that is started and warmed up before anything is measured, and then takes its turn on the same
files of queries, round after round: what disturbs the machine disturbs all of them. The sink's cost is measured closer
still, see `case.Cost`. CPU seconds are those of all processes of a case; the catalog's are not in them, for it is a
server of its own.
"""

from __future__ import annotations

from benchmarks.report import Figure, Options


def run(options: Options) -> list[Figure]:
    """The figures; queries, catalogs and tables are made and removed inside."""
    from benchmarks.transpile.measure import measure_all  # pyarrow and the catalog: not needed for --help

    return measure_all(options)
