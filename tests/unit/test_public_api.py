"""The public Python API: its names and signatures change on purpose only.

After a change that is meant: `python -m tools.api_reference > tests/unit/public_api.txt`, and `make docs`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import frazil
from tools.api_reference import find, signatures

PINNED = Path(__file__).with_name("public_api.txt")


def test_the_names_of_the_package_are_these() -> None:
    assert frazil.__all__ == [
        "Column",
        "Lake",
        "Table",
        "Upkeep",
        "__version__",
        "column",
        "connect",
        "list_of",
        "map_of",
        "model",
        "pipeline",
        "sources",
        "struct",
        "transforms",
        "vector_index",
    ]
    assert all(getattr(frazil, name) is not None for name in frazil.__all__)


def test_the_signatures_are_these() -> None:
    assert list(signatures()) == PINNED.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", ["frazil.client.connect", "frazil.sinks.open_delta", "frazil.client.FrazilCatalog"])
def test_former_places_are_still_there(name: str) -> None:
    assert callable(find(name))


def test_importing_frazil_loads_no_heavy_library() -> None:
    heavy = ["pyarrow", "pyiceberg", "pydantic", "pandas", "pyspark", "duckdb", "rich", "click"]
    program = f"import sys, frazil; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_importing_frazil_is_quick() -> None:
    program = "import time; begun = time.process_time(); import frazil; print(time.process_time() - begun)"
    seconds = []
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        seconds.append(float(done.stdout))
    assert min(seconds) < 0.06
