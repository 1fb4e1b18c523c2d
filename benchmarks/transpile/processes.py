"""A case in a process of its own, and the CPU seconds of all processes that it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def tree_cpu_s(root: int) -> float:
    """CPU seconds of a process and all that descend from it, those that have ended and were waited for included."""
    parents, spent = {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        parents[int(entry.name)] = int(fields[1])
        spent[int(entry.name)] = sum(map(int, fields[11:15])) / _TICKS
    return sum(seconds for pid, seconds in spent.items() if root in _line(pid, parents))


def _line(pid: int, parents: Mapping[int, int]) -> Iterator[int]:
    """A process, its parent, and so on.

    >>> list(_line(3, {3: 2, 2: 1, 1: 0}))
    [3, 2, 1]
    """
    while pid in parents:
        yield pid
        pid = parents[pid]


@dataclass(frozen=True)
class Case:
    """A process that waits for files of queries, and says what each of them cost."""

    name: str
    process: subprocess.Popen[str]

    def wait(self) -> None:
        """Returns when the process has imported, connected and warmed up."""
        self._answer()

    def measure(self, file: Path) -> dict[str, float]:
        """What it cost to do the file."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{file}\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, float]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"case '{self.name}' ended with exit code {self.process.wait()}")
        answer: dict[str, float] = json.loads(line)
        return answer


@contextmanager
def running_case(name: str, folder: Path, uri: str) -> Iterator[Case]:
    """A case, started; its process ends with the block."""
    command = [sys.executable, "-m", "benchmarks.transpile.case", name, str(folder), uri]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Case(name, process)
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)
        finally:
            process.kill()
