"""Limits of the catalog that need a server of their own: planning without a client, answers that are not read, the end
of the server.
"""

from __future__ import annotations

import contextlib
import logging
import operator
import signal
import socket
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.catalog.names import Name
from frazil.catalog.store import reports
from frazil.client import FrazilCatalog
from frazil.config import Limits
from frazil.processes import wait_until
from frazil.scan.planning.compiled import ScanCache
from tests.contract.hostile_clients import NAMESPACES, QUICK, THREADED, TYPE, Target, head, post, talk
from tests.kit.catalog_databases import SCHEMA, Client
from tools.own_server import own_server


@contextlib.contextmanager
def target_of(server: EmbeddedCatalog) -> Iterator[tuple[Target, socket.socket]]:
    target = Target(server.uri, server.folder)
    with target.connect() as connection:
        yield target, connection


# no client of the test is late, however slow the machine is
PATIENT: dict[str, Any] = {"first_byte_seconds": 600, "body_seconds": 600}


def counted(server: EmbeddedCatalog, operation: str, status: int) -> float:
    return server.app.ctx.telemetry.counts().get(
        f'frazil_requests_total{{operation="{operation}",status="{status}"}}', 0
    )


def _is_over(cycle: object) -> bool:
    """Whether a connection's last request was answered, or its client has left."""
    return getattr(cycle, "response_complete", True) or getattr(cycle, "disconnected", False)


def all_over(server: EmbeddedCatalog) -> bool:
    """Whether the last requests of all connections are answered, or their clients have left."""
    cycles = map(operator.attrgetter("cycle"), list(server.app.connections._open))
    return all(map(_is_over, cycles))


def test_planning_stops_when_the_client_leaves() -> None:
    with running_catalog() as server:
        lake = FrazilCatalog("lake", **server.properties)
        lake.create_namespace("ns")
        table = lake.create_table("ns.t", pa.schema([("id", pa.int64())]))
        for n in range(2):
            table.append(pa.table({"id": [n]}))
        read, reading, go_on = [], threading.Event(), threading.Event()

        def read_slowly(location: str) -> bytes:
            read.append(location)
            reading.set()
            assert go_on.wait(60)
            return server.app.ctx.files.read_bytes(location)

        server.app.ctx._manifests["default"] = ScanCache(read_slowly)
        with target_of(server) as (_, connection):
            connection.sendall(post(f"{QUICK}/plan", b"{}"))
            assert reading.wait(60)
        assert wait_until(lambda: all_over(server), 60)
        go_on.set()
        assert wait_until(lambda: counted(server, "planTableScan", 499) == 1, 60)
        assert len(read) == 1  # the manifest list, and no manifest after it


def test_reports_go_with_their_table_and_follow_it_when_it_is_renamed(server: EmbeddedCatalog, client: Client) -> None:
    client.create()
    report = {"report-type": "commit-report", "table-name": "t"}

    def kept(name: str) -> int:
        return len(reports.newest(server.app.ctx.database.read(), "default", Name(("ns",), name)))

    def change_name(source: str, target: str) -> None:
        names = [{"namespace": ["ns"], "name": name} for name in (source, target)]
        assert client.post("/tables/rename", {"source": names[0], "destination": names[1]}).status == 204

    assert client.post("/namespaces/ns/tables/t/metrics", report).status == 204
    change_name("t", "renamed")
    assert (kept("t"), kept("renamed")) == (0, 1)
    assert client.delete("/namespaces/ns/tables/renamed").status == 204
    assert kept("renamed") == 0


def test_answers_that_are_not_read_are_dropped_when_they_take_too_much(caplog: pytest.LogCaptureFixture) -> None:
    with running_catalog(limits=Limits(in_flight_bytes=8_000_000)) as server, contextlib.ExitStack() as stack:
        Client(server.uri).post(
            "/namespaces", {"namespace": ["long"], "properties": {f"k{n}": "x" * 1000 for n in range(250)}}
        )
        for _ in range(60):
            _, deaf = stack.enter_context(target_of(server))
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.sendall(head("GET", f"{NAMESPACES}/long") * 20)
        assert wait_until(lambda: "closed connections whose clients do not read their answers" in caplog.messages, 60)
        bodies = server.app.connections._bodies
        assert wait_until(
            lambda: sum({id(body): len(body) for body in list(bodies.values())}.values()) <= 4_000_000, 60
        )


