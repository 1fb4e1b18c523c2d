"""Runs the cases, one process each, in turns so that a busy moment hits all of them, and compares."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.read.tables import make_table
from benchmarks.report import Figure, Options, compare

ROWS, QUICK_ROWS = 10_000_000, 500_000
PEERS = ("pyarrow", "pyiceberg", "daft", "duckdb")
QUERIES = {
    "full": "every column",
    "columns": "3 of 6 columns",
    "filter": "3 columns, 1 row in 20",
    "range": "3 columns, 1 row in 100 in one place",
}
# raw pyarrow knows the files beforehand and nothing of tables; the other readers of tables are to be behind
GOALS = {"pyarrow": 0.9, "daft": 1.0, "duckdb": 1.0}
TURNS, ROUNDS = 3, 4


def measure_all(options: Options) -> list[Figure]:
    """Millions of the table's rows per second, ours next to each peer's."""
    rows = QUICK_ROWS if options.quick else ROWS
    with tempfile.TemporaryDirectory(prefix="frazil-read-") as folder:
        place = make_table(Path(folder), rows)
        return [
            figure for query in QUERIES for figure in _compare(query, place, rows, turns=1 if options.quick else TURNS)
        ]


def _compare(query: str, place: Path, rows: int, *, turns: int) -> list[Figure]:
    result: dict[str, list[dict[str, float]]] = {}
    for _ in range(turns):
        for who in ("ours", *PEERS):
            result.setdefault(who, []).append(_case(who, query, place))
    counts = {who: {item["rows"] for item in some} for who, some in result.items()}
    assert len(set().union(*counts.values())) == 1, f"{query}: not the same rows: {counts}"
    best = {who: min(item["wall_s"] for item in some) for who, some in result.items()}
    peak = {who: min(item["peak_mb"] for item in some) for who, some in result.items()}
    rate = {who: rows / wall / 1e6 for who, wall in best.items()}
    names = {"pyarrow": "raw pyarrow", "pyiceberg": "PyIceberg", "daft": "Daft", "duckdb": "DuckDB"}
    title = f"{QUERIES[query]}: M rows/s"
    figures = [compare(title, rate["ours"], rate[who], names[who], goal=GOALS.get(who)) for who in PEERS]
    cpu = {who: min(item["cpu_s"] for item in some) for who, some in result.items()}
    figures.append(compare(f"{QUERIES[query]}: CPU s", cpu["ours"], cpu["pyarrow"], "raw pyarrow", less_is_better=True))
    return [
        *figures,
        compare(f"{QUERIES[query]}: peak MB", peak["ours"], peak["pyarrow"], "raw pyarrow", less_is_better=True),
    ]


def _case(who: str, query: str, place: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.read.case", who, query, str(place), str(ROUNDS)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result
