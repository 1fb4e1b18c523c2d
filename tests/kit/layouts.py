"""A table's layout without a catalog, and a disk that is full or read-only."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder

from frazil.write.files.layout import TableLayout
from frazil.write.files.partitioning import partition_spec

LayoutOf = Callable[..., TableLayout]


@pytest.fixture
def layout_of(tmp_path: Path) -> LayoutOf:
    """The layout of a table in this test's folder: `layout_of(schema, "day(ts)", order=..., **{"write.x": "1"})`."""

    def build(
        schema: Schema, *fields: str | int, order: SortOrder = UNSORTED_SORT_ORDER, **properties: str
    ) -> TableLayout:
        return TableLayout("lake.t", schema, partition_spec(schema, fields), order, str(tmp_path / "t"), properties, {})

    return build


@pytest.fixture
def on_small_disk(tmp_path: Path) -> Callable[..., str]:
    """Runs a program on a disk of its own, mounted at `DISK`: `on_small_disk("...", size="1m")`; gives what
    it printed.
    """

    def run(program: str, *, size: str = "1m", mode: str = "rw") -> str:
        folder = tmp_path / "disk"
        folder.mkdir()
        script = tmp_path / "program.py"
        script.write_text(f"DISK = {str(folder)!r}\n" + textwrap.dedent(program))
        mount = f"mount -t tmpfs -o size={size},{mode} tmpfs {folder} && exec {sys.executable} {script}"
        done = subprocess.run(
            ["unshare", "--mount", "--map-root-user", "sh", "-c", mount], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
