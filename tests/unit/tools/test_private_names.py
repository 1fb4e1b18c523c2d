"""Private names of PyIceberg: used in `frazil.pyiceberg_compat` only, each with its reason."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools import private_names


def test_other_modules_touch_no_private_name_of_pyiceberg() -> None:
    assert private_names.uses() == []


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("from pyiceberg.manifest import _inherit_from_manifest", "_inherit_from_manifest"),
        ("def ids(schema):\n    return schema._name_to_id", "schema._name_to_id"),
        ("class Own(Transaction):\n    def changes(self):\n        return self._updates", "self._updates"),
        ("class Own(OpenTransaction):\n    def _stage(self):\n        pass", "Own._stage"),
        ("def open(writer):\n    writer._writer = None\n\n\ndef _writer(): ...", "writer._writer"),
    ],
)
def test_a_use_is_found(source: str, name: str) -> None:
    assert name in [item for _, item in private_names.uses_in(ast.parse(source))]


def test_every_definition_gives_its_reason() -> None:
    unexplained = []
    for file in sorted(Path(private_names.modules()[private_names.HOME]).parent.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name in private_names.library_names():
                unexplained += [] if node.name in (ast.get_docstring(node) or "") else [f"{file.name}: {node.name}"]
    assert unexplained == []
