"""Changes by key: on Spark next to a plain MERGE INTO with the same conditions, in Python next to PyIceberg's upsert.

- 1 million changes into 10 million rows, copy-on-write and merge-on-read; of the changes, scattered over all files, a
  tenth are new rows and a twentieth deletes. Ours checks the contract, keeps the last change of a key, and commits with
  progress; the plain MERGE does not.
- 100,000 changes into 1 million rows in plain Python, without deletes, for PyIceberg has none: merge-on-read (formats 2
  and 3) and copy-on-write. With a key of one column; and fewer of them with a key of two, where PyIceberg compares
  every row of the table with every change.
- As many changes, scattered over ten times the rows, merge-on-read: memory must stay what it is.
- In plain Python a process makes the same commit twice, on two tables, and the second is measured: at the first, the
  allocator, Arrow's threads and the caches of both libraries are cold. The first has a figure of its own, with
  the same goal: a command that makes one commit and ends has no second.
- Each case runs in a process of its own, on a table of its own, in turns. CPU seconds are those of driver, JVM and all
  Python workers, from the moment that the Spark session is there. All writers must come to the same rows.
"""

from __future__ import annotations

from benchmarks.report import Figure, Options


def run(options: Options) -> list[Figure]:
    """The figures of this benchmark."""
    from benchmarks.upsert.measure import measure_all

    return measure_all(options)
