"""Upkeep that someone asks for where no worker is: a child of the server, which ends when nothing is asked for."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import threading

from frazil.catalog.upkeep.process import KILL_SECONDS, child_command

log = logging.getLogger("frazil.upkeep")


class UpkeepOnRequest:
    """The worker of one server process, started when someone asks for upkeep: one at a time."""

    def __init__(self, options: str) -> None:
        """`options` are the `ServerOptions` as JSON."""
        self._options = options
        self._stop_seconds = float(json.loads(options)["upkeep_on_request"]["stop_seconds"])
        self._lock, self._wanted, self._ended = threading.Lock(), threading.Event(), False
        self._lifeline, self._kept_open = os.pipe()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="frazil-upkeep-on-request")
        self._worker: subprocess.Popen[bytes] | None = None
        self._thread.start()

    def start_worker(self) -> None:
        """Has a worker look for requests that are in the database by now; after the one that works, if one does."""
        self._wanted.set()

    def _watch(self) -> None:
        while True:
            self._wanted.wait()
            with self._lock:
                if self._ended:
                    return
                self._wanted.clear()
                command = child_command(self._lifeline, "requested")
                self._worker = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=(self._lifeline,))
            self._worker.communicate(self._options.encode())
            if (code := self._worker.returncode) != 0 and not self._ended:
                log.warning("the upkeep process has ended with code %s: what was asked for stays queued", code)

    def close(self) -> None:
        """Ends the worker: what it was asked for stays queued."""
        with self._lock:
            self._ended = True
            self._wanted.set()
        if self._worker is not None and self._worker.poll() is None:
            self._worker.terminate()
            self._thread.join(self._stop_seconds + 2 * KILL_SECONDS)
            if self._worker.poll() is None:
                self._worker.kill()
        self._thread.join()
        os.close(self._kept_open)
        os.close(self._lifeline)
