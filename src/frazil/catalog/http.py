"""A request as an operation sees it, the response it returns, and how both travel over ASGI."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import orjson

from frazil.catalog.names import Name, Namespace, check_name, split_namespace
from frazil.errors import BadRequest, BodyTooLarge, BodyTooSlow, UnsupportedBody

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

JSON_TYPE = (b"content-type", b"application/json")
MAX_DEPTH = 240  # of JSON, as orjson writes at most 254 levels
GZIP_FROM_BYTES = 4096  # below that the header costs more than it saves


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
    _query: dict[str, str] | None = None
    _json: dict[str, Any] | None = None

    @property
    def query(self) -> dict[str, str]:
        if self._query is None:
            try:
                pairs = parse_qsl(self.query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50)
            except ValueError as exc:  # UnicodeDecodeError is one of them
                raise BadRequest(f"Invalid query string: {exc}") from exc
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
            raise BadRequest(f"Invalid query parameter {name}: expected true or false, found {text!r}")
        return text == "true"

    def json(self) -> dict[str, Any]:
        """The body as a JSON object, parsed once."""
        if self._json is not None:
            return self._json
        try:
            value = orjson.loads(self.body)
        except orjson.JSONDecodeError as exc:
            raise BadRequest(f"The body is not valid JSON: {exc}") from exc
        refuse_deep(self.body, value)
        if not isinstance(value, dict):
            raise BadRequest(f"The body must be a JSON object, found {type(value).__name__}")
        self._json = value
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
        orjson.dumps([[[[[[[[[[[[[[value]]]]]]]]]]]]]])  # it refuses 255 levels; an answer adds a few to those of the request
    except orjson.JSONEncodeError as exc:
        raise BadRequest(f"The body is nested too deeply; at most {MAX_DEPTH} levels are accepted") from exc


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


async def read_body(headers: dict[bytes, bytes], receive: Receive, *, max_bytes: int, seconds: float) -> bytes:
    """The whole body, unpacked; refuses one that is too long, packed or not, and one that does not arrive."""
    length = headers.get(b"content-length")
    if length is not None and length.isdigit() and int(length) > max_bytes:
        raise BodyTooLarge(f"The body has {int(length)} bytes; at most {max_bytes} are accepted")
    message = await receive()
    body = message.get("body", b"")
    if message.get("more_body"):
        try:
            body = await asyncio.wait_for(_read_rest(body, receive, max_bytes), seconds)
        except TimeoutError as exc:
            raise BodyTooSlow(f"The body did not arrive within {seconds:g} seconds") from exc
    elif len(body) > max_bytes:
        raise BodyTooLarge(f"The body has {len(body)} bytes; at most {max_bytes} are accepted")
    encoding = headers.get(b"content-encoding")
    return _unpack(body, encoding, max_bytes) if encoding and body else body


async def _read_rest(first: bytes, receive: Receive, max_bytes: int) -> bytes:
    chunks, size, more = [first], len(first), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise BadRequest("The client went away before the body was complete")
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > max_bytes:
            raise BodyTooLarge(f"The body has more than {max_bytes} bytes")
        more = message.get("more_body", False)
    return b"".join(chunks)


def _unpack(body: bytes, encoding: bytes, max_bytes: int) -> bytes:
    if encoding == b"identity":
        return body
    if encoding not in (b"gzip", b"x-gzip"):
        raise UnsupportedBody(f"Content-Encoding {encoding.decode('latin-1')!r} is not supported; use gzip or none")
    unpacker = zlib.decompressobj(wbits=31)
    try:
        # One byte above the limit tells a bomb from a body that just fits.
        plain = unpacker.decompress(body, max_bytes + 1)
    except zlib.error as exc:
        raise BadRequest(f"The body is not valid gzip: {exc}") from exc
    if len(plain) > max_bytes:
        raise BodyTooLarge(f"The body unpacks to more than {max_bytes} bytes")
    if not unpacker.eof:
        raise BadRequest("The body is not valid gzip: it ends too early")
    return plain


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