def test_one_client_gets_an_answer_of_any_length() -> None:
    with running_catalog(limits=Limits(in_flight_bytes=4_000_000)) as server:
        client = Client(server.uri)
        client.create(properties={f"k{n}": "x" * 100_000 for n in range(8)})
        for start in range(8, 40, 8):
            properties = {f"k{n}": "x" * 100_000 for n in range(start, start + 8)}
            assert client.commit({"action": "set-properties", "updates": properties}).status == 200
        with requests.get(
            f"{server.uri}{QUICK}", headers={"Accept-Encoding": "identity"}, stream=True, timeout=60
        ) as answer:
            assert len(answer.raw.read()) > 4_000_000


def test_a_commit_does_not_grow_the_metadata_past_the_limit_and_may_make_it_smaller(tmp_path: Path) -> None:
    with running_catalog(tmp_path, limits=Limits(new_metadata_bytes=200_000)) as server:
        client = Client(server.uri)
        client.create(properties={"long": "x" * 150_000})
        grown = client.commit({"action": "set-properties", "updates": {"more": "x" * 60_000}})
        assert (grown.status, "new_metadata_bytes" in grown.body["error"]["message"]) == (400, True)
    with running_catalog(tmp_path, limits=Limits(new_metadata_bytes=100_000)) as server:
        client = Client(server.uri)
        assert client.commit({"action": "set-properties", "updates": {"more": "x"}}).status == 400
        assert client.commit({"action": "set-properties", "updates": {"long": "x" * 120_000}}).status == 200
        properties = client.load()["metadata"]["properties"]
        assert (len(properties["long"]), "more" in properties) == (120_000, False)


def test_a_registered_file_may_not_be_longer_than_one_that_a_commit_writes() -> None:
    with running_catalog(limits=Limits(new_metadata_bytes=100_000)) as server:
        client = Client(server.uri)
        location = client.create()["metadata-location"]
        path = Path(location.removeprefix("file://")).with_name("00001-long.metadata.json")
        path.write_bytes(b" " * 100_001)
        answer = client.post("/namespaces/ns/register", {"name": "long", "metadata-location": f"file://{path}"})
        assert (answer.status, "100,001 bytes" in answer.body["error"]["message"]) == (400, True)


def test_a_location_with_a_file_in_its_way_is_400() -> None:
    with running_catalog() as server:
        client = Client(server.uri)
        root = Path(client.create()["metadata"]["location"].removeprefix("file://")).parent
        (root / "plain").write_bytes(b"")
        answer = client.post(
            "/namespaces/ns/tables", {"name": "u", "schema": SCHEMA, "location": f"file://{root}/plain/u"}
        )
        assert (answer.status, "a file has this path" in answer.body["error"]["message"]) == (400, True)
        moved = client.commit({"action": "set-location", "location": f"file://{root}/plain"})
        assert (moved.status, client.load()["metadata"]["location"]) == (400, f"file://{root}/t")


