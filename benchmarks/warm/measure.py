"""Runs the commands in a project of their own, and takes their time."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from benchmarks.report import Figure, Options, compare

ROOT = Path(__file__).resolve().parents[2]
ROWS = 500
MOST_S = 3.0  # of the second run in the warm Spark
HEADER = "order_id,customer_id,amount,country,ingestion_date,updated_at\n"
COLD = ("--set", "spark.warm=false")
SERVICES = ("catalog", "object_store", "postgres", "kafka", "trino")


@dataclass(frozen=True)
class Runs:
    """Seconds of each run, in order."""

    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Sales:
    """The sales example in a folder, on servers of its own."""

    folder: Path
    numbers: Iterator[int] = field(default_factory=count)

    def frazil(self, *arguments: str) -> str:
        """What a command prints."""
        command = [sys.executable, "-m", "frazil", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"frazil {' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
        return done.stdout

    def load(self, *options: str) -> float:
        """The seconds of a run that finds one new file."""
        number = next(self.numbers)
        lines = (f"ORD-{number}-{row},CUST-1,1.50,ch,2024-01-15,2024-01-15T08:00:00\n" for row in range(ROWS))
        (self.folder / "landing").mkdir(exist_ok=True)
        (self.folder / "landing" / f"{number}.csv").write_text(HEADER + "".join(lines))
        start = time.perf_counter()
        printed = self.frazil(*options, "run", "daily_sales", "--output", "json")
        seconds = time.perf_counter() - start
        if json.loads(printed)["rows"] != ROWS:
            raise RuntimeError(f"the run has not loaded {ROWS} rows: {printed}")
        print(f"  run {number}, {'cold' if options else 'warm'}: {seconds:5.2f} s", flush=True)
        return seconds


def measure_all(options: Options) -> list[Figure]:
    """Cold runs first, while no other Spark takes memory; then those in the warm one."""
    runs, later = Runs(), 1 if options.quick else 5
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as folder, _sales(Path(folder)) as sales:
        runs.cold.extend(sales.load(*COLD) for _ in range(1 if options.quick else 3))
        sales.frazil("up", "--with", "spark")
        runs.warm.extend(sales.load() for _ in range(2 + later))
    return figures_of(runs)


@contextmanager
def _sales(folder: Path) -> Iterator[Sales]:
    ports = "".join(f"{name} = 0\n" for name in SERVICES)  # free ones
    (folder / "frazil.toml").write_text(f"[stack.ports]\n{ports}")
    shutil.copy(ROOT / "examples/sales/lakehouse.py", folder)
    shutil.copytree(ROOT / "examples/sales/models", folder / "models")
    sales = Sales(folder)
    try:
        sales.frazil("up")
        sales.frazil("apply", "--yes")
        yield sales
    finally:
        sales.frazil("down", "--purge", "--yes")


def figures_of(runs: Runs) -> list[Figure]:
    """The runs next to one with a Spark of its own; the second in the warm one next to its goal."""
    cold, (first, second, *later) = statistics.median(runs.cold), runs.warm
    own, load = "a Spark of its own", f"load of {ROWS} rows"
    return [
        compare(f"{load}, first run in the warm Spark, s", first, cold, own, less_is_better=True),
        compare(f"{load}, second run in the warm Spark, s", second, cold, own, less_is_better=True),
        compare(f"{load}, second run, s", second, MOST_S, "the limit", goal=1.0, less_is_better=True),
        compare(f"{load}, later runs, s", statistics.median(later), cold, own, less_is_better=True),
    ]
