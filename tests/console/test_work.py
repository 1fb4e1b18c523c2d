"""Jobs of the console in child processes: the caller's rights, limits, and what happens when a process ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from frazil.catalog import ServerOptions
from frazil.console.work import pool as work
from frazil.console.work.child import answer, describe, own_options
from frazil.console.work.inside import Loop
from frazil.console.work.kinds import KINDS, Kind
from frazil.console.work.pool import Child, Pool
from frazil.errors import QueryError
from frazil.processes import wait_until
from tests.kit.access import Guarded, guarded_catalog, namespace, table

COUNT = "/console/test/default/count"
PARENT = """
from frazil.catalog import running_catalog
from frazil.console.work.pool import Pool
import requests
with running_catalog(routes_of=["tests.console.work_routes"]) as server:
    requests.post(server.uri + "/console/test/default/count", json={"seconds": 60}, timeout=120).raise_for_status()
    print(server.app.ctx._attached[Pool]._idle[0].process.pid, flush=True)
    input()
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("work")
    database = f"sqlite:///{folder / 'catalog.db'}"
    with guarded_catalog(folder, database, routes_of=["tests.console.work_routes"]) as guarded:
        for letter in "abc":
            guarded.admin.create(letter, "ns")
        for name in ("ann", "bob"):
            assert guarded.token(name)
            guarded.grant("read", namespace("ns"), name)
        yield guarded


def pool_of(guarded: Guarded) -> Pool:
    """The pool of the server, which has had a job."""
    pool = guarded.server.app.ctx._attached[Pool]
    assert isinstance(pool, Pool)
    return pool


def children(guarded: Guarded) -> list[Child]:
    """Those that wait for a job."""
    return pool_of(guarded)._idle


def count(guarded: Guarded, token: str, *, seconds: float = 60, **headers: str) -> requests.Response:
    return requests.post(
        f"{guarded.server.uri}{COUNT}",
        json={"seconds": seconds},
        headers={"authorization": f"Bearer {token}", **{name.replace("_", "-"): headers[name] for name in headers}},
        timeout=120,
    )


@pytest.fixture
def stopped(guarded: Guarded) -> Child:
    """The only child, Ann's, which waits for a job and does not run."""
    return stop_child(guarded, guarded.token("ann"))


def stop_child(guarded: Guarded, token: str) -> Child:
    assert count(guarded, token).status_code == 200
    *others, child = children(guarded)
    for other in others:
        other.end()
        children(guarded).remove(other)
    os.kill(child.process.pid, signal.SIGSTOP)
    return child


