"""The console in a real Chromium, on a `frazil serve` of its own: how soon a page of many tables is there, and how the
graph of many snapshots keeps up with a person.

- 5,000 tables, SQLite and local files. Each opening is in a browser without a cache: the first contentful paint as the
  browser reports it, and the time until the first row is in the page, from the start of the navigation.
- Cold is the first opening after a start of the server, which has then read no metadata file; warm is a later one. The
  figures are medians of several openings, and the largest one. A second is the goal for each of these.
- 10,000 snapshots with branches: the longest task of the page's main thread while the graph is opened, scrolled from
  end to end, while snapshots are chosen, and while two are compared. 50 ms is the goal: longer ones drop frames. It is
  time of the processor, from the browser's trace: what else the machine does is no part of it.
- The peer is the limit in each case: a ratio below 1 misses it. `--quick` has 500 tables and 1,000 snapshots.

The Chromium is the one on PATH, else one that is fetched once, as in the tests.
"""

from __future__ import annotations

from benchmarks.report import Figure, Options


def run(options: Options) -> list[Figure]:
    """The figures; the servers and the browser are started and stopped inside."""
    from benchmarks.console.measure import measure_all  # Playwright: not needed for --help

    return measure_all(options)
