"""A request as an operation sees it, the response it returns, and how both travel over ASGI."""

from __future__ import annotations

import asyncio
import threading
import zlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import orjson

from frazil.catalog.access.privileges import Caller, Need
from frazil.catalog.bodies import (
    BODY_WEIGHT,
    COUNT_FROM_BYTES,
    VALUE_BYTES,
    Share,
    TooLong,
    Unpackable,
    count_values,
    unpack_gzip,
)
from frazil.catalog.names import Name, Namespace, check_name, split_namespace
from frazil.catalog.origins import check_type
from frazil.config import Limits
from frazil.errors import BadRequest, BodyTooLarge, BodyTooSlow, UnsupportedBody

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Coroutine[Any, Any, Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

FORM_BYTES = 64 * 1024  # of a form: unknown callers send them
JSON, FORM = b"application/json", b"application/x-www-form-urlencoded"
JSON_TYPE = (b"content-type", JSON)
ARROW_STREAM = "application/vnd.apache.arrow.stream"
MAX_DEPTH = 240  # of JSON, as orjson writes at most 254 levels
GZIP_FROM_BYTES = 4096  # below that the header costs more than it saves
INLINE_GZIP_BYTES = 4096  # of a body: unpacked in the event loop, in less than a millisecond
LARGE_JSON_BYTES = 128 * 1024
# A parser does not let go of the interpreter: were several at work, the event loop would wait for all of them.
_large_json = threading.Lock()


class Abandoned(Exception):
    """The client of a request without effects has left: its work may stop."""


@dataclass(slots=True)
class Request:
    """What an operation reads: the path's variables, the query, the headers and the body."""

    method: str
    path: str
    variables: dict[str, str]
    query_string: bytes = b""
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""
    inline: bool = False  # the call runs in the event loop: whatever may block must raise WouldBlock
    key: str | None = None  # the idempotency key, checked
    fingerprint: str = ""  # what the key belongs to
    caller: Caller | None = None  # None when authentication is off, or not needed
    needs: Sequence[Need] = ()  # what the caller needs for this request
    authorised: bool = False
    refused: bool = False  # by the gate
    mentioned: tuple[str, ...] = ()  # what it is about besides, for the audit log, as the three below
    operation: str = ""
    address: str = ""  # of the client, or of the proxy in front
    served_at: tuple[str, int] = ("127.0.0.1", 0)  # the address and port of this server that it came to
    request_id: bytes = b""
    # the caller is known by what is remembered of the version below: the operation must compare it (Gate.confirm)
    assumed: bool = False
    decided: bool = False  # in the transaction of a change: what comes after it is no reason to run the change again
    fingerprint_of_key: bytes = b""  # a hash of the caller's token, if it is assumed
    access_version: int = 0  # of keys, roles and grants, when the caller was authenticated
    authenticated_at: float = 0.0  # monotonic
    expires_ms: int | None = None  # when the caller's token ends
    warehouse: str | None = None  # the name of that of the path, once it was looked up (Warehouses.of_request)
    left: bool = False  # the client has gone, or will not wait any longer: long work without effects may stop
    _query: dict[str, str] | None = None
    _json: dict[str, Any] | None = None

    @property
    def query(self) -> dict[str, str]:
        if self._query is None:
            try:
                pairs = parse_qsl(
                    self.query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50
                )
            except ValueError as exc:  # UnicodeDecodeError is one of them
                raise BadRequest(f"Invalid query string: {exc}", reason=str(exc)) from exc
            self._query = dict(pairs)
        return self._query

    @property
    def namespace(self) -> Namespace:
        return split_namespace(self.variables["namespace"])

    def name(self, kind: str = "table") -> Name:
        return Name(self.namespace, check_name(self.variables[kind], f"{kind} name"))

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def flag(self, name: str) -> bool:
        """A boolean of the query; absent means false."""
        text = self.query.get(name, "false").lower()
        if text not in ("true", "false"):
            raise BadRequest(f"Invalid query parameter {name}: expected true or false, got {text!r}", got=text)
        return text == "true"

    def mention(self, *objects: str) -> None:
        """Adds what the audit log names besides the objects that are needed: a new one, a file."""
        self.mentioned = tuple(dict.fromkeys((*self.mentioned, *objects)))  # a transaction may run twice

    def forget_body(self) -> None:
        """Lets go of the body, which may be long; the rest is needed until the request is logged."""
        self.body, self._json = b"", None

    def check_client(self) -> None:
        """Raises Abandoned when the client has left; called now and then by long work."""
        if self.left:
            raise Abandoned

    def form(self) -> dict[str, str]:
        """The body as the fields of a form."""
        return _parse_form(self.body)

    def json(self) -> dict[str, Any]:
        """The body as a JSON object, parsed once."""
        if self._json is not None:
            return self._json
        value, fault = _parse(self.body)
        if fault:
            raise BadRequest(f"The body is not valid JSON: {fault}")
        if not isinstance(value, dict):
            raise BadRequest(f"The body must be a JSON object, got {type(value).__name__}", got=type(value).__name__)
        self._json = value
        return value


def _parse_form(body: bytes) -> dict[str, str]:
    """
    >>> _parse_form(b"a=1&b=x%20y&c="), _parse_form(b"")
    ({'a': '1', 'b': 'x y', 'c': ''}, {})
    """
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50)
    except ValueError as exc:
        raise BadRequest("The body is not a valid form") from exc
    if len(dict(pairs)) != len(pairs):
        raise BadRequest("The form has a field twice")
    return dict(pairs)


