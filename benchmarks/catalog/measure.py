"""Runs the scenarios on the servers in turns and makes figures of what was measured."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.catalog.floor import bare_rate
from benchmarks.catalog.growth import measure_growth
from benchmarks.catalog.scenarios import SCENARIOS, Bench, Scenario
from benchmarks.catalog.servers import OURS, POSTGRES, REFERENCE, Server, both_on_sqlite, ours_on_postgres
from benchmarks.load import drive, measure_ceiling
from benchmarks.report import Figure, Options, compare

LISTED = 5_000
BARE = "bare files and SQLite"  # the files, syncs and rows of a commit, with no server around them
BARE_SCENARIOS = ("create a table", "append, own table each")


@dataclass(frozen=True)
class Sample:
    """One measured run: operations a second, and CPU milliseconds of the server for each."""

    rate: float
    cpu_ms: float


@dataclass(frozen=True)
class Plan:
    """How long to measure: rounds, numbers of clients, what part of the operations, and how many tables are listed."""

    rounds: int
    clients: tuple[int, ...]
    part: float
    listed: int

    @classmethod
    def of(cls, options: Options) -> Plan:
        return cls(1, (1, 8), 0.25, 500) if options.quick else cls(5, (1, 8, 32), 1.0, LISTED)


Samples = dict[tuple[str, int, str], list[Sample]]  # by scenario, clients and server


def measure_all(options: Options) -> list[Figure]:
    """All figures: the generator's ceiling, ours next to the reference, the growth of commits, and ours
    on PostgreSQL.
    """
    plan = Plan.of(options)
    figures = [compare(f"generator's ceiling, requests/s, {n} clients", measure_ceiling(n)) for n in plan.clients]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        samples, growth = _measure(both_on_sqlite(folder / "sqlite"), plan, folder)
        figures += _compared(samples, plan) + growth
        samples, _ = _measure(ours_on_postgres(folder / "postgres"), replace(plan, rounds=1), None)
        figures += _reported(samples, plan)
    return figures


def _measure(
    servers: AbstractContextManager[list[Server]], plan: Plan, folder: Path | None
) -> tuple[Samples, list[Figure]]:
    samples: Samples = {}
    with servers as running:
        benches = [Bench(server) for server in running]
        for bench in benches:
            bench.prepare()
            for scenario in SCENARIOS:
                run_scenario(bench, scenario, 8, int(scenario.warm_up * plan.part))
        for round_number in range(plan.rounds):
            for scenario in SCENARIOS:
                if scenario.name == "list the tables":
                    _fill(benches, plan.listed)
                for clients in plan.clients:
                    # Who goes first changes with each round.
                    for bench in benches if round_number % 2 == 0 else reversed(benches):
                        key = (scenario.name, clients, bench.server.name)
                        samples.setdefault(key, []).append(
                            run_scenario(bench, scenario, clients, int(scenario.operations * plan.part))
                        )
            if folder:
                _measure_bare(samples, plan, folder / "bare")
        return samples, measure_growth(benches[0], folder) if folder else []


def _measure_bare(samples: Samples, plan: Plan, folder: Path) -> None:
    for scenario in (scenario for scenario in SCENARIOS if scenario.name in BARE_SCENARIOS):
        operations = int(scenario.operations * plan.part)
        rate, cpu_ms = bare_rate(folder, clients=8, operations=operations, create=scenario.name == BARE_SCENARIOS[0])
        samples.setdefault((scenario.name, 8, BARE), []).append(Sample(rate, cpu_ms))


def run_scenario(bench: Bench, scenario: Scenario, clients: int, operations: int) -> Sample:
    """What one run of a scenario with a number of clients gives."""
    each = max(1, operations // clients)
    workers = scenario.build(bench, clients, each)
    before = bench.server.cpu_seconds()
    seconds = drive(bench.server.address, workers)
    done = each * clients
    return Sample(done / seconds, (bench.server.cpu_seconds() - before) * 1000 / done)


def _fill(benches: Sequence[Bench], wanted: int) -> None:
    """Creates what is missing until the listed namespace has so many tables."""
    for bench in benches:
        missing = wanted - bench.created
        if missing > 0:
            run_scenario(bench, SCENARIOS[0], 8, missing + 7)


def _compared(samples: Samples, plan: Plan) -> list[Figure]:
    """Ours next to the reference: rates with their goals, then CPU."""
    rates, costs = [], []
    for scenario in SCENARIOS:
        for clients in plan.clients:
            ours, java = (samples[scenario.name, clients, name] for name in (OURS, REFERENCE))
            label = f"{scenario.name}, {clients} client{'s' if clients > 1 else ''}"
            goal = scenario.goals.get(clients)
            rates.append(compare(f"{label}, /s", _rate(ours), _rate(java), REFERENCE, goal=goal))
            if clients == 8:
                costs.append(compare(f"{label}, CPU ms", _cpu(ours), _cpu(java), REFERENCE, less_is_better=True))
    for name in BARE_SCENARIOS:
        ours, bare = samples[name, 8, OURS], samples[name, 8, BARE]
        rates.append(compare(f"{name}, 8 clients, /s", _rate(ours), _rate(bare), BARE))
        costs.append(compare(f"{name}, 8 clients, CPU ms", _cpu(ours), _cpu(bare), BARE, less_is_better=True))
    return rates + costs


def _reported(samples: Samples, plan: Plan) -> list[Figure]:
    """Ours on PostgreSQL: no peer, no goal."""
    keys = [(scenario.name, clients) for scenario in SCENARIOS for clients in plan.clients]
    return [
        compare(f"PostgreSQL: {name}, {clients} clients, /s", _rate(samples[name, clients, POSTGRES]))
        for name, clients in keys
    ]


def _rate(samples: Sequence[Sample]) -> float:
    return statistics.median(sample.rate for sample in samples)


def _cpu(samples: Sequence[Sample]) -> float:
    return statistics.median(sample.cpu_ms for sample in samples)
