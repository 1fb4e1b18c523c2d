"""The examples are projects of their own: their files import each other by plain names, as they do for a user who
stands in the folder.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.fixture(scope="module")
def transpile_run() -> Iterator[ModuleType]:
    """`examples/transpile/run.py`; what it imported by plain names is forgotten afterwards."""
    folder = str(EXAMPLES / "transpile")
    sys.path.insert(0, folder)
    try:
        yield importlib.import_module("run")
    finally:
        sys.path.remove(folder)
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(folder):
                del sys.modules[name]
