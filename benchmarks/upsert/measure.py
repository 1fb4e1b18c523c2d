"""Runs the cases in turns and sets them side by side."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.table.update import UpgradeFormatVersionUpdate

from benchmarks.report import Figure, Options, compare
from benchmarks.upsert.rows import SCHEMA, base_rows, change_rows
from frazil.client import Change

if TYPE_CHECKING:
    from frazil.client import FrazilCatalog

MOST_CPU = 1.15  # times what a plain MERGE takes
LEAST_FASTER = 50.0  # than PyIceberg's upsert
FILE_BYTES = 32 << 20
MODES = ("copy-on-write", "merge-on-read")
IN_PYTHON = ("python", "pyiceberg", "raw")
VECTORS = "merge-on-read, format 3"
FLAT = 0.8  # of the memory with ten times the rows, at least: it does not grow with the table
MORE_ROWS = 10
_numbers = count()


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    rows: int
    changes: int
    python_rows: int
    python_changes: int
    two_rows: int  # with a key of two columns, PyIceberg's upsert takes time with the product of both
    two_changes: int
    rounds: int


FULL = Size(10_000_000, 1_000_000, 1_000_000, 100_000, 50_000, 5_000, 2)
QUICK = Size(1_000_000, 100_000, 100_000, 10_000, 10_000, 1_000, 1)


@dataclass(frozen=True)
class Cost:
    """What a case cost, and what the table came to."""

    cpu_s: float
    wall_s: float
    peak_mb: float
    rows: int
    checksum: tuple[object, ...]
    first_s: float = 0.0  # what the first commit of the process took, in plain Python


def measure_all(options: Options) -> list[Figure]:
    """Every pair of cases in turns."""
    from frazil.catalog.embedded import running_catalog
    from frazil.client import connect

    size = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as text, running_catalog(Path(text) / "catalog") as server:
        bench = _Bench(connect(uri=server.uri), server.uri, Path(text))
        bench.catalog.create_namespace("bench")
        bench.write_changes(size.python_rows, size.python_changes, deletes=False)
        marked = bench.in_turns(("python", "pyiceberg"), size.python_rows, MODES[1], 1)
        vectors = bench.run("python", size.python_rows, VECTORS)
        python = bench.run("python", size.python_rows, MODES[0])
        check_same([marked["python"], vectors, python])
        raw = bench.run("raw", size.python_rows, MODES[0])
        bench.write_changes(MORE_ROWS * size.python_rows, size.python_changes, deletes=False)
        larger = bench.run("python", MORE_ROWS * size.python_rows, MODES[1])
        bench.write_changes(size.two_rows, size.two_changes, deletes=False)
        two = bench.in_turns(("python-two", "pyiceberg-two"), size.two_rows, MODES[0], 1)
        bench.write_changes(size.rows, size.changes, deletes=True)
        spark = {mode: bench.in_turns(("ours", "merge"), size.rows, mode, size.rounds) for mode in MODES}
    python_costs = PythonCosts(marked["python"], marked["pyiceberg"], vectors, python, raw, larger)
    return [*_spark_figures(size, spark), *_python_figures(size, python_costs), _two_columns(size, two)]


def _spark_figures(size: Size, spark: dict[str, dict[str, Cost]]) -> list[Figure]:
    what, figures = f"{size.changes / 1e6:g}M changes into {size.rows / 1e6:g}M rows", []
    for mode, value in spark.items():
        ours, plain, peer = value["ours"], value["merge"], "plain MERGE INTO"
        figures += [
            compare(
                f"Spark, {what}, {mode}, CPU s",
                ours.cpu_s,
                plain.cpu_s,
                peer,
                goal=round(1 / MOST_CPU, 3),
                less_is_better=True,
            ),
            compare(f"Spark, {what}, {mode}, s", ours.wall_s, plain.wall_s, peer, less_is_better=True),
        ]
    return figures


@dataclass(frozen=True)
class PythonCosts:
    """The cases in plain Python, with a key of one column."""

    marked: Cost
    pyiceberg: Cost
    vectors: Cost
    copied: Cost
    raw: Cost
    larger: Cost


def _python_figures(size: Size, costs: PythonCosts) -> list[Figure]:
    what = f"{size.python_changes:,} changes into {size.python_rows:,} rows"
    marked, peer, name = costs.marked, costs.pyiceberg, "PyIceberg's upsert"
    goal = LEAST_FASTER if size is FULL else None
    modes = {MODES[1]: marked, VECTORS: costs.vectors, MODES[0]: costs.copied}
    figures = []
    for mode, cost in modes.items():
        own_goal = goal if mode == MODES[1] else None
        figures += [
            compare(f"Python, {what}, {mode}, s", cost.wall_s, peer.wall_s, name, goal=own_goal, less_is_better=True),
            compare(f"Python, {what}, {mode}, CPU s", cost.cpu_s, peer.cpu_s, name, less_is_better=True),
            compare(f"Python, {what}, {mode}, peak MB", cost.peak_mb, peer.peak_mb, name, less_is_better=True),
        ]
    first = f"Python, {what}, {MODES[1]}, first commit of the process, s"
    figures.append(compare(first, marked.first_s, peer.first_s, name, goal=goal, less_is_better=True))
    read_and_written, rows = "pyarrow: files read and written once", MORE_ROWS * size.python_rows
    flat = FLAT if size is FULL else None
    return [
        *figures,
        compare(
            f"Python, {what}, {MODES[0]}, CPU s",
            costs.copied.cpu_s,
            costs.raw.cpu_s,
            read_and_written,
            less_is_better=True,
        ),
        compare(
            f"Python, {size.python_changes:,} changes into {rows:,} rows, {MODES[1]}, peak MB",
            costs.larger.peak_mb,
            marked.peak_mb,
            f"the same into {size.python_rows:,} rows",
            goal=flat,
            less_is_better=True,
        ),
        compare(
            f"Python, {size.python_changes:,} changes into {rows:,} rows, {MODES[1]}, CPU s",
            costs.larger.cpu_s,
            marked.cpu_s,
            f"the same into {size.python_rows:,} rows",
            less_is_better=True,
        ),
    ]


def _two_columns(size: Size, two: dict[str, Cost]) -> Figure:
    less = f"{size.two_changes:,} changes into {size.two_rows:,} rows, a key of two columns"
    ours, peer = two["python-two"], two["pyiceberg-two"]
    return compare(f"Python, {less}, s", ours.wall_s, peer.wall_s, "PyIceberg's upsert", less_is_better=True)


@dataclass(frozen=True)
class _Bench:
    catalog: FrazilCatalog
    uri: str
    folder: Path

    def write_changes(self, rows: int, changes: int, *, deletes: bool) -> None:
        pq.write_table(change_rows(rows, changes, deletes=deletes), self.folder / "changes.parquet")

    def in_turns(self, writers: Sequence[str], rows: int, mode: str, rounds: int) -> dict[str, Cost]:
        turns: dict[str, list[Cost]] = {writer: [] for writer in writers}
        for _ in range(rounds):
            for writer in writers:
                turns[writer].append(self.run(writer, rows, mode))
        check_same([cost for costs in turns.values() for cost in costs])
        return {writer: _typical(costs) for writer, costs in turns.items()}

    def run(self, writer: str, rows: int, mode: str) -> Cost:
        """One case on a table of its own; in plain Python on two."""
        in_python = writer.partition("-")[0] in IN_PYTHON
        tables = [self._make_table(rows, mode) for _ in range(2 if in_python else 1)]
        command = [sys.executable, "-m", "benchmarks.upsert.case", writer, ",".join(tables), str(self.folder), self.uri]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{writer} failed:\n{done.stderr[-2000:]}")
        live = self.catalog.load_table(tables[-1])
        checked = live.scan(selected_fields=("id", "version", "amount", "note")).to_arrow()
        cost = Cost(**json.loads(done.stdout.splitlines()[-1]), rows=checked.num_rows, checksum=_checksum(checked))
        for table in tables:
            self.catalog.purge_table(table)
        text = f"{cost.rows:>10,} rows in the end: {cost.cpu_s:6.2f} CPU s {cost.wall_s:6.2f} s {cost.peak_mb:6.0f} MB"
        print(f"  {writer:13s} {mode:23s} {text}", flush=True)
        return cost

    def _make_table(self, rows: int, mode: str) -> str:
        import frazil.sinks

        name = f"bench.t{next(_numbers)}"
        merge_mode, _, version = mode.partition(", format ")
        properties = {"write.merge.mode": merge_mode, "write.target-file-size-bytes": str(FILE_BYTES)}
        self.catalog.create_table(name, SCHEMA, properties=properties)
        with frazil.sinks.open(name, name="base", catalog=self.catalog, flush_rows=None) as sink:
            for piece in base_rows(rows):
                sink.write(piece)
        if version:
            upgrade = UpgradeFormatVersionUpdate(format_version=int(version))
            self.catalog.commit_changes([Change(self.catalog.load_table(name).name(), (), (upgrade,))])
        return name


def check_same(costs: Sequence[Cost]) -> None:
    """Refuses figures of writers that did not do the same."""
    if len({(cost.rows, cost.checksum) for cost in costs}) != 1:
        raise RuntimeError(f"the writers did not come to the same rows: {costs}")


def _checksum(rows: pa.Table) -> tuple[object, ...]:
    """Sums that differ where rows do: each is weighed with its id."""
    weighed = pc.multiply(rows["id"], rows["version"])
    lengths = pc.multiply(pc.binary_length(rows["note"]).cast(pa.int64()), rows["id"])
    return tuple(pc.sum(item).as_py() for item in (rows["id"], weighed, lengths, rows["amount"]))


def _typical(costs: Sequence[Cost]) -> Cost:
    cpu, wall, peak, first = (
        statistics.median(getattr(cost, name) for cost in costs) for name in ("cpu_s", "wall_s", "peak_mb", "first_s")
    )
    return Cost(cpu, wall, peak, costs[0].rows, costs[0].checksum, first)
