"""`frazil test` on a real Spark: tests in YAML and in Python, in one session."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROJECT = """
from frazil import Table, column, model, pipeline, sources

columns = column("order_id", "string"), column("amount", "decimal(12,2)")
sales = Table("bronze.sales", *columns, column("country", "string"), checks=["amount < 1000"])
big = Table("silver.big", *columns)
log = Table("silver.log", column("order_id", "string"), column("kind", "string"))
orders = model("silver.orders", "SELECT order_id, upper(country) AS country, amount FROM bronze.sales WHERE amount > 0")
revenue = model(
    "gold.revenue", "SELECT country, sum(amount) AS revenue FROM silver.orders GROUP BY country",
    checks="revenue < 1000",
)

@pipeline(source=sources.csv("landing/*.csv"), target=sales)
def load_sales(rows):
    return rows

@pipeline(source={"orders": sources.table("silver.orders"), "names": sources.table("ext.names", full=True)}, target=big)
def big_orders(orders, names):
    return orders.join(names, "country").where("amount >= 100").select("order_id", "amount")

@pipeline(source=sources.table("bronze.sales", changes=True), target=log)
def log_changes(rows):
    return rows.selectExpr("order_id", "_change_type AS kind")
"""
MODELS = """
- name: sums by country
  model: gold.revenue
  given: {silver.orders: [{country: CH, amount: 10}, {country: CH, amount: 2.50}, {country: DE, amount: 1}]}
  expect: [{country: DE, revenue: 1}, {country: CH, revenue: 12.50}]
- {name: no rows, model: silver.orders, given: {bronze.sales: []}, expect: []}
- name: another sum
  model: gold.revenue
  given: {silver.orders: [{country: CH, amount: 10}]}
  expect: [{country: CH, revenue: 11}]
- {name: other column, model: gold.revenue, given: {silver.orders: [{city: Bern}]}, expect: []}
- {name: broken check, model: gold.revenue, given: {silver.orders: [{country: CH, amount: 1000}]}, expect: []}
- {name: no input, model: gold.revenue, given: {}, expect: []}
- {name: no model, model: gold.profit, given: {}, expect: []}
"""
PIPELINES = """
- name: texts become numbers
  model: load_sales
  given: {source: [{order_id: 1, amount: "5.00"}]}
  expect: [{order_id: 1, amount: 5}]
- name: rows for the quarantine
  model: load_sales
  given: {source: [{order_id: 1, amount: many}, {order_id: 2, amount: "1000"}, {order_id: 3, amount: "7"}]}
  expect: [{order_id: 3, amount: 7}]
  quarantined: 2
- name: an unexpected row for the quarantine
  model: load_sales
  given: {source: [{order_id: 1, amount: many}]}
  expect: []
- name: two inputs, one of them declared nowhere
  model: big_orders
  given:
    orders: [{order_id: a, amount: 100, country: CH}, {order_id: b, amount: 99, country: CH}]
    ext.names: [{country: CH, name: Switzerland}]
  expect: [{order_id: a, amount: 100}]
- name: rows that came and rows that went
  model: log_changes
  given: {bronze.sales: [{order_id: a}, {order_id: b, _change_type: DELETE}]}
  expect: [{order_id: a, kind: INSERT}, {order_id: b, kind: DELETE}]
"""
PYTHON = """
def test_revenue(frazil_model):
    rows = frazil_model("gold.revenue", {"silver.orders": [{"country": "CH", "amount": 3}]})
    assert rows.column("country").to_pylist() == ["CH"]
"""


def frazil_test(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "frazil", "--set", "spark.master=local[2]", "test", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "tests").mkdir()
    files = {"lakehouse.py": PROJECT, "tests/models.yml": MODELS, "tests/loads.yml": PIPELINES}
    for name, text in {**files, "tests/test_more.py": PYTHON}.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def result(project: Path) -> dict[str, Any]:
    """All tests of the project, run once: Spark takes longer to start."""
    done = frazil_test(project, "--output", "json")
    assert done.returncode == 1, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def test_each_test_ends_as_it_should(result: dict[str, Any]) -> None:
    assert {test["name"]: test["status"] for test in result["tests"]} == {
        "texts become numbers": "passed",
        "rows for the quarantine": "passed",
        "an unexpected row for the quarantine": "failed",
        "two inputs, one of them declared nowhere": "passed",
        "rows that came and rows that went": "passed",
        "sums by country": "passed",
        "no rows": "passed",
        "another sum": "failed",
        "other column": "error",
        "broken check": "error",
        "no input": "error",
        "no model": "error",
        "test_revenue": "passed",
    }
    assert (result["passed"], result["failed"], result["error"]) == (7, 2, 4)


def test_a_failed_test_shows_expected_and_actual_rows(result: dict[str, Any]) -> None:
    failed = next(test for test in result["tests"] if test["name"] == "another sum")
    expected, actual = ({"country": "CH", "revenue": amount} for amount in ("11.00", "10.00"))
    assert failed["differing"] == [{"expected": expected, "actual": actual}]
    assert failed["missing"] == failed["unexpected"] == []


def test_a_row_that_would_be_quarantined_is_shown_with_its_reason(result: dict[str, Any]) -> None:
    failed = next(test for test in result["tests"] if test["name"].startswith("an unexpected row"))
    reason = "field 'amount': expected decimal(12, 2), got 'many'"
    assert failed["message"].startswith(f"quarantined: 1 row, expected 0; {reason}")


def test_errors_name_what_is_wrong(result: dict[str, Any]) -> None:
    messages = {test["name"]: test["message"] for test in result["tests"] if test["status"] == "error"}
    assert "there is no column 'city'; there are order_id, country, amount" in messages["other column"]
    assert "check 'revenue < 1000' failed; a run would publish nothing" in messages["broken check"]
    assert "'gold.revenue' reads 'silver.orders', and no rows are given for it" in messages["no input"]
    assert "there is no model or pipeline 'gold.profit'" in messages["no model"]


def test_nothing_to_test_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "lakehouse.py").write_text("")
    done = frazil_test(tmp_path)
    assert done.returncode == 1
    assert "there are no tests in" in done.stderr
