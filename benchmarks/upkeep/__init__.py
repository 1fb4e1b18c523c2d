"""One commit per second to one table, with upkeep by the catalog and without.

- A writer appends ten rows per second with the Python sink, on `frazil serve` with SQLite and local files, with and
  without `--upkeep`, one after the other. The table keeps snapshots for two minutes.
- Every few seconds a reader counts the data files and plans a scan of the whole table; caches are not used.
- `--series FILE` writes what was measured over time; `python -m benchmarks.upkeep.plot FILE SVG` draws it. With
  `--record FILE.json`, the plot is FILE/upkeep-over-time.svg.
- The p99 of commits is compared over the commits that both cases have made: those of the first ten minutes.
- Data files and plan times are flat if the median of the last third is at most 1.25 times that of the first.
- A run takes 30 minutes with upkeep and 10 without; `--quick` two minutes and one, with shorter pauses of the worker.
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
