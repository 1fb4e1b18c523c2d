"""`python -m benchmarks`: every benchmark, one after the other."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks
from benchmarks.report import Run, main


def find_benchmarks() -> dict[str, Run]:
    """Every folder of benchmarks/ by name, with its `run`."""
    names = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.ispkg]
    return {name: importlib.import_module(f"benchmarks.{name}").run for name in sorted(names)}


if __name__ == "__main__":
    sys.exit(main(find_benchmarks()))
