"""Runs the scenarios of the catalog's benchmark with authentication off and on, and makes figures of the ratio."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil

from benchmarks.catalog.measure import run_scenario
from benchmarks.catalog.scenarios import SCENARIOS, Bench
from benchmarks.catalog.servers import WORKERS, Server
from benchmarks.catalog.workload import Place, expect
from benchmarks.load import Client, drive
from benchmarks.report import Figure, Options, compare
from tools.own_database import postgres_database
from tools.own_server import own_server

OFF, ON = "authentication off", "authentication on"
GOAL = 0.87  # of the rate without: 15% slower
SAME = 0.95  # the faster of two medians, as a part of the slower: they differ by noise only
ASKED = 1_000  # requests for a foreign and for a missing table, each


def measure_all(options: Options) -> list[Figure]:
    """All figures: the ratio on each database, then the times of two 404s."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures += _measure(folder / "sqlite", None, options)
        with postgres_database(folder / "server") as url:
            figures += _measure(folder / "postgres", url, options)
    return figures


def _measure(folder: Path, database: str | None, options: Options) -> list[Figure]:
    rounds, clients, part = (3, (1, 8), 0.5) if options.quick else (9, (1, 8), 1.0)
    label = "PostgreSQL" if database else "SQLite"
    rates: dict[tuple[str, int, str], list[float]] = {}
    costs: dict[tuple[str, int, str], list[float]] = {}
    with _servers(folder, database) as (servers, guest):
        benches = [Bench(server) for server in servers]
        for bench in benches:
            bench.prepare()
            for scenario in SCENARIOS:
                run_scenario(bench, scenario, 8, int(scenario.warm_up * part / 4))
        for round_number in range(rounds):
            for scenario in SCENARIOS:
                for count in clients:
                    for bench in benches if round_number % 2 == 0 else reversed(benches):
                        sample = run_scenario(bench, scenario, count, int(scenario.operations * part))
                        rates.setdefault((scenario.name, count, bench.server.name), []).append(sample.rate)
                        costs.setdefault((scenario.name, count, bench.server.name), []).append(sample.cpu_ms)
        figures = []
        for scenario in SCENARIOS:
            for count in clients:
                on, off = (statistics.median(rates[scenario.name, count, name]) for name in (ON, OFF))
                text = f"{label}: {scenario.name}, {count} client{'s' if count > 1 else ''}"
                figures.append(compare(f"{text}, /s", on, off, OFF, goal=GOAL))
                on, off = (statistics.median(costs[scenario.name, count, name]) for name in (ON, OFF))
                figures.append(compare(f"{text}, CPU ms", on, off, OFF, less_is_better=True))
        return [*figures, _times_of_misses(label, servers[1], guest)]


@contextlib.contextmanager
def _servers(folder: Path, database: str | None) -> Iterator[tuple[list[Server], str]]:
    """Our catalog with authentication off and on, each with a database of its own; and the token of a caller
    who may see nothing.
    """
    with contextlib.ExitStack() as running:
        servers, guest = [], ""
        for name in (OFF, ON):
            home = folder / name.replace(" ", "-")
            home.mkdir(parents=True)
            url = _new_database(database, name.rpartition(" ")[2]) if database else f"sqlite:///{home / 'catalog.db'}"
            variables = {"FRAZIL_SERVER__DATABASE": url, "FRAZIL_SERVER__PEPPER_FILE": str(home / "pepper")}
            token, options = "", []
            if name == ON:
                token, guest = _tokens(home, variables)
                options = ["--authentication", "keys"]
            address, process = running.enter_context(
                own_server(home, database=url, workers=WORKERS, options=options, variables=variables)
            )
            place = Place("/v1/default", token=token)
            servers.append(Server(name, address, place, psutil.Process(process.pid)))
        yield servers, guest


def _new_database(url: str, name: str) -> str:
    import psycopg

    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE bench_{name}")
    return f"{url.rpartition('/')[0]}/bench_{name}"


def _tokens(folder: Path, variables: dict[str, str]) -> tuple[str, str]:
    """The keys of the caller who works, and of one who may see nothing of it."""

    def frazil(*arguments: str) -> str:
        command = [sys.executable, "-m", "frazil", *arguments]
        environment = {**os.environ, **variables}
        return subprocess.run(command, env=environment, cwd=folder, check=True, capture_output=True, text=True).stdout

    frazil("catalog", "migrate")
    frazil("role", "create", "writer")
    tokens = [frazil("token", "create", name).split()[-1] for name in ("worker", "guest")]
    frazil("role", "add", "writer", "worker")
    frazil("grant", "create", "--warehouse", "default", "--to", "writer")
    return tokens[0], tokens[1]


# --- the time of a miss ----------------------------------------------------------------------------------------------


def _times_of_misses(label: str, server: Server, guest: str) -> Figure:
    """The medians of loads of a table that the caller may not see, and of one that does not exist."""
    place, seconds = replace(server.place, token=guest), {"small": list[float](), "smaII": list[float]()}

    def client() -> Client:
        for number in range(2 * (ASKED + 50)):
            name = ("small", "smaII")[number % 2]
            start = time.perf_counter()
            reply = yield place.load(name)
            if number >= 100:
                seconds[name].append(time.perf_counter() - start)
            expect(reply, 404)

    drive(server.address, [client()])
    slow, fast = sorted((statistics.median(times) * 1e6 for times in seconds.values()), reverse=True)
    text = f"{label}: 404 of a foreign and of a missing table, medians of {ASKED:,}, us"
    return compare(text, slow, fast, "the faster of the two", less_is_better=True, goal=SAME)
