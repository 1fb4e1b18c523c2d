"""`make test`: each stage with its time; fails if any of them failed, after all have run."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

PYTEST = [sys.executable, "-m", "pytest", "-q"]
# Two files at a time where a test is one Python process. Where it is a Spark, a Trino or a Kafka, two stages at a time: each uses little
# more than one core, for it waits for servers to start, and for dead writers to be found out.
TWO_FILES = [*PYTEST, "-n", "2", "--dist", "loadfile"]
STAGES: list[dict[str, list[str]]] = [
    {"ruff": ["ruff", "check", "."]},
    {"format": ["ruff", "format", "--check", "."]},
    {"mypy": ["mypy"]},
    {"docs": [sys.executable, "-m", "tools.docs", "--check"]},
    {"unit": [*TWO_FILES, "tests/unit", "src"]},
    {"contract": [*TWO_FILES, "tests/contract"]},
    {"engines": [*PYTEST, "tests/engines"], "faults": [*PYTEST, "tests/faults"]},
]


def stage_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a stage: interpreters keep compiled modules in .venv, even where the machine says not to.

    The tests start hundreds of interpreters, and each would compile PyIceberg again, which takes longer than a short test.
    """
    kept = {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {"PYTHONPYCACHEPREFIX": str(Path(sys.prefix) / ".pycache"), **kept}


@dataclass(frozen=True)
class Result:
    """How a stage went: its seconds, those of the processor among them (of processes that were waited for), and its exit code."""

    name: str
    seconds: float
    cpu: float
    code: int

    @property
    def line(self) -> str:
        return f"{self.name:<12} {self.seconds:>9.1f} {self.cpu:>6.0f}  {'ok' if self.code == 0 else f'FAILED ({self.code})'}"


def run_stages(stages: dict[str, list[str]]) -> list[Result]:
    """Runs them side by side. What the first one prints is seen at once; what the others print, when it has ended."""
    start = time.monotonic()
    running: list[tuple[str, subprocess.Popen[bytes], IO[bytes] | None]] = []
    for name, command in stages.items():
        tool = [sys.executable, "-m", *command] if command[0] in ("ruff", "mypy") else command
        kept = tempfile.TemporaryFile() if running else None  # noqa: SIM115  # closed below
        if kept is None:
            print(f"\n=== {name}: {' '.join(command)}", flush=True)
        stderr = subprocess.STDOUT if kept else None
        process = subprocess.Popen(tool, stdout=kept, stderr=stderr, env=stage_environment(os.environ))
        running.append((name, process, kept))
    with ThreadPoolExecutor(len(running)) as pool:
        ended = list(pool.map(lambda one: (one[0], *_end_of(one[1], start)), running))
    for name, _, output in running:
        if output is not None:
            print(f"\n=== {name}: {' '.join(stages[name])}", flush=True)
            output.seek(0)
            sys.stdout.buffer.write(output.read())
            sys.stdout.flush()
            output.close()
    return [Result(*one) for one in ended]


def _end_of(process: subprocess.Popen[bytes], start: float) -> tuple[float, float, int]:
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return time.monotonic() - start, used.ru_utime + used.ru_stime, process.returncode


def main() -> int:
    wanted, start = sys.argv[1:], time.monotonic()
    chosen = [{name: command for name, command in stages.items() if not wanted or name in wanted} for stages in STAGES]
    results = [result for stages in chosen if stages for result in run_stages(stages)]
    print("\nstage          seconds  CPU s  result")
    for one in results:
        print(one.line)
    print(f"{'total':<12} {time.monotonic() - start:>9.1f}")
    return 1 if any(one.code for one in results) else 0


if __name__ == "__main__":
    sys.exit(main())
