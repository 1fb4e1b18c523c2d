"""Measures commits per second on one contended table, in turns, and makes figures of them."""

from __future__ import annotations

import json
import statistics
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.catalog.measure import Sample
from benchmarks.catalog.scenarios import Bench
from benchmarks.catalog.servers import OURS, REFERENCE, both_on_sqlite
from benchmarks.catalog.workload import Growing, contending
from benchmarks.contention.clients import share_that_succeeds
from benchmarks.contention.prepared import open_table, prepare, sending
from benchmarks.load import Client, drive
from benchmarks.report import Figure, Options, compare

REBASED, REFUSED = f"{OURS}, rebase", f"{OURS}, no rebase"
WRITERS = (1, 8, 32)
CLIENTS = (8, 32)  # PyIceberg writers
RELOADS = "loads after each 409"  # the writers of ours know an old head, and never load the table
OVER_REFERENCE, OVER_EIGHT = 10.0, 1.0  # at 8 writers; 32 writers over 8
ALL = 1.0  # of the appends of PyIceberg writers, with rebase


@dataclass(frozen=True)
class Plan:
    """How long to measure: rounds, and commits of each; and how many appends each PyIceberg writer tries."""

    rounds: int
    commits: int
    tries: int

    @classmethod
    def of(cls, options: Options) -> Plan:
        return cls(1, 96, 2) if options.quick else cls(5, 320, 10)


Samples = dict[tuple[str, int], list[Sample]]  # by what was measured, and the number of writers
Shares = dict[tuple[str, int], float]  # percentages of appends that succeed, likewise


def measure_all(options: Options) -> list[Figure]:
    """All figures."""
    plan = Plan.of(options)
    samples: Samples = {}
    with tempfile.TemporaryDirectory() as name, both_on_sqlite(Path(name)) as running:
        ours, reference = (Bench(server) for server in running)
        for bench in (ours, reference):
            bench.ask(bench.place.create_namespace())
        cases: list[tuple[str, Callable[[int, int], Sample]]] = [
            (REBASED, lambda writers, commits: run_rebased(ours, writers, commits)),
            (REFUSED, lambda writers, commits: run_contending(ours, writers, commits)),
            (REFERENCE, lambda writers, commits: run_contending(reference, writers, commits)),
        ]
        for _, run in cases:
            run(8, plan.commits)  # the JVM compiles a path only after many calls
        for round_number in range(plan.rounds):
            for writers in WRITERS:
                for case, run in cases if round_number % 2 == 0 else reversed(cases):
                    samples.setdefault((case, writers), []).append(run(writers, plan.commits))
        shares = measure_clients(ours, reference, plan.tries)
    return [*make_figures(samples), *share_figures(shares)]


def measure_clients(ours: Bench, reference: Bench, tries: int) -> Shares:
    """What part of the appends of PyIceberg writers succeeds, without retries."""
    cases = ((REBASED, ours, True), (REFUSED, ours, False), (REFERENCE, reference, False))
    return {
        (case, writers): share_that_succeeds(bench.server.address, writers, tries, rebases=rebases)
        for writers in CLIENTS
        for case, bench, rebases in cases
    }


def run_rebased(bench: Bench, writers: int, commits: int) -> Sample:
    """Commits of writers that all know an old head, and are rebased."""
    table = open_table(bench)
    requests = iter([prepare(bench, table) for _ in range(commits)])
    sample = _run(bench, [sending(requests) for _ in range(writers)], commits)
    name = table.name()[-1]
    with urllib.request.urlopen(
        f"{bench.server.address}{bench.place.root}/namespaces/{bench.place.namespace}/tables/{name}"
    ) as reply:
        snapshots = json.load(reply)["metadata"]["snapshots"]
    if len(snapshots) != commits + 1:
        raise RuntimeError(f"{commits + 1} snapshots were committed, the table has {len(snapshots)}")
    return sample


def run_contending(bench: Bench, writers: int, commits: int) -> Sample:
    """Commits of writers that load the table after a conflict, and try again."""
    (table,) = bench.new_tables(1)
    left = [commits]
    return _run(bench, [contending(bench.place, Growing(table.name), left) for _ in range(writers)], commits)


def _run(bench: Bench, clients: Sequence[Client], commits: int) -> Sample:
    before = bench.server.cpu_seconds()
    seconds = drive(bench.server.address, clients, seconds=600)
    return Sample(commits / seconds, (bench.server.cpu_seconds() - before) * 1000 / commits)


def make_figures(samples: Samples) -> list[Figure]:
    """Rates next to the reference and next to no rebase; CPU; 32 writers next to 8."""

    def median(case: str, writers: int, value: str) -> float:
        return statistics.median(getattr(sample, value) for sample in samples[case, writers])

    figures = []
    for value, unit, less in (("rate", "/s", False), ("cpu_ms", "CPU ms", True)):
        for writers in WRITERS:
            label = f"commits to one table, {writers} writer{'s' if writers > 1 else ''}, {unit}"
            ours = median(REBASED, writers, value)
            goal = OVER_REFERENCE if writers == 8 and not less else None
            for peer, wanted in ((REFERENCE, goal), (REFUSED, None)):
                other = median(peer, writers, value)
                figures.append(compare(label, ours, other, f"{peer}, {RELOADS}", goal=wanted, less_is_better=less))
    few, many = (median(REBASED, writers, "rate") for writers in (8, 32))
    over = compare("commits to one table, 32 writers, /s", many, few, f"{OURS}, 8 writers", goal=OVER_EIGHT)
    return [*figures, over]


def share_figures(shares: Shares) -> list[Figure]:
    """The percentage of appends that succeed, in whole percents: rounded down, so that a single refused one shows. With
    rebase it is to be all of them.
    """
    figures = []
    for writers in CLIENTS:
        ours = int(shares[REBASED, writers])
        label = f"PyIceberg appends that succeed, {writers} writers, %"
        figures += [compare(label, ours, shares[peer, writers], peer) for peer in (REFERENCE, REFUSED)]
        figures.append(compare(label, ours, 100.0, "all of them", goal=ALL, any_size=True))
    return figures
