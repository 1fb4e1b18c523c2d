"""Writes once per second with and without upkeep, samples files and plan times, and makes figures of both."""

from __future__ import annotations

import json
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pyarrow as pa

import frazil.sinks
from benchmarks.report import Figure, Options, compare
from benchmarks.upkeep.plot import draw
from benchmarks.upkeep.polling import poll_ms
from frazil import Table, Upkeep, column, connect
from frazil.client import FrazilCatalog
from tools.own_server import own_server

NAME = "lake.stream"
PLOT = "upkeep-over-time.svg"
ROWS = 10  # of a commit
KEEP_DAYS = 120 / 86_400  # snapshots of the last two minutes
WITHIN = round(1 / 1.1, 3)  # of the p99 without upkeep, as a part of that with: 10% more at most
FLAT = round(1 / 1.25, 3)  # of the last third to the first: flat is at most 1.25 times as much


@dataclass(frozen=True)
class Size:
    """How many seconds are written with upkeep and without, how often is sampled, and how the worker is set."""

    seconds: int
    without_seconds: int
    sample_seconds: float
    tables: int  # that the worker's query has to compare
    settings: dict[str, str] = field(default_factory=dict)


FULL = Size(1800, 600, 10.0, 100_000)
QUICK = Size(120, 60, 3.0, 10_000, {"POLL_SECONDS": "3", "TABLE_SECONDS": "10", "QUIET_SECONDS": "5"})


@dataclass
class Series:
    """What was measured over time: seconds since the start, and the value."""

    commits: list[tuple[float, float]] = field(default_factory=list)  # seconds that each took
    files: list[tuple[float, int]] = field(default_factory=list)
    snapshots: list[tuple[float, int]] = field(default_factory=list)
    plans: list[tuple[float, float]] = field(default_factory=list)  # ms

    def p99_ms(self, count: int | None = None) -> float:
        """Of the first `count` commits, or of all; the first ten of them find caches cold and are left out."""
        taken = sorted(seconds for _, seconds in self.commits[10:count])
        return taken[min(int(len(taken) * 0.99), len(taken) - 1)] * 1000


def measure_all(options: Options, series: Path | None = None) -> list[Figure]:
    """The figures; the series of both cases go to a file."""
    size = QUICK if options.quick else FULL
    without = measure_case(size.without_seconds, size, upkeep=False)
    kept = measure_case(size.seconds, size, upkeep=True)
    keep(kept, without, series=series, plots=options.plots)
    return [*figures_of(kept, without), compare(f"ms of a poll over {size.tables:,} tables", poll_ms(size.tables))]


def keep(kept: Series, without: Series, *, series: Path | None, plots: Path | None) -> None:
    """Writes what was measured over time to a file, and as a plot to a folder."""
    document = {"with upkeep": asdict(kept), "without": asdict(without)}
    if series is not None:
        series.write_text(json.dumps(document) + "\n")
    if plots is not None:
        plots.mkdir(parents=True, exist_ok=True)
        (plots / PLOT).write_text(draw(document))


def figures_of(kept: Series, without: Series) -> list[Figure]:
    """Both cases next to each other, and the end of the one with upkeep next to its start."""
    started, ended = ("first third", "last third")
    count = min(len(kept.commits), len(without.commits))  # that both have made
    p99 = (kept.p99_ms(count), without.p99_ms(count))
    figures = [
        compare(f"p99 of the first {count:,} commits, ms", *p99, "without upkeep", goal=WITHIN, less_is_better=True),
        compare(f"p99 of all {len(kept.commits):,} commits, ms", kept.p99_ms()),
        compare("most data files", max(_values(kept.files)), len(without.commits), "commits without upkeep"),
    ]
    for label, samples in (("data files", kept.files), ("plan, ms", kept.plans)):
        third = max(len(samples) // 3, 1)
        first, last = (statistics.median(_values(part)) for part in (samples[:third], samples[-third:]))
        figures.append(compare(f"{label}, median of the {ended}", last, first, started, goal=FLAT, less_is_better=True))
    plans = statistics.median(_values(without.plans[-max(len(without.plans) // 3, 1) :]))
    return [*figures, compare(f"plan, ms, without upkeep, {ended}", plans)]


def _values(samples: Sequence[tuple[float, float]]) -> list[float]:
    return [value for _, value in samples]


def measure_case(seconds: int, size: Size, *, upkeep: bool) -> Series:
    """One case, on a server of its own."""
    variables = {f"FRAZIL_UPKEEP__{key}": value for key, value in size.settings.items()}
    with (
        tempfile.TemporaryDirectory() as name,
        own_server(Path(name), options=("--upkeep",) if upkeep else (), variables=variables) as (uri, _),
    ):
        with connect(uri) as lake:
            lake.apply(Table(NAME, column("id", "long"), upkeep=Upkeep(keep_days=KEEP_DAYS)))
        series, stop, start = Series(), threading.Event(), time.monotonic()
        sampler = threading.Thread(target=_sample, args=(uri, series, stop, start, size.sample_seconds))
        sampler.start()
        try:
            _write(uri, series, start, seconds)
        finally:
            stop.set()
            sampler.join()
    return series


def _write(uri: str, series: Series, start: float, seconds: int) -> None:
    """A commit per second, on the second, however long the one before took."""
    with frazil.sinks.open(NAME, name="stream", catalog=FrazilCatalog("lake", uri=uri)) as sink:
        for number in range(seconds):
            time.sleep(max(start + number - time.monotonic(), 0))
            began = time.monotonic()
            first = number * ROWS
            sink.write(pa.table({"id": pa.array(range(first, first + ROWS), pa.int64())}), position=first + ROWS)
            sink.commit()
            series.commits.append((began - start, time.monotonic() - began))


def _sample(uri: str, series: Series, stop: threading.Event, start: float, pause: float) -> None:
    while not stop.wait(pause):
        table = FrazilCatalog("lake", uri=uri).load_table(NAME)
        now, began = time.monotonic() - start, time.monotonic()
        series.files.append((now, len(list(table.scan().plan_files()))))
        series.plans.append((now, (time.monotonic() - began) * 1000))
        series.snapshots.append((now, len(table.metadata.snapshots)))
