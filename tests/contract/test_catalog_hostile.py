"""Hostile clients: whatever they send, the server answers with an error, stays small and answers others at once.

The cases are a table. They run one after another against one `frazil serve`, and those that wait for a deadline next to
each other against another one, whose deadlines are short. A process of its own watches each server: its memory, and how
long `/livez` takes over a new connection each time.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from tests.contract import hostile_clients as attack
from tests.contract.hostile_clients import (
    CLOSED,
    FORM,
    GZIP,
    MIB,
    NAMESPACES,
    PLAN,
    QUICK,
    TABLE,
    THREADED,
    TYPE,
    Reply,
    Target,
    chunk,
    chunked,
    head,
    post,
    talk,
)
from tests.kit.catalog_databases import Client
from tools.own_server import own_server

MOST_BYTES = 300 * 1000 * 1000
MOST_SEARCHING = 400 * 1000 * 1000  # libraries for data files, and rows of two searches
MOST_SECONDS = 1.0
SHORT = {"first_byte_seconds": 0.5, "body_seconds": 1}  # all other limits are the defaults

WATCH = """
import socket, sys, time
import psutil
process, port = psutil.Process(int(sys.argv[1])), int(sys.argv[2])
while True:
    started, answer = time.monotonic(), b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(b"GET /livez HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n")
            while data := connection.recv(1000):
                answer += data
    except OSError as exc:
        answer = repr(exc).encode()
    seconds, began, used = time.monotonic() - started, time.monotonic(), time.process_time()
    while time.process_time() - used < 0.002:
        pass
    slower = (time.monotonic() - began) / (time.process_time() - used)
    print(process.memory_info().rss, seconds, slower, answer.startswith(b"HTTP/1.1 200"), flush=True)
    time.sleep(0.02)
