"""A load generator that costs little: one thread, one epoll, keep-alive connections, and only as much HTTP as it needs.

A client is a Python generator: it yields the bytes of a request and gets back the reply, until it has done its share of the work.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import select
import socket
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit


class Reply(NamedTuple):
    """A status and a body."""

    status: int
    body: bytes


Client = Generator[bytes, Reply, None]


@dataclass
class Connection:
    """One keep-alive connection and the client that speaks on it."""

    sock: socket.socket
    client: Client
    received: bytearray = field(default_factory=bytearray)


def request(method: str, path: str, body: bytes = b"") -> bytes:
    """The bytes of a request.

    >>> request("GET", "/v1/config")
    b'GET /v1/config HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n'
    """
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def drive(address: str, clients: Sequence[Client], *, seconds: float = 120) -> float:
    """Lets the clients work at the same time until all are done; the seconds that it took."""
    target = urlsplit(address)
    poll = select.epoll()
    connections: dict[int, Connection] = {}
    for client in clients:
        sock = socket.create_connection((target.hostname, target.port), timeout=30)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connections[sock.fileno()] = Connection(sock, client)
        poll.register(sock.fileno(), select.EPOLLIN)
    start = time.perf_counter()
    for connection in list(connections.values()):
        connection.sock.sendall(next(connection.client))
    while connections:
        if time.perf_counter() - start > seconds:
            raise TimeoutError(f"{len(connections)} of {len(clients)} clients are not done after {seconds:g} s")
        for number, _ in poll.poll(1.0):
            if not _advance(connections[number]):
                poll.unregister(number)
                connections.pop(number).sock.close()
    poll.close()
    return time.perf_counter() - start


def _advance(connection: Connection) -> bool:
    """Reads what arrived; with a whole reply, sends the client's next request. False when the client is done."""
    data = connection.sock.recv(1 << 20)
    if not data:
        raise ConnectionError("the server closed the connection in the middle of the work")
    connection.received += data
    reply = _take_reply(connection)
    if reply is None:
        return True
    try:
        connection.sock.sendall(connection.client.send(reply))
    except StopIteration:
        return False
    return True


def _take_reply(connection: Connection) -> Reply | None:
    """The reply, once all of it is there."""
    received = connection.received
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = bytes(received[:end]).lower()
    at = head.find(b"\r\ncontent-length:")
    if at >= 0:
        length = int(head[at + 17 :].split(b"\r\n", 1)[0])
        if len(received) < end + 4 + length:
            return None
        body = bytes(received[end + 4 :])
    elif b"\r\ntransfer-encoding: chunked" in head:
        # The generator sends one request at a time, so the last chunk ends what was received.
        if not received.endswith(b"0\r\n\r\n"):
            return None
        body = _join_chunks(received, end + 4)
    else:
        body = b""
    received.clear()
    return Reply(int(head[9:12]), body)


def _join_chunks(received: bytearray, start: int) -> bytes:
    parts = []
    while True:
        line = received.index(b"\r\n", start)
        size = int(bytes(received[start:line]).split(b";")[0], 16)
        if size == 0:
            return b"".join(parts)
        parts.append(bytes(received[line + 2 : line + 2 + size]))
        start = line + 2 + size + 2


# --- the generator's own ceiling ---------------------------------------------------------------------------------------------------


def measure_ceiling(clients: int, *, requests: int = 20_000) -> float:
    """Requests a second that the generator itself manages, against a server that does nothing."""

    def ask(count: int) -> Client:
        for _ in range(count):
            yield request("GET", "/")

    with trivial_server() as address:
        drive(address, [ask(200) for _ in range(clients)])
        return requests / drive(address, [ask(requests // clients) for _ in range(clients)])


@contextlib.contextmanager
def trivial_server() -> Iterator[str]:
    """The address of a server, in its own process, that answers every request with the same 200 bytes."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=128)
    process = multiprocessing.get_context("fork").Process(target=_serve_trivially, args=(listening,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        process.terminate()
        process.join()
        listening.close()


def _serve_trivially(listening: socket.socket) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n" + b"x" * 200
    poll = select.epoll()
    poll.register(listening.fileno(), select.EPOLLIN)
    open_sockets: dict[int, socket.socket] = {}
    while True:
        for number, _ in poll.poll():
            if number == listening.fileno():
                sock, _ = listening.accept()
                open_sockets[sock.fileno()] = sock
                poll.register(sock.fileno(), select.EPOLLIN)
            elif open_sockets[number].recv(65536):
                open_sockets[number].sendall(answer)
            else:
                poll.unregister(number)
                open_sockets.pop(number).close()


def repeat(build: Callable[[], bytes], count: int, *, expect: Sequence[int] = (200,)) -> Client:
    """A client that sends `count` requests and accepts only the expected statuses."""
    for _ in range(count):
        reply = yield build()
        if reply.status not in expect:
            raise RuntimeError(f"expected {expect}, got {reply.status}: {reply.body[:500]!r}")
