"""Tests of models as YAML files: what is read, and what is refused."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from frazil.errors import ProjectError
from frazil.testing import Case, read_cases


def write(folder: Path, text: str) -> Path:
    (folder / "tests").mkdir()
    (folder / "tests" / "revenue.yml").write_text(text)
    return folder


def test_a_file_holds_one_test_or_several(tmp_path: Path) -> None:
    text = "- {model: a.b, given: {c.d: [{day: 2024-01-15, no: no}]}, expect: []}\n"
    text += "- {name: nothing, model: a.b, given: {c.d: null}, expect: null}\n"
    path = Path("tests/revenue.yml")
    assert read_cases(write(tmp_path, text)) == [
        Case("revenue 1", "a.b", {"c.d": ({"day": date(2024, 1, 15), "no": "no"},)}, (), path),
        Case("nothing", "a.b", {"c.d": ()}, (), path),
    ]


def test_a_project_without_the_folder_has_no_tests(tmp_path: Path) -> None:
    assert read_cases(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("model: [", "is no YAML"),
        ("just text", "a test is str, expected a mapping"),
        ("{model: a.b, given: {}, expected: []}", "unknown key 'expected'"),
        ("{model: a.b, given: {}}", "'expect' is missing"),
        ("{model: a.b, given: [], expect: []}", "given is no mapping"),
        ("{model: a.b, given: {c.d: {id: 1}}, expect: []}", "given c.d is no list of rows"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ProjectError) as error:
        read_cases(write(tmp_path, text))
    assert error.value.path == "tests/revenue.yml"
    assert problem in error.value.message
