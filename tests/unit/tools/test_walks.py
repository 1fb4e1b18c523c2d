"""The walks in docs/architecture.md: every function is where they say, and none passes more than ten modules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MOST_MODULES = 10
ROW = re.compile(r"^\| `([\w/]+\.py)` \| ([^|]+) \| [^|]+ \|$", re.MULTILINE)


def walks() -> dict[str, list[tuple[str, str]]]:
    """The rows of each walk: a file, and the functions named in it."""
    section = (ROOT / "docs/architecture.md").read_text("utf-8").partition("\n## Walks\n")[2].partition("\n## ")[0]
    parts = re.split(r"^### (.+)$", section, flags=re.MULTILINE)[1:]
    return {title: ROW.findall(text) for title, text in zip(parts[::2], parts[1::2], strict=True)}


def defined_in(file: Path) -> Iterator[str]:
    """The functions and classes of a module, and the methods of its classes."""
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        if isinstance(node, ast.ClassDef):
            yield from (f"{node.name}.{column.name}" for column in node.body if isinstance(column, ast.FunctionDef))


@pytest.mark.parametrize(("title", "rows"), walks().items(), ids=str)
def test_a_walk_is_short_and_names_functions_that_exist(title: str, rows: list[tuple[str, str]]) -> None:
    assert 2 <= len({file for file, _ in rows}) <= MOST_MODULES
    named = {(file, name) for file, names in rows for name in re.findall(r"`([\w.]+)`", names)}
    there = {(file, name) for file in {file for file, _ in rows} for name in defined_in(ROOT / "src/frazil" / file)}
    assert named - there == set()


def test_the_walks_that_matter_are_written_down() -> None:
    assert set(walks()) >= {
        "A landing row through `frazil run`",
        "A plan and an apply",
        "An append over REST",
        "A row through the Python sink",
        "A scan",
    }
