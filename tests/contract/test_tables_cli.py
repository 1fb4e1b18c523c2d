"""plan, apply, drift and import as a user types them: what they print, and how they end."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from frazil.catalog.embedded import running_catalog
from frazil.cli.main import cli
from frazil.client import FrazilCatalog
from frazil.errors import ChangeRefused, ConfigError, ProjectError, StalePlan, TableBroken

FIRST = """
from frazil import Table, column
sales = Table("shop.sales", column("id", "int", required=True), column("note", "string"), properties={"owner": "me"})
"""
SECOND = """
from frazil import Table, column
sales = Table("shop.sales", column("id", "long", required=True), column("country", "string"),
    partition_by=["country"], dropped=["note"])
stock = Table("shop.stock", column("id", "long"))
"""
GENTLE = FIRST.replace('column("note", "string")', 'column("note", "string"), column("more", "string")')
SAID = """~ table shop.sales
    ~ column id: int -> long
    + column country string
    - column note string
    + partition country
    - property owner (was me)
+ table shop.stock (1 column)
"""


@dataclass
class Project:
    """A folder with a `lakehouse.py`, and the command line in it."""

    folder: Path
    catalog: FrazilCatalog

    def declare(self, code: str) -> None:
        (self.folder / "lakehouse.py").write_text(code)

    def frazil(self, *arguments: str, uri: str | None = None) -> Result:
        command = ["--set", f"catalog.uri={uri or self.catalog.uri}", *arguments]
        return CliRunner().invoke(cli, command)

    def columns(self) -> list[str]:
        return list(self.catalog.load_table("shop.sales").schema().column_names)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_catalog(tmp_path_factory.mktemp("catalog")) as server:
        yield server.uri


@pytest.fixture
def project(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A project whose table is applied as it was first declared."""
    monkeypatch.chdir(tmp_path)
    executor = Project(tmp_path, FrazilCatalog("lake", uri=uri))
    executor.declare(FIRST)
    assert executor.frazil("apply").exit_code == 0
    yield executor
    for identifier in executor.catalog.list_tables("shop"):
        executor.catalog.purge_table(identifier)
    executor.catalog.close()


def test_a_plan_shows_what_changes_and_what_it_leaves_alone(project: Project) -> None:
    project.catalog.create_table("shop.theirs", project.catalog.load_table("shop.sales").schema())
    project.declare(SECOND)
    assert project.frazil("plan").output == SAID + "not declared, left alone: shop.theirs\n"
    assert (
        project.frazil("plan", "shop.stock").output
        == "+ table shop.stock (1 column)\nnot declared, left alone: shop.theirs\n"
    )


def test_the_exit_code_tells_whether_there_is_something_to_do(project: Project) -> None:
    assert [project.frazil(*args).exit_code for args in (["plan"], ["plan", "--detailed-exitcode"])] == [0, 0]
    project.declare(SECOND)
    assert [project.frazil(*args).exit_code for args in (["plan"], ["plan", "--detailed-exitcode"])] == [0, 2]
    project.declare("nonsense(")
    failed = project.frazil("plan", "--detailed-exitcode")
    assert isinstance(failed.exception, ProjectError)
    assert failed.exception.exit_code == 1


def test_an_error_of_settings_is_no_two_either(project: Project) -> None:
    failed = project.frazil("plan", "--detailed-exitcode", uri="nonsense")
    assert isinstance(failed.exception, ConfigError)
    assert failed.exception.exit_code == 1


def test_a_plan_for_programs_is_json(project: Project) -> None:
    project.declare(GENTLE)
    assert json.loads(project.frazil("plan", "--output", "json").output) == {
        "steps": [
            {
                "step": "alter-table",
                "name": "shop.sales",
                "changes": [{"sign": "+", "about": "column", "text": "column more string"}],
            }
        ],
        "undeclared": [],
        "models": [],
    }


def test_apply_does_it_once(project: Project) -> None:
    project.declare(SECOND)
    assert project.frazil("apply", "--yes").stdout == SAID
    assert project.columns() == ["id", "country"]
    assert project.frazil("apply").stdout == "no changes: all 2 declared tables are as declared\n"


def test_what_removes_something_is_not_done_unasked(project: Project) -> None:
    project.declare(SECOND)
    failed = project.frazil("apply")
    assert isinstance(failed.exception, ProjectError)
    assert failed.exception.message == "the plan removes something from shop.sales, and there is no terminal to ask at"
    project.declare(GENTLE)
    assert project.frazil("apply").stdout == "~ table shop.sales\n    + column more string\n"


