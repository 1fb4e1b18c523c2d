"""Runs the scenarios of the catalog's benchmark with authentication off and on, and makes figures of the ratio."""

from __future__ import annotations

import contextlib
import json
import os
import random
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
from benchmarks.load import Client, drive, request
from benchmarks.report import Figure, Options, compare
from tools.own_database import postgres_database
from tools.own_server import own_server

OFF, ON = "authentication off", "authentication on"
GOAL = 0.87  # of the rate without: 15% slower
SAME = 0.95  # the faster of two medians, as a part of the slower: they differ by noise only
DIVISIONS = 200  # by chance, of all times into halves
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
        return [*figures, *_times(label, on.server, guest, stranger)]


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


@dataclass(frozen=True)
class Refused:
    """The same request about what a caller may not see, and about what does not exist."""

    what: str
    status: int
    foreign: bytes = field(repr=False)
    missing: bytes = field(repr=False)


def _make_stranger(bench: Bench, guest: Guest) -> tuple[Place, str]:
    """A namespace that the guest may create tables in, and the location of a table that the guest may not see, next to
    which there is a view.
    """
    place = replace(bench.place, namespace="guests")
    locations: list[str] = []

    def client() -> Client:
        expect((yield place.create_namespace()), 200)
        reply = yield bench.place.load("small")
        locations.append(json.loads(reply.body)["metadata"]["location"])
        expect((yield _ask(bench.place, "POST", "/views", VIEW)), 200)

    drive(bench.server.address, [client()])
    guest.frazil("grant", "create", place.namespace, "--to", "user:guest")
    return replace(place, token=guest.token), locations[0]


VIEW = {
    "name": "seen",
    "schema": {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "n", "type": "int", "required": False}]},
    "view-version": {
        "version-id": 1,
        "timestamp-ms": 1_700_000_000_000,
        "schema-id": 0,
        "summary": {},
        "default-namespace": ["bench"],
        "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
    },
    "properties": {},
}


def _ask(place: Place, method: str, path: str, body: object = None, *, root: str | None = None) -> bytes:
    """A request about something in the namespace."""
    content = json.dumps(body).encode() if body is not None else b""
    return request(method, f"{root or place.root}/namespaces/{place.namespace}{path}", content, token=place.token)


def _times(label: str, server: Server, guest: Guest, stranger: tuple[Place, str]) -> Iterator[Figure]:
    """What the times of answers tell of tables and views that the caller may not see."""
    for refused in _refused(replace(server.place, token=guest.token), *stranger):
        yield from compare_times(f"{label}: {refused.what}", *_measure_refused(server, refused))


def _refused(guest: Place, stranger: Place, location: str) -> Iterator[Refused]:
    """Names of one length: what is sent is as long."""

    def about(what: str, method: str, path: str, body: object = None, root: str | None = None) -> Refused:
        names = ("seen", "unse") if "views" in path else ("small", "smaII")
        return Refused(what, 404, *(_ask(guest, method, path.format(each), body, root=root) for each in names))

    yield about("404 of a table", "GET", "/tables/{}")
    yield about("404 of a view", "GET", "/views/{}")
    yield about("404 of a table to be dropped", "DELETE", "/tables/{}")
    yield about("404 of a table to sign for", "POST", "/tables/{}/sign", {})
    yield about("404 of a table in the console", "GET", "/tables/{}", root="/console/api/default")
    places = (location, location.replace("small", "smaII"))
    yield Refused("403 of a location", 403, *(stranger.create_table("new", location=place) for place in places))


def _measure_refused(server: Server, refused: Refused) -> tuple[list[float], list[float]]:
    """The times of both requests in microseconds, in turns."""
    times: tuple[list[float], list[float]] = ([], [])

    def client() -> Client:
        for number in range(2 * (ASKED + 50)):
            start = time.perf_counter()
            reply = yield (refused.foreign, refused.missing)[number % 2]
            if number >= 100:
                times[number % 2].append((time.perf_counter() - start) * 1e6)
            expect(reply, refused.status)

    drive(server.address, [client()])
    return times


def compare_times(text: str, foreign: Sequence[float], missing: Sequence[float]) -> Iterator[Figure]:
    """The medians, and by how much the foreign one is slower, or faster if that is negative, next to the noise.

    >>> [(each.ours, each.peer, each.met) for each in compare_times("404", [110.0] * 9, [100.0] * 9)]
    [(110.0, 100.0, False), (10.0, 10.0, None)]
    >>> [(each.ours, each.met) for each in compare_times("404", [90.0] * 9, [100.0] * 9)]
    [(90.0, False), (-10.0, None)]
    """
    ours, peer = statistics.median(foreign), statistics.median(missing)
    figure = compare(
        f"{text}, foreign and missing, us", ours, peer, "missing", less_is_better=True, goal=SAME, any_size=True
    )
    yield replace(figure, met=SAME <= peer / ours <= 1 / SAME)
    noise = _noise([*foreign, *missing])
    yield Figure(
        f"{text}, foreign is slower by, %", round(100 * (ours / peer - 1), 2), round(noise, 2), "halves, shuffled"
    )


def _noise(times: Sequence[float]) -> float:
    """The difference in percent that 95 of 100 divisions by chance stay below."""
    chance, mixed, differences = random.Random(1), list(times), []  # no secret
    for _ in range(DIVISIONS):
        chance.shuffle(mixed)
        left, right = (statistics.median(half) for half in (mixed[: len(mixed) // 2], mixed[len(mixed) // 2 :]))
        differences.append(abs(left / right - 1) * 100)
    return sorted(differences)[int(0.95 * DIVISIONS)]
