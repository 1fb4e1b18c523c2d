"""A lake inside the process of its catalog: requests reach the application without a port, as those of one caller.

They pass the same gate, operations and audit log as a request of any client. Files are read by the server's own access,
so no key of an object store leaves it; with authentication on, only files in the places of the table.
"""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter
from urllib3 import HTTPHeaderDict, HTTPResponse

from frazil.catalog import served_files, writable_files
from frazil.client import FrazilCatalog

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from requests import Session

    from frazil.catalog import CatalogApp
    from frazil.lake import Lake

URI = "http://localhost"  # not on the network: the adapter below answers
DELEGATION = "X-Iceberg-Access-Delegation"


@dataclass(frozen=True)
class Caller:
    """In whose name a job is done."""

    warehouse: str
    token: str | None = field(repr=False)
    address: str
    request_id: str


class Loop:
    """An event loop in a thread of its own, in which the application answers."""

    def __init__(self, app: CatalogApp) -> None:
        self.app, self._loop = app, asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True, name="frazil-inside").start()

    def ask(self, scope: dict[str, Any], body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        """The whole answer to a request: status, headers, body."""
        return asyncio.run_coroutine_threadsafe(self._answer(scope, body), self._loop).result()

    async def _answer(self, scope: dict[str, Any], body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        unread, sent = [{"type": "http.request", "body": body}], []

        async def receive() -> dict[str, Any]:
            if unread:
                return unread.pop()
            await asyncio.Event().wait()  # the client never leaves: its process would end
            raise AssertionError("this event is never set")

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in sent[0]["headers"]]
        return sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:])


class InsideTransport(HTTPAdapter):
    """Hands the requests of a session to an application of this process."""

    def __init__(self, loop: Loop, caller: Caller) -> None:
        self._loop, self._caller = loop, caller
        super().__init__()

    def send(self, request: PreparedRequest, *_: object, **__: object) -> Response:
        body = request.body or b""
        body = body.encode() if isinstance(body, str) else bytes(body)  # type: ignore[arg-type]  # never a stream here
        status, headers, content = self._loop.ask(self._scope(request), body)
        raw = HTTPResponse(
            io.BytesIO(content),
            headers=HTTPHeaderDict(headers),
            status=status,
            preload_content=False,
            request_method=request.method,  # the answer to HEAD has a length and no body
        )
        return self.build_response(request, raw)

    def _scope(self, request: PreparedRequest) -> dict[str, Any]:
        parts = urlsplit(request.url or "")
        headers: Mapping[str, str | bytes] = {**request.headers, "x-request-id": self._caller.request_id}
        return {
            "type": "http",
            "http_version": "1.1",
            "method": request.method,
            "path": parts.path,
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "client": (self._caller.address, 0),
            "headers": [(b"host", b"localhost"), *((_bytes(name).lower(), _bytes(headers[name])) for name in headers)],
        }


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("latin-1")


class InsideCatalog(FrazilCatalog):
    """The client of an application of this process."""

    def __init__(self, transport: InsideTransport, **properties: str) -> None:
        self._transport = transport
        super().__init__("lake", **properties)

    def prepare_session(self, session: Session) -> None:
        super().prepare_session(session)
        session.trust_env = False  # no proxy and no .netrc of the server's user
        session.headers.pop(DELEGATION, None)  # files are reached by the server's own access
        session.mount("http://", self._transport)


def no_embedder_here(table: str, column: str) -> NoReturn:
    """No project is loaded in this process: it does the jobs of other callers, too."""
    from frazil.vector import no_embedder

    raise no_embedder(table, column)


def open_lake(loop: Loop, caller: Caller, *, writes: bool) -> Lake:
    """The lake of a caller. Only jobs of a kind that writes can write files."""
    from frazil.config import Settings
    from frazil.lake import Lake

    ctx = loop.app.ctx
    properties = {"uri": URI, "warehouse": caller.warehouse}
    if caller.token is not None:
        properties["token"] = caller.token
    if writes:
        properties |= ctx.warehouses.named(caller.warehouse).access.own()
    catalog = InsideCatalog(InsideTransport(loop, caller), **properties)

    def io_of(table: Table) -> FileIO:
        return (writable_files if writes else served_files)(ctx, caller.warehouse, table)

    catalog.limit_files(io_of)
    lake = Lake(Settings.model_validate({"search": {"cache_bytes": 0}}), catalog=catalog)
    lake.embedder_of = no_embedder_here
    return lake
