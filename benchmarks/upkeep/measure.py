"""Writes once per second with and without upkeep, in turns; samples files and plan times, and makes figures of both."""

from __future__ import annotations

import json
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
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
    """How many seconds are written with upkeep and without, and in a phase; how often is sampled, and how the worker is
    set.
    """

    seconds: int
    without_seconds: int
    phase_seconds: int
    sample_seconds: float
    tables: int  # that the worker's query has to compare
    settings: dict[str, str] = field(default_factory=dict)


FULL = Size(1800, 600, 120, 10.0, 100_000)
QUICK = Size(120, 60, 20, 3.0, 10_000, {"POLL_SECONDS": "3", "TABLE_SECONDS": "10", "QUIET_SECONDS": "5"})


@dataclass
class Series:
    """What was measured over time: seconds since the start of a case, and the value."""

    commits: list[tuple[float, float]] = field(default_factory=list)  # seconds that each took
    files: list[tuple[float, int]] = field(default_factory=list)
    snapshots: list[tuple[float, int]] = field(default_factory=list)
    plans: list[tuple[float, float]] = field(default_factory=list)  # ms

    phases: list[int] = field(default_factory=list)  # the number of commits when each of them began

    def commits_of(self, phase: int) -> list[tuple[float, float]]:
        """The commits of one phase."""
        return self.commits[slice(*[*self.phases, None][phase : phase + 2])]


def p99_ms(commits: Sequence[tuple[float, float]]) -> float:
    """Of the commits of a phase: the first ten of them find caches cold and are left out.

    >>> p99_ms([(0, 9.0)] * 10 + [(0, 0.25)] * 99 + [(0, 0.5)])
    500.0
    """
    taken = sorted(seconds for _, seconds in commits[10:])
    return taken[min(int(len(taken) * 0.99), len(taken) - 1)] * 1000


def measure_all(options: Options, series: Path | None = None) -> list[Figure]:
    """The figures; the series of both cases go to a file."""
    size = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory() as name:
        kept, without = Case(Path(name, "kept"), size, upkeep=True), Case(Path(name, "without"), size, upkeep=False)
        for number in range(size.without_seconds // size.phase_seconds):
            for case in (kept, without) if number % 2 == 0 else (without, kept):
                case.run_phase(size.phase_seconds)
        kept.run_phase(size.seconds - size.without_seconds)
    keep(kept.series, without.series, series=series, plots=options.plots)
    poll = compare(f"ms of a poll over {size.tables:,} tables", poll_ms(size.tables))
    return [*figures_of(kept.series, without.series), poll]


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
    figures = [
        compare_phases(kept, without),
        compare(f"p99 of all {len(kept.commits):,} commits, ms", p99_ms(_warm(kept))),
        compare("most data files", max(_values(kept.files)), len(without.commits), "commits without upkeep"),
    ]
    for label, samples in (("data files", kept.files), ("plan, ms", kept.plans)):
        third = max(len(samples) // 3, 1)
        first, last = (statistics.median(_values(part)) for part in (samples[:third], samples[-third:]))
        figures.append(compare(f"{label}, median of the {ended}", last, first, started, goal=FLAT, less_is_better=True))
    plans = statistics.median(_values(without.plans[-max(len(without.plans) // 3, 1) :]))
    return [*figures, compare(f"plan, ms, without upkeep, {ended}", plans)]


def compare_phases(kept: Series, without: Series) -> Figure:
    """The medians of the p99 of the phases that both cases have, and as the ratio the median of those of neighbours."""
    pairs = [
        (p99_ms(kept.commits_of(phase)), p99_ms(without.commits_of(phase))) for phase in range(len(without.phases))
    ]
    ours, peer = (statistics.median(pair[position] for pair in pairs) for position in (0, 1))
    ratio = round(statistics.median(peer / ours for ours, peer in pairs), 3)
    label = f"p99 of {len(without.commits) // len(pairs):,} commits, ms, median of {len(pairs)}"
    figure = compare(label, ours, peer, "without upkeep", goal=WITHIN, less_is_better=True)
    return replace(figure, ratio=ratio, met=ratio >= WITHIN)


def _warm(series: Series) -> list[tuple[float, float]]:
    """All commits but the first ten of each phase after the first: `p99_ms` leaves out those."""
    phases = [series.commits_of(phase) for phase in range(len(series.phases))]
    return [commit for number, phase in enumerate(phases) for commit in phase[10 if number else 0 :]]


def _values(samples: Sequence[tuple[float, float]]) -> list[float]:
    return [value for _, value in samples]


class Case:
    """A table, and what was measured of it. Each phase starts a server on its folder, and goes on with the table."""

    def __init__(self, folder: Path, size: Size, *, upkeep: bool) -> None:
        self.series = Series()
        self._folder, self._pause, self._seconds = folder, size.sample_seconds, 0
        self._variables = {f"FRAZIL_UPKEEP__{key}": value for key, value in size.settings.items()}
        self._options = ("--upkeep",) if upkeep else ()

    def run_phase(self, seconds: int) -> None:
        """Writes for a number of seconds."""
        with own_server(self._folder, options=self._options, variables=self._variables) as (uri, _):
            with connect(uri) as lake:
                lake.apply(Table(NAME, column("id", "long"), upkeep=Upkeep(keep_days=KEEP_DAYS)))
            self.series.phases.append(len(self.series.commits))
            stop, start = threading.Event(), time.monotonic() - self._seconds
            sampler = threading.Thread(target=_sample, args=(uri, self.series, stop, start, self._pause))
            sampler.start()
            try:
                _write(uri, self.series, start, range(self._seconds, self._seconds + seconds))
            finally:
                stop.set()
                sampler.join()
        self._seconds += seconds


def _write(uri: str, series: Series, start: float, seconds: range) -> None:
    """A commit per second, on the second, however long the one before took."""
    with frazil.sinks.open(NAME, name="stream", catalog=FrazilCatalog("lake", uri=uri)) as sink:
        for number in seconds:
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
