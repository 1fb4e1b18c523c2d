"""`frazil init`: the project that it writes works, and no file is overwritten."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from frazil.catalog.embedded import running_catalog
from frazil.cli.init import FILES, init
from frazil.config import load_settings
from frazil.errors import ProjectError
from frazil.project import load_project
from tests.kit.raising import raises


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: str) -> Result:
    return CliRunner().invoke(init, args, catch_exceptions=False)


def frazil(folder: Path, *args: str, uri: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "FRAZIL_CATALOG__URI": uri}
    command = [sys.executable, "-m", "frazil", *args]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)


def test_the_test_of_a_new_project_passes_and_its_table_is_planned_and_applied(folder: Path) -> None:
    assert run("web-shop").exit_code == 0
    project = folder / "web-shop"
    tested = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (tested.returncode, "1 passed" in tested.stdout) == (0, True), tested.stdout + tested.stderr
    with running_catalog() as catalog:
        planned = frazil(project, "plan", uri=catalog.uri)
        assert planned.stdout.splitlines() == [
            "+ namespace web_shop",
            "+ table web_shop.orders (4 columns, partitioned by ordered_on)",
        ], planned.stderr
        assert frazil(project, "apply", uri=catalog.uri).returncode == 0
        assert frazil(project, "plan", uri=catalog.uri).stdout.startswith("no changes")
        dry = frazil(project, "run", "load_orders", "--dry-run", uri=catalog.uri)
        assert "no file matches 'landing/*.csv'" in dry.stdout


def test_the_files_are_named_and_the_settings_are_read(folder: Path) -> None:
    result = run("shop")
    assert [line.split()[1] for line in result.output.splitlines()[:4]] == [f"shop/{name}" for name in FILES]
    assert load_settings(folder=folder / "shop", environ={}).project.name == "shop"


@pytest.mark.parametrize(
    ("name", "namespace"),
    [("My Shop 2", "my_shop_2"), ("2024", "lake_2024"), ('odd "{name}\\', "odd_name"), ("…", "lakehouse")],
)
def test_the_current_folder_becomes_a_project_whatever_it_is_called(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, namespace: str
) -> None:
    (folder / name).mkdir()
    monkeypatch.chdir(folder / name)
    assert run().exit_code == 0
    (table,) = load_project(Path.cwd()).tables
    assert table.name == f"{namespace}.orders"
    assert load_settings(folder=Path.cwd(), environ={}).project.name is not None


def test_files_that_exist_are_kept(folder: Path) -> None:
    (folder / "shop").mkdir()
    (folder / "shop" / ".gitignore").write_text("mine\n")
    (folder / "shop" / "frazil.toml").symlink_to(folder / "nowhere")
    result = run("shop")
    assert [line.split()[0] for line in result.output.splitlines()[:4]] == ["created", "created", "kept", "kept"]
    assert (folder / "shop" / ".gitignore").read_text() == "mine\n"
    assert not (folder / "nowhere").exists()


def test_a_project_is_not_started_twice(folder: Path) -> None:
    run("shop")
    before = {path: path.read_text() for path in (folder / "shop").iterdir()}
    with raises(ProjectError, path=str(Path("shop") / "lakehouse.py")):
        run("shop")
    assert {path: path.read_text() for path in (folder / "shop").iterdir()} == before


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/tmp/x", "-x", "1shop", "a b", "a.b", "x" * 64, "shop\n", "ä"])
def test_a_name_that_is_no_folder_name_is_refused(folder: Path, name: str) -> None:
    with raises(ProjectError, name=name):
        run("--", name)
    assert list(folder.iterdir()) == []


def test_a_file_in_the_way_is_a_clear_error(folder: Path) -> None:
    (folder / "shop").write_text("a file")
    with raises(ProjectError, path="shop"):
        run("shop")
    assert (folder / "shop").read_text() == "a file"
