"""The examples of docs/ run and print what is shown; the projects in them load.

`<!-- example: KIND -->` before a block says how: a `script` alone, a `test` with pytest, a `project` as lakehouse.py;
`declares` in a module that has Frazil's names and some tables, a `fragment` next to a table with rows.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

import frazil
import frazil.metrics
import frazil.sinks
from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.client import FrazilCatalog
from frazil.metrics import NoMetrics
from frazil.project import load_project

ROOT = Path(__file__).resolve().parents[2]
PAGES = {page.name: page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").rglob("*.md"))}
EXAMPLE = re.compile(r"<!-- example: (\w+) -->\n```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)
EXAMPLES = [(name, *match.groups()) for name, text in PAGES.items() for match in EXAMPLE.finditer(text)]
SCRIPTS = [pytest.param(code, output, id=name) for name, kind, code, output in EXAMPLES if kind == "script"]
KINDS = ("script", "test", "project", "declares", "fragment")
NAMES = ("Table", "Upkeep", "column", "list_of", "map_of", "pipeline", "sources", "struct", "vector_index")
FIELDS = {"order_id": "long", "country": "string", "amount": "long"}
COLUMNS = ("id", "order_id", "customer_id", "amount", "day", "updated_at", "changed_ms", "name")


def codes(kind: str) -> list[Any]:
    return [pytest.param(code, id=name) for name, of_kind, code, _ in EXAMPLES if of_kind == kind]


def test_every_marked_example_is_run() -> None:
    assert sum(text.count("<!-- example:") for text in PAGES.values()) == len(EXAMPLES)
    assert {kind for _, kind, _, _ in EXAMPLES} == set(KINDS)


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


@pytest.mark.parametrize("code", codes("project"))
def test_a_project_declares_tables_and_pipelines(tmp_path: Path, code: str) -> None:
    (tmp_path / "lakehouse.py").write_text(code)
    project = load_project(tmp_path)
    assert (len(project.tables), len(project.pipelines)) == (1, 1)


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_are_python(page: str) -> None:
    for block in re.findall(r"^```python\n(.*?)^```$", PAGES[page], re.DOTALL | re.MULTILINE):
        ast.parse(block)


@pytest.mark.long
@pytest.mark.parametrize("code", codes("test"))
def test_a_test_passes(tmp_path: Path, code: str) -> None:
    (tmp_path / "test_example.py").write_text(code)
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("code", codes("declares"))
def test_a_declaration_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    (tmp_path / "sales.sql").write_text(
        "CREATE TABLE lake.lakehouse.sales (order_id varchar NOT NULL, amount decimal(12,2))"
    )
    monkeypatch.chdir(tmp_path)
    columns = [frazil.column(name, "long", required=True) for name in COLUMNS]
    tables = {
        name: frazil.Table(f"lakehouse.{name}", *columns)
        for name in ("copies", "customers", "enriched", "orders", "sales")
    }
    names = {name: getattr(frazil, name) for name in NAMES}
    # on the page, `...` stands for other columns
    exec(re.sub(r"\.\.\.(?=,)", 'column("other", "long")', code), {"frazil": frazil, "Path": Path, **names, **tables})


@pytest.fixture
def lake_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A table with a past, and what fragments call it."""
    with running_catalog(tmp_path) as catalog, frazil.connect(catalog.uri) as lake:
        monkeypatch.setenv("FRAZIL_CATALOG__URI", catalog.uri)
        monkeypatch.setenv("LAKE_TOKEN", "frz_unused")
        monkeypatch.chdir(tmp_path)
        yield names_of(lake, catalog)
        frazil.metrics.use(NoMetrics())


def names_of(lake: frazil.Lake, catalog: EmbeddedCatalog) -> dict[str, Any]:
    columns = [frazil.column(name, kind) for name, kind in FIELDS.items()]
    for name in ("lakehouse.sales", "sales.orders"):
        lake.apply(frazil.Table(name, *columns))
    sales = lake.table("lakehouse.sales")
    sales.append([{"order_id": 1, "country": "NO", "amount": 10}])
    sales.create_tag("closing-2023")
    sales.append([{"order_id": 2, "country": "SE", "amount": 20}])
    batch = sales.scan().to_arrow()
    return {
        "batch": batch,
        "already_in": lambda table, rows: table.scan().count() == rows.num_rows,
        "catalog": FrazilCatalog("lake", **catalog.properties),
        "frazil": frazil,
        "load_catalog": load_catalog,
        "os": os,
        "rows": [{"order_id": "one"}],
        "sales": sales,
        "sink": frazil.sinks.open("lakehouse.sales", name="docs", catalog=lake.catalog),
    }


@pytest.mark.parametrize("code", codes("fragment"))
def test_a_fragment_runs(lake_names: dict[str, Any], code: str) -> None:
    exec(code.replace("http://127.0.0.1:8181", os.environ["FRAZIL_CATALOG__URI"]), lake_names)
