"""The catalog's SQLite file cannot grow, or cannot be written, while many clients commit: each answer is true afterwards."""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.catalog.store.sqlite import SqliteDatabase
from tests.catalog_databases import Client
from tests.catalog_writers import Appender, run_together
from tests.conftest import Campaign
from tests.faults.test_catalog_kills import KillableServer

WRITERS = 8


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
