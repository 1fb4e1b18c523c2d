"""uvicorn's HTTP protocol with two shortcuts, and with limits on what a client may send and how long it may take.

A quick read (an indexed lookup, a stat, bytes from memory) is answered where its head was parsed: no ASGI scope, no
task, one write. That is a third of the time of a small load. Every other answer has its head held back until the body
comes, so that both leave in one write.

Limits cost nothing where they are not reached: a request whose head arrives in one small piece cannot exceed those of
the head, and `connections.py` looks for late clients once a second. What is refused here is answered like any other
error, and the connection is closed when the rest of its stream has no known meaning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from frazil.catalog.http import Response
from frazil.catalog.logs import log
from frazil.catalog.problems import problem_response
from frazil.errors import BadRequest, CatalogError, HeadersTooLarge, RequestTooSlow, TooBusy, UrlTooLong

if TYPE_CHECKING:
    from frazil.catalog.connections import Connections
    from frazil.catalog.context import Context
    from frazil.catalog.http import Headers

JOIN_BYTES = 65536  # longer bodies are handed over as they are: copying them would cost more than it saves
MAX_HEADERS = 256
ANSWERED_AT_ONCE = 32  # requests sent ahead that are answered in one go; others get a turn in between
SENT_AHEAD = 64  # requests that wait for the one before
LINGER_SECONDS, LINGER_BYTES = 5.0, 64 * 1024 * 1024  # for a client that sends on after its request was refused


class _Answered:
    """Stands where uvicorn keeps the exchange of a request: this one is over."""

    response_complete = True
    disconnected = False
    keep_alive = True
    more_body = False
    message_event = asyncio.Event()


_ANSWERED: Any = _Answered()


class ServedApp(Protocol):
    """What a connection needs of the application, besides calling it."""

    ctx: Context
    connections: Connections

    def answer_here(self, method: bytes, url: bytes, headers: Headers, address: str = "") -> Response | None: ...


class CatalogProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        app: ServedApp = self.app
        self._limits = app.ctx.limits
        self._all = app.connections
        self._in_head = True  # from the start, and from the first byte of a request to the end of its head
        # when the client began to keep us waiting; 0 when the head has just come, or none is awaited
        self._since = self.loop.time()
        self._silent = True
        self._wire = 0  # bytes of the head so far, or between two pieces of the body
        self._large = False  # the head may be too large: look
        self._answered = 0
        self._in_work: RequestResponseCycle | None = None  # the request that the application answers now
        self._upgrading = False
        self._error: CatalogError | None = None
        self._lingers_until = 0.0
        self._lingered = 0

    # --- the connection ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._all.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.closed(self)
        # uvicorn marks `self.cycle` only: the last request that was parsed, not the one in work when others were sent
        # ahead.
        if self._in_work is not None:
            self._in_work.disconnected = True
            self._in_work.message_event.set()
        for cycle, _ in self.pipeline:
            cycle.disconnected = True
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._lingers_until:
            self._lingered += len(data)
            if self._lingered > LINGER_BYTES:
                self.transport.abort()
            return
        self._unset_keepalive_if_required()
        self._silent, self._answered = False, 0
        # A head that comes in several pieces, as TLS cuts it, may be too large though each of them is small.
        begun = self._in_head and self._since > 0
        self._large = len(data) > self._all.small_bytes or self._wire > 0 or begun
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserUpgrade, httptools.HttpParserError) as exc:
            self._feed_rest(data, exc)
        if self._in_head or (self.cycle is not None and self.cycle.more_body):
            self._wait_for_more(len(data))

    def _feed_rest(self, data: bytes, stop: Exception) -> None:
        """Parses on after the parser stopped, or refuses the request."""
        while isinstance(stop, httptools.HttpParserUpgrade):
            data = self._without_upgrade(data[stop.args[0] :])
            if not data:
                return
            try:
                self.parser.feed_data(data)
                return
            except (httptools.HttpParserUpgrade, httptools.HttpParserError) as exc:
                stop = exc
        self._refuse(self._error or BadRequest("The request is not valid HTTP"))

    def _without_upgrade(self, rest: bytes) -> bytes:
        """What is still to be parsed. Other protocols are not offered, but the parser skips the body of a request that
        asks for one: such a request is parsed again as if it had not asked.
        """
        if not self._upgrading:
            return rest
        head = [self.scope["method"].encode(), b" ", self.url, b" HTTP/1.1\r\n"]
        for name, value in self.headers:
            if name not in (b"upgrade", b"connection", b"http2-settings"):
                head += [name, b": ", value, b"\r\n"]
        self._upgrading = False
        self.parser = httptools.HttpRequestParser(self)
        return b"".join((*head, b"\r\n", rest))

    def _wait_for_more(self, size: int) -> None:
        """The request is not complete: counts what it takes, and notes since when."""
        if self._lingers_until:
            return
        if not self._since:
            self._since = self.loop.time()  # what came before it in the same piece is not its own
        else:
            self._wire = 0 if self._wire < 0 else self._wire + size
        if self._in_head:
            if self._wire > self._limits.header_bytes + self._limits.url_bytes or self._is_large():
                self._refuse(self._head_too_large())
        elif self._wire > self._limits.header_bytes or len(self.headers) > MAX_HEADERS:
            self._refuse(HeadersTooLarge("The chunk headers or trailers of the body are too long"))

    # --- what the parser finds ---------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self.url, self.headers, self.expect_100_continue = b"", [], False
        self._in_head = True

    def _make_scope(self) -> None:
        """What uvicorn does when a message begins; requests that are answered here need no scope."""
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.headers += headers  # the scope has this very list
        self.url, self.expect_100_continue = url, expects

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._since = self._wire = 0
        if (self._large or len(self.headers) > MAX_HEADERS) and self._is_large():
            self._stop_parsing(self._head_too_large())
        if self.parser.should_upgrade() and self._has_body():
            self._upgrading = True
            self._make_scope()
            self.scope["method"] = self.parser.get_method().decode("ascii")
            return
        if self._may_answer_here():
            # What the application gives back is None when it needs a thread, or anything else that takes time.
            response = self.app.answer_here(
                self.parser.get_method(), self.url, self.headers, self.client[0] if self.client else ""
            )
            if response is not None:
                self.cycle = _ANSWERED
                self._answered += 1
                _write(self.transport.write, self.transport.writelines, response)
                if len(response.body) >= JOIN_BYTES:
                    self._all.wrote(self, response.body)
                self.on_response_complete()
                return
        if len(self.pipeline) >= SENT_AHEAD:
            self._stop_parsing(TooBusy(f"More than {SENT_AHEAD} requests were pipelined"))
        self._make_scope()
        super().on_headers_complete()

    def _is_large(self) -> bool:
        if len(self.url) > self._limits.url_bytes or len(self.headers) > MAX_HEADERS:
            return True
        return sum(len(name) + len(value) + 4 for name, value in self.headers) > self._limits.header_bytes

    def _head_too_large(self) -> CatalogError:
        if len(self.url) > self._limits.url_bytes:
            return UrlTooLong(f"The URL is longer than {self._limits.url_bytes} bytes")
        if len(self.headers) > MAX_HEADERS:
            return HeadersTooLarge(f"The request has more than {MAX_HEADERS} headers")
        return HeadersTooLarge(f"The headers have more than {self._limits.header_bytes} bytes")

    def _has_body(self) -> bool:
        names = [name for name, value in self.headers if value != b"0"]
        return b"content-length" in names or b"transfer-encoding" in names

    def _may_answer_here(self) -> bool:
        """Nothing is under way on this connection, and there is no body to wait for."""
        if self.cycle is not None and not self.cycle.response_complete:
            return False
        if (
            self.pipeline
            or self.flow.write_paused
            or self.transport.is_closing()
            or not self.parser.should_keep_alive()
        ):
            return False
        if self._answered >= ANSWERED_AT_ONCE:
            return False
        return bool(self.parser.get_method() in (b"GET", b"HEAD") and self.parser.get_http_version() == "1.1")

    def on_body(self, body: bytes) -> None:
        self._wire = -1  # this piece has some of it
        if self.cycle.scope["method"] == "POST":  # no other operation reads one
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._upgrading:
            super().on_message_complete()

    # --- refusals ----------------------------------------------------------------------------------------------------

    def _stop_parsing(self, error: CatalogError) -> None:
        """Ends the parser's run, which comes back to `data_received`."""
        self._error = error
        raise error

    def _refuse(self, error: CatalogError) -> None:
        """Answers with an error and closes: what follows on the connection has no known meaning."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and not cycle.more_body:
            # Whole requests are being answered, and this one would be next: the last of them says that the connection
            # ends with it.
            (self.pipeline[0][0] if self.pipeline else cycle).keep_alive = False
            self._linger()
            return
        if cycle is not None and cycle.more_body and not cycle.response_complete:
            cycle.disconnected = True  # its body will not come
            cycle.message_event.set()
            if cycle.response_started or self.pipeline:
                self.transport.abort()
                return
        log.info("refused a request that is not valid", extra={"fields": {"reason": error.message}})
        response = problem_response(error)
        response.headers += [(b"connection", b"close"), (b"content-length", b"%d" % len(response.body))]
        _write(self.transport.write, self.transport.writelines, response)
        self._close_calmly()

    def _close_calmly(self) -> None:
        """Closes once the client has read the answer: closing at once would reset the connection while the client still
        sends.
        """
        self._linger()
        if not self.transport.is_closing():
            self.flow.resume_reading()
            if self.transport.can_write_eof():
                self.transport.write_eof()
            else:
                self.transport.close()  # TLS has no half-closed connections

    def _linger(self) -> None:
        self._lingers_until = self._lingers_until or self.loop.time() + LINGER_SECONDS

    # --- late clients ------------------------------------------------------------------------------------------------

    def waits_for_client(self) -> bool:
        """No request of the connection is complete and unanswered."""
        return self._in_head or self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def is_late(self, now: float) -> bool:
        """The client has kept us waiting for too long, for the head of a request or for the end of one that is
        answered.
        """
        if self._lingers_until:
            return now > self._lingers_until and (not self._is_working() or self.cycle.disconnected)
        if not self._since:
            return False
        if self._in_head:
            return now - self._since > self._limits.first_byte_seconds and not self._is_working()
        return self.cycle.response_complete and now - self._since > self._limits.body_seconds

    def _is_working(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def give_up(self) -> None:
        if self._lingers_until or self._silent or not self._in_head:
            self.transport.abort()
        else:
            self._refuse(
                RequestTooSlow(f"The request did not arrive within {self._limits.first_byte_seconds:g} seconds")
            )

    # --- answers -----------------------------------------------------------------------------------------------------

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        cycle.transport = _JoiningTransport(self, cycle)  # type: ignore[assignment]
        self._in_work = cycle
        super()._start_asgi_task(cycle, app if self._is_room() else _busy)

    def _is_room(self) -> bool:
        """Whether one more request may be worked on. The task of an answered one is listed until the next turn of the
        loop.
        """
        limit = self._limits.concurrent_requests
        return len(self.tasks) < limit or sum(not task.done() for task in self.tasks) < limit

    def on_response_complete(self) -> None:
        if self._in_work is not None:
            transport: Any = self._in_work.transport
            transport.flush()
            self._in_work = None
        super().on_response_complete()


async def _busy(_scope: Any, _receive: Any, send: Any) -> None:
    response = problem_response(TooBusy("The server has reached its limit of concurrent requests", hint="retry later"))
    headers = [*response.headers, (b"content-length", b"%d" % len(response.body))]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})


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
    """The connection's transport, which keeps the head of an answer until its body comes, and drops what comes after
    the end.
    """

    def __init__(self, protocol: CatalogProtocol, cycle: RequestResponseCycle) -> None:
        self._protocol, self._cycle = protocol, cycle
        self._transport = protocol.transport
        self._head = b""
        self._began = False

    def write(self, data: bytes) -> None:
        if self._transport.is_closing():
            self._head = b""
        elif not self._began and not data.startswith(b"HTTP/1.1 100"):
            self._head, self._began = self._closing(data), True
        elif not self._head:
            self._transport.write(data)
        elif len(data) < JOIN_BYTES:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        else:
            head, self._head = self._head, b""
            self._transport.writelines((head, data))
            self._protocol._all.wrote(self._protocol, data)

    def _closing(self, head: bytes) -> bytes:
        """The head of an answer; it ends the connection when the body of the request has not been read to its end."""
        if not self._cycle.more_body or not self._cycle.keep_alive:
            return head
        self._cycle.keep_alive = False
        return head[:-2] + b"connection: close\r\n\r\n"

    def flush(self) -> None:
        if self._head and not self._transport.is_closing():
            head, self._head = self._head, b""
            self._transport.write(head)

    def close(self) -> None:
        self.flush()
        if self._cycle.more_body:
            self._protocol._close_calmly()
        else:
            self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()
