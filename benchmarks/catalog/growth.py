"""How a commit's cost grows with the table's snapshots, beside the cost of writing its metadata file."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

import orjson

from benchmarks.catalog.scenarios import Bench
from benchmarks.catalog.workload import Growing, appending, expect
from benchmarks.load import Client, drive
from benchmarks.report import Figure, compare

FEW, MANY, REPEATS = 25, 1_000, 40


def measure_growth(bench: Bench, folder: Path) -> list[Figure]:
    """What a commit costs more at 1,000 snapshots than at 25; the goal is no more than serialising, writing and syncing its file."""
    (table,) = bench.new_tables(1)
    small_ms, small_file_ms = _commit_and_file_ms(bench, table, FEW, folder)
    large_ms, large_file_ms = _commit_and_file_ms(bench, table, MANY, folder)
    name = f"commit at {MANY:,} snapshots over one at {FEW}, ms more"
    return [
        compare(name, large_ms - small_ms, large_file_ms - small_file_ms, "writing its file", goal=1.0, less_is_better=True),
        compare(f"commit at {FEW} snapshots, ms", small_ms, small_file_ms, "writing its file", less_is_better=True),
        compare(f"commit at {MANY:,} snapshots, ms", large_ms, large_file_ms, "writing its file", less_is_better=True),
    ]


def _commit_and_file_ms(bench: Bench, table: Growing, snapshots: int, folder: Path) -> tuple[float, float]:
    drive(bench.server.address, [appending(bench.place, table, 1, snapshots=snapshots - table.sequence - REPEATS // 2)])
    spent: list[float] = []
    drive(bench.server.address, [_timed(bench, table, spent)])
    loaded: list[bytes] = []
    drive(bench.server.address, [_loaded(bench, table, loaded)])
    return statistics.median(spent), _file_ms(orjson.loads(loaded[0])["metadata"], folder)


def _timed(bench: Bench, table: Growing, spent: list[float]) -> Client:
    for _ in range(REPEATS):
        asked = bench.place.append(table)
        start = time.perf_counter()
        reply = yield asked
        spent.append((time.perf_counter() - start) * 1000)
        expect(reply, 200)
        table.committed()


def _loaded(bench: Bench, table: Growing, loaded: list[bytes]) -> Client:
    reply = yield bench.place.load(table.name)
    expect(reply, 200)
    loaded.append(reply.body)


def _file_ms(metadata: object, folder: Path) -> float:
    """The median cost of serialising, writing and syncing this metadata as a new file."""
    spent = []
    for number in range(REPEATS):
        start = time.perf_counter()
        with (folder / f"growth-{number}.json").open("wb") as file:
            file.write(orjson.dumps(metadata))
            file.flush()
            os.fsync(file.fileno())
        spent.append((time.perf_counter() - start) * 1000)
    return statistics.median(spent)
