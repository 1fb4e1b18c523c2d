"""A TCP proxy in front of an object store that counts requests and bytes. It changes nothing, so signatures hold."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[^\r]*chunked", re.IGNORECASE)
_PIECE_BYTES = 1 << 16


@dataclass(frozen=True)
class Traffic:
    """Requests, and the bytes of requests and replies, heads included."""

    requests: int = 0
    bytes: int = 0

    def __sub__(self, before: Traffic) -> Traffic:
        return Traffic(self.requests - before.requests, self.bytes - before.bytes)


@dataclass
class RequestParser:
    r"""Finds the requests in what a client sends on one connection of HTTP/1.1, however it is cut.

    >>> parser = RequestParser()
    >>> for piece in (b"PUT /a HTTP/1.1\r\nContent-Le", b"ngth: 4\r\n\r\nGET ", b"HEAD /a HTTP/1.1\r\n\r\n"):
    ...     parser.feed(piece)
    >>> parser.methods
    ['PUT', 'HEAD']
    """

    methods: list[str] = field(default_factory=list)
    _received: bytearray = field(default_factory=bytearray)
    _body_left: int = 0
    _in_chunks: bool = False

    def feed(self, data: bytes) -> None:
        """Takes the next bytes of the connection."""
        self._received += data
        while self._skip_body() and (self._next_chunk() if self._in_chunks else self._next_head()):
            pass

    def _skip_body(self) -> bool:
        """Drops the bytes of a body; whether its end was reached."""
        skipped = min(self._body_left, len(self._received))
        del self._received[:skipped]
        self._body_left -= skipped
        return self._body_left == 0

    def _next_head(self) -> bool:
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = bytes(self._received[: end + 2])
        del self._received[: end + 4]
        self.methods.append(head.split(b" ", 1)[0].decode())
        self._in_chunks = _CHUNKED.search(head) is not None
        length = _LENGTH.search(head)
        self._body_left = int(length[1]) if length and not self._in_chunks else 0
        return True

    def _next_chunk(self) -> bool:
        """The size of a chunk; the last one, of size 0, is followed by trailers and an empty line."""
        end = self._received.find(b"\r\n")
        if end < 0:
            return False
        if size := int(self._received[:end].split(b";")[0], 16):
            self._body_left = end + 2 + size + 2
            return True
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return False
        del self._received[: end + 4]
        self._in_chunks = False
        return True


class CountingProxy:
    """Forwards connections to a server, and counts what passes."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname, parts.port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.uri = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._lock = threading.Lock()
        self.methods: Counter[str] = Counter()
        self._bytes = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def traffic(self) -> Traffic:
        """What has passed so far."""
        with self._lock:
            return Traffic(self.methods.total(), self._bytes)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # closed before
            self._listening.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts; closing alone does not
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target) as server:
            for sock in (client, server):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            replies = threading.Thread(target=self._pass_on, args=(server, client), daemon=True)
            replies.start()
            self._pass_on(client, server, RequestParser())
            replies.join()

    def _pass_on(self, source: socket.socket, target: socket.socket, parser: RequestParser | None = None) -> None:
        """Bytes are counted before they are passed on: who has the reply finds its request counted."""
        with contextlib.suppress(OSError):  # the other side has closed
            while data := source.recv(_PIECE_BYTES):
                self._count(data, parser)
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def _count(self, data: bytes, parser: RequestParser | None) -> None:
        if parser is not None:
            parser.feed(data)
        with self._lock:
            self._bytes += len(data)
            if parser is not None:
                self.methods.update(parser.methods)
                parser.methods.clear()


@contextlib.contextmanager
def counting_proxy(target: str) -> Iterator[CountingProxy]:
    """A proxy in front of a server; it ends with the block."""
    proxy = CountingProxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
