"""Questions to a project's code, answered by a child process with a time limit.

`lakehouse.py` is the operator's own Python and may do anything, so it never runs in the server. The question goes to
the child's standard input, as it may hold the caller's token; the answer comes back as JSON.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any, Protocol

import orjson

from frazil.errors import TooBusy

MODULE = "frazil.console.project.answer"
MOST_SECONDS = 30.0
POLL_SECONDS = 0.2
TURN_SECONDS = 10.0  # that a question waits for those before it
AT_ONCE = BoundedSemaphore(2)

Json = dict[str, Any]


class Managing(Protocol):
    """What a caller may do."""

    @property
    def manages(self) -> bool: ...


class ChildFailed(Exception):
    """A question has no answer: by an error of the project's code, which may tell anything of it, or by another one."""

    def __init__(self, message: str, *, of_code: bool) -> None:
        super().__init__(message)
        self.of_code = of_code

    def text_for(self, caller: Managing) -> str:
        """The message; errors of code are for callers who manage the warehouse."""
        hidden = self.of_code and not caller.manages
        return (
            "The project cannot be loaded. Callers with manage on the warehouse see the error." if hidden else str(self)
        )


def ask_child(
    folder: Path, question: Mapping[str, Any], *, check: Callable[[], None], seconds: float = MOST_SECONDS
) -> Json:
    """The answer of the project in `folder`; raises `ChildFailed` with its error, or when the time is up. `check`
    raises when the client has left.
    """
    _take_turn(check)
    try:
        output, code = _run(folder, orjson.dumps(dict(question)), check, seconds)
    finally:
        AT_ONCE.release()
    try:
        answer: Json = orjson.loads(output)
    except orjson.JSONDecodeError:
        raise ChildFailed(
            f"the process that loads the project ended with code {code}, without an answer", of_code=True
        ) from None
    if "error" in answer:
        raise ChildFailed(str(answer["error"]), of_code=bool(answer["of_code"]))
    return answer


def _take_turn(check: Callable[[], None]) -> None:
    deadline = time.monotonic() + TURN_SECONDS
    while not AT_ONCE.acquire(timeout=POLL_SECONDS):
        check()
        if time.monotonic() > deadline:
            raise TooBusy("The project is being asked by others", hint="try again")


def _run(folder: Path, question: bytes, check: Callable[[], None], seconds: float) -> tuple[bytes, int]:
    """What the child writes, and its exit code; it does not outlive the call."""
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", MODULE, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=folder,
        start_new_session=True,
    )
    deadline, unsent = time.monotonic() + seconds, question
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                output, _ = child.communicate(unsent, timeout=POLL_SECONDS)
                return output, child.returncode
            unsent = b""  # the first call has it, and goes on to send it
            check()
            if time.monotonic() > deadline:
                raise ChildFailed(f"loading the project took longer than {seconds:g} seconds", of_code=True)
    finally:
        _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends the child, and what it may have started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()