def test_a_job_sees_what_its_caller_sees(guarded: Guarded) -> None:
    few, stranger = guarded.token("few"), guarded.token("stranger")
    guarded.grant("read", table("a"), "few")
    answers = [count(guarded, token) for token in (few, guarded.token("ann"), few)]
    assert [answer.json() for answer in answers] == [{"tables": 1}, {"tables": 3}, {"tables": 1}]
    assert answers[0].headers["cache-control"] == "no-store"
    assert count(guarded, stranger).status_code == 404
    (child,) = [child for child in children(guarded) if child.caller == "few"]
    shown = [Path(f"/proc/{child.process.pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
    assert not any(few.encode() in text for text in shown)


def test_other_sites_forms_and_unknown_callers_get_no_job(guarded: Guarded) -> None:
    token = guarded.token("ann")
    assert count(guarded, token, sec_fetch_site="cross-site").status_code == 403
    assert count(guarded, token, origin="http://evil.example").status_code == 403
    assert count(guarded, token, content_type="text/plain").status_code == 415
    assert count(guarded, "frz_unknown").status_code == 401


def test_a_job_that_takes_too_long_is_killed(guarded: Guarded, stopped: Child) -> None:
    late = count(guarded, guarded.token("ann"), seconds=0.2)
    assert (late.status_code, "longer than 0.2 seconds" in late.text) == (422, True)
    assert stopped.process.returncode == -signal.SIGKILL


def test_a_job_whose_process_was_killed_is_refused_and_the_next_one_is_done(guarded: Guarded, stopped: Child) -> None:
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(count, guarded, guarded.token("ann"))
        assert wait_until(lambda: not children(guarded), 60)
        stopped.process.kill()
        assert (asked.result().status_code, "has ended" in asked.result().text) == (422, True)
    assert count(guarded, guarded.token("ann")).json() == {"tables": 3}


def test_the_work_ends_when_the_client_leaves(guarded: Guarded, stopped: Child) -> None:
    body, host = b'{"seconds": 60}', guarded.server.uri.removeprefix("http://")
    head = f"POST {COUNT} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {guarded.token('ann')}\r\n"
    name, _, port = host.partition(":")
    with socket.create_connection((name, int(port))) as client:
        client.sendall(f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        assert wait_until(lambda: not children(guarded), 60)
    assert wait_until(lambda: stopped.process.returncode == -signal.SIGKILL, 60)


def test_a_child_does_the_jobs_of_one_caller(guarded: Guarded) -> None:
    for name in ("ann", "bob", "ann", "few", "bob"):
        assert count(guarded, guarded.token(name)).status_code == 200
    callers = [child.caller for child in children(guarded)]
    assert callers == ["few", "bob"]  # no more wait than may work at once
    assert {child.process.poll() for child in children(guarded)} == {None}


def test_a_token_that_is_revoked_meanwhile_is_refused_by_the_child(guarded: Guarded) -> None:
    leaver = guarded.token("leaver")
    guarded.grant("read", namespace("ns"), "leaver")
    stopped = stop_child(guarded, leaver)
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(count, guarded, leaver)
        assert wait_until(lambda: not children(guarded), 60)
        guarded.revoke("read", namespace("ns"), "leaver")
        os.kill(stopped.process.pid, signal.SIGCONT)
        assert asked.result().status_code == 404


def test_more_jobs_than_processes_are_refused(guarded: Guarded, stopped: Child) -> None:
    pool = pool_of(guarded)
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(count, guarded, guarded.token("ann"))
        assert wait_until(lambda: not children(guarded), 60)
        taken = 0
        while pool._room.acquire(blocking=False):
            taken += 1
        busy = count(guarded, guarded.token("bob"))  # jobs of one caller wait for each other
        pool._room.release(taken)
        os.kill(stopped.process.pid, signal.SIGCONT)
        assert (busy.status_code, busy.headers["retry-after"]) == (429, "1")
        assert asked.result().status_code == 200
    stopped.process.kill()
    stopped.process.wait()
    assert count(guarded, guarded.token("ann")).json() == {"tables": 3}


def test_a_caller_has_one_job_at_a_time_and_does_not_hold_up_others(
    guarded: Guarded, stopped: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = pool_of(guarded)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(count, guarded, guarded.token("ann"))
        assert wait_until(lambda: not children(guarded), 60)
        monkeypatch.setattr(work, "TURN_SECONDS", 0.0)
        late = count(guarded, guarded.token("ann"))  # with another key
        assert (late.status_code, late.headers["retry-after"]) == (429, "1")
        monkeypatch.setattr(work, "TURN_SECONDS", 120.0)
        second = threads.submit(count, guarded, guarded.token("ann"))
        assert wait_until(lambda: len(pool._lines["ann"]) == 2, 60)
        monkeypatch.setattr(work, "MOST_IN_LINE", 2)
        assert count(guarded, guarded.token("ann")).status_code == 429
        assert count(guarded, guarded.token("bob")).json() == {"tables": 3}
        os.kill(stopped.process.pid, signal.SIGCONT)
        assert [asked.result().status_code for asked in (first, second)] == [200, 200]
    assert pool._lines == {}
    monkeypatch.setattr(work, "IDLE_SECONDS", 0.0)
    pool._end_idle()


def test_a_process_without_jobs_ends(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    assert count(guarded, guarded.token("ann")).status_code == 200
    child = children(guarded)[-1]
    monkeypatch.setattr(work, "IDLE_SECONDS", 0.0)
    pool_of(guarded)._end_idle()
    assert (child.process.returncode, children(guarded)) == (0, [])


def test_a_child_ends_with_its_server() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, stdin=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    assert wait_until(lambda: not Path(f"/proc/{child}/cmdline").exists() or not _command(child), 60)


def _command(pid: int) -> bytes:
    """Empty for a process that has ended, waited for or not."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_without_authentication_everybody_sees_all(lake: Any) -> None:
    options = own_options(ServerOptions.from_json(lake.app.ctx.options))
    assert (options.behind_proxy, options.routes_of, options.upkeep, options.metrics_folder) == (False, (), None, None)
    job = {"kind": "count", "warehouse": "default", "token": None, "address": "", "request_id": "r", "arguments": {}}
    assert answer(Loop(lake.app), job) == (200, b'{"tables":5}')


def test_errors_say_what_and_why(lake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ValueError("secret")

    monkeypatch.setitem(KINDS, "fail", Kind(fail))
    job = {"kind": "fail", "warehouse": "default", "token": None, "address": "", "request_id": "r", "arguments": {}}
    status, body = answer(Loop(lake.app), job)
    assert (status, b"ValueError" in body, b"secret" in body) == (500, True, False)
    error = QueryError("no such column", hint="there are: a, b", column="c")
    status, body = describe(error, "r")
    said = {"message": "no such column", "type": "QueryError", "code": 400, "hint": "there are: a, b", "column": "c"}
    assert (status, json.loads(body)) == (400, {"error": said})
    assert describe(MemoryError(), "r")[0] == 422
    assert describe(RecursionError(), "r")[0] == 400
