"""What every benchmark shares: its options, its figures, the table and the JSON file."""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Options:
    """How a benchmark is run."""

    quick: bool = False
    plots: Path | None = None  # the folder where a recorded run leaves plots of its own, as NAME-*.svg


@dataclass(frozen=True)
class Figure:
    """One measured value next to its peer; `ratio` says how many times better ours is, whatever better means here.

    A goal is what we want to reach: one that is missed is an error. It is meant for the size of a full run; a short run
    has only the goals that are meant for any size. A claim is what a document says of the two: the run only states
    whether it holds.
    """

    figure: str
    ours: float
    peer: float | None = None
    peer_name: str | None = None
    ratio: float | None = None
    goal: float | None = None
    met: bool | None = None
    claim: float | None = None
    holds: bool | None = None
    any_size: bool = False


def compare(
    figure: str,
    ours: float,
    peer: float | None = None,
    peer_name: str | None = None,
    *,
    goal: float | None = None,
    claim: float | None = None,
    less_is_better: bool = False,
    any_size: bool = False,
) -> Figure:
    """A figure with its ratio, and whether that reaches the goal, or what was claimed.

    >>> figure = compare("loads/s", 400.0, 100.0, "Java reference", goal=4.0)
    >>> figure.ours, figure.peer, figure.ratio, figure.goal, figure.met
    (400.0, 100.0, 4.0, 4.0, True)
    >>> compare("CPU ms a load", 0.5, 1.0, "Java reference", less_is_better=True).ratio
    2.0
    >>> compare("peak MB", 50.0, 100.0, "pandas", claim=4.0, less_is_better=True).holds
    False
    """
    ratio = None
    if peer is not None:
        above, below = (peer, ours) if less_is_better else (ours, peer)
        ratio = round(above / below, 2) if below else None
    met, holds = (None if least is None else ratio is not None and ratio >= least for least in (goal, claim))
    peer = None if peer is None else _short(peer)
    return Figure(figure, _short(ours), peer, peer_name, ratio, goal, met, claim, holds, any_size)


def goals_for(figures: Sequence[Figure], options: Options) -> list[Figure]:
    """The figures with the goals that are meant for the size of the run.

    >>> rate = compare("rows/s", 1.0, 2.0, "peer", goal=3.0)
    >>> goals_for([rate], Options()) == [rate], goals_for([rate], Options(quick=True))[0].goal
    (True, None)
    """
    return [f if f.any_size or not options.quick else replace(f, goal=None, met=None) for f in figures]


def _short(value: float) -> float:
    """Three significant digits, as many as a measurement on a shared machine deserves.

    >>> _short(12345.6), _short(0.012345)
    (12300.0, 0.0123)
    """
    return float(f"{value:.3g}")


def print_table(title: str, figures: Sequence[Figure], *, console: Console | None = None) -> None:
    """The figures as a table; a goal that was missed stands out. Claims have columns where there are some."""
    claims = any(figure.claim is not None for figure in figures)
    table = Table("figure", title=title, title_justify="left")
    for column in ("ours", "peer", "ratio", "goal"):
        table.add_column(column, justify="right")
    for column in ("met", *(("claim", "holds") if claims else ()), "peer is"):
        table.add_column(column)
    for f in figures:
        goal = [_times(f.goal), {True: "yes", False: "[bold red]NO[/]", None: ""}[f.met]]
        claim = [_times(f.claim), {True: "yes", False: "no", None: ""}[f.holds]] if claims else []
        table.add_row(f.figure, f"{f.ours:g}", _text(f.peer), _times(f.ratio), *goal, *claim, f.peer_name or "")
    # Into a file or a pipe, rich assumes 80 columns, too few for a line a figure.
    (console or Console(width=None if sys.stdout.isatty() else 140)).print(table)


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:g}x"


Run = Callable[[Options], list[Figure]]


def main(benchmarks: dict[str, Run], arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmarks, prints a table for each and writes all figures; the exit code is 1 when a goal was missed,
    or a benchmark ended with an error. Each is written as soon as it ends, and none keeps those after it from running.
    """
    parser = argparse.ArgumentParser(description="Benchmarks of Frazil, each next to a peer measured in the same run.")
    parser.add_argument("--quick", action="store_true", help="a short run: to find hot spots, not to quote")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, as a list of objects")
    parser.add_argument("--record", type=Path, metavar="FILE", help="keep the runs there, for docs/benchmarks.md")
    result = parser.parse_args(arguments)
    if result.quick and result.record:
        parser.error("--record is for full runs, without --quick")
    figures: list[Figure] = []
    failed: list[str] = []
    for name, run in benchmarks.items():
        try:
            figures += _measure(name, run, quick=result.quick, record=result.record)
        except Exception:
            traceback.print_exc()
            failed.append(name)
        if result.json:
            result.json.write_text(json.dumps([asdict(figure) for figure in figures], indent=2) + "\n")
    missed = [figure.figure for figure in figures if figure.met is False]
    for title, names in (("goals missed", missed), ("benchmarks that ended with an error", failed)):
        if names:
            print(f"{title}: {'; '.join(names)}", file=sys.stderr)
    # A short run is too noisy to fail on a goal.
    return 1 if failed or (missed and not result.quick) else 0


def _measure(name: str, run: Run, *, quick: bool, record: Path | None) -> list[Figure]:
    """The figures of one benchmark, printed and recorded."""
    started = time.monotonic()
    options = Options(quick=quick, plots=record.with_suffix("") if record else None)
    measured = goals_for(run(options), options)
    print_table(f"benchmarks.{name}{' --quick' if quick else ''}", measured)
    if record:
        from benchmarks.record import add_run  # psutil

        add_run(record, name, measured, seconds=time.monotonic() - started)
    return measured
