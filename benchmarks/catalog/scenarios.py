"""The scenarios of the catalog benchmark: each prepares its tables on a server and says what its clients do."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from benchmarks.catalog.servers import Server
from benchmarks.catalog.workload import (
    Growing,
    Place,
    appending,
    contending,
    creating,
    expect,
    listing,
    loading,
    transacting,
)
from benchmarks.load import Client, drive

# appends per table: then a client goes on with another one, so that the size of tables does not matter
SNAPSHOTS_A_TABLE = 50


@dataclass
class Bench:
    """A server with the tables that the scenarios read."""

    server: Server
    names: Iterator[str] = field(default_factory=lambda: (f"t{number:06d}" for number in itertools.count()))
    created: int = 0  # tables in the namespace that is listed

    @property
    def place(self) -> Place:
        return self.server.place

    @property
    def many(self) -> Place:
        """The namespace of the created tables, which is listed."""
        return replace(self.place, namespace="many")

    def ask(self, *requests: bytes) -> None:
        def client() -> Client:
            for request in requests:
                expect((yield request), 200, 204)

        drive(self.server.address, [client()])

    def prepare(self) -> None:
        """Namespaces, a small table with one snapshot and a large one with 1,000."""
        self.ask(self.place.create_namespace(), self.many.create_namespace())
        for table, commits, snapshots in (("small", 1, 1), ("large", 10, 100)):
            self.ask(self.place.create_table(table))
            drive(self.server.address, [appending(self.place, Growing(table), commits, snapshots=snapshots)])

    def new_tables(self, count: int) -> list[Growing]:
        tables = [Growing(next(self.names)) for _ in range(count)]
        self.ask(*(self.place.create_table(table.name) for table in tables))
        return tables


Build = Callable[[Bench, int, int], list[Client]]  # bench, clients, operations of each client


@dataclass(frozen=True)
class Scenario:
    """What is measured: how the clients are built, how many operations in all, and the goals by number of clients."""

    name: str
    build: Build
    operations: int
    warm_up: int  # operations that are not measured: the JVM compiles a path only after thousands of calls
    goals: dict[int, float] = field(default_factory=dict)


def _create(bench: Bench, clients: int, each: int) -> list[Client]:
    bench.created += clients * each
    return [creating(bench.many, bench.names, each) for _ in range(clients)]


def _load_small(bench: Bench, clients: int, each: int) -> list[Client]:
    return [loading(bench.place, "small", each) for _ in range(clients)]


def _load_large(bench: Bench, clients: int, each: int) -> list[Client]:
    return [loading(bench.place, "large", each) for _ in range(clients)]


def _list(bench: Bench, clients: int, each: int) -> list[Client]:
    return [listing(bench.many, each) for _ in range(clients)]


def _append(bench: Bench, clients: int, each: int) -> list[Client]:
    def work(tables: list[Growing]) -> Client:
        for number, table in enumerate(tables):
            yield from appending(bench.place, table, min(SNAPSHOTS_A_TABLE, each - number * SNAPSHOTS_A_TABLE))

    return [work(bench.new_tables(-(-each // SNAPSHOTS_A_TABLE))) for _ in range(clients)]


def _contend(bench: Bench, clients: int, each: int) -> list[Client]:
    (table,) = bench.new_tables(1)
    left = [clients * each]
    return [contending(bench.place, Growing(table.name), left) for _ in range(clients)]


def _transact(bench: Bench, clients: int, each: int) -> list[Client]:
    def work(pairs: list[list[Growing]]) -> Client:
        for number, pair in enumerate(pairs):
            yield from transacting(bench.place, pair, min(SNAPSHOTS_A_TABLE, each - number * SNAPSHOTS_A_TABLE))

    return [work([bench.new_tables(2) for _ in range(-(-each // SNAPSHOTS_A_TABLE))]) for _ in range(clients)]


SCENARIOS = [
    Scenario("create a table", _create, 448, 448, {8: 8.0}),
    Scenario("load a small table", _load_small, 4800, 40000, {8: 4.0}),
    Scenario("load a table of 1,000 snapshots", _load_large, 320, 1600, {8: 5.0}),
    Scenario("append, own table each", _append, 448, 1344, {1: 5.0, 8: 5.0}),
    Scenario("append, one contended table", _contend, 320, 320, {8: 3.0}),
    Scenario("two-table transaction", _transact, 224, 672, {8: 5.0}),
    Scenario("list the tables", _list, 96, 192, {8: 3.0}),
]
