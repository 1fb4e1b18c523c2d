"""HTTP as bytes on a connection: what is answered at once and what goes through a thread look the same from outside."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from tests.kit.catalog_databases import Client

QUICK = "/v1/default/namespaces/ns/tables/t"
THREADED = "/v1/default/namespaces/ns/tables"


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedCatalog]:
    with running_catalog() as running:
        Client(running.uri).create()
        yield running


class Wire:
    """A connection, and the answers that come over it one after another."""

    def __init__(self, server: EmbeddedCatalog) -> None:
        host, port = server.uri.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.buffer = b""

    def send(self, text: str) -> None:
        self.socket.sendall(text.replace("\n", "\r\n").encode())

    def answer(self, *, head_only: bool = False) -> tuple[int, dict[str, str], bytes]:
        while b"\r\n\r\n" not in self.buffer:
            self._more()
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        length = 0 if head_only else int(headers.get("content-length", "0"))
        while len(self.buffer) < length:
            self._more()
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return int(first.split()[1]), headers, body

    def _more(self) -> None:
        data = self.socket.recv(65536)
        assert data, "the server closed the connection"
        self.buffer += data

    def is_closed(self) -> bool:
        return self.socket.recv(100) == b""


@pytest.fixture
def wire(server: EmbeddedCatalog) -> Iterator[Wire]:
    wire = Wire(server)
    yield wire
    wire.socket.close()


@pytest.mark.parametrize("path", [QUICK, THREADED])
def test_a_connection_is_used_again(wire: Wire, path: str) -> None:
    bodies = []
    for _ in range(3):
        wire.send(f"GET {path} HTTP/1.1\nHost: localhost\n\n")
        status, _, body = wire.answer()
        bodies.append(body)
        assert status == 200
    assert len(set(bodies)) == 1


def test_requests_sent_ahead_are_answered_in_their_order(wire: Wire) -> None:
    order = [QUICK, THREADED, QUICK, "/livez", THREADED, QUICK]
    wire.send("".join(f"GET {path} HTTP/1.1\nHost: localhost\nX-Request-ID: r{n}\n\n" for n, path in enumerate(order)))
    assert [wire.answer()[1]["x-request-id"] for _ in order] == [f"r{n}" for n in range(len(order))]


@pytest.mark.parametrize("path", [QUICK, THREADED, "/v1/default/namespaces/nope"])
def test_connection_close_is_kept(wire: Wire, path: str) -> None:
    wire.send(f"GET {path} HTTP/1.1\nHost: localhost\nConnection: close\n\n")
    assert wire.answer()[1]["connection"] == "close"
    assert wire.is_closed()


def test_http_one_point_zero_is_answered_and_closed(wire: Wire) -> None:
    wire.send(f"GET {QUICK} HTTP/1.0\n\n")
    assert wire.answer()[0] == 200
    assert wire.is_closed()


def test_a_head_has_no_body_and_the_connection_goes_on(wire: Wire) -> None:
    for path, expected in ((QUICK, 204), (f"{QUICK}x", 404), ("/v1/default/namespaces/ns", 204)):
        wire.send(f"HEAD {path} HTTP/1.1\nHost: localhost\n\n")
        assert wire.answer(head_only=True)[0] == expected
    wire.send(f"GET {QUICK} HTTP/1.1\nHost: localhost\n\n")
    assert wire.answer()[0] == 200


def test_heads_sent_ahead_are_all_answered(wire: Wire) -> None:
    order = [("GET", THREADED), *[("HEAD", QUICK)] * 3, ("GET", THREADED)]
    wire.send("".join(f"{method} {path} HTTP/1.1\nHost: localhost\n\n" for method, path in order))
    assert [wire.answer(head_only=method == "HEAD")[0] for method, _ in order] == [200, 204, 204, 204, 200]


def test_a_body_that_waits_for_permission_gets_it(wire: Wire) -> None:
    wire.send(
        "POST /v1/default/namespaces HTTP/1.1\nHost: localhost\nContent-Length: 19\nContent-Type: application/json\n"
        "Expect: 100-continue\n\n"
    )
    assert wire.answer()[0] == 100
    wire.send('{"namespace":["w"]}')
    assert wire.answer()[0] == 200


def test_a_read_with_a_body_is_still_a_read(wire: Wire) -> None:
    wire.send(f"GET {QUICK} HTTP/1.1\nHost: localhost\nContent-Length: 5\n\nhello")
    assert wire.answer()[0] == 200
    wire.send(f"GET {QUICK} HTTP/1.1\nHost: localhost\n\n")
    assert wire.answer()[0] == 200


def test_a_request_in_pieces_is_put_together(wire: Wire) -> None:
    for piece in (f"GET {QUICK[:10]}", f"{QUICK[10:]} HTTP/1.1\nHo", "st: localhost\n", "\n"):
        wire.send(piece)
    assert wire.answer()[0] == 200


@pytest.mark.parametrize("path", [QUICK, THREADED])
def test_an_offer_to_upgrade_is_ignored_and_the_connection_goes_on(wire: Wire, path: str) -> None:
    # as Apache's Java client sends it
    asking = f"GET {path} HTTP/1.1\nHost: localhost\nConnection: Upgrade\nUpgrade: TLS/1.2\n\n"
    for _ in range(2):
        wire.send(asking)
        assert wire.answer()[0] == 200
    wire.send(asking * 3)
    assert [wire.answer()[0] for _ in range(3)] == [200] * 3


def test_a_body_with_an_offer_to_upgrade_is_read(wire: Wire) -> None:
    upgrade = "Connection: Upgrade\nUpgrade: h2c\nContent-Type: application/json\nContent-Length: 20"
    for name in ("u1", "u2"):
        wire.send(f'POST /v1/default/namespaces HTTP/1.1\nHost: localhost\n{upgrade}\n\n{{"namespace":["{name}"]}}')
        assert wire.answer()[0] == 200


def test_what_is_not_http_is_400(wire: Wire) -> None:
    wire.send("hello\n\n")
    assert wire.answer()[0] == 400


def test_a_read_that_goes_well_and_one_that_fails_are_both_counted(server: EmbeddedCatalog) -> None:
    client = Client(server.uri)
    before = server.app.ctx.telemetry.counts()
    client.get("/namespaces/ns/tables/t")
    client.get("/namespaces/ns/tables/nope")
    after = server.app.ctx.telemetry.counts()

    def grown(status: int) -> float:
        series = f'frazil_requests_total{{operation="loadTable",status="{status}"}}'
        return after.get(series, 0) - before.get(series, 0)

    assert (grown(200), grown(404)) == (1, 1)
