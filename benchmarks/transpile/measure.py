"""Lets the cases take turns, and sets them side by side."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.report import Figure, Options, compare
from benchmarks.transpile.processes import Case, running_case

CASES = ("bare", "sqlglot", "bare-2", "plain-1", "plain-2", "cost", "spark-1", "spark-2")
WARM_QUERIES = 2_000
SINK_SHARE = 0.02  # of the CPU seconds of bare transpiling: what the sink may cost
TWO_CORES = 1.8


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    queries: int
    rounds: int


FULL, QUICK = Size(50_000, 4), Size(5_000, 2)
Costs = Mapping[str, Sequence[Mapping[str, float]]]  # by case, one a round


def measure_all(options: Options) -> list[Figure]:
    """Every case once a round, in another order each time."""
    size = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="frazil-bench-") as folder, ExitStack() as stack:
        files = _write_files(Path(folder) / "queries", size)
        cases = [_start(name, Path(folder), stack) for name in CASES]
        measure: dict[str, list[dict[str, float]]] = {case.name: [] for case in cases}
        for number, file in enumerate(files):
            for case in [*cases[number % len(cases) :], *cases[: number % len(cases)]]:
                measure[case.name].append(case.measure(file))
                _tell(case.name, measure[case.name][-1], size)
    return figures(measure, size)


def _write_files(folder: Path, size: Size) -> list[Path]:
    from examples.transpile.queries import write_queries

    write_queries(folder / "warm.parquet", WARM_QUERIES, seed=1)
    return [write_queries(folder / f"{n}.parquet", size.queries, first=n * size.queries) for n in range(size.rounds)]


def _start(name: str, folder: Path, stack: ExitStack) -> Case:
    """A case, warm. Each has a catalog of its own: two sinks of one name would fence each other."""
    from frazil.catalog.embedded import running_catalog

    server = stack.enter_context(running_catalog(folder / name))
    case = stack.enter_context(running_case(name, folder / "queries", server.uri))
    case.wait()
    return case


def _tell(name: str, cost: Mapping[str, float], size: Size) -> None:
    rate = f" {size.queries / cost['wall_s']:7,.0f} queries/s" if "wall_s" in cost else ""
    without = f"  without the sink {cost['bare_s']:6.2f} CPU s" if "bare_s" in cost else ""
    print(f"  {name:8s} {size.queries:,} queries: {cost['cpu_s']:6.2f} CPU s{rate}{without}", flush=True)


def figures(value: Costs, size: Size) -> list[Figure]:
    """The goals first, then every case's rate next to that of the bare loop."""
    queries = size.rounds * size.queries
    rates = {name: queries / _sum(costs, "wall_s") for name, costs in value.items() if name != "cost"}
    rates |= {f"{name}-bare": queries / _sum(value[name], "bare_wall_s") for name in ("spark-1", "spark-2")}

    def compared(label: str, name: str, peer: str, peer_label: str, goal: float | None = None) -> Figure:
        return compare(f"{label}, queries/s", rates[name], rates[peer], peer_label, goal=goal)

    return [
        *_sink_cost("plain Python", value["cost"]),
        *_sink_cost("Spark, 2 cores", value["spark-2"]),
        compared("plain Python, 2 cores", "plain-2", "plain-1", "1 core", TWO_CORES),
        compared("Spark, 2 cores", "spark-2", "spark-1", "1 core", TWO_CORES),
        compared("no sink, 2 cores", "bare-2", "bare", "1 core: the machine's own limit"),
        compared("plain Python, 1 core", "plain-1", "bare", "the same queries, no sink"),
        compared("plain Python, 2 cores", "plain-2", "bare-2", "the same queries, no sink"),
        compared("Spark, 1 core", "spark-1", "spark-1-bare", "the same frame, no sink"),
        compared("Spark, 2 cores", "spark-2", "spark-2-bare", "the same frame, no sink"),
        compared("Spark, 2 cores", "spark-2", "bare-2", "plain Python, no sink"),
        compared("plain Python, 1 core", "plain-1", "sqlglot", "sqlglot.transpile in a loop"),
    ]


def _sink_cost(label: str, costs: Sequence[Mapping[str, float]]) -> list[Figure]:
    """What the sink adds to the CPU seconds of the same queries without it, next to what it may add."""
    bare, own = _sum(costs, "bare_s"), _sum(costs, "cpu_s") - _sum(costs, "bare_s")
    allowed = compare(f"{label}: the sink's CPU s", own, bare * SINK_SHARE, "2% of bare", goal=1.0, less_is_better=True)
    if own <= 0:  # lost in the noise: no ratio, but no cost either
        allowed = replace(allowed, ratio=None, met=True)
    return [allowed, compare(f"{label}: the sink's CPU, % of bare", 100 * own / bare)]


def _sum(costs: Sequence[Mapping[str, float]], name: str) -> float:
    return sum(cost[name] for cost in costs)
