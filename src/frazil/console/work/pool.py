"""The server's side of the console's jobs: a few child processes, started when they are needed.

A child that does not answer in time, or whose client has left, is killed: whatever library it is in, the work ends.
A caller has one job at a time, so that none takes all children; it pays for the files that its job plans. A child does
the jobs of one caller: what one leaves in its memory is not there for the next.
"""

from __future__ import annotations

import logging
import os
import select
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

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
HEAD_BYTES = 19  # `HEAD` of child.py
TURN_SECONDS = 5.0  # that a job waits for those before it of the same caller
MOST_IN_LINE = 4  # jobs of one caller, with the one that is done
Check = Callable[[], None]


class Done(NamedTuple):
    """The answer to a job."""

    status: int
    body: bytes
    files: int = 0  # that the manifests named which it has read


class ChildEnded(Exception):
    """The process has ended without an answer."""


class Child:
    """One process, and the pipes to it."""

    def __init__(self, options: str, caller: str | None = None) -> None:
        self.caller = caller
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

    def ask(self, job: bytes, *, seconds: float, check: Check) -> Done:
        """The answer to a job. Raises TimeoutError, ChildEnded or what `check` raises."""
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

    def _receive(self, deadline: float, check: Check) -> Done:
        head = self._read(HEAD_BYTES, deadline, check)
        status, length, self.is_done = int.from_bytes(head[:2]), int.from_bytes(head[2:10]), bool(head[10])
        if length > MOST_BYTES:
            raise ChildEnded
        return Done(status, self._read(length, deadline, check), int.from_bytes(head[11:]))

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
        self._lines: dict[str, deque[object]] = {}  # of jobs by caller; the first one is done
        self._moved = threading.Condition()

    def run(self, job: bytes, *, seconds: float, check: Check, caller: str | None = None) -> Done:
        """The answer to a job, after those before it of the same caller, if that is known. Raises TooBusy when there is
        no room, else what `Child.ask` raises.
        """
        if caller is None:
            return self._run(job, None, seconds=seconds, check=check)
        with self._turn(caller, check):
            return self._run(job, caller, seconds=seconds, check=check)

    @contextmanager
    def _turn(self, caller: str, check: Check) -> Iterator[None]:
        """The caller's turn: jobs of one caller are done one after the other."""
        ticket, deadline = object(), time.monotonic() + TURN_SECONDS
        with self._moved:
            line = self._lines.setdefault(caller, deque())
            if len(line) >= MOST_IN_LINE:
                raise _busy(caller)
            line.append(ticket)
        try:
            with self._moved:
                while line[0] is not ticket:
                    check()
                    if time.monotonic() > deadline:
                        raise _busy(caller)
                    self._moved.wait(LOOK_SECONDS)
            yield
        finally:
            with self._moved:
                line.remove(ticket)
                if not line:
                    del self._lines[caller]
                self._moved.notify_all()

    def _run(self, job: bytes, caller: str | None, *, seconds: float, check: Check) -> Done:
        if not self._room.acquire(blocking=False):
            raise TooBusy("Too many queries of the console are running", hint="try again in a moment")
        try:
            child = self._take(caller)
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

    def _take(self, caller: str | None) -> Child:
        """A child of the caller that lives: the one that worked last, else a new one, in the place of another's."""
        while True:
            with self._lock:
                child = next((child for child in reversed(self._idle) if child.caller == caller), None)
                too_many = self._idle[:1] if child is None and len(self._idle) >= AT_ONCE else []
                self._idle = [other for other in self._idle if other is not child and other not in too_many]
            for other in too_many:
                other.end()
            if child is None:
                return Child(self._options, caller)
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


def _busy(caller: str) -> TooBusy:
    return TooBusy(f"Another query of {caller} is running", hint="try again in a moment")


def run_job(ctx: Context, request: Request, kind: str, arguments: Mapping[str, Any], *, seconds: float) -> Response:
    """The answer to a job that is done in a child process with the rights of the request's caller.

    It takes `seconds` at most. The client may leave before a job ends that changes nothing; one that writes is
    confirmed before it begins, and its outcome is unknown if it does not answer.
    """
    refuse_other_sites(request)
    writes, principal = KINDS[kind].writes, request.caller.principal if request.caller is not None else None
    quota = ctx.plan_quota if principal is not None else None
    if quota is not None and principal is not None:
        quota.check(principal)
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
        done = pool.run(
            orjson.dumps(job),
            seconds=seconds,
            check=(lambda: None) if writes else request.check_client,
            caller=principal,
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
    if quota is not None and principal is not None:
        quota.spend(principal, done.files)
    answer = console_json(done.body)
    answer.status = done.status
    return answer


def _token(request: Request) -> str:
    return request.headers.get(b"authorization", b"").partition(b" ")[2].strip().decode("latin-1")
