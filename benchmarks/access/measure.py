"""Runs the scenarios of the catalog's benchmark with authentication off and on, and makes figures of the ratio."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from benchmarks.catalog.measure import Sample, run_scenario
from benchmarks.catalog.scenarios import SCENARIOS, Bench, Scenario
from benchmarks.catalog.servers import WORKERS, Server
from benchmarks.catalog.workload import Place, expect
from benchmarks.load import Client, drive
from benchmarks.report import Figure, Options, compare
from tools.own_database import postgres_database
from tools.own_server import own_server

OFF, ON = "authentication off", "authentication on"
GOAL = 0.87  # of the rate without: 15% slower
SAME = 0.95  # the faster of two medians, as a part of the slower: they differ by noise only
ASKED = 1_000  # requests of each of two kinds


@dataclass(frozen=True)
class _Command:
    """`frazil` in the folder of a server, with its database."""

    folder: Path
    variables: dict[str, str] = field(repr=False)

    def __call__(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "frazil", *arguments]
        environment = {**os.environ, **self.variables}
        done = subprocess.run(command, env=environment, cwd=self.folder, check=True, capture_output=True, text=True)
        return done.stdout


@dataclass(frozen=True)
class Guest:
    """A caller, and the command that gives it grants."""

    token: str = field(repr=False)
    frazil: _Command


def measure_all(options: Options) -> list[Figure]:
    """All figures: the ratios on each database, then the times of refusals."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures += _measure(folder / "sqlite", None, options)
        with postgres_database(folder / "server") as url:
            figures += _measure(folder / "postgres", url, options)
    return figures


def _measure(folder: Path, database: str | None, options: Options) -> list[Figure]:
    pairs, part = (8, 0.2) if options.quick else (24, 0.4)
    label = "PostgreSQL" if database else "SQLite"
    figures: list[Figure] = []
    with _servers(folder, database) as (servers, guest):
        off, on = (Bench(server) for server in servers)
        for bench in (off, on):
            bench.prepare()
            for scenario in SCENARIOS:
                run_scenario(bench, scenario, 8, int(scenario.warm_up * part / 2))
        for scenario in SCENARIOS:
            for clients in (1, 8):
                operations = max(clients, int(scenario.operations * part))
                samples = _in_turns((off, on), scenario, clients, operations, pairs)
                text = f"{label}: {scenario.name}, {clients} client{'s' if clients > 1 else ''}"
                figures += _compare(text, *samples)
        stranger = _make_stranger(on, guest)
        return [*figures, _times_of_misses(label, on.server, guest), _times_of_refusals(label, on.server, stranger)]


def _in_turns(
    benches: tuple[Bench, Bench], scenario: Scenario, clients: int, operations: int, pairs: int
) -> tuple[list[Sample], list[Sample]]:
    """Short runs on both servers, in turns: what else the machine does meets both. Who goes first changes."""
    samples: tuple[list[Sample], list[Sample]] = ([], [])
    for number in range(pairs):
        for position in (0, 1) if number % 2 == 0 else (1, 0):
            samples[position].append(run_scenario(benches[position], scenario, clients, operations))
    return samples


def _compare(text: str, off: Sequence[Sample], on: Sequence[Sample]) -> Iterator[Figure]:
    """Rate and CPU: medians, and as the ratio the median of those of neighbouring runs."""
    pairs = list(zip(on, off, strict=True))
    ratio = statistics.median(with_.rate / without.rate for with_, without in pairs)
    rate, peer = (statistics.median(sample.rate for sample in samples) for samples in (on, off))
    figure = compare(f"{text}, /s", rate, peer, OFF, goal=GOAL, any_size=True)
    yield replace(figure, ratio=round(ratio, 2), met=round(ratio, 2) >= GOAL)
    ratio = statistics.median(without.cpu_ms / with_.cpu_ms for with_, without in pairs)
    cost, peer = (statistics.median(sample.cpu_ms for sample in samples) for samples in (on, off))
    yield replace(compare(f"{text}, CPU ms", cost, peer, OFF, less_is_better=True), ratio=round(ratio, 2))


