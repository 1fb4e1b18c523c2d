"""Rows of tables are read with our own scan: PyIceberg's knows neither equality deletes nor deletion vectors."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tools.layout import modules

CALLS = {"plan_files", "to_arrow_batch_reader"}  # methods of PyIceberg's scan that ours does not have
ARGUMENTS = {"row_filter", "selected_fields"}
NAMES = {"ArrowScan", "DataScan"}


def uses(tree: ast.AST) -> Iterator[str]:
    """What a module takes of PyIceberg's scan."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names if alias.name in NAMES)
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in CALLS:
                yield node.func.attr
            yield from (keyword.arg for keyword in node.keywords if keyword.arg in ARGUMENTS)


def test_no_module_reads_rows_with_pyiceberg() -> None:
    trees = {module: ast.parse(file.read_text("utf-8")) for module, file in modules().items()}
    assert {module: result for module, tree in trees.items() if (result := list(uses(tree)))} == {}


@pytest.mark.parametrize("source", ["table.scan().plan_files()", "table.scan(row_filter='a = 1').to_arrow()"])
def test_a_use_is_found(source: str) -> None:
    assert list(uses(ast.parse(source)))
