"""Runs the cases and sets them side by side."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.report import Figure, Options, compare
from benchmarks.sink.claims import Routes, claim_figures
from benchmarks.sink.costs import Cost
from benchmarks.sink.places import Place, environ_of_pandas, local_files, pandas_versions, seaweedfs
from benchmarks.sink.rows import write_rows

ROWS, QUICK_ROWS = 10_000_000, 1_000_000
ROUNDS = 3  # of ours and the peers that goals are set against, in turn; the machine is never quiet for long
WRITERS, SPLITS = ("ours", "pyiceberg", "raw"), ("flat", "day", "bucket")


Measure = Callable[..., Cost]


def measure_all(options: Options) -> list[Figure]:
    """Every case, ours next to each peer."""
    rows = QUICK_ROWS if options.quick else ROWS
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as text, local_files() as local, seaweedfs() as store:
        folder = Path(text)
        for count in (rows, rows // 10):
            write_rows(folder / f"{count}.arrow", count)

        def measure(
            writer: str, split: str, *, count: int = rows, place: Place = local, pandas: str | None = None
        ) -> Cost:
            cost = run_case(writer, split, folder / f"{count}.arrow", place, pandas=pandas)
            _clean(folder, place.folder)
            where = "local files" if place is local else "SeaweedFS"
            said = f"{cost.cpu_s:6.1f} CPU s {cost.wall_s:6.1f} s {cost.peak_mb:6.0f} MB"
            print(f"  {writer:10s} {split:7s} {count:>10,} rows, {where}: {said}", flush=True)
            return cost

        return figures(measure, rows, store)


def figures(measure: Measure, rows: int, store: Place) -> list[Figure]:
    """Measures every case, ours and PyIceberg's in turns, and compares."""
    rounds = [{key: measure(*key) for key in itertools.product(WRITERS, SPLITS)} for _ in range(ROUNDS)]
    ours, theirs, raw = (
        {split: _middle([round_[writer, split] for round_ in rounds]) for split in SPLITS} for writer in WRITERS
    )
    pandas = {version: measure("pandas", "flat", pandas=version) for version in pandas_versions()}
    ours_delta, delta, daft = measure("ours-delta", "flat"), measure("deltalake", "flat"), measure("daft", "day")
    small = measure("ours", "day", count=rows // 10)
    stored, their_stored = measure("ours", "day", place=store), measure("pyiceberg", "day", place=store)

    def cpu(name: str, mine: Cost, peer: Cost, peer_name: str, goal: float | None = None) -> Figure:
        return compare(f"{name}, CPU s", mine.cpu_s, peer.cpu_s, peer_name, goal=goal, less_is_better=True)

    def memory(name: str, mine: Cost, peer: Cost, peer_name: str, goal: float | None = None) -> Figure:
        return compare(f"{name}, peak MB", mine.peak_mb, peer.peak_mb, peer_name, goal=goal, less_is_better=True)

    def speed(name: str, mine: Cost, peer: Cost, peer_name: str, goal: float | None = None) -> Figure:
        return compare(f"{name}, M rows/s", rows / mine.wall_s / 1e6, rows / peer.wall_s / 1e6, peer_name, goal=goal)

    def compared(name: str, mine: Cost, peer: Cost, peer_name: str, goal: float | None = None) -> list[Figure]:
        """CPU, memory and rate; the goal is the rate's."""
        return [
            cpu(name, mine, peer, peer_name),
            memory(name, mine, peer, peer_name),
            speed(name, mine, peer, peer_name, goal),
        ]

    return [
        cpu("unpartitioned", ours["flat"], raw["flat"], "raw pyarrow, 2 threads", 0.95),
        cpu("by day", ours["day"], theirs["day"], "PyIceberg", 1.2),
        memory("by day", ours["day"], theirs["day"], "PyIceberg", 4),
        cpu("1,000 buckets", ours["bucket"], theirs["bucket"], "PyIceberg", 5),
        memory("by day, ten times the rows", ours["day"], small, "a tenth of the rows", 0.9),
        *claim_figures(Routes({"ours": ours["flat"], "PyIceberg": theirs["flat"]}, pandas)),
        *compared("unpartitioned", ours["flat"], theirs["flat"], "PyIceberg"),
        *compared("unpartitioned, Delta", ours_delta, delta, "deltalake"),
        *compared("by day", ours["day"], raw["day"], "raw pyarrow, rows apart already", 0.6),
        *compared("by day", ours["day"], daft, "Daft"),
        *compared("1,000 buckets", ours["bucket"], raw["bucket"], "raw pyarrow, rows apart already"),
        *compared("by day, SeaweedFS", stored, their_stored, "PyIceberg", 1.2),
        memory("1,000 buckets", ours["bucket"], theirs["bucket"], "PyIceberg"),
        speed("unpartitioned", ours["flat"], raw["flat"], "raw pyarrow, 2 threads"),
        speed("by day", ours["day"], theirs["day"], "PyIceberg", 1.3),
        speed("1,000 buckets", ours["bucket"], theirs["bucket"], "PyIceberg"),
    ]


def _middle(costs: Sequence[Cost]) -> Cost:
    """The median of each figure."""
    return Cost(*(statistics.median(getattr(cost, name) for cost in costs) for name in ("cpu_s", "wall_s", "peak_mb")))


def run_case(writer: str, split: str, source: Path, place: Place, *, pandas: str | None = None) -> Cost:
    """A case in a process of its own, with the pandas of a version if it needs one."""
    command = [sys.executable, "-m", "benchmarks.sink.case", writer, split, str(source), place.uri]
    environ = {**os.environ, **place.environ, **environ_of_pandas(pandas)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
    if done.returncode:
        raise RuntimeError(f"{writer} {split} failed:\n{done.stderr[-2000:]}")
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def _clean(scratch: Path, warehouse: Path | None) -> None:
    """Removes what a case wrote, so that the disk does not fill and the next case finds the same one."""
    written = [*scratch.glob("frazil-bench-*"), *(warehouse.glob("**/data") if warehouse else ())]
    for child in written:
        shutil.rmtree(child, ignore_errors=True)
