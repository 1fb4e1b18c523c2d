"""The server's side of the console's jobs: a few child processes, started when they are needed.

A child that does not answer in time, or whose client has left, is killed: whatever library it is in, the work ends.
"""

from __future__ import annotations

import logging
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import orjson

from frazil.catalog import Context, Request, Response
from frazil.console.answers import console_json, refuse_other_sites
from frazil.console.work.kinds import KINDS
from frazil.errors import CommitUnknown, TooBusy, Unavailable, Unprocessable

log = logging.getLogger("frazil.console.work")
AT_ONCE = 2  # processes of one server process
IDLE_SECONDS = 300.0
START_SECONDS, END_SECONDS = 60.0, 5.0
LOOK_SECONDS = 0.1  # between looks at the client
MOST_BYTES = 64 << 20  # of an answer
HEAD_BYTES = 11  # `HEAD` of child.py
Check = Callable[[], None]


class ChildEnded(Exception):
    """The process has ended without an answer."""


class Child:
    """One process, and the pipes to it."""

    def __init__(self, options: str) -> None:
        self._answers, theirs = os.pipe()
        self.idle_since = 0.0
        self._poll = select.poll()
        self._poll.register(self._answers, select.POLLIN)
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "frazil.console.work.child", str(theirs)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs,),
            )
        except BaseException:
            os.close(self._answers)
            raise
        finally:
            os.close(theirs)
        self._write(options.encode())
        self.started = self.is_done = False  # is done: it does no further job

    def ask(self, job: bytes, *, seconds: float, check: Check) -> tuple[int, bytes]:
        """The status and the body of the answer to a job. Raises TimeoutError, ChildEnded or what `check` raises."""
        if not self.started:
            self._await_start(check)
        self._write(job)
        return self._receive(time.monotonic() + seconds, check)

    def _await_start(self, check: Check) -> None:
        try:
            self._receive(time.monotonic() + START_SECONDS, check)
        except TimeoutError as exc:
            raise Unavailable(f"A process for this did not start within {START_SECONDS:g} seconds") from exc
        self.started = True

    def _write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError as exc:
            raise ChildEnded from exc

    def _receive(self, deadline: float, check: Check) -> tuple[int, bytes]:
        head = self._read(HEAD_BYTES, deadline, check)
        status, length, self.is_done = int.from_bytes(head[:2]), int.from_bytes(head[2:10]), bool(head[10])
        if length > MOST_BYTES:
            raise ChildEnded
        return status, self._read(length, deadline, check)

    def _read(self, length: int, deadline: float, check: Check) -> bytes:
        content = bytearray()
        while len(content) < length:
            check()
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            if self._poll.poll(1000 * min(left, LOOK_SECONDS)):
                portion = os.read(self._answers, length - len(content))
                if not portion:
                    raise ChildEnded
                content += portion
        return bytes(content)

    def end(self) -> None:
        """Asks the process to end; it has no job."""
        self._close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def kill(self) -> None:
        """Ends the process at once, whatever it does."""
        self.process.kill()
        self.process.wait()
        self._close()

    def _close(self) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        os.close(self._answers)


class Pool:
    """The children of one server process: those that wait for a job, and room for a few that work."""

    def __init__(self, options: str) -> None:
        self._options = options
        self._room = threading.BoundedSemaphore(AT_ONCE)
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._timer: threading.Timer | None = None

    def run(self, job: bytes, *, seconds: float, check: Check) -> tuple[int, bytes]:
        """The answer to a job. Raises TooBusy when there is no room, else what `Child.ask` raises."""
        if not self._room.acquire(blocking=False):
            raise TooBusy("Too many queries of the console are running", hint="try again in a moment")
        try:
            child = self._take()
            try:
                answer = child.ask(job, seconds=seconds, check=check)
            except BaseException:
                child.kill()
                raise
            if child.is_done:
                child.end()
            else:
                self._give_back(child)
        finally:
            self._room.release()
        return answer

    def _take(self) -> Child:
        """A child that lives: the one that worked last, else a new one."""
        while True:
            with self._lock:
                child = self._idle.pop() if self._idle else None
            if child is None:
                return Child(self._options)
            if child.process.poll() is None:
                return child
            child.kill()

    def _give_back(self, child: Child) -> None:
        child.idle_since = time.monotonic()
        with self._lock:
            self._idle.append(child)
            if self._timer is None:
                self._wait(IDLE_SECONDS)

    def _wait(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._end_idle)
        self._timer.daemon = True
        self._timer.start()

    def _end_idle(self) -> None:
        """Ends the children that have had no job for some time."""
        now = time.monotonic()
        with self._lock:
            late = [child for child in self._idle if now - child.idle_since >= IDLE_SECONDS]
            self._idle = [child for child in self._idle if child not in late]
            self._timer = None
            if self._idle:
                self._wait(IDLE_SECONDS - (now - min(child.idle_since for child in self._idle)))
        for child in late:
            child.end()

    def close(self) -> None:
        """Ends the children; none has a job any more."""
        with self._lock:
            idle, self._idle = self._idle, []
            if self._timer is not None:
                self._timer.cancel()
        for child in idle:
            child.end()


def run_job(ctx: Context, request: Request, kind: str, arguments: Mapping[str, Any], *, seconds: float) -> Response:
    """The answer to a job that is done in a child process with the rights of the request's caller.

    It takes `seconds` at most. The client may leave before a job ends that changes nothing; one that writes is
    confirmed before it begins, and its outcome is unknown if it does not answer.
    """
    refuse_other_sites(request)
    writes = KINDS[kind].writes
    if writes:
        ctx.gate.settle(request)  # the caller is known now; from here on, the application of the child checks each step
    seconds = min(seconds, ctx.limits.request_seconds)
    job = {
        "kind": kind,
        "warehouse": ctx.warehouse(request).name,
        "token": _token(request) if ctx.gate.on else None,
        "address": request.address,
        "request_id": request.request_id.decode("ascii", "replace"),
        "arguments": arguments,
        "seconds": seconds,
    }
    pool = ctx.attached(Pool, lambda: Pool(ctx.options))
    try:
        status, body = pool.run(
            orjson.dumps(job), seconds=seconds, check=(lambda: None) if writes else request.check_client
        )
    except TimeoutError as exc:
        if writes:
            raise CommitUnknown(f"The {kind} did not end within {seconds:g} seconds: look first") from exc
        raise Unprocessable(f"The {kind} took longer than {seconds:g} seconds", problem="too-slow") from exc
    except ChildEnded as exc:
        log.warning("a process of the console ended during a %s", kind, extra={"fields": {"kind": kind}})
        if writes:
            raise CommitUnknown(f"The process of the {kind} has ended: look first") from exc
        hint = "it may have needed more memory than the server allows: read less"
        raise Unprocessable(f"The process of the {kind} has ended", hint=hint, problem="ended") from exc
    except OSError as exc:
        raise Unavailable(f"No process could be started for the {kind}: {exc.strerror}") from exc
    if writes:
        request.assumed = False  # a change that was made is not answered with 401
    answer = console_json(body)
    answer.status = status
    return answer


def _token(request: Request) -> str:
    return request.headers.get(b"authorization", b"").partition(b" ")[2].strip().decode("latin-1")
