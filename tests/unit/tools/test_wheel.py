"""The wheel holds what the installed program reads at run time, and nothing that a run of the example left behind."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_wheel_holds_the_examples_the_migrations_and_no_leftovers(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], cwd=ROOT, check=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    source = [path for path in (ROOT / "src/frazil").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert {str(path.relative_to(ROOT / "src")) for path in source} - set(names) == set()
    assert {"frazil/py.typed", "frazil/catalog/store/migrations/0001_initial.sql"} <= set(names)
    examples = subprocess.run(["git", "ls-files", "examples"], cwd=ROOT, check=True, capture_output=True, text=True)
    assert sorted(name for name in names if name.startswith("frazil/examples/")) == [
        f"frazil/{name}" for name in sorted(examples.stdout.split())
    ]