def _parse(body: bytes) -> tuple[Any, str]:
    """The value, and what is wrong with the text. The parser's exception holds a copy of the text: it does not leave
    this function.
    """
    try:
        if len(body) <= LARGE_JSON_BYTES:
            return _parse_shallow(body), ""
        with _large_json:
            return _parse_shallow(body), ""
    except orjson.JSONDecodeError as exc:
        return None, str(exc)


def _parse_shallow(body: bytes) -> Any:
    value = orjson.loads(body)
    refuse_deep(body, value)
    return value


def refuse_deep(text: bytes, value: Any) -> None:
    """Refuses JSON that is nested more deeply than orjson can write back, in an answer or a metadata file.

    >>> refuse_deep(b"[" * 300 + b"]" * 300, orjson.loads("[" * 300 + "]" * 300))
    Traceback (most recent call last):
    ...
    frazil.errors.BadRequest: The body is nested too deeply; at most 240 levels are accepted
    """
    if text.count(b"[") + text.count(b"{") <= MAX_DEPTH:
        return  # almost always: what has so few brackets cannot be deep
    try:
        # it refuses 255 levels; an answer adds a few to those of the request
        orjson.dumps([[[[[[[[[[[[[[value]]]]]]]]]]]]]])
    except orjson.JSONEncodeError as exc:
        raise BadRequest(
            f"The body is nested too deeply; at most {MAX_DEPTH} levels are accepted", problem="too-deep"
        ) from exc


@dataclass(slots=True)
class Response:
    """A status, a body already serialised, and headers."""

    status: int
    body: bytes = b""
    headers: Headers = field(default_factory=list)
    metadata_location: str | None = None  # the body can be had again from this file
    kind: str | None = None  # what that file describes, table or view, and its uuid
    uuid: str | None = None


NO_CONTENT = Response(204)


def json_response(value: Any, status: int = 200) -> Response:
    return Response(status, orjson.dumps(value), [JSON_TYPE])


async def read_body(
    headers: dict[bytes, bytes],
    receive: Receive,
    *,
    limits: Limits,
    share: Share,
    threads: Executor,
    content_type: bytes = JSON,
) -> bytes:
    """The whole body, unpacked; refuses one that is not JSON (or of `content_type`) by its own account, too long,
    packed or not, or that does not arrive.

    `share` is charged for what the body takes; long gzip is unpacked in one of `threads`.
    """
    length = headers.get(b"content-length")
    if b"transfer-encoding" not in headers and length in (None, b"0"):
        return b""
    if length is not None and length.isdigit() and int(length) > limits.body_bytes:
        raise BodyTooLarge(f"The body has {int(length)} bytes; at most {limits.body_bytes} are accepted")
    check_type(headers, content_type)
    encoding = _encoding(headers) if b"content-encoding" in headers else b""
    try:
        body = await _read_all(receive, limits, share)
    except TimeoutError as exc:
        raise BodyTooSlow(f"The body did not arrive within {limits.body_seconds:g} seconds") from exc
    if encoding == b"gzip" and body:
        loop = asyncio.get_running_loop()
        unpacking = partial(_unpack, body, limits, share)
        body = await loop.run_in_executor(threads, unpacking) if len(body) > INLINE_GZIP_BYTES else unpacking()
    if len(body) >= COUNT_FROM_BYTES:
        count = count_values(body, limits.json_values)
        if count > limits.json_values:
            raise BodyTooLarge(f"The body has more than {limits.json_values} JSON values")
        share.take(VALUE_BYTES * count)
    return body


