"""Attacks on a running catalog: each is a function that gets the server's address and returns what it was answered."""

from __future__ import annotations

import concurrent.futures
import gzip
import json
import re
import socket
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from frazil.client import FrazilCatalog
from tests.kit.catalog_databases import Client

TYPE, FORM = "Content-Type: application/json", "Content-Type: application/x-www-form-urlencoded"
GZIP = "Content-Encoding: gzip"
NAMESPACES = "/v1/default/namespaces"
TABLE = f"{NAMESPACES}/ns/tables/t"
PLAN = f"{TABLE}/plan"
SEARCH = f"{NAMESPACES}/ns/tables/vectors/search"
DIMENSION = 64  # of the vectors in that table
QUICK, THREADED = TABLE, f"{NAMESPACES}/ns/tables"
CLOSED = 0  # the connection was closed without an answer
MIB = 1024 * 1024


@dataclass(frozen=True)
class Target:
    """The server under attack."""

    uri: str
    folder: Path
    # whether the server must end a connection after its answers, or must not; None: not looked at
    ends: bool | None = None

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.uri.removeprefix("http://").split(":")
        return host, int(port)

    def connect(self) -> socket.socket:
        connection = socket.create_connection(self.address, timeout=60)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


@dataclass
class Reply:
    """What came back over one connection, up to its end or to the last answer that was expected."""

    statuses: list[int] = field(default_factory=list)
    closed: bool = False
    content: bytes = b""

    @property
    def status(self) -> int:
        return self.statuses[-1] if self.statuses else CLOSED


def head(method: str, path: str, *lines: str, host: str = "localhost", version: str = "1.1") -> bytes:
    names = "".join(f"{line}\r\n" for line in lines)
    return f"{method} {path} HTTP/{version}\r\nHost: {host}\r\n{names}\r\n".encode("latin-1")


def post(path: str, body: bytes, *lines: str) -> bytes:
    return head("POST", path, TYPE, f"Content-Length: {len(body)}", *lines) + body


def chunked(path: str, *lines: str) -> bytes:
    return head("POST", path, TYPE, "Transfer-Encoding: chunked", *lines)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


def talk(target: Target, pieces: Iterable[bytes], *, answers: int = 1) -> Reply:
    """Sends the pieces, as far as the server takes them, and reads until all expected answers have come or the
    connection ends.
    """
    reply = Reply()
    with target.connect() as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
        except OSError:
            pass  # the server has stopped reading: its answer is there
        while len(reply.statuses) < answers or not _is_whole(reply.content):
            try:
                data = connection.recv(65536)
            except ConnectionResetError:
                data = b""
            if not data:
                reply.closed = True
                break
            reply.content += data
            reply.statuses = [int(code) for code in _STATUS.findall(reply.content)]
        if not reply.closed and target.ends is not None:
            reply.closed = _ends(connection) if target.ends else not _goes_on(connection)
    return reply


def _is_whole(content: bytes) -> bool:
    top, blank, body = content.rpartition(b"HTTP/1.1 ")[2].partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", top)
    return bool(blank) and (length is None or len(body) >= int(length[1]))


def _ends(connection: socket.socket) -> bool:
    """Whether the server ends the connection: waits until it does."""
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def _goes_on(connection: socket.socket) -> bool:
    """Whether another request is answered over the connection."""
    try:
        connection.sendall(head("GET", "/livez"))
        return connection.recv(100).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def at_once(count: int, attack: Callable[[int], Reply]) -> list[Reply]:
    """The same attack over many connections."""
    with concurrent.futures.ThreadPoolExecutor(min(count, 64)) as threads:
        return list(threads.map(attack, range(count)))


# --- bodies ----------------------------------------------------------------------------------------------------------


def zeros_packed(megabytes: int) -> bytes:
    """Gzip that unpacks to as many megabytes, a thousand times its size."""
    packer = zlib.compressobj(9, wbits=31)
    return b"".join([*(packer.compress(bytes(MIB)) for _ in range(megabytes)), packer.flush()])


def packed_below_the_ratio(megabytes: int) -> bytes:
    """Gzip of about ninety times: the ratio is kept, the length is not."""
    noise = zlib.compress(b"".join(n.to_bytes(4, "big") for n in range(2500)), 9)
    block = noise[:8000] + bytes(MIB - 8000)
    return gzip.compress(block * megabytes, 6)


def tiny_values(count: int) -> bytes:
    """A namespace whose unknown field has so many empty lists: each three bytes long, and seventy in memory."""
    return b'{"namespace": ["tiny"], "x": [' + b"[]," * count + b"[]]}"


def endless(data: bytes, megabytes: int) -> Iterable[bytes]:
    for _ in range(megabytes * MIB // len(data)):
        yield data


def register(target: Target, content: bytes, name: str) -> Reply:
    """Registers a metadata file of this content."""
    file = target.folder / "warehouse" / name
    file.write_bytes(content)
    body = json.dumps({"name": "registered", "metadata-location": f"file://{file}"}).encode()
    return talk(target, [post(f"{NAMESPACES}/ns/register", body)])


def plan(values: Iterable[int]) -> bytes:
    """A plan with so many values in its filter."""
    return post(PLAN, json.dumps({"filter": {"type": "in", "term": "id", "values": list(values)}}).encode())


def make_vectors(target: Target) -> None:
    """A table of 20,000 vectors."""
    lake = FrazilCatalog("lake", uri=target.uri)
    numbers = np.random.default_rng(1).standard_normal(20_000 * DIMENSION, np.float32)
    vectors = pa.ListArray.from_arrays(np.arange(0, len(numbers) + 1, DIMENSION, dtype=np.int32), numbers)
    rows = pa.table({"id": np.arange(len(vectors)), "embedding": vectors})
    lake.create_table("ns.vectors", rows.schema).append(rows)


def search(**body: object) -> bytes:
    """A search of that table."""
    return post(SEARCH, json.dumps({"column": "embedding", **body}).encode())


def hold_open(target: Target, count: int) -> list[Reply]:
    """Opens many connections, says nothing on them, and asks for the table over one more."""
    silent = [target.connect() for _ in range(count)]
    try:
        return [talk(target, [head("GET", QUICK)])]
    finally:
        for connection in silent:
            connection.close()


def unread_answers(target: Target, count: int) -> list[Reply]:
    """Asks for a long answer over many connections and reads none of them."""
    client = Client(target.uri)
    client.post("/namespaces", {"namespace": ["long"], "properties": {f"key-{n}": "x" * 1000 for n in range(250)}})
    client.session.close()
    deaf = [target.connect() for _ in range(count)]
    try:
        for connection in deaf:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(head("GET", f"{NAMESPACES}/long") * 3)
        return [talk(target, [head("GET", QUICK)])]
    finally:
        for connection in deaf:
            connection.close()