def test_a_client_that_reads_nothing_is_left_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    properties = {f"k{n}": "x" * 1000 for n in range(250)}
    with running_catalog(limits=Limits(write_seconds=0.4, **PATIENT)) as server:
        assert Client(server.uri).post("/namespaces", {"namespace": ["long"], "properties": properties}).status == 200
        with target_of(server) as (_, deaf):
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.sendall(head("GET", f"{NAMESPACES}/long") * 60)
            assert wait_until(
                lambda: "closed a connection whose client does not read its answer" in caplog.messages, 60
            )
            assert wait_until(lambda: server.app.ctx.telemetry.in_flight == 0, 60)
    # the rest of its answers is dropped
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_requests_above_the_limit_are_429_and_quick_reads_go_on() -> None:
    with (
        running_catalog(limits=Limits(concurrent_requests=1, **PATIENT)) as server,
        target_of(server) as (target, waiting),
    ):
        Client(server.uri).create()
        waiting.sendall(head("POST", NAMESPACES, TYPE, "Content-Length: 20"))  # its body comes later
        assert wait_until(lambda: server.app.ctx.telemetry.in_flight == 1, 60)
        reply = talk(target, [head("GET", THREADED)])
        assert reply.status == 429
        assert b"\r\nretry-after: 1\r\n" in reply.content
        assert talk(target, [head("GET", QUICK)]).status == 200
        waiting.sendall(b'{"namespace": ["aa"]}'[:20])
        assert waiting.recv(100).startswith(b"HTTP/1.1 400")
        assert talk(target, [head("GET", THREADED)]).status == 200


def test_requests_one_after_another_are_never_above_the_limit() -> None:
    with running_catalog(limits=Limits(concurrent_requests=1)) as server, target_of(server) as (_, connection):
        Client(server.uri).create()
        for _ in range(300):
            connection.sendall(head("GET", THREADED))
            assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def test_a_new_connection_takes_the_place_of_the_one_that_waits_longest() -> None:
    with running_catalog(limits=Limits(connections=20, **PATIENT)) as server, contextlib.ExitStack() as stack:
        Client(server.uri).create()
        silent = [stack.enter_context(target_of(server))[1] for _ in range(30)]
        target = Target(server.uri, server.folder)
        assert talk(target, [head("GET", QUICK)]).status == 200
        assert silent[0].recv(1) == b""
        silent[-1].sendall(head("GET", QUICK))
        assert silent[-1].recv(100).startswith(b"HTTP/1.1 200")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that waits long for its clients, and one second after a signal to end."""
    for name, seconds in {**PATIENT, "shutdown_seconds": 1}.items():
        monkeypatch.setenv(f"FRAZIL_SERVER__LIMITS__{name.upper()}", str(seconds))


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("workers", [1, 2])
def test_the_server_ends_in_time_whatever_its_clients_do(workers: int, tmp_path: Path) -> None:
    with own_server(tmp_path, workers=workers) as (uri, process):
        target = Target(uri, tmp_path)
        with target.connect() as idle, target.connect() as half, target.connect() as silent:
            idle.sendall(head("GET", "/livez"))
            assert idle.recv(100).startswith(b"HTTP/1.1 200")
            half.sendall(head("POST", NAMESPACES, TYPE, "Content-Length: 20"))
            silent.sendall(b"GET /livez HT")
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0


@pytest.mark.usefixtures("hasty")
def test_a_thread_that_hangs_does_not_keep_the_server(tmp_path: Path) -> None:
    with own_server(tmp_path) as (uri, process), contextlib.closing(sqlite3.connect(tmp_path / "catalog.db")) as other:
        other.execute("BEGIN IMMEDIATE")  # for 30 seconds the server waits for its end
        with Target(uri, tmp_path).connect() as connection:
            connection.sendall(post(NAMESPACES, b'{"namespace": ["a"]}'))
            # the other one is this question
            assert wait_until(lambda: "frazil_requests_in_flight 2" in metrics(uri), 60)
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 1  # it has not waited for the thread, which would end well


def metrics(uri: str) -> str:
    return requests.get(f"{uri}/metrics", timeout=30).text


def test_names_of_the_server_are_an_option_that_reaches_every_worker(tmp_path: Path) -> None:
    with own_server(
        tmp_path, workers=2, options=["--allowed-host", "catalog.example", "--allowed-host", "*.internal"]
    ) as (uri, _):
        target = Target(uri, tmp_path)
        names = ("catalog.example", "a.internal:8181", "127.0.0.1", "other.example")
        assert [talk(target, [head("GET", "/livez", host=name)]).status for name in names] == [200, 200, 200, 403]
