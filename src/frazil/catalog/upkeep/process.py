"""The process of upkeep: how `frazil serve --upkeep` starts it, and how every worker ends in time."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Self

from frazil.errors import CatalogError

if TYPE_CHECKING:
    from frazil.catalog.server import ServerOptions
    from frazil.catalog.upkeep.worker import UpkeepWorker

log = logging.getLogger("frazil.upkeep")
PAUSE_SECONDS = 0.5  # between looks at the process
RESTART_SECONDS = 5.0  # a process that died is replaced after this time
KILL_SECONDS = 2.0  # after the time that a worker has to end by itself
NICENESS = 10


class UpkeepProcess:
    """A worker of upkeep as a child of the server, as long as the block. One that dies is replaced."""

    def __init__(self, options: ServerOptions) -> None:
        assert options.upkeep is not None
        self._options, self._stop_seconds = options.to_json(), options.upkeep.stop_seconds
        self._lifeline, self._kept_open = os.pipe()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="frazil-upkeep")
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.process = self._start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        os.close(self._kept_open)
        os.close(self._lifeline)

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(child_command(self._lifeline), stdin=subprocess.PIPE, pass_fds=(self._lifeline,))
        assert process.stdin is not None
        process.stdin.write(self._options.encode())
        process.stdin.close()
        return process

    def _watch(self) -> None:
        while not self._ended.wait(PAUSE_SECONDS):
            assert self.process is not None
            if self.process.poll() is not None:
                log.warning("the upkeep process has ended with code %s: it is started again", self.process.returncode)
                if self._ended.wait(RESTART_SECONDS):
                    return
                self.process = self._start()
        self._end()

    def _end(self) -> None:
        assert self.process is not None
        self.process.terminate()
        try:
            self.process.wait(self._stop_seconds + 2 * KILL_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def child_command(lifeline: int, *task: str) -> list[str]:
    """The command of the process, which reads the server's options from its standard input."""
    return [sys.executable, "-m", "frazil.catalog.upkeep.child", str(lifeline), *task]


def end_with_parent(lifeline: int) -> None:
    """Has this process end, as by SIGTERM, when its parent does: then the other end of a pipe is closed."""

    def watch() -> None:
        os.read(lifeline, 1)  # returns when the parent's end is closed
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True, name="frazil-lifeline").start()


def run_until_signal(worker: UpkeepWorker, *, once: bool = False) -> None:
    """Runs a worker until SIGTERM or SIGINT; ends within `upkeep.stop_seconds` of it, whatever the worker does.

    The work is in a thread of its own: a handler of Python runs in the main thread, which must not be busy in a library
    then. A process that ends before its work is as one that was killed: every step allows for that.
    """
    errors: list[BaseException] = []

    def work() -> None:
        try:
            worker.run(once=once)
        except BaseException as exc:
            errors.append(exc)

    thread = threading.Thread(target=work, daemon=True, name="frazil-upkeep-worker")

    def stop(number: int, _frame: FrameType | None) -> None:
        worker.stop(signal.Signals(number).name)
        timer = threading.Timer(worker.settings.stop_seconds, _end_now, (worker,))
        timer.daemon = True
        timer.start()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        thread.start()
        while thread.is_alive():
            thread.join(PAUSE_SECONDS)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if errors:
        raise errors[0]


def _end_now(worker: UpkeepWorker) -> None:
    """Ends the process. Its lease is given back, so that another worker need not wait for its end."""
    log.warning("the work did not end in time: the worker ends without it")
    threading.Timer(KILL_SECONDS, os._exit, (0,)).start()
    try:
        worker.abandon()
    except CatalogError as exc:
        log.warning("the lease was not given back: %s", exc.message)
    os._exit(0)


def be_modest() -> None:
    """Leaves the processors to others: a low priority, and one thread for decoding and encoding."""
    import pyarrow as pa

    os.nice(max(NICENESS - os.nice(0), 0))
    pa.set_cpu_count(1)
