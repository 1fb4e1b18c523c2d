"""`frazil graph` in a project with pipelines and models."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from frazil.cli.main import cli

PAGE = Path(__file__).resolve().parents[3] / "docs/cli-json.md"
PROJECT = """
from frazil import Table, column, model, pipeline, sources

orders = Table("silver.orders", column("id", "long"), column("day", "date"))

@pipeline(source=sources.csv("landing/*.csv"), target=orders)
def load_orders(rows):
    return rows

unused = model("gold.unused", "SELECT 1 AS one")
"""
REVENUE = "-- tags: daily\n-- group: gold\nSELECT o.day, rate FROM silver.orders o JOIN bronze.rates r ON r.day = o.day"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "lakehouse.py").write_text(PROJECT)
    (tmp_path / "models" / "gold").mkdir(parents=True)
    (tmp_path / "models/gold/revenue.sql").write_text(REVENUE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_graph_is_printed_as_a_tree(project: Path) -> None:
    result = CliRunner().invoke(cli, ["graph", "--exclude", "gold.unused"], catch_exceptions=False)
    assert result.output.splitlines() == [
        "load_orders -> silver.orders  files landing/*.csv, append",
        "└─ gold.revenue  model, rebuild, reads silver.orders, bronze.rates  tag:daily group:gold",
    ]


def test_json_is_what_the_page_shows(project: Path) -> None:
    result = CliRunner().invoke(cli, ["graph", "tag:daily", "--columns", "--output", "json"], catch_exceptions=False)
    example = re.search(r"### `frazil graph`.*?```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    assert json.loads(result.stdout) == json.loads(example[1])


@pytest.mark.parametrize(
    ("words", "begin"),
    [
        (["--output", "mermaid"], "graph LR"),
        (["--output", "dot"], "digraph frazil {"),
        (["tag:daily,gold.unused"], "nothing is selected"),
    ],
)
def test_other_outputs(project: Path, words: list[str], begin: str) -> None:
    result = CliRunner().invoke(cli, ["graph", *words], catch_exceptions=False)
    assert (result.exit_code, result.output.splitlines()[0]) == (0, begin)


def test_selectors_are_completed_without_running_the_project(project: Path) -> None:
    (project / "lakehouse.py").write_text("raise SystemExit\n" + PROJECT)
    (project / "models/other.sql").write_text("-- doc: x\n-- name: gold.named\nSELECT 1 AS one")

    def complete(text: str) -> list[str]:
        items = ShellComplete(cli, {}, "frazil", "_FRAZIL_COMPLETE").get_completions(["graph"], text)
        return [item.value for item in items]

    assert complete("") == ["gold.named", "gold.revenue", "gold.unused", "load_orders"]
    assert complete("gold.r") == ["gold.revenue"]
    assert complete("2+gold.u") == ["2+gold.unused"]
    assert complete("tag:daily,+l") == ["tag:daily,+load_orders"]
