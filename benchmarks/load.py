"""A load generator that costs little: one thread, one epoll, keep-alive connections, and only as much HTTP as it needs.

A client is a Python generator: it yields the bytes of a request and gets back the reply, until it has done its share of
the work.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import re
import select
import socket
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit


class Reply(NamedTuple):
    """A status, and the bytes of the whole reply; the body is cut out only for those who want it."""

    status: int
    raw: bytes | bytearray
    body_at: int

    @property
    def body(self) -> bytes:
        """The body, with chunks joined."""
        chunked = _CHUNKED.search(self.raw, 0, self.body_at - 2)
        return _join_chunks(bytes(self.raw), self.body_at) if chunked else bytes(self.raw[self.body_at :])


Client = Generator[bytes, Reply, None]


@dataclass(slots=True)
class Connection:
    """One keep-alive connection and the client that speaks on it."""

    sock: socket.socket
    client: Client
    received: bytearray = field(default_factory=bytearray)


def request(method: str, path: str, body: bytes = b"", *, token: str = "") -> bytes:
    """The bytes of a request.

    >>> request("GET", "/v1/config")
    b'GET /v1/config HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n'
    """
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    if token:
        head += f"Authorization: Bearer {token}\r\n"
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


_BUFFER = memoryview(bytearray(1 << 20))  # one for all: a reply is taken out of it before the next is read
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)


def _advance(connection: Connection) -> bool:
    """Reads what arrived; with a whole reply, sends the client's next request. False when the client is done."""
    count = connection.sock.recv_into(_BUFFER)
    if not count:
        raise ConnectionError("the server closed the connection in the middle of the work")
    if connection.received:
        connection.received += _BUFFER[:count]
        received: bytes | bytearray = connection.received
    else:
        received = bytes(_BUFFER[:count])
    reply = _whole_reply(received)
    if reply is None:
        connection.received = received if isinstance(received, bytearray) else bytearray(received)
        return True
    connection.received = bytearray()
    try:
        connection.sock.sendall(connection.client.send(reply))
    except StopIteration:
        return False
    return True


def _whole_reply(received: bytes | bytearray) -> Reply | None:
    """The reply, once all of it is there."""
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return None
    start = end + 4
    if match := _LENGTH.search(received, 0, end):
        whole = len(received) >= start + int(match[1])
    elif _CHUNKED.search(received, 0, end + 2):
        # The generator sends one request at a time, so the last chunk ends what was received.
        whole = received.endswith(b"0\r\n\r\n")
    else:
        whole = True
    return Reply(int(received[9:12]), received, start) if whole else None


def _join_chunks(received: bytes, start: int) -> bytes:
    parts = []
    while True:
        line = received.index(b"\r\n", start)
        size = int(received[start:line].split(b";")[0], 16)
        if size == 0:
            return b"".join(parts)
        parts.append(received[line + 2 : line + 2 + size])
        start = line + 2 + size + 2


# --- the generator's own ceiling -------------------------------------------------------------------------------------


def measure_ceiling(clients: int, *, requests: int = 20_000) -> float:
    """Requests per second that the generator itself manages, against a server that does nothing."""

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
