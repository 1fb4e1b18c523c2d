"""Spark drivers that wait for jobs: one is used as long as it lives, so that a campaign does not spend its time on
starts.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from tests.faults.sink_writer import Job
from tests.faults.spark_writer import READY, as_line

ROOT = Path(__file__).resolve().parents[2]


class Driver:
    """A driver process, its JVM with it."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.faults.spark_writer", str(folder / "spark.log")]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self.is_ready = self.is_busy = False

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def ask(self, line: str) -> str:
        """The answer to a line; empty if the driver died over it."""
        assert self.process.stdin
        assert self.process.stdout
        if not self.is_ready:
            assert self.process.stdout.readline().strip() in (READY, ""), "a driver did not start"
            self.is_ready = True
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line)
            self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        """Driver, JVM and Python workers, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        """Lets go of a driver that is dead."""
        self.kill()  # what is left of it: the JVM, its workers
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


class SparkRun(threading.Thread):
    """A job on a driver, with the face of a process: a pid, an exit code, `kill` and `join`."""

    def __init__(self, driver: Driver, job: Job) -> None:
        super().__init__(daemon=True)
        self.driver, self.job = driver, job
        self.exitcode: int | None = None
        driver.is_busy = True
        self.start()

    @property
    def pid(self) -> int:
        return self.driver.process.pid

    def run(self) -> None:
        answer = self.driver.ask(as_line(self.job))
        if answer:
            self.driver.is_busy = False
            self.exitcode = int(answer)
        else:
            self.driver.close()
            self.exitcode = -signal.SIGKILL

    def kill(self) -> None:
        self.driver.kill()


class Drivers:
    """The drivers of this test run; all go with it."""

    def __init__(self) -> None:
        self._all: list[Driver] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def start(self, job: Job) -> SparkRun:
        """The job begins on a driver that is free, or on a new one."""
        for driver in self._all:
            if not driver.is_alive and not driver.is_busy:  # it was killed after its last answer
                driver.close()
        self._all = [driver for driver in self._all if driver.is_alive]
        free = [driver for driver in self._all if not driver.is_busy]
        return SparkRun(free[0] if free else self._new(), job)

    def stop(self) -> None:
        for driver in self._all:
            (driver.kill if driver.is_busy else driver.close)()  # who waits for the answer of a busy one closes it
        self._all = []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _new(self) -> Driver:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="frazil-drivers-", ignore_cleanup_errors=True)
            atexit.register(self.stop)
        driver = Driver(Path(tempfile.mkdtemp(dir=self._folder.name)))
        self._all.append(driver)
        return driver


DRIVERS = Drivers()
