"""Runs the cases and sets them side by side."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import Figure, Options, compare
from benchmarks.sink.rows import write_rows

ROWS, QUICK_ROWS = 10_000_000, 1_000_000


@dataclass(frozen=True)
class Cost:
    """What a case cost."""

    cpu_s: float
    wall_s: float
    peak_mb: float


Measure = Callable[[str, str], Cost]


def measure_all(options: Options) -> list[Figure]:
    """Every case once, ours beside each peer."""
    from frazil.catalog.embedded import running_catalog
    from frazil.client import connect

    rows = QUICK_ROWS if options.quick else ROWS
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as text, running_catalog() as server:
        folder = Path(text)
        connect(uri=server.uri).create_namespace("bench")
        for count in (rows, rows // 10):
            write_rows(folder / f"{count}.arrow", count)

        def measure(writer: str, split: str, count: int = rows) -> Cost:
            cost = _run(writer, split, folder / f"{count}.arrow", server.uri)
            _clean(folder, Path(server.warehouse.removeprefix("file://")))
            print(f"  {writer:14s} {split:7s} {count:>10,} rows: {cost.cpu_s:6.1f} CPU s {cost.wall_s:6.1f} s {cost.peak_mb:6.0f} MB")
            return cost

        return _figures(measure, rows)


def _figures(measure: Measure, rows: int) -> list[Figure]:
    ours = {split: measure("ours", split) for split in ("flat", "day", "bucket")}
    theirs = {split: measure("pyiceberg", split) for split in ("flat", "day", "bucket")}
    raw = {split: measure("raw", split) for split in ("flat", "day")}
    objects, pandas = measure("pandas-object", "flat"), measure("pandas", "flat")
    delta, daft = measure("deltalake", "flat"), measure("daft", "day")
    small = measure("ours", "day", rows // 10)  # type: ignore[call-arg]

    def cpu(name: str, mine: Cost, peer: Cost, peer_name: str, goal: float | None = None) -> Figure:
        return compare(f"{name}, CPU s", mine.cpu_s, peer.cpu_s, peer_name, goal=goal, less_is_better=True)

    def memory(name: str, mine: Cost, peer: Cost, peer_name: str, goal: float | None = None) -> Figure:
        return compare(f"{name}, peak MB", mine.peak_mb, peer.peak_mb, peer_name, goal=goal, less_is_better=True)

    def speed(name: str, mine: Cost, peer: Cost, peer_name: str) -> Figure:
        return compare(f"{name}, M rows/s", rows / mine.wall_s / 1e6, rows / peer.wall_s / 1e6, peer_name)

    return [
        cpu("unpartitioned", ours["flat"], raw["flat"], "raw pyarrow, 2 threads", 0.95),
        cpu("by day", ours["day"], theirs["day"], "PyIceberg", 1.2),
        memory("by day", ours["day"], theirs["day"], "PyIceberg", 4),
        cpu("1,000 buckets", ours["bucket"], theirs["bucket"], "PyIceberg", 5),
        memory("by day, ten times the rows", ours["day"], small, "a tenth of the rows", 0.9),
        cpu("unpartitioned", ours["flat"], objects, "pandas with object strings", 2),
        memory("unpartitioned", ours["flat"], objects, "pandas with object strings", 4),
        cpu("unpartitioned", ours["flat"], pandas, "pandas 3"),
        memory("unpartitioned", ours["flat"], pandas, "pandas 3"),
        cpu("unpartitioned", ours["flat"], theirs["flat"], "PyIceberg"),
        memory("unpartitioned", ours["flat"], theirs["flat"], "PyIceberg"),
        cpu("unpartitioned", ours["flat"], delta, "deltalake"),
        memory("unpartitioned", ours["flat"], delta, "deltalake"),
        cpu("by day", ours["day"], raw["day"], "raw pyarrow, rows apart already"),
        cpu("by day", ours["day"], daft, "Daft"),
        memory("by day", ours["day"], daft, "Daft"),
        memory("1,000 buckets", ours["bucket"], theirs["bucket"], "PyIceberg"),
        speed("unpartitioned", ours["flat"], raw["flat"], "raw pyarrow, 2 threads"),
        speed("by day", ours["day"], theirs["day"], "PyIceberg"),
        speed("1,000 buckets", ours["bucket"], theirs["bucket"], "PyIceberg"),
    ]


def _run(writer: str, split: str, source: Path, place: str) -> Cost:
    command = [sys.executable, "-m", "benchmarks.sink.case", writer, split, str(source), place]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{writer} {split} failed:\n{done.stderr[-2000:]}")
    return Cost(**json.loads(done.stdout.splitlines()[-1]))


def _clean(*folders: Path) -> None:
    """Removes what a case wrote, so that the disk does not fill and the next case finds the same one."""
    for folder in folders:
        for child in folder.glob("**/data") if (folder / "bench").exists() else folder.glob("frazil-bench-*"):
            shutil.rmtree(child, ignore_errors=True)
