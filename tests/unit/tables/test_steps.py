"""Plans are values: they go through a file unchanged, and know when they are stale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given

from frazil import Table, column
from frazil.errors import ProjectError
from frazil.tables.diff import diff, diff_table
from frazil.tables.planfile import load_plan, save_plan
from frazil.tables.steps import from_json, summary, to_json
from tests.kit.raising import raises
from tests.kit.table_shapes import calmly, tables
from tests.unit.tables.conftest import create

OLD = Table("l.t", column("a", "int"), properties={"p": "1"})
NEW = Table(
    "l.t", column("a", "long"), column("b", "struct<x: int>"), sort_by=["a"], partition_by=["a"], properties={"q": "2"}
)


@calmly
@given(tables())
def test_the_step_that_creates_a_table_is_read_back_as_it_was_written(declared: Table) -> None:
    for step in diff(declared, namespace_exists=False, live=None):
        assert from_json(json.loads(json.dumps(to_json(step)))) == step


def test_a_plan_is_read_back_as_it_was_saved(tmp_path: Path) -> None:
    step = diff_table(NEW, create(OLD))
    assert step is not None
    save_plan([step], tmp_path / "plan.json")
    assert load_plan(tmp_path / "plan.json") == [step]


def test_a_step_for_programs_says_what_is_done_to_what() -> None:
    step = diff_table(NEW, create(OLD))
    assert step is not None
    assert summary(step) == {
        "step": "alter-table",
        "name": "l.t",
        "changes": [
            {"sign": "~", "about": "column", "text": "column a: int -> long"},
            {"sign": "+", "about": "column", "text": "column b struct<x: int>"},
            {"sign": "+", "about": "partition", "text": "partition a"},
            {"sign": "~", "about": "sort", "text": "sort order: a (was: unsorted)"},
            {"sign": "+", "about": "property", "text": "property q = 2"},
            {"sign": "-", "about": "property", "text": "property p (was 1)"},
        ],
    }


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        ("not json", {"problem": "malformed"}),
        ('{"steps": []}', {"problem": "malformed"}),
        ('{"frazil-plan": 1, "steps": [{"step": "drop-everything"}]}', {"problem": "malformed"}),
        ('{"frazil-plan": 9, "steps": []}', {"expected": 1, "got": 9}),
    ],
)
def test_a_file_that_is_no_plan_is_named(tmp_path: Path, content: str, facts: dict[str, object]) -> None:
    (tmp_path / "plan.json").write_text(content)
    with raises(ProjectError, path=str(tmp_path / "plan.json"), **facts):
        load_plan(tmp_path / "plan.json")
