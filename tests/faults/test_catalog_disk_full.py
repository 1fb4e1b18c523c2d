"""The catalog's SQLite file cannot grow, or cannot be written, while many clients commit: each answer is true afterwards."""

from __future__ import annotations

import resource
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.catalog.store.sqlite import SqliteDatabase
from tests.catalog_databases import Answer, Client, append_change
from tests.conftest import Campaign
from tests.faults.test_catalog_kills import KillableServer

WRITERS = 8


@dataclass
class Answers:
    """What one client was told about the snapshots that it appended to a table of its own."""

    committed: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)

    def add(self, snapshot_id: int, answer: Answer) -> None:
        kinds = {200: self.committed, 409: self.refused, 500: self.unknown, 503: self.unknown}
        kinds[answer.status].append(snapshot_id)


class Appender:
    """Appends snapshots to a table of its own, so that no other client can make a commit conflict."""

    def __init__(self, client: Client, table: str) -> None:
        self.client, self.table, self.answers = client, table, Answers()

    def append(self, *, keyed: bool) -> None:
        metadata = self.client.load(self.table)["metadata"]
        parent = None if metadata["current-snapshot-id"] == -1 else metadata["current-snapshot-id"]
        snapshot_id = uuid.uuid4().int >> 66
        change = append_change(snapshot_id, parent=parent, sequence=metadata["last-sequence-number"] + 1)
        headers = {"Idempotency-Key": str(uuid.uuid4())} if keyed else {}
        answer = self.client.post(f"/namespaces/ns/tables/{self.table}", change, headers=headers)
        self.answers.add(snapshot_id, answer)

    def check(self) -> None:
        """Nothing answered as committed is missing; nothing answered as refused is in the table."""
        stored = {snapshot["snapshot-id"] for snapshot in self.client.load(self.table)["metadata"]["snapshots"]}
        assert set(self.answers.committed) - stored == set()
        assert set(self.answers.refused) & stored == set()
        assert stored - {*self.answers.committed, *self.answers.unknown} == set()


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EmbeddedCatalog]:
    with running_catalog(tmp_path) as running:
        yield running


def limit_size(catalog: EmbeddedCatalog, *, spare_pages: int) -> None:
    """From now on SQLite answers SQLITE_FULL when the file would grow by more pages than that, as on a full disk."""
    database = catalog.app.ctx.database
    assert isinstance(database, SqliteDatabase)

    def limit(sql: object) -> None:
        (pages,) = database._writer.execute("PRAGMA page_count").fetchone()
        database._writer.execute(f"PRAGMA max_page_count={pages + spare_pages}")

    database.write(limit)


def test_no_answer_is_false_while_writes_of_other_clients_fill_the_disk(catalog: EmbeddedCatalog, campaign: Campaign) -> None:
    """Namespaces with long properties need new pages and fail; appends that share their transactions need none."""
    appenders = [Appender(Client(catalog.uri), f"t{number}") for number in range(WRITERS)]
    for appender in appenders:
        appender.client.create(appender.table)
    limit_size(catalog, spare_pages=2)
    rounds = campaign.size(short=40, full=400)
    created: list[tuple[str, int]] = []

    def fill(worker: int) -> None:
        client = Client(catalog.uri)
        for number in range(rounds):
            name = f"n{worker}x{number}"
            answer = client.post("/namespaces", {"namespace": [name], "properties": {"text": "x" * 9000}})
            created.append((name, answer.status))

    def append(appender: Appender) -> None:
        for number in range(rounds):
            appender.append(keyed=number % 3 == 0)

    run_together([lambda a=a: append(a) for a in appenders] + [lambda w=w: fill(w) for w in range(WRITERS)])
    for appender in appenders:
        appender.check()
    present = {level[0] for level in Client(catalog.uri).get("/namespaces").body["namespaces"]} - {"ns"}
    assert {name for name, status in created if status == 200} == present
    assert {status for _, status in created} <= {200, 503}
    unkeyed = sum(number % 3 != 0 for number in range(rounds))
    assert all(len(appender.answers.committed) >= unkeyed for appender in appenders)  # they needed no room


@pytest.mark.timeout(600)
def test_no_answer_is_false_while_the_kernel_refuses_writes_to_the_database(tmp_path: Path, campaign: Campaign) -> None:
    """A limit on the server's file sizes comes and goes, so that SQLite gets I/O errors at every step."""
    server = KillableServer(tmp_path, f"sqlite:///{tmp_path / 'catalog.db'}")
    server.start()
    assert server.process is not None
    try:
        appenders = [Appender(server.client(), f"t{number}") for number in range(WRITERS)]
        for appender in appenders:
            appender.client.create(appender.table)
        stop = threading.Event()

        def append(appender: Appender) -> None:
            while not stop.is_set():
                appender.append(keyed=False)

        def limit() -> None:
            wal = tmp_path / "catalog.db-wal"
            for _ in range(campaign.size(short=40, full=400)):
                size = max(wal.stat().st_size, 200_000)
                resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size + 6000, resource.RLIM_INFINITY))
                stop.wait(0.03)
                resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                stop.wait(0.02)
            stop.set()

        run_together([lambda a=a: append(a) for a in appenders] + [limit])
        server.stop()  # what SQLite finds in its log at the next start counts
        server.start()
        for appender in appenders:
            appender.check()
        refused = sum(len(a.answers.refused) + len(a.answers.unknown) for a in appenders)
        assert refused > 0, "the limit was never felt"
    finally:
        server.stop()


def run_together(actions: list[Callable[[], None]]) -> None:
    """Runs each action in a thread of its own; raises the first error."""
    with ThreadPoolExecutor(len(actions)) as pool:
        for done in [pool.submit(action) for action in actions]:
            done.result()
