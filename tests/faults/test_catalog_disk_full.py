"""The catalog's SQLite file cannot grow, or cannot be written, while many clients commit: each answer is true
afterwards.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.catalog.store.sqlite import SqliteDatabase
from tests.conftest import Campaign
from tests.faults.test_catalog_kills import KillableServer
from tests.kit.catalog_databases import Client
from tests.kit.catalog_writers import Appender, run_together

WRITERS = 8


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedCatalog]:
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


def test_no_answer_is_false_while_writes_of_other_clients_fill_the_disk(
    server: EmbeddedCatalog, campaign: Campaign
) -> None:
    """Namespaces with long properties need new pages and fail; appends that share their transactions need none."""
    appenders = [Appender(Client(server.uri), f"t{number}") for number in range(WRITERS)]
    for appender in appenders:
        appender.client.create(appender.table)
    limit_size(server, spare_pages=2)
    rounds = campaign.size(short=40, full=400)
    created: list[tuple[str, int]] = []

    def fill(worker: int) -> None:
        client = Client(server.uri)
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
    present = {level[0] for level in Client(server.uri).get("/namespaces").body["namespaces"]} - {"ns"}
    assert {name for name, status in created if status == 200} == present
    assert {status for _, status in created} <= {200, 503}
    unkeyed = sum(number % 3 != 0 for number in range(rounds))
    assert all(len(appender.answers.committed) >= unkeyed for appender in appenders)  # they needed no room


class ServerOnSmallDisk(KillableServer):
    """Its database lies on a disk of 2 MB, in a mount namespace that ends with the process."""

    def __init__(self, folder: Path) -> None:
        disk = folder / "disk"
        disk.mkdir()
        super().__init__(folder, f"sqlite:///{disk / 'catalog.db'}")
        namespace = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--mount", "--map-root-user")
        script = 'mount -t tmpfs -o size=2m tmpfs "$1" && shift && exec "$@"'
        self.prefix = (*namespace, "sh", "-c", script, "-", str(disk))

    @contextmanager
    def broken(self) -> Iterator[None]:
        """No byte is free on the disk."""
        assert self.process is not None
        balloon = Path(f"/proc/{self.process.pid}/root{self.folder}/disk/balloon")
        with suppress(OSError), balloon.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        yield
        balloon.unlink()


class ServerWithLimit(KillableServer):
    """The kernel refuses to let its files grow: SQLite gets an I/O error, which it does not take for a full disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, f"sqlite:///{folder / 'catalog.db'}")

    @contextmanager
    def broken(self) -> Iterator[None]:
        assert self.process is not None
        size = max((self.folder / "catalog.db-wal").stat().st_size, 200_000) + 6000
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        yield
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("make", [ServerOnSmallDisk, ServerWithLimit])
def test_no_answer_is_false_while_the_database_cannot_be_written(
    tmp_path: Path, campaign: Campaign, make: type[ServerOnSmallDisk | ServerWithLimit]
) -> None:
    """The fault comes and goes, so that it meets every step of a commit."""
    server = make(tmp_path)
    server.start()
    try:
        appenders = [Appender(server.client(), f"t{number}") for number in range(WRITERS)]
        for appender in appenders:
            appender.client.create(appender.table)
        stop = threading.Event()

        def append(appender: Appender) -> None:
            while not stop.is_set():
                appender.append(keyed=False)

        def is_met() -> bool:
            """Whether the fault has failed an append, and every client has committed one."""
            answers = [appender.answers for appender in appenders]
            return any(a.refused or a.unknown for a in answers) and all(a.committed for a in answers)

        def break_often() -> None:
            rounds, deadline = 0, time.monotonic() + 300
            try:
                while rounds < campaign.size(short=40, full=400) or not is_met():
                    assert time.monotonic() < deadline, "the fault was never met, or a client never committed"
                    with server.broken():
                        stop.wait(0.03)
                    stop.wait(0.02)
                    rounds += 1
            finally:
                stop.set()

        run_together([lambda a=a: append(a) for a in appenders] + [break_often])
        if make is ServerWithLimit:  # what SQLite finds in its log at the next start counts
            server.stop()
            server.start()
        for appender in appenders:
            appender.check()
    finally:
        server.stop()
