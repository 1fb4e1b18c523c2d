"""lakehouse.py: what it declares, and the errors of a wrong one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from frazil.errors import ProjectError
from frazil.project import load_project
from tests.kit.raising import raises

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/sales"


def test_the_sales_example_declares_two_loads_and_three_models() -> None:
    project = load_project(EXAMPLE)
    assert ([t.name for t in project.tables], [p.name for p in project.pipelines]) == (
        ["lakehouse.sales", "lakehouse.customers"],
        ["daily_sales", "daily_customers"],
    )
    assert {model.name: (model.mode, model.group) for model in project.models} == {
        "silver.customers": ("upsert", "sales"),
        "silver.orders": ("replace-partition", "sales"),
        "gold.revenue": ("replace-partition", "sales"),
    }


def test_an_unknown_pipeline_names_the_known_ones() -> None:
    with raises(ProjectError, pipeline="daily"):
        load_project(EXAMPLE).pipeline("daily")


def test_a_folder_without_a_project_says_so(tmp_path: Path) -> None:
    with raises(ProjectError, path=str(tmp_path)):
        load_project(tmp_path)


def test_a_project_that_does_not_load_says_why(tmp_path: Path) -> None:
    (tmp_path / "lakehouse.py").write_text("import nothing_of_that_name\n")
    with raises(ProjectError, path=str(tmp_path / "lakehouse.py"), line=1, reason=re.compile("nothing_of_that_name")):
        load_project(tmp_path)


@pytest.mark.parametrize("line", ["1 / 0", "raise SystemExit(0)"])
def test_a_project_that_fails_while_it_loads_names_the_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "lakehouse.py").write_text(f"x = 1\n{line}\n")
    with raises(ProjectError, path=str(tmp_path / "lakehouse.py"), line=2):
        load_project(tmp_path)


def test_a_table_may_have_two_variables_but_not_two_declarations(tmp_path: Path) -> None:
    code = 'from frazil import Table, column\na = Table("l.t", column("x", "int"))\nb = a\n'
    (tmp_path / "lakehouse.py").write_text(code)
    assert len(load_project(tmp_path).tables) == 1
    (tmp_path / "lakehouse.py").write_text(code + 'c = Table("l.t", column("y", "int"))\n')
    with raises(ProjectError, table="l.t"):
        load_project(tmp_path)


MODELS = """
from frazil import Table, column, model, pipeline, sources
orders = Table("silver.orders", column("id", "long"))
same = revenue = model("gold.revenue", "SELECT id FROM silver.orders")

@pipeline(source=sources.csv("*.csv"), target=orders)
def load(rows):
    return rows
"""


def write(folder: Path, code: str, **files: str) -> Path:
    (folder / "lakehouse.py").write_text(code)
    for name, text in files.items():
        (folder / "models" / "gold").mkdir(parents=True, exist_ok=True)
        (folder / "models" / "gold" / f"{name}.sql").write_text(text)
    return folder


def test_models_come_from_lakehouse_and_from_files(tmp_path: Path) -> None:
    project = load_project(write(tmp_path, MODELS, daily="SELECT id FROM gold.revenue"))
    assert [model.name for model in project.models] == ["gold.revenue", "gold.daily"]
    assert project.model("gold.daily").inputs == ("gold.revenue",)
    with raises(ProjectError, name="gold.weekly"):
        project.model("gold.weekly")


@pytest.mark.parametrize(
    ("code", "facts"),
    [
        ('other = model("gold.revenue", "SELECT 1 AS id")', {"name": "gold.revenue"}),
        ('other = model("silver.orders", "SELECT 1 AS id")', {"table": "silver.orders"}),
        (
            'from dataclasses import replace\nother = replace(load, name="x", target=Table("gold.revenue", '
            'column("id", "long")))',
            {"table": "gold.revenue"},
        ),
        ("from dataclasses import replace\nother = replace(load, key=('id',))", {"name": "load"}),
    ],
)
def test_a_name_is_declared_once(tmp_path: Path, code: str, facts: dict[str, str]) -> None:
    with raises(ProjectError, **facts):
        load_project(write(tmp_path, MODELS + code))


def test_a_file_and_a_variable_may_not_declare_the_same_model(tmp_path: Path) -> None:
    with raises(ProjectError, name="gold.revenue"):
        load_project(write(tmp_path, MODELS, revenue="SELECT 1 AS id"))
