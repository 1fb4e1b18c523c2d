"""uvicorn's HTTP protocol with two shortcuts. Without them everything works the same, only slower.

A quick read (an indexed lookup, a stat, bytes from memory) is answered where its head was parsed: no ASGI scope, no task, one write. That
is a third of the time of a small load. Every other answer has its head held back until the body comes, so that both leave in one write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from frazil.catalog.http import Response

JOIN_BYTES = 65536  # longer bodies are handed over as they are: copying them would cost more than it saves


class _Answered:
    """Stands where uvicorn keeps the exchange of a request: this one is over."""

    response_complete = True
    disconnected = False
    keep_alive = True
    message_event = asyncio.Event()


_ANSWERED: Any = _Answered()


class CatalogProtocol(HttpToolsProtocol):
    """One connection."""

    def on_headers_complete(self) -> None:
        if self._may_answer_here():
            # What the application gives back is None when it needs a thread, or anything else that takes time.
            response = self.app.answer_here(self.parser.get_method(), self.url, self.headers)
            if response is not None:
                self.cycle = _ANSWERED
                _write(self.transport.write, self.transport.writelines, response)
                self.on_response_complete()
                return
        super().on_headers_complete()

    def _may_answer_here(self) -> bool:
        """Nothing is under way on this connection, and there is no body to wait for."""
        if self.cycle is not None and not self.cycle.response_complete:
            return False
        if self.pipeline or self.flow.write_paused or self.transport.is_closing() or not self.parser.should_keep_alive():
            return False
        return self.parser.get_method() in (b"GET", b"HEAD") and self.parser.get_http_version() == "1.1"

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        cycle.transport = _JoiningTransport(self.transport)  # type: ignore[assignment]
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        transport = getattr(self.cycle, "transport", None)
        if isinstance(transport, _JoiningTransport):
            transport.flush()
        super().on_response_complete()


def _write(write: Callable[[bytes], None], write_lines: Callable[[Any], None], response: Response) -> None:
    parts = [STATUS_LINE[response.status]]
    for name, value in response.headers:
        parts += (name, b": ", value, b"\r\n")
    parts.append(b"\r\n")
    if len(response.body) < JOIN_BYTES:
        parts.append(response.body)
        write(b"".join(parts))
    else:
        write_lines((b"".join(parts), response.body))


class _JoiningTransport:
    """The connection's transport, which keeps the head of an answer until its body comes."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        self._began = False

    def write(self, data: bytes) -> None:
        if not self._began and not data.startswith(b"HTTP/1.1 100"):
            self._head, self._began = data, True
        elif not self._head:
            self._transport.write(data)
        elif len(data) < JOIN_BYTES:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        else:
            head, self._head = self._head, b""
            self._transport.writelines((head, data))

    def flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()
