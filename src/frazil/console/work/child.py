"""`python -m frazil.console.work.child`: a process that does the console's jobs, one at a time.

The options of the server come as the first line of its standard input, each job as a further line; they hold secrets,
so nothing of them is an argument. An answer is a status, a length and JSON, through a pipe. The process ends when its
standard input does: when the server closes it, or has died.
"""

from __future__ import annotations

import logging
import os
import queue
import resource
import signal
import struct
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
from pyiceberg.exceptions import (
    BadRequestError,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    RESTError,
    UnauthorizedError,
)

from frazil.catalog import ServerOptions, build_app, log_to_stderr, problem_of, return_memory
from frazil.console.work.inside import Caller, Loop, open_lake
from frazil.console.work.kinds import KINDS
from frazil.errors import FrazilError
from frazil.logs import hide_tokens
from frazil.processes import write_no_core
from frazil.scan.manifests import decoded_files

log = logging.getLogger("frazil.console.work")
# of an answer: its status, the length of its body, whether it is the last one, how many files its manifests named
HEAD = struct.Struct(">HQ?Q")
READY = 100  # the first answer: the process takes jobs
MOST_MEMORY_BYTES = 4 << 30  # of data, reserved or in use
MOST_KEPT_BYTES = 2 << 30  # after a job; with more the process ends
NICENESS = 5  # commits come first
GRACE_SECONDS = 5.0  # after a job's own time: the server ends the process at that time
MIB = 1 << 20
# by the status that the catalog gave; PyIceberg has no attribute for it
STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (UnauthorizedError, 401),
    (ForbiddenError, 403),
    (NoSuchTableError, 404),
    (NoSuchNamespaceError, 404),
    (NoSuchViewError, 404),
    (BadRequestError, 400),
    (RESTError, 503),
)


def main(answers: int) -> None:
    """Does jobs until the standard input ends."""
    options = ServerOptions.from_json(sys.stdin.buffer.readline().decode())
    log_to_stderr(options.log_level)
    be_the_first_to_go()
    write_no_core()
    return_memory()
    loop = Loop(build_app(own_options(options)))
    jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(jobs, loop), daemon=True, name="frazil-jobs").start()
    with os.fdopen(answers, "wb") as output:
        _send(output, READY, b"")
        while True:
            job = orjson.loads(jobs.get())
            signal.setitimer(signal.ITIMER_REAL, job["seconds"] + GRACE_SECONDS)  # ends the process
            before = decoded_files.count
            status, body = answer(loop, job)
            _send(output, status, body, last=data_bytes() > MOST_KEPT_BYTES, files=decoded_files.count - before)
            signal.setitimer(signal.ITIMER_REAL, 0)


def data_bytes() -> int:
    """The memory of this process that counts for its limit."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    except OSError:
        return 0


def own_options(options: ServerOptions) -> ServerOptions:
    """The options of the server for its application in this process: it listens nowhere and keeps little."""
    limits = options.limits.model_copy(
        # planned files: the server charges for them
        update={"cache_bytes": 32 * MIB, "manifest_bytes": 32 * MIB, "threads": 4, "principal_plan_files": 0}
    )
    kept = replace(options, limits=limits, host="", public_uri=None, behind_proxy=False, upkeep=None, routes_of=())
    return replace(kept, certificate=None, certificate_key=None, metrics_folder=None)


def be_the_first_to_go() -> None:
    """Limits the memory of this process, has the system end it before others, and lets others compute first."""
    os.nice(max(NICENESS - os.nice(0), 0))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))


def _read(jobs: queue.SimpleQueue[bytes], loop: Loop) -> None:
    """Hands jobs over. At the end of the input, refusals that are not written yet are; then the process ends."""
    for line in sys.stdin.buffer:
        jobs.put(line)
    signal.setitimer(signal.ITIMER_REAL, GRACE_SECONDS)
    loop.app.ctx.gate.close()
    os._exit(0)


def _send(output: Any, status: int, body: bytes, *, last: bool = False, files: int = 0) -> None:
    output.write(HEAD.pack(status, len(body), last, files))
    output.write(body)
    output.flush()


def answer(loop: Loop, job: dict[str, Any]) -> tuple[int, bytes]:
    """What a job gives, or the problem that it met."""
    kind = KINDS[job["kind"]]
    caller = Caller(job["warehouse"], job["token"], job["address"], job["request_id"])
    try:
        lake = open_lake(loop, caller, writes=kind.writes)
        try:
            value = kind.run(lake, job["arguments"])
        finally:
            lake.close()
        return 200, value if isinstance(value, bytes) else orjson.dumps(value)
    except Exception as exc:
        return describe(exc, job["request_id"])


def describe(exc: Exception, request_id: str) -> tuple[int, bytes]:
    """An error as HTTP: a status, and the body in the specification's shape with what else the error says."""
    if isinstance(exc, FrazilError):
        status, error = problem_of(exc)
        return status, orjson.dumps({"error": error})
    kind = type(exc).__name__
    for base, status in STATUSES:
        if isinstance(exc, base):
            message = hide_tokens(str(exc))[:1000]
            return status, orjson.dumps({"error": {"message": message, "type": kind, "code": status}})
    if isinstance(exc, RecursionError):
        return 400, orjson.dumps({"error": {"message": "This is nested too deeply", "type": kind, "code": 400}})
    if isinstance(exc, MemoryError):
        message = "This needed more memory than the server allows"
        return 422, orjson.dumps({"error": {"message": message, "type": kind, "code": 422}})
    log.exception("unexpected error in a job of the console", extra={"fields": {"request_id": request_id}})
    message = f"The server failed ({kind}); its log has the details under this request's id"
    return 500, orjson.dumps({"error": {"message": message, "type": "InternalServerError", "code": 500}})


if __name__ == "__main__":
    main(int(sys.argv[1]))
