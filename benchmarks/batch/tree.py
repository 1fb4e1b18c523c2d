"""CPU seconds and memory of a process with everything that it started, also what has ended in the meantime."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil

LOOK_SECONDS = 0.5  # a look at a JVM takes milliseconds, and counts, too


class TreeMeter:
    """Looks at the tree again and again: workers that Spark's daemon has forked are no longer counted once they are
    gone.
    """

    def __init__(self) -> None:
        self._me = psutil.Process()
        self._seen: dict[tuple[int, float], float] = {}
        self.peak_mb = 0.0

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Counts what happens in the block: `cpu_s`, `peak_mb`."""
        self._look()
        before, done = dict(self._seen), threading.Event()
        watcher = threading.Thread(target=self._watch, args=(done,), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
        self._look()
        self.cpu_s = sum(seconds - before.get(process, 0.0) for process, seconds in self._seen.items())

    def _watch(self, done: threading.Event) -> None:
        while not done.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        memory = 0.0
        for process in [self._me, *self._me.children(recursive=True)]:
            with contextlib.suppress(psutil.Error, OSError):
                times = process.cpu_times()
                self._seen[process.pid, process.create_time()] = times.user + times.system
                memory += _own_mb(process.pid)
        self.peak_mb = max(self.peak_mb, memory)


def _own_mb(pid: int) -> float:
    """The pages that are a process's own, its share of those that it has in common with others (a forked worker's
    modules).
    """
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss_Anon:"):
            return int(line.split()[1]) / 1024
    return 0.0