@contextlib.contextmanager
def _servers(folder: Path, database: str | None) -> Iterator[tuple[list[Server], Guest]]:
    """Our catalog with authentication off and on, each with a database of its own; and a caller who may see nothing."""
    with contextlib.ExitStack() as running:
        servers, guest = [], None
        for name in (OFF, ON):
            home = folder / name.replace(" ", "-")
            home.mkdir(parents=True)
            url = _new_database(database, name.rpartition(" ")[2]) if database else f"sqlite:///{home / 'catalog.db'}"
            variables = {"FRAZIL_SERVER__DATABASE": url, "FRAZIL_SERVER__PEPPER_FILE": str(home / "pepper")}
            token, options = "", []
            if name == ON:
                frazil = _Command(home, variables)
                token, guest = _tokens(frazil)
                options = ["--authentication", "keys"]
            address, process = running.enter_context(
                own_server(home, database=url, workers=WORKERS, options=options, variables=variables)
            )
            place = Place("/v1/default", token=token)
            servers.append(Server(name, address, place, psutil.Process(process.pid)))
        assert guest is not None
        yield servers, guest


def _new_database(url: str, name: str) -> str:
    import psycopg

    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE bench_{name}")
    return f"{url.rpartition('/')[0]}/bench_{name}"


def _tokens(frazil: _Command) -> tuple[str, Guest]:
    """The key of the caller who works, and one who may see nothing of it."""
    frazil("catalog", "migrate")
    frazil("role", "create", "writer")
    worker, guest = (frazil("token", "create", name).split()[-1] for name in ("worker", "guest"))
    frazil("role", "add", "writer", "worker")
    frazil("grant", "create", "--warehouse", "default", "--to", "writer")
    return worker, Guest(guest, frazil)


# --- the time of a refusal -------------------------------------------------------------------------------------------


def _make_stranger(bench: Bench, guest: Guest) -> tuple[Place, str]:
    """A namespace that the guest may create tables in, and the location of a table that the guest may not see."""
    place = replace(bench.place, namespace="guests")
    locations: list[str] = []

    def client() -> Client:
        expect((yield place.create_namespace()), 200)
        reply = yield bench.place.load("small")
        locations.append(json.loads(reply.body)["metadata"]["location"])

    drive(bench.server.address, [client()])
    guest.frazil("grant", "create", place.namespace, "--to", "user:guest")
    return replace(place, token=guest.token), locations[0]


def _times_of_misses(label: str, server: Server, guest: Guest) -> Figure:
    """Loads of a table that the caller may not see, and of one that does not exist."""
    place = replace(server.place, token=guest.token)
    requests = [place.load(name) for name in ("small", "smaII")]
    return _compare_times(f"{label}: 404 of a foreign and of a missing table", server, requests, 404)


def _times_of_refusals(label: str, server: Server, stranger: tuple[Place, str]) -> Figure:
    """Creates at the location of a table that the caller may not see, and at one where nothing is."""
    place, location = stranger
    requests = [place.create_table("new", location=each) for each in (location, location.replace("small", "smaII"))]
    return _compare_times(f"{label}: 403 of a foreign and of an unused location", server, requests, 403)


def _compare_times(text: str, server: Server, requests: Sequence[bytes], status: int) -> Figure:
    """The medians of the times of two requests, in turns."""
    seconds: list[list[float]] = [[], []]

    def client() -> Client:
        for number in range(2 * (ASKED + 50)):
            start = time.perf_counter()
            reply = yield requests[number % 2]
            if number >= 100:
                seconds[number % 2].append(time.perf_counter() - start)
            expect(reply, status)

    drive(server.address, [client()])
    slow, fast = sorted((statistics.median(times) * 1e6 for times in seconds), reverse=True)
    figure = f"{text}, medians of {ASKED:,}, us"
    return compare(figure, slow, fast, "the faster of the two", less_is_better=True, goal=SAME, any_size=True)
