"""Several worker processes behind one port: the parent listens and watches, the workers serve.

A worker that dies is replaced. A signal to the parent reaches every worker, which finishes what is in flight. A worker
whose parent has died sees the end of a pipe and stops too, so that a killed server leaves nothing behind.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from types import FrameType

from frazil.catalog.server import END_SECONDS, ServerOptions, open_context, serve_here
from frazil.catalog.upkeep.process import UpkeepProcess, end_with_parent
from frazil.processes import write_no_core

PAUSE_SECONDS = 0.2  # between looks at the workers
RESTART_SECONDS = 1.0  # a worker that lived shorter than this is not replaced at once


def serve(
    options: ServerOptions, listener: socket.socket, *, workers: int = 1, opened: Callable[[], None] = lambda: None
) -> None:
    """Serves until a signal says stop. Calls `opened` once the database was opened: from then on requests
    are answered.
    """
    if workers == 1 and options.upkeep is None:
        serve_here(options, listener, opened=opened)
        return
    write_no_core()
    open_context(options).close()  # what is wrong with the settings is said once, not by each worker
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="frazil-metrics-"))
        shared = replace(options, metrics_folder=folder)
        if options.upkeep is not None:
            stack.enter_context(UpkeepProcess(shared))
        if workers == 1:
            serve_here(shared, listener, opened=opened)
        else:
            opened()
            _Supervisor(shared, listener, workers).run()


class _Supervisor:
    def __init__(self, options: ServerOptions, listener: socket.socket, count: int) -> None:
        self._options = options.to_json()
        self._end_seconds = options.limits.shutdown_seconds + 2 * END_SECONDS
        self._listener = listener
        self._lifeline, self._kept_open = os.pipe()
        self._stopping = threading.Event()
        self._workers: list[tuple[subprocess.Popen[bytes], float]] = [self._start() for _ in range(count)]

    def _start(self) -> tuple[subprocess.Popen[bytes], float]:
        # The options hold the database's password: they travel through a pipe, not through arguments that anyone can
        # list.
        command = [sys.executable, "-m", "frazil.catalog.workers", str(self._listener.fileno()), str(self._lifeline)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=(self._listener.fileno(), self._lifeline))
        assert process.stdin is not None
        process.stdin.write(self._options.encode())
        process.stdin.close()
        return process, time.monotonic()

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        while not self._stopping.wait(PAUSE_SECONDS):
            for position, (process, started) in enumerate(self._workers):
                if process.poll() is not None and time.monotonic() - started > RESTART_SECONDS:
                    self._workers[position] = self._start()
        for process, _ in self._workers:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + self._end_seconds
        for process, _ in self._workers:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping.set()


def _work(listener_fd: int, lifeline: int) -> None:
    options = ServerOptions.from_json(sys.stdin.read())
    end_with_parent(lifeline)
    serve_here(options, socket.socket(fileno=listener_fd))


if __name__ == "__main__":
    _work(int(sys.argv[1]), int(sys.argv[2]))
