"""Modules that have moved can still be imported by their former names, with a warning."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import frazil.write.commit
from frazil.moved import MOVED
from frazil.pipelines.stream import StreamOptions
from frazil.quarantine import IcebergQuarantine
from frazil.sinks.bytewax import DeltaSinkConfig, IcebergSinkConfig
from frazil.write.commit import RetryPolicy


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


def test_the_former_name_of_the_retry_policy_is_the_same_class() -> None:
    with pytest.warns(DeprecationWarning, match="RetryPolicy"):
        assert frazil.write.commit.Patience is RetryPolicy


@pytest.mark.parametrize(
    "make",
    [
        lambda **options: IcebergSinkConfig("http://c", "rest", None, "a.b", **options),
        lambda **options: DeltaSinkConfig("s3://lake/t", **options),
        lambda **options: StreamOptions(Path("state"), **options),
        lambda **options: IcebergQuarantine(None, ("a", "b"), **options),  # type: ignore[arg-type]
    ],
)
def test_a_former_field_of_options_is_taken_with_a_warning(make: Callable[..., Any]) -> None:
    policy = RetryPolicy(give_up_seconds=1)
    with pytest.warns(DeprecationWarning, match="retry="):
        options = make(patience=policy)
    assert options.retry is policy
    with pytest.warns(DeprecationWarning, match="retry="), pytest.raises(TypeError, match="not both"):
        make(patience=policy, retry=policy)
