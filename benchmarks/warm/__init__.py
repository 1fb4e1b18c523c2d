"""A load of 500 rows by `frazil run`, with a Spark of its own and in the one that `frazil up --with spark` keeps.

- The sales example on a local stack: object store and catalog. Each run finds one new file of 500 rows.
- Seconds are those of the whole command, as a user waits for it: from the start of Python to its end.
- The second run in the warm Spark is the one with a goal, 3 s: the first has the JVM compile what it runs.
"""

from __future__ import annotations

from benchmarks.report import Figure, Options


def run(options: Options) -> list[Figure]:
    """The figures of this benchmark."""
    from benchmarks.warm.measure import measure_all

    return measure_all(options)
