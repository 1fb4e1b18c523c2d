"""Numbers about a running server, in Prometheus' text format.

Each worker process counts for itself. With several workers, each writes its counts into a file of a folder that they
share, once a second, and the worker that answers /metrics adds the others' files to its own counts; so a scrape shows
the whole server, whichever worker it reaches. The counters of workers that died stay, since a counter never goes down.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from frazil import metrics
from frazil.metrics import Counts, Metric, add_counts, render_counts, series
from frazil.processes import start_time

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
WRITE_SECONDS = 1.0

METRICS = {
    "frazil_requests_total": Metric("counter", "Requests answered, by operation and status.", ("operation", "status")),
    "frazil_request_seconds": Metric(
        "histogram", "Time from the request's head to its answer, by operation.", ("operation",)
    ),
    "frazil_commits_total": Metric(
        "counter", "Commits of tables and views, by outcome: committed, conflict, refused or unknown.", ("outcome",)
    ),
    "frazil_rebases_total": Metric(
        "counter",
        "Appends whose branch had moved, by outcome: rebased and committed, or refused (a conflict).",
        ("outcome",),
    ),
    "frazil_commit_groups_total": Metric("counter", "Groups of appends to one table that were committed together."),
    "frazil_grouped_commits_total": Metric("counter", "Appends that were committed in such groups."),
    "frazil_requests_in_flight": Metric("gauge", "Requests that are being answered."),
    "frazil_cache_bytes": Metric("gauge", "Bytes of metadata kept in memory, about."),
    "frazil_cache_lookups_total": Metric("counter", "Lookups of metadata in memory, by result.", ("result",)),
    "frazil_database_connections": Metric(
        "gauge", "Connections to the database: in_use and idle of PostgreSQL, open of SQLite.", ("state",)
    ),
    "frazil_database_waits_total": Metric("counter", "Requests that had to wait for a connection, or to write."),
    "frazil_database_wait_seconds_total": Metric("counter", "How long they waited for a connection."),
    "frazil_purges_queued": Metric("gauge", "Dropped tables whose files are still to be deleted."),
    "frazil_purges_total": Metric(
        "counter", "Purges of dropped tables, by outcome: done, left (files may be needed), failed.", ("outcome",)
    ),
    "frazil_purged_files_total": Metric("counter", "Files that purges have deleted."),
    "process_cpu_seconds_total": Metric("counter", "CPU time of a worker process.", ("pid",)),
    "process_resident_memory_bytes": Metric("gauge", "Memory of a worker process.", ("pid",)),
    "process_open_fds": Metric("gauge", "Open file descriptors of a worker process.", ("pid",)),
    "process_max_fds": Metric("gauge", "How many file descriptors a worker process may open.", ("pid",)),
    "process_start_time_seconds": Metric("gauge", "When a worker process started, in seconds since 1970.", ("pid",)),
    "frazil_build_info": Metric(
        "gauge",
        "1, with the versions of Frazil and Python and the kind of database.",
        ("version", "python", "database"),
    ),
}
# of the process that maintains tables, which puts its counts next to those of the workers
UPKEEP_METRICS = {name: metric for name, metric in metrics.METRICS.items() if name.startswith("frazil_upkeep_")}
KNOWN = {**METRICS, **UPKEEP_METRICS}
OF_TABLES = frozenset(name for name, metric in KNOWN.items() if "table" in metric.labels)


class Purges:
    """How many dropped tables wait for the deletion of their files, and how it ended for the others."""

    def __init__(self) -> None:
        self._queued, self._files = 0, 0
        self._outcomes: dict[str, int] = {}
        self._lock = threading.Lock()

    def queued(self) -> None:
        with self._lock:
            self._queued += 1

    def ended(self, outcome: str, files: int) -> None:
        with self._lock:
            self._queued -= 1
            self._files += files
            self._outcomes[outcome] = self._outcomes.get(outcome, 0) + 1

    def gauges(self) -> Counts:
        """What the metrics show of it."""
        with self._lock:
            counts = {series("frazil_purges_total", {"outcome": name}): n for name, n in self._outcomes.items()}
            return {"frazil_purges_queued": self._queued, "frazil_purged_files_total": self._files, **counts}


class Telemetry:
    """The counts of one process."""

    def __init__(self, folder: Path | None = None) -> None:
        self.in_flight = 0
        self._statuses: dict[tuple[str, int], int] = {}
        self._times: dict[str, list[float]] = {}  # per operation: a count a bucket, then the number and the sum
        self._commits: dict[str, int] = {}
        self._watched: list[Callable[[], Counts]] = []
        self.build = ""  # the series of `build_info`
        self.purges = Purges()
        self._file = folder / f"{os.getpid()}.json" if folder else None
        self._folder = folder
        self._stop = threading.Event()
        if folder:
            threading.Thread(target=self._write_often, daemon=True, name="frazil-telemetry").start()

    def watch(self, gauges: Callable[[], Counts]) -> None:
        """Adds values that are read when they are asked for."""
        self._watched.append(gauges)

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
        numbers: Counts = {"frazil_requests_in_flight": self.in_flight, **self.purges.gauges()}
        for gauges in self._watched:
            numbers |= gauges()
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

    def render(self, *, tables: bool = True) -> str:
        """The counts of the whole server as Prometheus reads them; without `tables`, none that names a table."""
        counts = add_counts([self.counts(), *self._others()])
        if not tables:
            counts = {key: value for key, value in counts.items() if key.partition("{")[0] not in OF_TABLES}
        return render_counts(counts | ({self.build: 1.0} if self.build else {}), KNOWN)

    def _others(self) -> Iterable[Counts]:
        for file in self._folder.glob("*.json") if self._folder else ():
            if file != self._file:
                with suppress(OSError, ValueError):  # a worker that starts or ends right now
                    counts: Counts = json.loads(file.read_text())
                    yield counts if start_time(int(file.stem)) else _lasting(counts)

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
        self._watched = []
        self._write()


def _lasting(counts: Counts) -> Counts:
    """What still counts of a worker that has ended: its counters, not what it held.

    >>> _lasting({"frazil_purged_files_total": 2, "frazil_cache_bytes": 7, 'process_open_fds{pid="1"}': 9})
    {'frazil_purged_files_total': 2}
    """
    gone = {name for name, metric in KNOWN.items() if metric.kind == "gauge" or name.startswith("process_")}
    return {key: value for key, value in counts.items() if key.partition("{")[0] not in gone}


def _outcome(status: int) -> str:
    """
    >>> [_outcome(s) for s in (200, 204, 409, 400, 500, 504)]
    ['committed', 'committed', 'conflict', 'refused', 'unknown', 'unknown']
    """
    if status < 300:
        return "committed"
    return "conflict" if status == 409 else "refused" if status < 500 else "unknown"


def build_info(version: str, database: str) -> str:
    """The series that says what runs; its value is 1."""
    facts = {"version": version, "python": platform.python_version(), "database": database}
    return series("frazil_build_info", facts)


def process_counts() -> Counts:
    """CPU, memory and file descriptors of this process; what the system does not tell is left out."""
    labels = {"pid": str(os.getpid())}
    usage = resource.getrusage(resource.RUSAGE_SELF)
    counts = {
        "process_cpu_seconds_total": usage.ru_utime + usage.ru_stime,
        "process_resident_memory_bytes": _resident_bytes(usage.ru_maxrss),
        "process_max_fds": float(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        "process_start_time_seconds": _STARTED,
    }
    with suppress(OSError):
        folder = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
        counts["process_open_fds"] = float(len(os.listdir(folder)))  # noqa: PTH208  # called at every scrape
    return {series(name, labels): value for name, value in counts.items()}


_STARTED = time.time()  # this module is loaded when the process starts


def _resident_bytes(peak: int) -> float:
    """The memory now; where the system tells only the peak, that."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return float(peak if sys.platform == "darwin" else peak * 1024)
    return float(pages * resource.getpagesize())
