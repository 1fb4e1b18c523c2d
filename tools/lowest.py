"""Unit tests of the client, tables, scans, sinks and writes with the lowest versions of libraries that pyproject.toml
allows: `make lowest`.

What Frazil asks for directly is the lowest; what that asks for is the newest. The tools of the tests are those of the
lock.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv" / "lowest"
EXTRAS = ("sinks", "pandas", "polars", "duckdb", "delta", "bytewax", "vector", "spark")  # the last for conftest
TOOLS = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "psutil")
TESTS = [f"tests/unit/{name}" for name in ("client", "scan", "tables", "sinks", "write", "history", "vector")]
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
    return python


def main() -> int:
    python = install()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    words = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(sys.argv[1:] or TESTS)]
    return subprocess.run(words, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