@pytest.mark.parametrize(("answer", "columns"), [("n\n", ["id", "note"]), ("y\n", ["id", "country"])])
def test_at_a_terminal_one_is_shown_the_plan_and_asked(project: Project, answer: str, columns: list[str]) -> None:
    project.declare(SECOND)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "frazil", "--set", f"catalog.uri={project.catalog.uri}", "apply"]
    os.write(ours, answer.encode())
    done = subprocess.run(command, cwd=project.folder, stdin=theirs, capture_output=True, text=True, check=False)
    os.close(ours)
    os.close(theirs)
    assert done.stdout.startswith(SAID + "Apply this, with what it removes (-)? [y/N]: ")
    assert (done.returncode, project.columns()) == (0 if answer == "y\n" else 1, columns)


def test_a_saved_plan_is_applied_as_it_was_read_or_not_at_all(project: Project) -> None:
    project.declare(SECOND)
    assert project.frazil("plan", "--out", "plan.json").output == SAID + "saved: frazil apply plan.json\n"
    project.declare(FIRST)  # what is declared by now does not matter
    assert project.frazil("apply", "plan.json").stdout == SAID
    stale = project.frazil("apply", "plan.json")
    assert isinstance(stale.exception, StalePlan)


def test_what_is_refused_is_reported_with_its_reasons(project: Project) -> None:
    project.declare(FIRST.replace('"int"', '"string"').replace(', column("note", "string")', ""))
    refused = project.frazil("plan", "--detailed-exitcode")
    assert isinstance(refused.exception, ChangeRefused)
    assert (refused.exception.exit_code, len(refused.exception.reasons)) == (1, 2)


def test_drift_says_what_was_changed_by_hand(project: Project) -> None:
    assert project.frazil("drift", "--detailed-exitcode").output == "no drift: no declared table was changed by hand\n"
    with project.catalog.load_table("shop.sales").update_schema() as update:
        update.rename_column("note", "remark")
    result = project.frazil("drift", "--detailed-exitcode")
    assert (result.exit_code, result.output) == (2, "shop.sales\n    ~ column remark: renamed from note\n")
    lines = [{"sign": "~", "about": "column", "text": "column remark: renamed from note"}]
    assert json.loads(project.frazil("drift", "--output", "json").output) == {"tables": {"shop.sales": lines}}


def test_a_table_that_cannot_be_loaded_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with running_catalog(tmp_path / "catalog") as server:
        project = Project(tmp_path, FrazilCatalog("lake", uri=server.uri))
        project.declare(FIRST + FIRST.replace("sales", "damaged"))
        project.frazil("apply")
        with project.catalog.load_table("shop.sales").update_schema() as update:
            update.rename_column("note", "remark")
        damaged = project.catalog.load_table("shop.damaged").metadata_location
    Path(damaged.removeprefix("file://")).write_text("{")
    with running_catalog(tmp_path / "catalog") as server:  # one that has not read it yet
        drift = project.frazil("drift", uri=server.uri)
        project.declare(FIRST.replace('"int"', '"string"') + FIRST.replace("sales", "damaged"))
        plan = project.frazil("plan", uri=server.uri)
    assert drift.output == "shop.sales\n    ~ column remark: renamed from note\n"
    assert "damaged" in str(drift.exception)
    assert isinstance(plan.exception, ChangeRefused)
    assert {reason.partition(":")[0] for reason in plan.exception.reasons} == {"shop.sales", "shop.damaged"}


@pytest.mark.parametrize(
    "arguments",
    [("plan",), ("apply", "--yes"), ("drift",), ("query", "SELECT * FROM shop.sales"), ("log", "shop.sales")],
)
def test_a_table_whose_metadata_file_is_lost_is_broken_and_not_created_anew(
    project: Project, arguments: tuple[str, ...]
) -> None:
    location = project.catalog.load_table("shop.sales").metadata_location
    file = Path(location.removeprefix("file://"))
    kept = file.rename(file.with_suffix(".away"))
    exception = project.frazil(*arguments).exception
    kept.rename(file)
    assert isinstance(exception, TableBroken)
    assert exception.table == "shop.sales"
    assert location in exception.message
    assert project.frazil("plan").output.startswith("no changes")


def test_imported_code_gives_an_empty_plan(project: Project) -> None:
    project.declare(SECOND)
    project.frazil("apply", "--yes")
    printed = project.frazil("import", "shop").output
    assert (
        project.frazil("import", "shop.sales", "shop.stock", "--out", "imported.py").output
        == "declared 2 tables in imported.py\n"
    )
    assert (project.folder / "imported.py").read_text() == printed
    project.declare(printed)
    assert project.frazil("plan", "--detailed-exitcode").output == "no changes: all 2 declared tables are as declared\n"


def test_import_overwrites_nothing_and_names_what_it_does_not_find(project: Project) -> None:
    exists = project.frazil("import", "--out", "lakehouse.py").exception
    unknown = project.frazil("import", "shop.nothing").exception
    assert isinstance(exists, ProjectError)
    assert isinstance(unknown, ProjectError)
    assert (exists.message, unknown.message) == (
        "lakehouse.py exists, and import overwrites nothing",
        "the catalog has no table and no namespace 'shop.nothing'",
    )
