"""Writers in processes of their own, made from a server that has loaded the libraries once."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from tests.faults.sink_writer import FENCED, Job, write_all

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    [
        "pytest",  # a child imports what the tests were started with, too
        "tests.faults.sink_writer",
        "tests.faults.bytewax_writer",
        "tests.faults.replayer",
        "tests.faults.upsert_writer",
        "tests.faults.vector_builder",
        "frazil.sinks.delta.target",
        "frazil.sinks.iceberg",
        "frazil.vector.indexes",
        "confluent_kafka",
    ]
)
LONGEST_SECONDS = 900


class Writer(Protocol):
    """A writer under way."""

    @property
    def pid(self) -> int | None: ...

    @property
    def exitcode(self) -> int | None: ...

    def join(self, timeout: float | None = None) -> None: ...

    def kill(self) -> None: ...


def start(job: Job) -> Writer:
    if job.host == "spark":
        from tests.faults.spark_drivers import DRIVERS

        return DRIVERS.start(job)
    process = PROCESSES.Process(target=write_all, args=(job,), daemon=True)
    process.start()
    return process


def end_of(process: Writer) -> int:
    """Waits for a writer; gives how it ended."""
    process.join(LONGEST_SECONDS)
    if process.exitcode is None:
        process.kill()
        raise AssertionError("a writer hangs")
    return process.exitcode


def run(job: Job) -> int:
    """Runs a writer to its end; gives how it ended."""
    return end_of(start(job))


def wait_until_stopped(process: Writer) -> bool:
    """Whether the writer stopped itself; False if it ended before it came to that."""
    deadline = time.monotonic() + LONGEST_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
                return True
        if process.exitcode is not None:
            return False
        time.sleep(0.01)
    raise AssertionError("a writer neither stops nor ends")


def wake(process: Writer) -> int:
    """A stopped writer goes on, if it has not ended; gives how it ended."""
    let_go_on(process)
    return end_of(process)


def let_go_on(process: Writer) -> None:
    if process.exitcode is None:
        os.kill(process.pid or 0, signal.SIGCONT)


def zombie(job: Job, successor: Job | None = None) -> None:
    """A writer stops somewhere, another takes over and writes, the first one wakes up: it is fenced, or had ended
    before.
    """
    sleeper = start(replace(job, fault="stop"))
    stopped = wait_until_stopped(sleeper)
    assert run(successor or replace(job, fault="")) == 0
    code = wake(sleeper)  # what a failed campaign has to tell
    assert code in ((0, FENCED) if stopped else (0,))
