"""One case in a process of its own: `python -m benchmarks.planning.case WHO QUERY FIRST METADATA FILES`; prints what it
cost as JSON.

FIRST and METADATA are metadata files: of a small table that is planned before anything is measured, and of the one that
counts. WHO is ours, pyiceberg or java; QUERY is day (a day and an id in it), needle (an id, no partition) or full.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.planning.tables import DAY_US, FILES_A_DAY, FIRST_DAY, ROWS

Plan = Callable[[], int]  # plans once; how many tasks there are
WARM_SECONDS, WARM_ROUNDS = 6.0, 30


def query_values(files: int) -> tuple[int, int, int]:
    """An id in the middle of the table, and the day that has it: from, and up to."""
    number = files // 2 + 7
    day = FIRST_DAY + number // FILES_A_DAY
    return number * ROWS + 17, day * DAY_US, (day + 1) * DAY_US


def expression(query: str, files: int) -> Any:
    from pyiceberg.expressions import AlwaysTrue, And, EqualTo, GreaterThanOrEqual, LessThan

    wanted, start, stop = query_values(files)
    if query == "full":
        return AlwaysTrue()
    needle = EqualTo("id", wanted)
    return needle if query == "needle" else And(And(GreaterThanOrEqual("at", start), LessThan("at", stop)), needle)


def ours(query: str, metadata: Path, files: int) -> Plan:
    from frazil.scan.planning.compiled import ScanCache
    from frazil.scan.planning.plan import Planner, ScanRequest
    from frazil.scan.planning.table import TableState

    state = TableState("lake.events", json.loads(metadata.read_text()))
    cache = ScanCache(lambda path: Path(path).read_bytes(), max_bytes=4 << 30)
    request = ScanRequest(filter=expression(query, files))
    return lambda: len(list(Planner(state, cache, request).plan().tasks()))


def pyiceberg(query: str, metadata: Path, files: int) -> Plan:
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(str(metadata))
    expr = expression(query, files)
    return lambda: len(list(table.scan(row_filter=expr).plan_files()))


def java(query: str, metadata: Path, files: int) -> Plan:
    from benchmarks.planning.java import JavaPlanner

    return JavaPlanner(metadata).planner(query, query_values(files))


def java_clock() -> Callable[[], float]:
    from benchmarks.planning.java import cpu_seconds

    return cpu_seconds


def memory_mb() -> float:
    """The program's own memory; pages of mapped files do not count."""
    text = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("RssAnon:")) / 1024


def peak_mb() -> float:
    text = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM:")) / 1024


def measure(who: str, query: str, first: Path, metadata: Path, files: int) -> dict[str, float]:
    prepare = {"ours": ours, "pyiceberg": pyiceberg, "java": java}[who]
    prepare(query, first, 1)()
    plan = prepare(query, metadata, files)
    clock = java_clock() if who == "java" else time.process_time
    before, wall_before = peak_mb(), time.perf_counter()
    started = clock()
    tasks = plan()
    cold, wall = clock() - started, time.perf_counter() - wall_before
    held, grown = memory_mb(), peak_mb() - before
    rounds: list[float] = []
    end = time.perf_counter() + WARM_SECONDS
    while len(rounds) < WARM_ROUNDS and (not rounds or time.perf_counter() < end):
        started = clock()
        plan()
        rounds.append(clock() - started)
    return {"tasks": tasks, "cold_s": cold, "warm_s": min(rounds), "wall_s": wall, "grown_mb": grown, "held_mb": held}


if __name__ == "__main__":
    _, who, query, first, metadata, files = sys.argv
    print(json.dumps(measure(who, query, Path(first), Path(metadata), int(files))), flush=True)
    os._exit(0)  # a JVM's threads would keep the process
