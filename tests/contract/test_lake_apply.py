"""`Lake.plan` and `Lake.apply`: declared tables made live from Python, as `frazil apply` does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from frazil import Lake, Table, column, pipeline, sources
from frazil.client import FrazilCatalog
from frazil.errors import OtherProject, ProjectError
from tests.contract.history_lake import Past
from tests.kit.raising import raises

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@pytest.fixture
def lake(catalog: FrazilCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    project = tmp_path / "shop"
    project.mkdir()
    monkeypatch.chdir(project)
    return Lake(catalog=catalog)


def declared(past: Past, *more: str, dropped: tuple[str, ...] = ()) -> Table:
    columns = [column("id", "long", required=True), *(column(name, "string") for name in more)]
    return Table(f"{past.name}_d", *columns, dropped=dropped)


def test_apply_creates_what_plan_shows_and_then_nothing(lake: Lake, past: Past) -> None:
    table = declared(past)
    planned = lake.plan(table)
    assert repr(planned) == f"+ table {table.name} (1 column)"
    assert lake.apply([table]) == planned
    assert (lake.apply(table), repr(lake.apply(table))) == ([], "no changes")
    assert lake.table(table.name).load().properties["frazil.project"] == "shop"


def test_a_column_is_dropped_only_when_that_is_allowed(lake: Lake, past: Past) -> None:
    lake.apply(declared(past, "note"))
    with raises(ProjectError, table=f"{past.name}_d", problem="removes"):
        lake.apply(declared(past, dropped=("note",)))
    assert len(lake.table(f"{past.name}_d").schema.fields) == 2
    lake.apply(declared(past, dropped=("note",)), allow_drops=True)
    assert len(lake.table(f"{past.name}_d").schema.fields) == 1


def test_tables_of_another_project_are_refused_unless_adopted(
    lake: Lake, past: Past, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.apply(declared(past))
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    other = Lake(catalog=lake.catalog)
    with pytest.raises(OtherProject):
        other.apply(declared(past, "note"))
    assert len(other.apply(declared(past, "note"), adopt=True)) == 1


def test_apply_and_run_of_a_folder_are_of_one_project_wherever_they_are_called(
    lake: Lake, past: Past, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    lake.apply(declared(past), folder=home)
    with pytest.raises(OtherProject):
        lake.apply(declared(past, "note"))
    assert len(lake.apply(declared(past, "note"), folder=home)) == 1


def test_run_without_new_files_starts_no_spark_and_changes_nothing(lake: Lake, past: Past) -> None:
    table = declared(past)
    lake.apply(table)

    @pipeline(source=sources.csv("landing/*.csv"), target=table)
    def load(landed: DataFrame) -> DataFrame:
        return landed

    result = lake.run(load)
    assert (result.pipeline, result.table, lake.table(table.name).history()) == ("load", table.name, [])
    with raises(ProjectError, path=str(Path.cwd())):
        lake.run("load")
