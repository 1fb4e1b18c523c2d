"""Modules that have moved can still be imported by their former names, with a warning."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from frazil.moved import MOVED


@pytest.mark.parametrize("old", sorted(MOVED))
def test_a_former_name_gives_the_same_objects_and_names_the_new_place(old: str) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=MOVED[old].replace(".", r"\.")):
        former = importlib.import_module(old)
    module = importlib.import_module(MOVED[old])
    public = [name for name in vars(module) if not name.startswith("_")]
    assert all(getattr(former, name) is getattr(module, name) for name in public)
    with pytest.raises(AttributeError):
        former.no_such_name  # noqa: B018


def test_a_name_that_never_was_is_an_ordinary_error() -> None:
    program = "import frazil.sinks.no_such_module"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "ModuleNotFoundError: No module named 'frazil.sinks.no_such_module'" in done.stderr