def _encoding(headers: dict[bytes, bytes]) -> bytes:
    encoding = headers.get(b"content-encoding", b"").strip().lower()
    if encoding in (b"", b"identity"):
        return b""
    if encoding not in (b"gzip", b"x-gzip"):
        raise UnsupportedBody(
            f"Content-Encoding {encoding.decode('latin-1')[:40]!r} is not supported; use gzip or none"
        )
    return b"gzip"


async def _read_all(receive: Receive, limits: Limits, share: Share) -> bytes:
    message = _first_message(receive)
    if message is not None and message["type"] == "http.request" and not message.get("more_body", False):
        body = message.get("body", b"")
        _take_chunk(len(body), len(body), limits, share)
        return bytes(body)
    return await _read_chunks(message, receive, limits, share)


def _first_message(receive: Receive) -> Message | None:
    """The first message if it has arrived already, as a small body does together with its head: then no timer needs to
    be set.
    """
    waiting = receive()
    try:
        waiting.send(None)
    except StopIteration as arrived:
        return dict(arrived.value)
    waiting.close()
    return None


async def _read_chunks(message: Message | None, receive: Receive, limits: Limits, share: Share) -> bytes:
    loop = asyncio.get_running_loop()
    body = bytearray()  # grows in place: as a list of chunks, the memory of many long bodies lies in pieces
    started, more = loop.time(), True
    async with asyncio.timeout(min(limits.first_byte_seconds, limits.body_seconds)) as deadline:
        while more:
            message = message or await receive()
            if message["type"] == "http.disconnect":
                raise BadRequest("The client disconnected before the body was complete")
            chunk, more = message.get("body", b""), message.get("more_body", False)
            if chunk and not body:
                deadline.reschedule(started + limits.body_seconds)
            _take_chunk(len(chunk), len(body) + len(chunk), limits, share)
            body += chunk
            message = None
    return bytes(body)


def _take_chunk(size: int, total: int, limits: Limits, share: Share) -> None:
    if total > limits.body_bytes:
        raise BodyTooLarge(f"The body has more than {limits.body_bytes} bytes")
    share.take(BODY_WEIGHT * size)


def _unpack(body: bytes, limits: Limits, share: Share) -> bytes:
    try:
        return unpack_gzip(
            body,
            max_bytes=limits.body_bytes,
            max_ratio=limits.body_ratio,
            take=lambda size: share.take(BODY_WEIGHT * size),
        )
    except Unpackable as exc:
        raise BadRequest(f"The body is not valid gzip: {exc}", reason=str(exc)) from exc
    except TooLong as exc:
        raise BodyTooLarge(f"The body unpacks to {exc}", reason=str(exc)) from exc


def pack(body: bytes) -> bytes:
    """The body in gzip. Level 1: metadata is repetitive, and level 6 saves a tenth for more than twice the time."""
    packer = zlib.compressobj(1, wbits=31)
    return packer.compress(body) + packer.flush()


def accepts_gzip(headers: dict[bytes, bytes]) -> bool:
    """
    >>> accepts_gzip({b"accept-encoding": b"gzip, deflate"}), accepts_gzip({b"accept-encoding": b"gzip;q=0"})
    (True, False)
    """
    offered = headers.get(b"accept-encoding")
    if not offered:
        return False
    for part in offered.split(b","):
        coding, _, weight = part.partition(b";")
        if coding.strip() in (b"gzip", b"*"):
            return weight.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False
