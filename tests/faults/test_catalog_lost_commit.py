"""The connection to PostgreSQL is cut at the moment of COMMIT: the client gets the real outcome, or an
unknown one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.catalog.store import postgres as postgres_store
from tests.conftest import Campaign
from tests.kit.catalog_databases import Client, fresh_database
from tests.kit.catalog_writers import Appender, run_together
from tests.kit.database_proxy import CuttingProxy, cutting_proxy


@pytest.fixture
def proxy(postgres: str) -> Iterator[CuttingProxy]:
    parts = urlsplit(postgres)
    assert parts.hostname is not None
    assert parts.port is not None
    with cutting_proxy(parts.hostname, parts.port) as running:
        yield running


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not wait long for a database which stays away."""
    monkeypatch.setattr(postgres_store, "WAIT_SECONDS", 2.0)


@pytest.fixture
def server(postgres: str, proxy: CuttingProxy, tmp_path: Path) -> Iterator[EmbeddedCatalog]:
    with fresh_database("postgresql", tmp_path, postgres) as url:
        parts = urlsplit(url)
        through_proxy = url.replace(f":{parts.port}/", f":{proxy.port}/")
        with running_catalog(tmp_path, database=through_proxy) as running:
            Client(running.uri).create()
            yield running


def snapshots(client: Client) -> list[int]:
    return [s["snapshot-id"] for s in client.load()["metadata"]["snapshots"]]


def metadata_files(folder: Path) -> int:
    return len(list((folder / "warehouse").rglob("*.metadata.json")))


def test_a_commit_whose_answer_was_lost_is_acknowledged(server: EmbeddedCatalog, proxy: CuttingProxy) -> None:
    client = Client(server.uri)
    proxy.armed = "after"
    assert client.append(1, parent=None, sequence=1).status == 200
    assert (proxy.cuts, snapshots(client)) == (1, [1])


def test_a_commit_that_never_arrived_is_a_conflict_and_can_be_repeated(
    server: EmbeddedCatalog, proxy: CuttingProxy
) -> None:
    client = Client(server.uri)
    proxy.armed = "before"
    assert client.append(1, parent=None, sequence=1).error[:2] == (409, "CommitFailedException")
    assert (proxy.cuts, snapshots(client)) == (1, [])
    assert client.append(1, parent=None, sequence=1).status == 200
    assert snapshots(client) == [1]


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(("moment", "applied"), [("after-and-close", [1]), ("before-and-close", [])])
def test_a_database_that_stays_away_leaves_doubt_and_no_file_is_deleted(
    server: EmbeddedCatalog, proxy: CuttingProxy, moment: str, applied: list[int], tmp_path: Path
) -> None:
    client = Client(server.uri)
    proxy.armed = moment
    assert client.append(1, parent=None, sequence=1).error[:2] == (500, "CommitStateUnknownException")
    assert metadata_files(tmp_path) == 2
    assert client.raw("GET", "/readyz").error[:2] == (503, "ServiceUnavailableException")
    proxy.closed = False
    assert snapshots(client) == applied


@pytest.mark.usefixtures("hasty")
def test_with_a_key_the_doubt_ends_when_the_request_is_repeated(server: EmbeddedCatalog, proxy: CuttingProxy) -> None:
    client, key = Client(server.uri), {"Idempotency-Key": "0192e4f1-7c1b-7000-8000-000000000001"}
    proxy.armed = "after-and-close"
    assert client.append(1, parent=None, sequence=1, headers=key).status == 500
    proxy.closed = False
    assert client.append(1, parent=None, sequence=1, headers=key).status == 200
    assert snapshots(client) == [1]


def test_writes_of_every_kind_end_in_the_truth(server: EmbeddedCatalog, proxy: CuttingProxy) -> None:
    client = Client(server.uri)
    proxy.armed = "after"
    assert client.post("/namespaces", {"namespace": ["x"]}).status == 200
    proxy.armed = "after"
    assert client.delete("/namespaces/ns/tables/t").status == 204
    assert client.get("/namespaces/ns/tables/t").status == 404
    proxy.armed = "before"
    assert client.delete("/namespaces/x").error[:2] == (503, "ServiceUnavailableException")
    assert client.get("/namespaces/x").status == 200


def test_no_answer_is_false_while_the_databases_sessions_are_ended(
    postgres: str, tmp_path: Path, campaign: Campaign
) -> None:
    """An administrator, a timeout or a failing server ends sessions between any two statements of a commit."""
    with fresh_database("postgresql", tmp_path, postgres) as url, running_catalog(tmp_path, database=url) as server:
        appenders = [Appender(Client(server.uri), f"t{number}") for number in range(6)]
        for appender in appenders:
            appender.client.create(appender.table)
        stop, ended = threading.Event(), 0

        def append(appender: Appender) -> None:
            while not stop.is_set():
                appender.append(keyed=False)

        def end_sessions() -> None:
            nonlocal ended
            busy = (
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
                "AND state <> 'idle'"
            )
            try:
                with psycopg.connect(url, autocommit=True) as connection:
                    while ended < campaign.size(short=60, full=1000) or not any(
                        appender.answers.committed for appender in appenders
                    ):
                        rows = connection.execute(
                            f"SELECT pg_terminate_backend(pid) FROM ({busy} LIMIT 1) AS s"
                        ).fetchall()
                        ended += len(rows)
            finally:
                stop.set()

        run_together([lambda a=a: append(a) for a in appenders] + [end_sessions])
        for appender in appenders:
            appender.check()
