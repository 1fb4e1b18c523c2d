"""Commands that need an extra which is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog

HIDE = """
import sys


class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Hidden())
from frazil.cli.main import main

main()
"""


@pytest.mark.parametrize("command", [("log", "l.t"), ("audit", "l.t"), ("maintain", "--dry-run"), ("runs", "l.t")])
def test_a_command_without_its_extra_says_how_to_install_it(command: tuple[str, ...], tmp_path: Path) -> None:
    with running_catalog(tmp_path / "catalog") as server:
        catalog = FrazilCatalog("lake", **server.properties)
        catalog.create_namespace("l")
        catalog.create_table("l.t", Schema(NestedField(1, "id", LongType())))
        catalog.close()
        program = HIDE.format(hidden={"pyarrow", "numpy", "pyiceberg_core", "sqlglot", "duckdb", "pandas", "polars"})
        words = [sys.executable, "-c", program, "--set", f"catalog.uri={server.uri}", *command]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0 or "pip install 'frazil[sinks]'" in done.stderr
