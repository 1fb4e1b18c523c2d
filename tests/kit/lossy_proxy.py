"""A TCP proxy that loses what the test selects: a request on its way to the server, or the reply on its way back."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

_METHODS = (b"GET ", b"HEAD ", b"POST ", b"DELETE ")


class LossyProxy:
    """Forwards connections to a server; `lose_*` say which of the next requests meets with an accident."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname, parts.port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.uri = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.requests: list[bytes] = []  # the head of each request that arrived
        self._lost_replies: list[bytes] = []
        self._lost_requests: list[bytes] = []
        self._gone_after_loss = False
        self._meanwhile: Callable[[], object] = lambda: None
        self._before: list[tuple[bytes, Callable[[], object]]] = []
        self.open = threading.Event()  # while it is not set, requests wait here
        self.open.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_reply(
        self, start: bytes, *, then_vanish: bool = False, meanwhile: Callable[[], object] = lambda: None
    ) -> None:
        """The server gets and answers the next request that starts so; the client sees the connection end, after
        `meanwhile`.
        """
        self._lost_replies.append(start)
        self._gone_after_loss = then_vanish
        self._meanwhile = meanwhile

    def lose_request(self, start: bytes) -> None:
        """The next request that starts so never reaches the server."""
        self._lost_requests.append(start)

    def before(self, start: bytes, action: Callable[[], object]) -> None:
        """The action happens before the server gets the next request that starts so."""
        self._before.append((start, action))

    def close(self) -> None:
        self.open.set()
        with contextlib.suppress(OSError):  # closed before
            self._listening.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts; closing alone does not
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.ExitStack() as stack:
            replies = self._connect(client, stack)
            with contextlib.suppress(OSError):  # the other side has closed
                while data := client.recv(65536):
                    if data.startswith(_METHODS):  # the head of a request comes in one piece, its body follows
                        self.requests.append(data.partition(b"\r\n\r\n")[0])
                    self.open.wait()
                    for entry in [each for each in self._before if data.startswith(each[0])]:
                        self._before.remove(entry)
                        replies.keeps_client = True  # the server closes a connection that waits for long
                        entry[1]()
                        replies = self._connect(client, stack)
                    if self._taken(self._lost_requests, data):
                        return
                    if self._taken(self._lost_replies, data):
                        replies.lost = self.close if self._gone_after_loss else self._meanwhile
                    replies.server.sendall(data)

    def _connect(self, client: socket.socket, stack: contextlib.ExitStack) -> _Replies:
        replies = _Replies(stack.enter_context(socket.create_connection(self._target)), client)
        threading.Thread(target=replies.pass_on, daemon=True).start()
        return replies

    @staticmethod
    def _taken(waiting: list[bytes], request: bytes) -> bool:
        result = next((start for start in waiting if request.startswith(start)), None)
        if result is not None:
            waiting.remove(result)
        return result is not None


class _Replies:
    """Passes on what a server says, until told that the next reply is lost."""

    def __init__(self, server: socket.socket, client: socket.socket) -> None:
        self.server, self.client = server, client
        self.lost: Callable[[], object] | None = None
        self.keeps_client = False  # when the server ends the connection

    def pass_on(self) -> None:
        with contextlib.suppress(OSError):  # the other side has closed
            while data := self.server.recv(65536):
                if self.lost is not None:
                    self.lost()
                    break
                self.client.sendall(data)
        for sock in (self.server,) if self.keeps_client else (self.client, self.server):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def lossy_proxy(target: str) -> Iterator[LossyProxy]:
    proxy = LossyProxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
