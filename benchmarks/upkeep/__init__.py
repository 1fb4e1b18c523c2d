"""One commit per second to one table, with upkeep by the catalog and without.

- A writer appends ten rows per second with the Python sink, on `frazil serve` with SQLite and local files, with and
  without `--upkeep`, each with a table of its own that keeps snapshots for two minutes.
- Phases of both cases alternate: what else the machine does meets both. A phase is two minutes on a server that is
  started for it, and the next one of its case goes on with the table as it was left.
- The p99 is that of a phase without its first ten commits. The ratio is the median of those of neighbouring phases: a
  noisy second decides at most one of them.
- After five phases of each case the one with upkeep goes on by itself, up to 30 minutes.
- Every few seconds a reader counts the data files and plans a scan of the whole table; caches are not used.
- `--series FILE` writes what was measured over time; `python -m benchmarks.upkeep.plot FILE SVG` draws it. With
  `--record FILE.json`, the plot is FILE/upkeep-over-time.svg. Time is that of a case: the other one's phases are no
  part of it.
- Data files and plan times are flat if the median of the last third is at most 1.25 times that of the first.
- A run writes for 30 minutes with upkeep and for 10 without; `--quick` for two minutes and one, in phases of 20
  seconds, with shorter pauses of the worker.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.report import Figure, Options


def run(options: Options) -> list[Figure]:
    """The figures of this benchmark."""
    return run_series(options, None)


def run_series(options: Options, series: Path | None) -> list[Figure]:
    """The same; what was measured over time goes to a file."""
    from benchmarks.upkeep.measure import measure_all

    return measure_all(options, series)
