"""Numbers about a running server, in Prometheus' text format.

Each worker process counts for itself. With several workers, each writes its counts into a file of a folder that they
share, once a second, and the worker that answers /metrics adds the others' files to its own counts; so a scrape shows
the whole server, whichever worker it reaches. Files of workers that died stay, since a counter never goes down.
"""

from __future__ import annotations

import json
import os
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
WRITE_SECONDS = 1.0

Counts = dict[str, float]  # a Prometheus series, with its labels -> its value

_HELP = {
    "frazil_requests_total": ("counter", "Requests answered, by operation and status."),
    "frazil_request_seconds": ("histogram", "Time from the request's head to its answer, by operation."),
    "frazil_commits_total": (
        "counter",
        "Commits of tables and views, by how they ended: committed, conflict, refused or unknown.",
    ),
    "frazil_requests_in_flight": ("gauge", "Requests that are being answered."),
    "frazil_cache_bytes": ("gauge", "Bytes of metadata kept in memory, about."),
    "frazil_cache_lookups_total": ("counter", "Lookups of metadata in memory, by result."),
}


class Telemetry:
    """The counts of one process."""

    def __init__(self, folder: Path | None = None) -> None:
        self.in_flight = 0
        self._statuses: dict[tuple[str, int], int] = {}
        self._times: dict[str, list[float]] = {}  # per operation: a count a bucket, then the number and the sum
        self._commits: dict[str, int] = {}
        self._gauges: Callable[[], Counts] = dict
        self._file = folder / f"{os.getpid()}.json" if folder else None
        self._folder = folder
        self._stop = threading.Event()
        if folder:
            threading.Thread(target=self._write_often, daemon=True, name="frazil-telemetry").start()

    def watch(self, gauges: Callable[[], Counts]) -> None:
        """Adds values that are read when they are asked for."""
        self._gauges = gauges

    def count(self, operation: str, status: int, seconds: float, *, commits: bool) -> None:
        """Counts an answered request. Called from the event loop alone, so it needs no lock."""
        key = (operation, status)
        self._statuses[key] = self._statuses.get(key, 0) + 1
        times = self._times.get(operation)
        if times is None:
            times = self._times[operation] = [0.0] * (len(BUCKETS) + 3)
        times[bisect_left(BUCKETS, seconds)] += 1
        times[-2] += 1
        times[-1] += seconds
        if commits:
            outcome = _outcome(status)
            self._commits[outcome] = self._commits.get(outcome, 0) + 1

    def counts(self) -> Counts:
        """All series of this process."""
        numbers: Counts = {"frazil_requests_in_flight": self.in_flight, **self._gauges()}
        for (operation, status), number in list(self._statuses.items()):
            numbers[f'frazil_requests_total{{operation="{operation}",status="{status}"}}'] = number
        for outcome, number in list(self._commits.items()):
            numbers[f'frazil_commits_total{{outcome="{outcome}"}}'] = number
        for operation, times in list(self._times.items()):
            total = 0.0
            for limit, inside in zip((*BUCKETS, "+Inf"), times, strict=False):
                total += inside
                numbers[f'frazil_request_seconds_bucket{{operation="{operation}",le="{limit}"}}'] = total
            numbers[f'frazil_request_seconds_count{{operation="{operation}"}}'] = times[-2]
            numbers[f'frazil_request_seconds_sum{{operation="{operation}"}}'] = times[-1]
        return numbers

    def render(self) -> str:
        """The counts of the whole server as Prometheus reads them."""
        return render_counts(add_counts([self.counts(), *self._others()]))

    def _others(self) -> Iterable[Counts]:
        for file in self._folder.glob("*.json") if self._folder else ():
            if file != self._file:
                with suppress(OSError, ValueError):  # a worker that starts or ends right now
                    yield json.loads(file.read_text())

    def _write_often(self) -> None:
        assert self._file is not None
        while not self._stop.wait(WRITE_SECONDS):
            self._write()

    def _write(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                draft = self._file.with_suffix(".draft")
                draft.write_text(json.dumps(self.counts()))
                draft.replace(self._file)

    def close(self) -> None:
        self._stop.set()
        self.in_flight = 0
        self._gauges = dict
        self._write()


def _outcome(status: int) -> str:
    """
    >>> [_outcome(s) for s in (200, 204, 409, 400, 500, 504)]
    ['committed', 'committed', 'conflict', 'refused', 'unknown', 'unknown']
    """
    if status < 300:
        return "committed"
    return "conflict" if status == 409 else "refused" if status < 500 else "unknown"


def add_counts(parts: Iterable[Counts]) -> Counts:
    """
    >>> add_counts([{"a": 1}, {"a": 2, "b": 3}])
    {'a': 3.0, 'b': 3.0}
    """
    total: Counts = {}
    for part in parts:
        for series, number in part.items():
            total[series] = total.get(series, 0.0) + number
    return total


def render_counts(counts: Counts) -> str:
    lines: list[str] = []
    for name, (kind, text) in _HELP.items():
        series = [s for s in counts if s.partition("{")[0] in (name, f"{name}_bucket", f"{name}_count", f"{name}_sum")]
        if series:
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            lines += [f"{s} {counts[s]:.17g}" for s in series]
    return "\n".join(lines) + "\n"
