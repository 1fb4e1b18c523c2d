"""Metrics of the write path, pipelines, upkeep and client: counters, gauges and histograms for your own monitoring.

    import frazil.metrics

    metrics = frazil.metrics.Prometheus()
    frazil.metrics.use(metrics)
    ...
    print(metrics.render())  # Prometheus' text format

By default nothing is recorded. Anything with the three calls of `Metrics` can take the place of `Prometheus`, such as
an adapter to StatsD or OpenTelemetry. `METRICS` lists every name; docs/metrics.md explains them.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol
from urllib.parse import urlsplit

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Counts = dict[str, float]  # a Prometheus series, with its labels -> its value


@dataclass(frozen=True)
class Metric:
    """A metric by its kind, its meaning and its labels."""

    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()


METRICS: Mapping[str, Metric] = {
    "frazil_write_commits_total": Metric(
        "counter",
        "Commits of sinks and pipelines, by outcome: committed, repeated (an earlier attempt was in), fenced, failed.",
        ("table", "outcome"),
    ),
    "frazil_write_retries_total": Metric(
        "counter", "Attempts that are tried again, by reason: conflict, unknown, unavailable.", ("table", "reason")
    ),
    "frazil_write_takeovers_total": Metric("counter", "Takeovers of a part by a new writer.", ("table",)),
    "frazil_write_rows_total": Metric("counter", "Rows in committed data files.", ("table",)),
    "frazil_write_files_total": Metric("counter", "Committed data files.", ("table",)),
    "frazil_write_bytes_total": Metric("counter", "Bytes of committed files.", ("table",)),
    "frazil_write_commit_seconds": Metric(
        "histogram", "Time from the first attempt of a commit to its success, retries included.", ("table",)
    ),
    "frazil_client_commits_total": Metric(
        "counter",
        "Commit requests to the REST catalog, by outcome: committed, conflict, unknown, failed.",
        ("outcome",),
    ),
    "frazil_client_repeats_total": Metric(
        "counter", "Requests to the REST catalog that are sent again, because no reply came.", ()
    ),
    "frazil_pipeline_runs_total": Metric(
        "counter", "Runs of batch pipelines, by outcome: committed, unchanged, failed.", ("pipeline", "outcome")
    ),
    "frazil_pipeline_run_seconds": Metric("histogram", "Duration of runs of batch pipelines.", ("pipeline",)),
    "frazil_pipeline_batches_total": Metric("counter", "Committed micro-batches of streams.", ("pipeline",)),
    "frazil_pipeline_rows_total": Metric(
        "counter", "Rows of pipelines, by outcome: written, quarantined.", ("pipeline", "outcome")
    ),
    "frazil_upkeep_steps_total": Metric(
        "counter", "Steps of upkeep, by outcome: done, problems, failed.", ("table", "step", "outcome")
    ),
    "frazil_upkeep_seconds": Metric("histogram", "Duration of steps of upkeep.", ("step",)),
    "frazil_upkeep_runs_total": Metric(
        "counter",
        "Runs of upkeep by the catalog, one per table and turn, by outcome: done, nothing, yielded, stopped, failed.",
        ("outcome",),
    ),
    "frazil_upkeep_run_seconds": Metric("histogram", "Duration of these runs, pauses included.", ()),
    "frazil_upkeep_rewritten_files_total": Metric("counter", "Data files that these runs have rewritten.", ()),
    "frazil_upkeep_rewritten_bytes_total": Metric("counter", "Bytes of rewritten data files.", ()),
    "frazil_upkeep_removed_files_total": Metric("counter", "Files that these runs have removed.", ()),
    "frazil_upkeep_removed_bytes_total": Metric("counter", "Bytes of removed files.", ()),
    "frazil_upkeep_debt": Metric(
        "gauge", "Debt score of a table for which a run is due: 1 or more, below 1 after the run.", ("table",)
    ),
    "frazil_upkeep_leases_lost_total": Metric("counter", "Leases that expired while their worker was at work.", ()),
}


class Metrics(Protocol):
    """Where numbers go. Names and labels are those of `METRICS`; the calls may come from several threads."""

    def count(self, name: str, value: float = 1, **labels: str) -> None:
        """Adds to a counter."""

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Sets a gauge."""

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Adds a value to a histogram."""


class NoMetrics:
    """Records nothing: the default."""

    def count(self, name: str, value: float = 1, **labels: str) -> None:
        """Does nothing."""

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Does nothing."""

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Does nothing."""


class Prometheus:
    """Keeps the numbers of this process, and renders them as Prometheus reads them.

    >>> metrics = Prometheus()
    >>> metrics.count("frazil_write_rows_total", 1200, table="lake.orders")
    >>> print(metrics.render(), end="")
    # HELP frazil_write_rows_total Rows in committed data files.
    # TYPE frazil_write_rows_total counter
    frazil_write_rows_total{table="lake.orders"} 1200
    """

    def __init__(self, known: Mapping[str, Metric] = METRICS, *, buckets: tuple[float, ...] = BUCKETS) -> None:
        self._known, self._buckets = known, buckets
        self._values: Counts = {}
        self._histograms: dict[tuple[str, tuple[tuple[str, str], ...]], Histogram] = {}
        self._lock = threading.Lock()

    def count(self, name: str, value: float = 1, **labels: str) -> None:
        """Adds to a counter."""
        key = series(name, labels)
        with self._lock:
            self._values[key] = self._values.get(key, 0.0) + value

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Sets a gauge."""
        with self._lock:
            self._values[series(name, labels)] = value

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Adds a value to a histogram."""
        key = (name, tuple(labels.items()))
        with self._lock:
            histogram = self._histograms.get(key)
            if histogram is None:
                histogram = self._histograms[key] = Histogram(self._buckets)
            histogram.add(value)

    def counts(self) -> Counts:
        """Every series with its value."""
        with self._lock:
            counts = dict(self._values)
            for (name, labels), histogram in self._histograms.items():
                counts |= histogram.counts(name, dict(labels))
        return counts

    def render(self) -> str:
        """Prometheus' text format."""
        return render_counts(self.counts(), self._known)


