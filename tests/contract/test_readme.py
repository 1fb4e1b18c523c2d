"""README.md is true: its code runs and prints what is shown, its commands and links exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from frazil import Lake
from frazil.catalog.embedded import EmbeddedCatalog
from frazil.cli.main import COMMANDS
from frazil.client import FrazilCatalog
from frazil.project import load_project

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"<!-- example: (\w+) -->\n```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)
EXAMPLES = [match.groups() for match in EXAMPLE.finditer(README)]


def examples(kind: str) -> list[tuple[str, str]]:
    return [(code, output or "") for item, code, output in EXAMPLES if item == kind]


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", *command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_python_block_is_an_example_that_is_run() -> None:
    blocks = README.count("```python\n")
    assert blocks == len(EXAMPLES) + 1  # the project, which `make docs` takes from examples/sales
    assert {kind for kind, _, _ in EXAMPLES} == {"script", "test", "served"}


@pytest.mark.parametrize(("code", "output"), examples("script"))
def test_a_script_prints_what_is_shown(tmp_path: Path, code: str, output: str) -> None:
    (tmp_path / "script.py").write_text(code)
    for _ in range(2):  # the tables stay: the second run appends to them
        printed = run(tmp_path, "script.py")
        assert [line.split()[0] for line in printed.splitlines() if line.strip()] == [
            line.split()[0] for line in output.splitlines()
        ]
    (tmp_path / "fresh").mkdir()
    printed = run(tmp_path / "fresh", "../script.py")
    assert [line.rstrip() for line in printed.splitlines() if line.strip()] == output.rstrip().splitlines()


@pytest.mark.parametrize(("code", "output"), examples("test"))
def test_a_test_passes(tmp_path: Path, code: str, output: str) -> None:
    (tmp_path / "test_readme_example.py").write_text(code)
    assert "1 passed" in run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider")


@pytest.mark.parametrize(("code", "output"), examples("served"))
def test_an_example_on_the_served_catalog_runs(
    frazil_catalog: EmbeddedCatalog, tmp_path: Path, code: str, output: str
) -> None:
    client = FrazilCatalog("lake", **frazil_catalog.properties)
    Lake(catalog=client).apply(load_project(ROOT / "examples" / "sales").tables)
    client.close()
    assert "http://127.0.0.1:8181" in code
    *lines, last = code.rstrip().splitlines()
    program = "\n".join([*lines, f"print(({last}).schema.names)"]).replace("http://127.0.0.1:8181", frazil_catalog.uri)
    assert "order_id" in run(tmp_path, "-c", program)


def test_the_commands_exist() -> None:
    shell = "".join(re.findall(r"```(?:sh|text)\n(.*?)```", README, re.DOTALL))
    named = {*re.findall(r"^(?:\$ )?frazil (\w+)", shell, re.MULTILINE), *re.findall(r"`frazil (\w+)", README)}
    assert named <= set(COMMANDS)
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"\bmake (\w+)", shell)) <= set(targets)


def test_the_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)", README)
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


def test_the_extras_that_are_named_exist() -> None:
    extras = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2]
    for extra in re.findall(r'pip install "\.\[(\w+)\]"', README):
        assert re.search(rf"^{extra} = ", extras, re.MULTILINE)