"""


@dataclass(frozen=True)
class Seen:
    """What the server was like between two looks."""

    memory: int  # the most bytes
    seconds: float  # the slowest answer of `/livez`, as on a machine that does nothing else
    alive: bool  # all answers were 200


class Watch:
    """Reads what the watching process prints."""

    def __init__(self, output: IO[str]) -> None:
        self._lines: list[list[str]] = []
        self._printed = threading.Condition()
        self._reader = threading.Thread(target=self._read, args=(output,))
        self._reader.start()

    def _read(self, output: IO[str]) -> None:
        for line in output:
            with self._printed:
                self._lines.append(line.split())
                self._printed.notify()

    def look(self) -> Seen:
        """What it saw since the last look, to the end of the measurement that is under way."""
        with self._printed:
            count = len(self._lines)
            assert self._printed.wait_for(lambda: len(self._lines) > count, 60)
            lines, self._lines = self._lines, []
        memory, seconds = (max(float(line[column]) for line in lines) for column in (0, 1))
        # Other processes may have the processor: how much longer work takes for that reason is measured next to it.
        slower = max(1.0, sum(float(line[2]) for line in lines) / len(lines))
        return Seen(int(memory), seconds / slower, all(line[3] == "True" for line in lines))

    def end(self) -> None:
        self._reader.join()


@contextmanager
def watched_server(folder: Path, limits: Mapping[str, float]) -> Iterator[tuple[Target, Watch]]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in limits.items():
            patch.setenv(f"FRAZIL_SERVER__LIMITS__{name.upper()}", str(value))
        with own_server(folder) as (uri, process):
            Client(uri).create()
            target = Target(uri, folder)
            command = [sys.executable, "-c", WATCH, str(process.pid), str(target.address[1])]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watcher:
                assert watcher.stdout is not None
                watch = Watch(watcher.stdout)
                try:
                    yield target, watch
                finally:
                    watcher.kill()
                    watch.end()
            assert process.poll() is None, "the server has ended"


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Target, Watch]]:
    with watched_server(tmp_path_factory.mktemp("hostile"), {}) as watched:
        yield watched


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Target, Watch]]:
    with watched_server(tmp_path_factory.mktemp("searched"), {}) as watched:
        attack.make_vectors(watched[0])
        yield watched


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, list[Reply]], Seen]:
    """What each late client was answered, and how the server was meanwhile."""
    with watched_server(tmp_path_factory.mktemp("late"), SHORT) as (target, watch):
        watch.look()
        with ThreadPoolExecutor(len(LATE)) as threads:
            replies = list(threads.map(lambda case: run(case, target), LATE))
        return {case.name: reply for case, reply in zip(LATE, replies, strict=True)}, watch.look()


Attack = Callable[[Target], Reply | list[Reply]]


@dataclass(frozen=True)
class Case:
    """An attack, and the statuses that it may be answered with."""

    name: str
    run: Attack
    expected: tuple[int, ...]
    closed: bool | None = None  # the connection must end, or must not


def sends(*pieces: bytes, answers: int = 1) -> Attack:
    return lambda target: talk(target, pieces, answers=answers)


def gets(*lines: str, path: str = QUICK, host: str = "localhost") -> Attack:
    return sends(head("GET", path, *lines, host=host))


def posts(body: bytes, *lines: str, path: str = NAMESPACES) -> Attack:
    return sends(post(path, body, *lines))


def posts_json(path: str, **body: Any) -> Attack:
    return posts(json.dumps(body).encode(), path=path)


def announces(*lines: str) -> Attack:
    """The head of a request whose body does not come."""
    return sends(head("POST", NAMESPACES, TYPE, *lines))


def pours(start: bytes, piece: bytes, megabytes: int) -> Attack:
    return lambda target: talk(target, [start, *attack.endless(piece, megabytes)])


def many(count: int, each: Callable[[int], bytes]) -> Attack:
    """The same attack over so many connections at once."""
    return lambda target: attack.at_once(count, lambda number: talk(target, [each(number)]))


BOMB = attack.zeros_packed(200)
ATTACKER = "http://attacker.example"
UPDATE = {"action": "set-properties", "updates": {"a": "b"}}
LONG_VALUES = ["x" * 1000 + str(n) for n in range(9000)]
REPORT = b'{"report-type": "scan-report", "x": "' + b"x" * 65_536 + b'"}'

HEADS = (
    Case("a header of 100 KB", gets("X: " + "x" * 100_000), (431,), closed=True),
    Case("a header of 50 MB", pours(b"GET / HTTP/1.1\r\nX: ", b"x" * MIB, 50), (431,), closed=True),
    Case("10,000 headers", gets(*(f"X-{n}: 1" for n in range(10_000))), (431,), closed=True),
    Case("300 headers in small pieces", sends(b"GET / HTTP/1.1\r\n", *[b"X: 1\r\n"] * 300), (431,), closed=True),
    Case("a URL of 20 KB", gets(path=f"{QUICK}?a={'x' * 20_000}"), (414,), closed=True),
    Case("a URL of 50 MB", pours(b"GET /", b"x" * MIB, 50), (414,), closed=True),
    Case("TLS", sends(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256))), (400,), closed=True),
    Case("HTTP/2 by prior knowledge", sends(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), (400,), closed=True),
    Case(
        "a request to a proxy", sends(b"CONNECT a.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n"), (400,), closed=True
    ),
    Case("an unknown method", sends(head("BREW", QUICK)), (400,), closed=True),
    Case("TRACE", sends(head("TRACE", QUICK)), (405,)),
    Case("OPTIONS", sends(head("OPTIONS", QUICK)), (405,)),
    Case(
        "an upgrade to HTTP/2",
        gets("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAA"),
        (200,),
    ),
    Case("a websocket", gets("Connection: Upgrade", "Upgrade: websocket", path=THREADED), (200,)),
    Case("a body with an upgrade", posts(b'{"namespace":["up"]}', "Connection: Upgrade", "Upgrade: h2c"), (200,)),
    Case("two lengths", announces("Content-Length: 3", "Content-Length: 4"), (400,), closed=True),
    Case("a length and chunks", sends(chunked(NAMESPACES, "Content-Length: 4") + b"0\r\n\r\n"), (400,), closed=True),
    Case("a negative length", announces("Content-Length: -1"), (400,), closed=True),
    Case("5,000 requests at once", sends(head("GET", QUICK) * 5000, answers=5000), (200,), closed=True),
    Case("5,000 slow requests at once", sends(head("GET", THREADED) * 5000, answers=5000), (200,), closed=True),
)
WEB_PAGES = (
    Case("no Host", sends(b"GET /livez HTTP/1.1\r\n\r\n"), (400,)),
    Case("two Hosts", gets("Host: example.org"), (400,)),
    Case("a Host that is none", gets(host="a b"), (400,)),
    Case("a rebound name, quick", gets(host="attacker.example:8181"), (403,)),
    Case("a rebound name, in a thread", gets(host="attacker.example:8181", path=THREADED), (403,)),
    Case("a name that begins like ours", gets(host="localhost.attacker.example"), (403,)),
    Case("another address", gets(host="192.0.2.1"), (403,)),
    Case("a page of another site", gets(f"Origin: {ATTACKER}"), (403,)),
    Case("a page of another port", gets("Origin: http://localhost:3000"), (403,)),
    Case("a page without origin", gets("Origin: null"), (403,)),
    Case(
        "a preflight",
        sends(head("OPTIONS", QUICK, f"Origin: {ATTACKER}", "Access-Control-Request-Method: POST")),
        (403,),
    ),
    Case("a page that deletes", sends(head("DELETE", TABLE, f"Origin: {ATTACKER}")), (403,)),
    Case(
        "a page that sends text",
        sends(head("POST", NAMESPACES, "Content-Type: text/plain", "Content-Length: 2") + b"{}"),
        (415,),
    ),
    Case("a page that sends a form", sends(head("POST", NAMESPACES, FORM, "Content-Length: 2") + b"{}"), (415,)),
    Case("a body of no type", sends(head("POST", NAMESPACES, "Content-Length: 2") + b"{}"), (415,)),
)
BODIES = (
    Case("gzip of 200 MB in 200 KB", posts(BOMB, GZIP), (413,), closed=False),
    Case("that gzip, 20 times at once", many(20, lambda _: post(NAMESPACES, BOMB, GZIP)), (413, 429)),
    Case("gzip of 40 MB below the ratio", posts(attack.packed_below_the_ratio(40), GZIP), (413,)),
    Case("gzip without its end", posts(gzip.compress(b"{}")[:-9], GZIP), (400,)),
    Case("gzip with more after its end", posts(gzip.compress(b"{}") + b"more", GZIP), (400,)),
    Case("10 GB announced", announces(f"Content-Length: {10**10}"), (413,), closed=True),
    Case(
        "10 GB announced, if it may",
        announces(f"Content-Length: {10**10}", "Expect: 100-continue"),
        (413,),
        closed=True,
    ),
    Case("100 MB in chunks", pours(chunked(NAMESPACES), chunk(bytes(MIB)), 100), (413,), closed=True),
    Case("chunks of one byte", sends(chunked(NAMESPACES) + chunk(b"x") * 100_000 + b"0\r\n\r\n"), (400,)),
    Case("a chunk with 10 MB about it", pours(chunked(NAMESPACES) + b"1;", b"x" * MIB, 10), (431,), closed=True),
    Case("trailers of 10 MB", pours(chunked(NAMESPACES) + b"0\r\nX: ", b"x" * MIB, 10), (431,), closed=True),
    Case("a chunk that is none", sends(chunked(NAMESPACES) + b"nonsense\r\n"), (400,), closed=True),
    Case("80 bodies of 8 MB at once", many(80, lambda _: post(NAMESPACES, b" " * 8 * MIB)), (400, 408, 429)),
    Case("a body of 20 MB to nowhere", posts(b" " * 20 * MIB, path="/v1/nowhere"), (404,)),
)
CONTENTS = (
    Case("10 million empty lists", posts(attack.tiny_values(10_000_000)), (413,), closed=False),
    Case("200,000 empty lists, 8 times", many(8, lambda _: post(THREADED, attack.tiny_values(200_000))), (400, 429)),
    Case("one name of 31 MB", posts(b'{"namespace": ["' + b"x" * 31 * MIB + b'"]}'), (400,)),
    Case("one number of 1 MB", posts(b'{"namespace": ' + b"9" * MIB + b"}"), (400,)),
    Case("one key 100,000 times", posts(b"{" + b'"namespace":1,' * 100_000 + b'"namespace":2}'), (400,)),
    Case("50,000 updates", posts_json(TABLE, requirements=[], updates=[UPDATE] * 50_000), (400,)),
    Case("a namespace of 1 MB", posts_json(NAMESPACES, namespace=["big"], properties={"a": "x" * MIB}), (400,)),
    Case("a report of 65 KB", posts(REPORT, path=f"{TABLE}/metrics"), (413,)),
    Case(
        "400,000 values in a filter",
        posts_json(PLAN, filter={"type": "in", "term": "id", "values": list(range(400_000))}),
        (400,),
    ),
    Case("a filter of 9 MB", posts_json(PLAN, filter={"type": "in", "term": "data", "values": LONG_VALUES}), (400,)),
    Case("9,000 values, 8 times", many(8, lambda n: attack.plan(range(n, n + 9_000))), (200,)),
    Case("metadata of 200 MB in 200 KB", lambda target: attack.register(target, BOMB, "bomb.gz.metadata.json"), (400,)),
    Case(
        "metadata of tiny values",
        lambda target: attack.register(target, attack.tiny_values(10_000_000), "a.metadata.json"),
        (400,),
    ),
)
VECTOR = [1.0] * attack.DIMENSION
SEARCHES = (
    Case("a vector of 100,000 numbers", sends(attack.search(vector=[1.0] * 100_000)), (400,)),
    Case("100 vectors of 4,000 numbers", sends(attack.search(vectors=[[1.0] * 4_000] * 100)), (400,)),
    Case("10,000 vectors", sends(attack.search(vectors=[[1.0]] * 10_000)), (400,)),
    Case("a vector of NaN", posts(b'{"column": "embedding", "vector": [NaN, 1]}', path=attack.SEARCH), (400,)),
    Case("a vector of 1e999", posts(b'{"column": "embedding", "vector": [1e999, 1]}', path=attack.SEARCH), (400,)),
    Case("a vector of deep lists", posts(b'{"vector": ' + b"[" * 100_000, path=attack.SEARCH), (400,)),
    Case("10^30 nearest rows", sends(attack.search(vector=VECTOR, k=10**30)), (400,)),
    Case("a column of 1 MB", sends(attack.search(vector=VECTOR, column="x" * MIB)), (400,)),
    Case(
        "400,000 values in the filter of a search",
        sends(attack.search(vector=VECTOR, filter={"type": "in", "term": "id", "values": list(range(400_000))})),
        (400,),
    ),
    Case("all rows, 20 times at once", many(20, lambda _: attack.search(vector=VECTOR, k=10_000)), (200, 429)),
    Case("100 vectors, 20 times at once", many(20, lambda _: attack.search(vectors=[VECTOR] * 100)), (200, 429)),
)
CONNECTIONS = (
    Case("1,500 silent connections", lambda target: attack.hold_open(target, 1500), (200,)),
    Case("150 long answers that are not read", lambda target: attack.unread_answers(target, 150), (200,)),
)
LATE = (
    Case("no request at all", sends(), (CLOSED,), closed=True),
    Case("half a head", sends(b"GET /livez HTTP/1.1\r\nHo"), (408,), closed=True),
    Case("half a second head", sends(head("GET", "/livez") + b"GET /livez HT", answers=2), (408,), closed=True),
    Case("a body that does not come", announces("Content-Length: 100"), (408,), closed=True),
    Case("a body that stops", sends(head("POST", NAMESPACES, TYPE, "Content-Length: 100") + b"{"), (408,), closed=True),
    Case("a read whose body does not come", gets("Content-Length: 100"), (200,), closed=True),
)
CASES = (*HEADS, *WEB_PAGES, *BODIES, *CONTENTS, *CONNECTIONS)


def run(case: Case, server: Target) -> list[Reply]:
    reply = case.run(dataclasses.replace(server, ends=case.closed))
    return reply if isinstance(reply, list) else [reply]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_server_withstands(case: Case, target: tuple[Target, Watch]) -> None:
    server, watch = target
    watch.look()
    check(case, run(case, server), watch.look())


@pytest.mark.parametrize("case", SEARCHES, ids=lambda case: case.name)
def test_the_server_withstands_searches(case: Case, searched: tuple[Target, Watch]) -> None:
    server, watch = searched
    watch.look()
    check(case, run(case, server), watch.look(), most_bytes=MOST_SEARCHING)


@pytest.mark.parametrize("case", LATE, ids=lambda case: case.name)
def test_the_server_does_not_wait_for_ever(case: Case, late: tuple[dict[str, list[Reply]], Seen]) -> None:
    replies, seen = late
    check(case, replies[case.name], seen)


def check(case: Case, replies: list[Reply], seen: Seen, most_bytes: int = MOST_BYTES) -> None:
    assert {reply.status for reply in replies} <= set(case.expected)
    if case.closed is not None:
        assert [reply.closed for reply in replies] == [case.closed] * len(replies)
    for reply in replies:
        if reply.status >= 400 and case.closed is not False:
            check_error(reply)
    assert seen.alive
    assert seen.memory < most_bytes
    assert seen.seconds < MOST_SECONDS


def check_error(reply: Reply) -> None:
    """Refusals are in the shape of the specification, however early they happen, and short."""
    *_, last = reply.content.split(b"HTTP/1.1 ")
    error: dict[str, Any] = json.loads(last.partition(b"\r\n\r\n")[2])["error"]
    assert set(error) == {"message", "type", "code"}
    assert error["code"] == reply.status
    assert len(error["message"]) < 2500


def test_the_server_is_as_before(target: tuple[Target, Watch]) -> None:
    """After all of it: the table is there, a commit works, nothing of the budget is missing, no connection is left."""
    server, watch = target
    client = Client(server.uri)
    assert client.commit({"action": "set-properties", "updates": {"a": "b"}}).status == 200
    seen = watch.look()
    assert seen.alive
    assert seen.memory < MOST_BYTES
