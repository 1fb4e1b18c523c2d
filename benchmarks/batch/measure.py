"""Runs the cases in turns and sets them side by side."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.batch.rows import write_files
from benchmarks.report import Figure, Options, compare

MOST_CPU = 1.25  # times what plain Spark takes
FLAT = 0.8


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    rows: int
    files: int
    many_files: int
    rounds: int


FULL, QUICK = Size(10_000_000, 30, 3_000, 2), Size(1_000_000, 10, 200, 1)


@dataclass(frozen=True)
class Cost:
    """What a case cost."""

    cpu_s: float
    wall_s: float
    peak_mb: float
    rows: int


def measure_all(options: Options) -> list[Figure]:
    """Every pair of cases in turns."""
    from frazil.catalog.embedded import running_catalog
    from frazil.client import connect

    size = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as text, running_catalog() as server:
        folder = Path(text)
        connect(uri=server.uri).create_namespace("bench")
        write_files(folder / "few", rows=size.rows, files=size.files)
        load = _in_turns(("ours", "plain"), folder / "few", server.uri, size.rounds)
        write_files(folder / "many", rows=size.rows, files=size.many_files)
        many = _in_turns(("ours", "plain"), folder / "many", server.uri, 1)
        shutil.rmtree(folder / "many")
        write_files(folder / "twice", rows=size.rows, files=size.files, repeated_share=0.05)
        distinct = _in_turns(("ours-key", "plain-distinct"), folder / "twice", server.uri, 1)
    return _figures(size, load, many, distinct)


def _figures(size: Size, load: dict[str, Cost], many: dict[str, Cost], distinct: dict[str, Cost]) -> list[Figure]:
    rows, plain = f"{size.rows / 1e6:g}M rows", "plain Spark, no checks"
    return [
        compare(
            f"{rows}, CPU s", load["ours"].cpu_s, load["plain"].cpu_s, plain, goal=1 / MOST_CPU, less_is_better=True
        ),
        compare(f"{rows}, s", load["ours"].wall_s, load["plain"].wall_s, plain, less_is_better=True),
        compare(f"{rows}, peak MB", load["ours"].peak_mb, load["plain"].peak_mb, plain, less_is_better=True),
        compare(
            f"{rows} in {size.many_files:,} files, peak MB",
            many["ours"].peak_mb,
            load["ours"].peak_mb,
            f"ours, {size.files} files",
            goal=FLAT,
            less_is_better=True,
        ),
        compare(
            f"{rows} in {size.many_files:,} files, CPU s",
            many["ours"].cpu_s,
            many["plain"].cpu_s,
            plain,
            less_is_better=True,
        ),
        compare(
            f"{rows}, last of a key, CPU s",
            distinct["ours-key"].cpu_s,
            distinct["plain-distinct"].cpu_s,
            "Spark's dropDuplicates, any of a key, no checks",
            less_is_better=True,
        ),
    ]


def _in_turns(writers: Sequence[str], folder: Path, uri: str, rounds: int) -> dict[str, Cost]:
    turns: dict[str, list[Cost]] = {writer: [] for writer in writers}
    for _ in range(rounds):
        for writer in writers:
            turns[writer].append(_run(writer, folder, uri))
    return {writer: _typical(costs) for writer, costs in turns.items()}


def _typical(costs: Sequence[Cost]) -> Cost:
    cpu, wall, peak = (
        statistics.median(getattr(cost, name) for cost in costs) for name in ("cpu_s", "wall_s", "peak_mb")
    )
    return Cost(cpu, wall, peak, costs[0].rows)


def _run(writer: str, folder: Path, uri: str) -> Cost:
    command = [sys.executable, "-m", "benchmarks.batch.case", writer, str(folder), uri]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{writer} failed:\n{done.stderr[-2000:]}")
    cost = Cost(**json.loads(done.stdout.splitlines()[-1]))
    print(
        f"  {writer:14s} {folder.name:6s} {cost.rows:>10,} rows in: {cost.cpu_s:6.1f} CPU s {cost.wall_s:6.1f} s "
        f"{cost.peak_mb:6.0f} MB",
        flush=True,
    )
    return cost
