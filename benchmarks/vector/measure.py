"""Runs the systems one after the other on the same vectors, and sets them side by side."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.report import Figure, Options, compare
from benchmarks.vector.data import Data
from benchmarks.vector.kept import Costs, Kept
from benchmarks.vector.peers import installed, python_of_peers
from benchmarks.vector.sentences import sentences, with_noise

QUICK_ROWS, MANY_ROWS = 10_000, 1_000_000
REACH = 0.95
MOST_SLOWER = 3  # times, with a filter
MOST_LOST = 0.01  # of the recall, after changes
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Goals:
    """What is to be reached on one set of vectors."""

    bytes: float
    single: float
    batch: float
    build_s: float


GOALS, MANY_GOALS = Goals(1e6, 100, 500, 60), Goals(5e6, 30, 150, 360)


def measure_all(options: Options, folder: Path | None = None, peers: Sequence[str] | None = None) -> list[Figure]:
    """Every system on the sentences; in a full run also on a million vectors."""
    real, figures = sentences(QUICK_ROWS if options.quick else None), []
    with Kept.at(folder) as kept:
        figures += _measure(kept, kept.data(len(real), lambda: real), peers, "sentences", GOALS)
        if not options.quick:
            many = kept.data(MANY_ROWS, lambda: with_noise(real, MANY_ROWS))
            figures += _measure(kept, many, peers, "with noise", MANY_GOALS)
    return figures


def _measure(kept: Kept, data: Data, peers: Sequence[str] | None, name: str, goals: Goals) -> list[Figure]:
    python = python_of_peers()
    costs = {"ours": measure_ours(kept, data)}
    for peer in installed(python):
        if peers is None or peer in peers:
            costs[peer] = kept.costs(peer, data, partial(_run, peer, data, str(python)))
    return list(_figures(f"{len(data.vectors):,} {name}", costs, goals))


def measure_ours(kept: Kept, data: Data) -> Costs:
    """Our index in a process of its own, with a catalog."""
    from frazil.catalog.embedded import running_catalog
    from frazil.client import connect

    def measure() -> Costs:
        with running_catalog() as server:
            connect(uri=server.uri).create_namespace("bench")
            return _run("ours", data, sys.executable, server.uri)

    return kept.costs("ours", data, measure)


def _run(who: str, data: Data, python: str, *arguments: str) -> Costs:
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as scratch:
        command = [python, "-m", "benchmarks.vector.case", who, str(data.folder), scratch, *arguments]
        threads = {f"{name}_THREADS": "2" for name in ("OMP_NUM", "OPENBLAS_NUM", "LANCE_CPU", "RAYON_NUM")}
        environ = {**os.environ, **threads, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"{who} failed:\n{done.stderr[-2000:]}")
    costs: Costs = json.loads(done.stdout.splitlines()[-1])
    print(
        f"  {who:10s} {len(data.vectors):>9,} vectors: recall {costs['recall']:.3f} at {costs['effort']}, "
        f"{costs['single']:,.0f} queries/s, {costs['batch']:,.0f} in batches, build {costs['build_s']:.1f} s "
        f"{costs['build_mb']:,.0f} MB, index {costs['index_mb']:,.0f} MB"
        + "".join(
            f"; {percent}%: recall {costs[f'recall_{percent}']:.3f}, {costs[f'single_{percent}']:,.0f}/s"
            for percent in (1, 10)
            if f"recall_{percent}" in costs
        )
        + (f"; later: recall {costs['recall_later']:.3f}" if "recall_later" in costs else ""),
        flush=True,
    )
    return costs


def _figures(name: str, costs: dict[str, Costs], goals: Goals) -> list[Figure]:
    ours, peers = costs["ours"], {peer: cost for peer, cost in costs.items() if peer != "ours"}

    def against(figure: str, key: str, *, goal: float | None = None, less_is_better: bool = False) -> list[Figure]:
        return [
            compare(
                f"{name}: {figure}",
                ours[key],
                cost[key],
                f"{peer}, recall {cost['recall']:.2f}",
                goal=goal if peer == "lancedb" else None,
                less_is_better=less_is_better,
            )
            for peer, cost in peers.items()
            if key in cost
        ]

    def reach(figure: str, value: float, limit: float, *, less_is_better: bool = False) -> Figure:
        text, recall = f"{name}: {figure}", figure.startswith("recall")
        return compare(text, value, limit, "to reach", goal=1, less_is_better=less_is_better, any_size=recall)

    return [
        reach("recall@10", ours["recall"], REACH),
        *against("queries/s, single", "single", goal=1),
        *against("queries/s, batches of 64", "batch", goal=1),
        *against("CPU ms per query, single", "single_cpu", less_is_better=True),
        *against("CPU ms per query, batches of 64", "batch_cpu", less_is_better=True),
        reach("queries/s, single", ours["single"], goals.single),
        reach("queries/s, batches of 64", ours["batch"], goals.batch),
        reach("bytes per query, nothing in memory", ours["bytes"], goals.bytes, less_is_better=True),
        reach("ranges per query, nothing in memory", ours["ranges"], 60, less_is_better=True),
        reach("build s", ours["build_s"], goals.build_s, less_is_better=True),
        *against("build s", "build_s", less_is_better=True),
        *against("build, CPU s", "build_cpu", less_is_better=True),
        *against("index MB", "index_mb", less_is_better=True),
        *against("build, peak MB", "build_mb", less_is_better=True),
        *against("search, peak MB", "search_mb", less_is_better=True),
        *(
            figure
            for percent in (1, 10)
            for figure in (
                reach(f"recall@10, {percent}% match", ours[f"recall_{percent}"], REACH),
                compare(
                    f"{name}: queries/s, {percent}% match",
                    ours[f"single_{percent}"],
                    ours["single"],
                    "ours, no filter",
                    goal=round(1 / MOST_SLOWER, 3),
                ),
                *against(f"queries/s, {percent}% match", f"single_{percent}"),
            )
        ),
        reach("recall@10, 10% deleted, 5% appended", ours["recall_later"], ours["recall"] - MOST_LOST),
        *against("recall@10, 10% deleted, 5% appended", "recall_later"),
        *against("queries/s, 10% deleted, 5% appended", "single_later"),
    ]
