"""Unit tests of libraries, commands and the catalog with the lowest versions that pyproject.toml allows: `make lowest`,
and a part of `make soak`.

What Frazil asks for directly is the lowest; what that asks for is the newest. The tools of the tests are those of the
lock.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv" / "lowest"
EXTRAS = ("sinks", "pandas", "polars", "duckdb", "delta", "bytewax", "vector", "spark", "oauth", "vending", "console")
TOOLS = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "psutil")
APPLICATIONS = ("cli", "catalog", "upkeep", "console")
TESTS = [
    f"tests/unit/{name}" for name in ("client", "scan", "tables", "sinks", "write", "history", "vector", *APPLICATIONS)
]
UV = [sys.executable, "-m", "uv", "-q"]


def install() -> Path:
    """The interpreter of an environment with the lowest versions."""
    python = FOLDER / "bin" / "python"
    versions = ROOT / ".venv" / "lowest.txt"
    subprocess.run([*UV, "venv", "--clear", "--python", sys.executable, FOLDER], check=True)
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    lowest = ["--resolution", "lowest-direct", "--no-emit-index-url", "-o", versions]
    compiled = [*UV, "pip", "compile", "pyproject.toml", *extras, "--python", sys.executable, *lowest]
    subprocess.run(compiled, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    pip = [*UV, "pip", "install", "--python", python]
    subprocess.run([*pip, "--no-deps", "-r", versions], check=True)
    subprocess.run([*pip, *TOOLS, "--constraint", "constraints.txt"], cwd=ROOT, check=True)
    subprocess.run([*pip, "--no-deps", "-e", "."], cwd=ROOT, check=True)  # for the command `frazil`
    return python


def main(chosen: Sequence[str]) -> int:
    """Runs the tests that are chosen, or all of them; gives the exit code of pytest."""
    python = install()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    words = [python, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *(chosen or TESTS)]
    return subprocess.run(words, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
