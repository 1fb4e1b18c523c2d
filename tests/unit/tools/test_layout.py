"""The import graph: packages import upwards only, through public interfaces, and never in a circle."""

from __future__ import annotations

import ast
import importlib

import pytest

from tools import layout
from tools.layout import Import


def show(imports: list[Import]) -> list[str]:
    return sorted(f"{item.importer}:{item.line} imports {item.imported} ({', '.join(item.names)})" for item in imports)


def test_the_layout_names_every_package_and_no_other() -> None:
    there = {name.split(".")[1] for name in layout.modules() if name.count(".") >= 1} - {"__main__"}
    assert there == set(layout.NAMES)


def test_the_layout_names_every_part_and_no_other() -> None:
    for package, parts in layout.PARTS.items():
        there = {
            name.split(".")[2]
            for name, file in layout.modules().items()
            if name.startswith(f"frazil.{package}.") and name.count(".") == 2 and file.name == "__init__.py"
        }
        assert there == set(parts), package


def test_no_import_points_down() -> None:
    assert show([module for module in layout.imports() if layout.points_down(module)]) == []


def test_no_import_passes_by_a_public_interface() -> None:
    assert show([module for module in layout.imports() if layout.passes_by(module)]) == []


def test_no_modules_import_each_other() -> None:
    assert layout.cycles() == []


def test_only_the_commands_that_run_or_repair_the_server_import_it() -> None:
    commands = ("access", "catalog", "operator", "serve", "table", "upkeep", "warehouse")
    allowed = ("frazil.catalog", "frazil.console", *(f"frazil.cli.{command}" for command in commands))
    imports = [
        module
        for module in layout.imports()
        if module.imported.startswith("frazil.catalog") and not module.importer.startswith(allowed)
    ]
    assert show(imports) == []


@pytest.mark.parametrize("package", [name for name, file in layout.modules().items() if file.name == "__init__.py"])
def test_every_public_name_can_be_imported(package: str) -> None:
    module = importlib.import_module(package)
    for name in getattr(module, "__all__", ()):
        assert getattr(module, name) is not None


LONGEST_FUNCTION = 60  # lines, with its docstring


def too_long(source: str) -> list[str]:
    """The functions with more lines than that."""
    functions = (
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    lengths = ((node.name, (node.end_lineno or 0) - node.lineno + 1) for node in functions)
    return [f"{name}: {length} lines" for name, length in lengths if length > LONGEST_FUNCTION]


def test_no_function_is_too_long_to_read_at_once() -> None:
    functions = {name: too_long(file.read_text("utf-8")) for name, file in layout.modules().items()}
    assert {name: longer for name, longer in functions.items() if longer} == {}
    body = "    pass\n" * LONGEST_FUNCTION
    assert too_long(f"def short():\n    pass\n\n\nasync def long():\n{body}") == ["long: 61 lines"]


def test_the_checks_can_fail() -> None:
    down = Import("frazil.scan.planning.plan", "frazil.sinks", ("open",), 1)
    part = Import("frazil.scan.planning.plan", "frazil.scan.engines", ("x",), 1)
    inside = Import("frazil.sinks.sink", "frazil.write.files.buffer", ("Buffer",), 1)
    assert (layout.points_down(down), layout.points_down(part), layout.passes_by(inside)) == (True, True, True)
    fine = Import("frazil.sinks.sink", "frazil.write.files", ("Buffer",), 1)
    assert (layout.points_down(fine), layout.passes_by(fine)) == (False, False)
    assert layout._connected({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"], ["d"]]
