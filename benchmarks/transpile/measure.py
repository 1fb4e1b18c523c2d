"""Lets the cases take turns, and sets them side by side."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import Figure, Options, compare
from benchmarks.transpile.processes import Case, running_case

CASES = ("bare", "sqlglot", "bare-2", "plain-1", "plain-2", "cost")
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
        found: dict[str, list[dict[str, float]]] = {case.name: [] for case in cases}
        for number, file in enumerate(files):
            for case in [*cases[number % len(cases) :], *cases[: number % len(cases)]]:
                found[case.name].append(case.measure(file))
                _tell(case.name, found[case.name][-1], size)
    return figures(found, size)


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
    rate = f"{size.queries / cost['wall_s']:7,.0f} queries/s" if "wall_s" in cost else ""
    print(f"  {name:8s} {size.queries:,} queries: {cost['cpu_s']:6.2f} CPU s {rate}", flush=True)


def figures(found: Costs, size: Size) -> list[Figure]:
    """The goals first, then every case's rate beside that of the bare loop."""
    bare_s, sink_s = _sum(found["cost"], "bare_s"), _sum(found["cost"], "cpu_s")
    rates = {name: size.rounds * size.queries / _sum(costs, "wall_s") for name, costs in found.items() if name != "cost"}

    def beside(label: str, name: str, peer: str, peer_label: str, goal: float | None = None) -> Figure:
        return compare(f"{label}, queries/s", rates[name], rates[peer], peer_label, goal=goal)

    return [
        compare("the sink's own CPU s", max(sink_s - bare_s, 0.0), bare_s * SINK_SHARE, "2% of bare", goal=1.0, less_is_better=True),
        compare("the sink's own CPU, % of bare", 100 * (sink_s - bare_s) / bare_s),
        beside("plain Python, 2 cores", "plain-2", "plain-1", "1 core", TWO_CORES),
        beside("no sink, 2 cores", "bare-2", "bare", "1 core: the machine's own limit"),
        beside("plain Python, 1 core", "plain-1", "bare", "the same queries, no sink"),
        beside("plain Python, 2 cores", "plain-2", "bare-2", "the same queries, no sink"),
        beside("plain Python, 1 core", "plain-1", "sqlglot", "sqlglot.transpile in a loop"),
    ]


def _sum(costs: Sequence[Mapping[str, float]], name: str) -> float:
    return sum(cost[name] for cost in costs)
