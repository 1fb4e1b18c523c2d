"""The load generator speaks enough HTTP to read what real servers send."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks.load import Client, Reply, drive, measure_ceiling, request

REPLIES = {
    "a length": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
}


@contextmanager
def server_that_says(reply: bytes, *, piece: int) -> Iterator[str]:
    """Answers each request with `reply`, in pieces of a given size."""

    def serve(listening: socket.socket) -> None:
        sock, _ = listening.accept()
        with sock:
            while sock.recv(65536):
                for start in range(0, len(reply), piece):
                    sock.sendall(reply[start : start + piece])

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join(5)


def asking(replies: list[Reply], times: int) -> Client:
    for _ in range(times):
        replies.append((yield request("GET", "/")))


@pytest.mark.parametrize("framing", REPLIES)
@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_a_reply_is_read_whole_however_it_is_framed_and_cut(framing: str, piece: int) -> None:
    replies: list[Reply] = []
    with server_that_says(REPLIES[framing], piece=piece) as address:
        drive(address, [asking(replies, 3)])
    assert [(reply.status, reply.body) for reply in replies] == [(200, b"hello")] * 3


def test_a_reply_without_a_body_is_whole_at_once() -> None:
    replies: list[Reply] = []
    with server_that_says(b"HTTP/1.1 204 No Content\r\n\r\n", piece=1000) as address:
        drive(address, [asking(replies, 2)])
    assert [(reply.status, reply.body) for reply in replies] == [(204, b"")] * 2


def test_a_request_carries_its_body_and_length() -> None:
    assert request("POST", "/x", b"{}").endswith(b"Content-Length: 2\r\n\r\n{}")


def test_the_generators_own_ceiling_is_measured() -> None:
    assert measure_ceiling(2, requests=200) > 0
