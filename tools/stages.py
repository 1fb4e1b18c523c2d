"""`make test` and `make quick`: each stage with its time; fails if any of them failed, after all have run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PYTEST = [sys.executable, "-m", "pytest", "-q"]
# Files that share a stack or a Spark run in one process (tests/together.py). The slowest tests are listed.
FILES = [*PYTEST, "--dist", "loadfile", "--no-loadscope-reorder", "--durations=12"]
TWO_FILES = [*FILES, "-n", "2"]
# Of the time of contracts, engines and faults, a quarter or more is waiting: for a server that starts or was struck
# down, for a writer that is stopped. Three files at a time keep two processors busy.
THREE_FILES = [*FILES, "-n", "3"]
SPARK_STAGE = "engines+faults"
STAGES: dict[str, list[str]] = {
    "ruff": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "."],
    "mypy": ["mypy"],
    "docs": [sys.executable, "-m", "tools.docs", "--check"],
    "unit": [*TWO_FILES, "tests/unit", "src"],
    "contract": [*THREE_FILES, "tests/contract", "tests/console"],
    SPARK_STAGE: [*THREE_FILES, "tests/engines", "tests/faults"],
}
# `make quick`, in less than two minutes: no search for examples, no PostgreSQL, no JVM; the contracts that most changes
# can break.
CORE = [f"tests/contract/{name}.py" for name in ("test_catalog_commits", "test_catalog_tables", "test_sink_targets")]
QUICK: dict[str, list[str]] = {
    **{name: STAGES[name] for name in ("ruff", "format", "mypy")},
    "unit": [*TWO_FILES, "-m", "not hypothesis and not long", "tests/unit"],
    "core contracts": [*TWO_FILES, "-m", "not hypothesis and not long", "-k", "not postgresql", *CORE],
}


def stage_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a stage: interpreters keep compiled modules in .venv, even where the machine says not to.

    The tests start hundreds of interpreters, and each would compile PyIceberg again, which takes longer than a short
    test.
    """
    kept = {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {"PYTHONPYCACHEPREFIX": str(Path(sys.prefix) / ".pycache"), **kept}


@dataclass(frozen=True)
class Result:
    """How a stage went: its seconds, those of the processor among them (of processes that were waited for), and its
    exit code.
    """

    name: str
    seconds: float
    cpu: float
    code: int

    @property
    def line(self) -> str:
        return (
            f"{self.name:<14} {self.seconds:>9.1f} {self.cpu:>6.0f}  "
            f"{'ok' if self.code == 0 else f'FAILED ({self.code})'}"
        )


def run_stage(name: str, command: list[str]) -> Result:
    start = time.monotonic()
    print(f"\n=== {name}: {' '.join(command)}", flush=True)
    tool = [sys.executable, "-m", *command] if command[0] in ("ruff", "mypy") else command
    process = subprocess.Popen(tool, env=stage_environment(os.environ))
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Result(name, time.monotonic() - start, used.ru_utime + used.ru_stime, process.returncode)


@contextmanager
def making_archive(stages: Iterable[str]) -> Iterator[Callable[[], object]]:
    """Makes the archive of Spark's classes next to the first stages, which leave a processor idle; gives what waits for
    it. Without an archive, Spark only starts slower.
    """
    if SPARK_STAGE not in stages:
        yield lambda: None
        return
    with subprocess.Popen([sys.executable, "-m", "tools.spark_archive"]) as process:
        yield process.wait


def main() -> int:
    wanted, start = [name for name in sys.argv[1:] if name != "--quick"], time.monotonic()
    stages = QUICK if "--quick" in sys.argv else STAGES
    chosen = {name: command for name, command in stages.items() if not wanted or name in wanted}
    results = []
    with making_archive(chosen) as wait_for_archive:
        for name, command in chosen.items():
            if name == SPARK_STAGE:
                wait_for_archive()
            results.append(run_stage(name, command))
    print("\nstage            seconds  CPU s  result")
    for result in results:
        print(result.line)
    print(f"{'total':<14} {time.monotonic() - start:>9.1f}")
    return 1 if any(result.code for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
