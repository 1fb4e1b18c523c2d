"""Runs the cases and makes the figures."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.planning.tables import make_table
from benchmarks.report import Figure, Options, compare

SIZES = (1_000, 10_000, 100_000)
LARGEST = 1_000_000
QUERIES = {"day": "selective, one day", "needle": "selective, no partition", "full": "full"}
COLD_GOALS = {"day": 3.0, "needle": 3.0}
WARM_GOALS = {"day": 50.0, "needle": 50.0, "full": 5.0}
WHO = ("ours", "pyiceberg", "java")
ROUNDS = {"day": 5}
Case = dict[str, float]


def measure_all(options: Options) -> list[Figure]:
    """All figures: each size next to PyIceberg and Java, then a million files alone."""
    sizes = SIZES[:2] if options.quick else SIZES
    with tempfile.TemporaryDirectory(prefix="frazil-planning-") as folder:
        figures, ours = [], {}
        first = make_table(Path(folder) / "first", 1)
        for files in sizes:
            metadata = make_table(Path(folder) / str(files), files)
            cases = _cases(first, metadata, files)
            ours[files] = cases
            figures += _compared(cases, files, goals=files == SIZES[-1])
        if not options.quick:
            metadata = make_table(Path(folder) / str(LARGEST), LARGEST)
            figures += _alone({query: _case("ours", query, first, metadata, LARGEST) for query in QUERIES})
        return [*figures, _sublinear(ours[sizes[0]], ours[sizes[-1]], sizes[0], sizes[-1])]


def _cases(first: Path, metadata: Path, files: int) -> dict[tuple[str, str], Case]:
    """What each planner needs for each query. A cold plan happens once in a process: of short ones several are made, in
    turn.
    """
    rounds: dict[tuple[str, str], list[Case]] = {}
    for query in QUERIES:
        for _ in range(ROUNDS.get(query, 1)):
            for who in WHO:
                rounds.setdefault((who, query), []).append(_case(who, query, first, metadata, files))
    return {key: {name: median(case[name] for case in cases) for name in cases[0]} for key, cases in rounds.items()}


def _case(who: str, query: str, first: Path, metadata: Path, files: int) -> Case:
    command = [sys.executable, "-m", "benchmarks.planning.case", who, query, str(first), str(metadata), str(files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{who} {query} of {files} files failed:\n{done.stderr[-2000:]}")
    document: Case = json.loads(done.stdout.splitlines()[-1])
    return document


def _compared(values: dict[tuple[str, str], Case], files: int, *, goals: bool) -> list[Figure]:
    figures = []
    for query, title in QUERIES.items():
        ours, peer, java = (values[who, query] for who in WHO)
        assert ours["tasks"] == peer["tasks"] == java["tasks"], (
            f"{title} of {files}: {ours['tasks']}, {peer['tasks']}, {java['tasks']}"
        )
        for when, of in (("cold", COLD_GOALS), ("warm", WARM_GOALS)):
            name = f"{files:,} files, {title}, {when}"
            goal = of.get(query) if goals else None
            mine, theirs = ours[f"{when}_s"] * 1000, peer[f"{when}_s"] * 1000
            figures.append(compare(f"{name}, CPU ms", mine, theirs, "PyIceberg", goal=goal, less_is_better=True))
            figures.append(
                compare(f"{name}, CPU ms", mine, java[f"{when}_s"] * 1000, "Java (Iceberg 1.12)", less_is_better=True)
            )
    grown = [values[who, "full"]["grown_mb"] for who in ("ours", "pyiceberg")]
    memory = compare(
        f"{files:,} files, full, peak MB",
        grown[0],
        grown[1],
        "PyIceberg",
        goal=4.0 if goals else None,
        less_is_better=True,
    )
    return [*figures, memory]


def _alone(values: dict[str, Case]) -> list[Figure]:
    figures = []
    for query, case in values.items():
        figures += [
            compare(f"{LARGEST:,} files, {QUERIES[query]}, {when}, CPU ms", case[f"{when}_s"] * 1000)
            for when in ("cold", "warm")
        ]
    return [*figures, compare(f"{LARGEST:,} files, full, peak MB", values["full"]["grown_mb"])]


def _sublinear(few: dict[tuple[str, str], Case], many: dict[tuple[str, str], Case], less: int, more: int) -> Figure:
    """How much cheaper a file is in the larger table when the partition prunes; 1 would be linear."""
    cost = many["ours", "day"]["cold_s"] / few["ours", "day"]["cold_s"]
    title = f"one day of {more:,} files next to {less:,}, cold: times the cost, next to times the files"
    return compare(title, cost, more / less, "linear", goal=2.0, less_is_better=True)
