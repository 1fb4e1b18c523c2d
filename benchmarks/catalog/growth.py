"""How a commit's cost grows with the table's snapshots, next to the cost of writing its metadata file."""

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

FEW, MANY, ROUNDS = 25, 1_000, 40


def measure_growth(bench: Bench, folder: Path) -> list[Figure]:
    """What a commit costs more at 1,000 snapshots than at 25; the goal is no more than serialising, writing and syncing
    its file.
    """
    few, many = bench.new_tables(2)
    for table, snapshots in ((few, FEW), (many, MANY)):
        drive(bench.server.address, [appending(bench.place, table, 1, snapshots=snapshots - ROUNDS // 2)])
    spent: dict[str, list[float]] = {key: [] for key in ("few", "many", "few file", "many file")}
    drive(bench.server.address, [_take_turns(bench, few, many, spent, folder)])
    ms = {key: statistics.median(values) for key, values in spent.items()}
    peer = "writing its file"
    more, file_more = ms["many"] - ms["few"], ms["many file"] - ms["few file"]
    return [
        compare(
            f"commit at {MANY:,} snapshots over one at {FEW}, ms more",
            more,
            file_more,
            peer,
            goal=1.0,
            less_is_better=True,
            any_size=True,
        ),
        compare(f"commit at {FEW} snapshots, ms", ms["few"], ms["few file"], peer, less_is_better=True),
        compare(f"commit at {MANY:,} snapshots, ms", ms["many"], ms["many file"], peer, less_is_better=True),
    ]


def _take_turns(bench: Bench, few: Growing, many: Growing, spent: dict[str, list[float]], folder: Path) -> Client:
    """Commits and files of both sizes in turns, on one connection, so that whatever else the machine does hits all four
    alike.
    """
    contents = {}
    for name, table in (("few", few), ("many", many)):
        reply = yield bench.place.load(table.name)
        expect(reply, 200)
        contents[name] = orjson.loads(reply.body)["metadata"]
    for number in range(ROUNDS):
        for name, table in (("few", few), ("many", many)):
            asked = bench.place.append(table)
            start = time.perf_counter()
            reply = yield asked
            spent[name].append((time.perf_counter() - start) * 1000)
            expect(reply, 200)
            table.committed()
            spent[f"{name} file"].append(_file_ms(contents[name], folder / f"{name}-{number}"))


def _file_ms(metadata: object, path: Path) -> float:
    """The cost of serialising, writing and syncing this metadata as a new file."""
    start = time.perf_counter()
    with path.open("wb") as file:
        file.write(orjson.dumps(metadata))
        file.flush()
        os.fsync(file.fileno())
    return (time.perf_counter() - start) * 1000