class Histogram:
    """Values counted by bucket."""

    __slots__ = ("_buckets", "_inside", "_sum")

    def __init__(self, buckets: tuple[float, ...] = BUCKETS) -> None:
        self._buckets, self._inside, self._sum = buckets, [0] * (len(buckets) + 1), 0.0

    def add(self, value: float) -> None:
        self._inside[bisect_left(self._buckets, value)] += 1
        self._sum += value

    def counts(self, name: str, labels: Mapping[str, str]) -> Counts:
        """Its series: cumulative buckets, count and sum.

        >>> histogram = Histogram((0.1, 1.0))
        >>> histogram.add(0.5)
        >>> for key, value in histogram.counts("h", {"t": "a"}).items(): print(key, value)
        h_bucket{t="a",le="0.1"} 0.0
        h_bucket{t="a",le="1.0"} 1.0
        h_bucket{t="a",le="+Inf"} 1.0
        h_count{t="a"} 1.0
        h_sum{t="a"} 0.5
        """
        counts, total = {}, 0.0
        for limit, inside in zip((*map(str, self._buckets), "+Inf"), self._inside, strict=True):
            total += inside
            counts[series(f"{name}_bucket", {**labels, "le": limit})] = total
        return {**counts, series(f"{name}_count", labels): total, series(f"{name}_sum", labels): self._sum}


def series(name: str, labels: Mapping[str, str]) -> str:
    r"""A name with its labels, as Prometheus spells it.

    >>> series("a", {}), series("a", {"table": 'l."t"\n'})
    ('a', 'a{table="l.\\"t\\"\\n"}')
    """
    if not labels:
        return name
    pairs = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
    return f"{name}{{{pairs}}}"


def _escaped(value: str) -> str:
    return str(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def add_counts(parts: Iterable[Counts]) -> Counts:
    """
    >>> add_counts([{"a": 1}, {"a": 2, "b": 3}])
    {'a': 3.0, 'b': 3.0}
    """
    total: Counts = {}
    for part in parts:
        for name, number in part.items():
            total[name] = total.get(name, 0.0) + number
    return total


def render_counts(counts: Counts, known: Mapping[str, Metric]) -> str:
    """Prometheus' text format of the known metrics that have a value."""
    by_name: dict[str, list[str]] = {}
    for key in counts:
        by_name.setdefault(_metric_of(key.partition("{")[0], known), []).append(key)
    lines: list[str] = []
    for name, metric in known.items():
        if name in by_name:
            lines += [f"# HELP {name} {metric.help}", f"# TYPE {name} {metric.kind}"]
            lines += [f"{key} {counts[key]:.17g}" for key in by_name[name]]
    return "".join(f"{line}\n" for line in lines)


def _metric_of(name: str, known: Mapping[str, Metric]) -> str:
    for suffix in ("_bucket", "_count", "_sum"):
        if (stem := name.removesuffix(suffix)) in known and known[stem].kind == "histogram":
            return stem
    return name


def is_loopback_host(text: str) -> bool:
    """Whether a Host header names this machine by a loopback address, or is absent, as no browser leaves it.

    >>> [is_loopback_host(text) for text in ("127.0.0.1:1", "localhost", "[::1]:1", "", "pages.example:1", "[", ":1")]
    [True, True, True, True, False, False, False]
    """
    try:
        return not text or urlsplit(f"//{text}").hostname in ("localhost", "127.0.0.1", "::1")
    except ValueError:
        return False


@contextmanager
def serving_pages(pages: Mapping[str, tuple[Callable[[], str], str]], port: int) -> Iterator[int]:
    """Answers GET on loopback until the block ends: for each path, what gives the body, and its content type. Gives
    the port, which 0 leaves to the system. A web page that points a name of its own here (DNS rebinding) gets nothing.
    """
    import http.server

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not is_loopback_host(self.headers.get("Host", "")):
                self.send_error(403)
                return
            if self.path not in pages:
                self.send_error(404)
                return
            answer, kind = pages[self.path]
            body = answer().encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing: the screen belongs to the command."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True, name="frazil-metrics")
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


_current: Metrics = NoMetrics()


def use(metrics: Metrics | None) -> Metrics:
    """Sends the numbers of this process to `metrics` from now on; None turns them off. Gives what was used before."""
    global _current  # one process, one place for its numbers: as with logging's root
    before, _current = _current, NoMetrics() if metrics is None else metrics
    return before


def current() -> Metrics:
    """Where numbers go now."""
    return _current
