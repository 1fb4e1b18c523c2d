"""Batched commits on a real SeaweedFS: what they take of it, next to one commit per query."""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from benchmarks.io.counting import CountingProxy, RequestParser, Traffic, counting_proxy
from benchmarks.io.measure import Lake, Size, figures, lake_behind_proxy, transpiled_rows, write_rows
from benchmarks.sink.places import Store
from frazil.client import connect
from frazil.config import load_settings
from tests.kit.fixtures import BUCKET

QUERIES = 120


@pytest.fixture
def lake(s3_store: dict[str, str]) -> Iterator[Lake]:
    keys = (s3_store[f"s3.{name}"] for name in ("endpoint", "access-key-id", "secret-access-key"))
    with lake_behind_proxy(Store(*keys, bucket=BUCKET)) as lake:
        yield lake


@pytest.mark.requirement("arrow.io")
def test_one_commit_for_120_queries_takes_a_hundredth_of_the_requests_and_bytes_of_120_commits(lake: Lake) -> None:
    rows = transpiled_rows(QUERIES)
    batched = write_rows(lake.open_iceberg("batched", QUERIES), rows, lake.proxy)
    single = write_rows(lake.open_iceberg("single", 1), rows, lake.proxy)
    catalog = connect(load_settings(environ=lake.place.environ), uri=lake.place.uri)
    tables = [catalog.load_table(f"bench.{name}") for name in ("batched", "single")]
    # a data file, a manifest, a manifest list and a metadata file are the least that a commit writes
    assert (batched.requests >= 4, single.requests >= 4 * QUERIES) == (True, True)
    assert [table.scan().to_arrow().sort_by("position")["sql"] for table in tables] == [rows["sql"]] * 2
    assert [len(table.snapshots()) for table in tables] == [2, 1 + QUERIES]  # the first is the writer's takeover
    assert [figure.holds for figure in figures("Iceberg", batched, single, Size(QUERIES, QUERIES))] == [True, True]


@pytest.mark.requirement("arrow.io")
def test_delta_takes_fewer_requests_and_bytes_for_one_commit_too(lake: Lake) -> None:
    rows = transpiled_rows(20)
    batched = write_rows(lake.open_delta("batched", 20), rows, lake.proxy)
    single = write_rows(lake.open_delta("single", 1), rows, lake.proxy)
    assert batched.requests > 0
    assert single.requests >= 10 * batched.requests
    assert single.bytes > batched.bytes


def test_figures_are_those_of_10_000_queries_and_say_whether_the_claim_holds() -> None:
    requests, size = figures("Iceberg", Traffic(10, 2_000_000), Traffic(500, 1_000_000), Size(100, 10_000))
    assert (requests.ours, requests.peer, requests.ratio, requests.holds) == (10, 50_000, 5000, True)
    assert (size.ours, size.peer, size.ratio, size.holds, size.met) == (2.0, 100.0, 50.0, False, None)


@pytest.fixture
def echo() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_proxy_passes_on_every_byte_and_counts_requests_of_a_connection_that_stays_open(echo: str) -> None:
    body = b"GET / HTTP/1.1\r\n\r\n" * 10_000  # what a body holds is no request
    with counting_proxy(echo) as proxy, contextlib.closing(_connect(proxy)) as client:
        for _ in range(3):
            client.request("PUT", "/object", body)
            assert client.getresponse().read() == body
        assert (proxy.traffic.requests, dict(proxy.methods)) == (3, {"PUT": 3})
        heads = proxy.traffic.bytes - 3 * 2 * len(body)
        assert 0 < heads < 3_000


def test_a_proxy_that_was_closed_takes_no_connection(echo: str) -> None:
    with counting_proxy(echo) as proxy:
        port = int(proxy.uri.rpartition(":")[2])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


@pytest.mark.parametrize("piece", [1, 7, 10_000])
def test_requests_are_found_wherever_they_are_cut(piece: int) -> None:
    chunked = b"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;sig=x\r\nGET /\r\n0\r\nx-sum: 1\r\n\r\n"
    sent = chunked + b"POST /a HTTP/1.1\r\ncontent-length: 6\r\n\r\n\r\n\r\nHE" + b"GET /a HTTP/1.1\r\nHost: b\r\n\r\n"
    parser = RequestParser()
    for start in range(0, len(sent), piece):
        parser.feed(sent[start : start + piece])
    assert parser.methods == ["PUT", "POST", "GET"]


def _connect(proxy: CountingProxy) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(proxy.uri.removeprefix("http://"))
