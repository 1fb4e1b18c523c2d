"""Questions to a project's code, answered by a child process with a time limit.

`lakehouse.py` is the operator's own Python and may do anything, so it never runs in the server. The question goes to
the child's standard input, as it may hold the caller's token; the answer comes back as JSON. The child has none of the
server's settings in its environment, keys of AWS only to list landing files or to embed texts, and what it prints is
logged without secrets.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import BoundedSemaphore, Thread
from typing import Any, Protocol

import orjson

from frazil.errors import TooBusy
from frazil.logs import hide_tokens, redact
from frazil.terminal import visible

MODULE = "frazil.console.project.answer"
MOST_SECONDS = 30.0
POLL_SECONDS = 0.2
TURN_SECONDS = 10.0  # that a question waits for those before it
AT_ONCE = BoundedSemaphore(2)
SERVER_VARIABLES = "FRAZIL_SERVER__"
STORE_KEYS = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("FRAZIL_S3__ACCESS_KEY_ID", "FRAZIL_S3__SECRET_ACCESS_KEY"),
)
NEED_KEYS = ("states", "embed")  # landing files are listed, a model of AWS may be asked
MOST_LINE = 4_096  # bytes of a line that the child prints
LOG_SECONDS = 1.0  # for the last lines

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
        output, code = _run(folder, question, check, seconds)
    finally:
        AT_ONCE.release()
    try:
        answer: Json = orjson.loads(output)
    except orjson.JSONDecodeError:
        raise ChildFailed(
            f"the process that loads the project ended with code {code}, without an answer", of_code=True
        ) from None
    if "error" in answer:
        raise ChildFailed(hide_tokens(str(answer["error"])), of_code=bool(answer["of_code"]))
    return answer


def _take_turn(check: Callable[[], None]) -> None:
    deadline = time.monotonic() + TURN_SECONDS
    while not AT_ONCE.acquire(timeout=POLL_SECONDS):
        check()
        if time.monotonic() > deadline:
            raise TooBusy("The project is being asked by others", hint="try again")


def child_environment(question: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """What the child gets of the server's environment. Keys that it does not need are empty, as settings may refer to
    them.

    >>> child_environment({"ask": "plan"}, {"FRAZIL_SERVER__DATABASE": "x", "AWS_SECRET_ACCESS_KEY": "y", "HOME": "/z"})
    {'AWS_SECRET_ACCESS_KEY': '', 'HOME': '/z'}
    """
    kept = {name: value for name, value in environ.items() if not name.upper().startswith(SERVER_VARIABLES)}
    if question["ask"] not in NEED_KEYS:
        kept |= dict.fromkeys(kept.keys() & set(STORE_KEYS), "")
    return kept


def _run(folder: Path, question: Mapping[str, Any], check: Callable[[], None], seconds: float) -> tuple[bytes, int]:
    """What the child writes, and its exit code; it does not outlive the call."""
    with _logged(question.get("token") or "") as printed:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=printed,
            env=child_environment(question, os.environ),
            cwd=folder,
            start_new_session=True,
        )
        deadline, unsent = time.monotonic() + seconds, orjson.dumps(dict(question))
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


@contextmanager
def _logged(token: str) -> Iterator[int]:
    """A pipe for what a child prints: its lines go to standard error, without secrets and the caller's token."""
    output, printed = os.pipe()
    lines = Thread(target=_log_lines, args=(output, token), daemon=True, name="frazil-project")
    lines.start()
    try:
        yield printed
    finally:
        os.close(printed)
        lines.join(LOG_SECONDS)


def _log_lines(output: int, token: str) -> None:
    with os.fdopen(output, "rb") as lines:
        starts = True
        while line := lines.readline(MOST_LINE):
            if starts:  # the rest of a long line is left out: a secret may be cut in two
                text = line.decode("utf-8", "replace").rstrip("\r\n")
                sys.stderr.write(visible(redact(text.replace(token, "***") if token else text)) + "\n")
            starts = line.endswith(b"\n")


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends the child, and what it may have started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()
