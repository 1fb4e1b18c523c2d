"""The examples of docs/ run and print what is shown; the projects in them load."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from frazil.project import load_project

ROOT = Path(__file__).resolve().parents[2]
PAGES = {page.name: page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("*.md"))}
EXAMPLE = re.compile(r"<!-- example: (\w+) -->\n```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)
EXAMPLES = [(name, *match.groups()) for name, text in PAGES.items() for match in EXAMPLE.finditer(text)]
SCRIPTS = [pytest.param(code, output, id=name) for name, kind, code, output in EXAMPLES if kind == "script"]
PROJECTS = [pytest.param(code, id=name) for name, kind, code, _ in EXAMPLES if kind == "project"]


def test_every_marked_example_is_run() -> None:
    assert sum(text.count("<!-- example:") for text in PAGES.values()) == len(SCRIPTS) + len(PROJECTS)


@pytest.mark.long
@pytest.mark.parametrize(("code", "output"), SCRIPTS)
def test_a_script_prints_what_is_shown_however_often_it_runs(tmp_path: Path, code: str, output: str) -> None:
    (tmp_path / "script.py").write_text(code)
    keeps_tables = "running_catalog()" not in code
    for _ in range(2 if keeps_tables else 1):
        command = [sys.executable, "-W", "error", "script.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        printed = [line.rstrip() for line in done.stdout.splitlines() if line.strip()]
        assert printed == [line.rstrip() for line in output.splitlines() if line.strip()]


@pytest.mark.parametrize("code", PROJECTS)
def test_a_project_declares_tables_and_pipelines(tmp_path: Path, code: str) -> None:
    (tmp_path / "lakehouse.py").write_text(code)
    project = load_project(tmp_path)
    assert (len(project.tables), len(project.pipelines)) == (1, 1)


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_are_python(page: str) -> None:
    for block in re.findall(r"^```python\n(.*?)^```$", PAGES[page], re.DOTALL | re.MULTILINE):
        ast.parse(block)
