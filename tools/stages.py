"""`make test`: each stage in turn, with its time; fails if any of them failed, after all have run."""

from __future__ import annotations

import resource
import subprocess
import sys
import time

PYTEST = [sys.executable, "-m", "pytest", "-q"]
# Two files at a time where a test is one Python process; a Spark or a Trino takes both cores by itself.
TWO_FILES = [*PYTEST, "-n", "2", "--dist", "loadfile"]
STAGES: list[tuple[str, list[str]]] = [
    ("ruff", ["ruff", "check", "."]),
    ("format", ["ruff", "format", "--check", "."]),
    ("mypy", ["mypy"]),
    ("docs", [sys.executable, "-m", "tools.docs", "--check"]),
    ("unit", [*TWO_FILES, "tests/unit", "src"]),
    ("contract", [*TWO_FILES, "tests/contract"]),
    ("engines", [*PYTEST, "tests/engines"]),
    ("faults", [*PYTEST, "tests/faults"]),
]


def run_stage(name: str, command: list[str]) -> tuple[float, float, int]:
    """The seconds that a stage took, those of the processor among them (of processes that were waited for), and its exit code."""
    print(f"\n=== {name}: {' '.join(command)}", flush=True)
    start, before = time.monotonic(), _cpu_seconds()
    tool = [sys.executable, "-m", *command] if command[0] in ("ruff", "mypy") else command
    code = subprocess.run(tool, check=False).returncode
    return time.monotonic() - start, _cpu_seconds() - before, code


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    wanted = sys.argv[1:]
    results = [(name, *run_stage(name, command)) for name, command in STAGES if not wanted or name in wanted]
    print("\nstage          seconds  CPU s  result")
    for name, seconds, cpu, code in results:
        print(f"{name:<12} {seconds:>9.1f} {cpu:>6.0f}  {'ok' if code == 0 else f'FAILED ({code})'}")
    print(f"{'total':<12} {sum(one[1] for one in results):>9.1f}")
    return 1 if any(one[3] for one in results) else 0


if __name__ == "__main__":
    sys.exit(main())
