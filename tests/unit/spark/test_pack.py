"""What of a project's folder goes to executors."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from frazil.errors import ProjectError
from frazil.spark import pack
from frazil.spark.pack import pack_project, project_files
from tests.kit.raising import raises


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"NAME = {name!r}\n")


def test_modules_and_packages_are_packed_and_nothing_else(tmp_path: Path) -> None:
    write(
        tmp_path,
        "lakehouse.py",
        "rules.py",
        "shop/__init__.py",
        "shop/rates.json",
        "shop/.env",
        "plain/tool.py",
        "plain/data.csv",
    )
    write(
        tmp_path,
        ".frazil/x.py",
        "__pycache__/rules.py",
        "env/pyvenv.cfg",
        "env/lib/big.py",
        "landing/a.csv",
        "frazil.toml",
    )
    wanted = ["lakehouse.py", "rules.py", "plain/tool.py", "shop/__init__.py", "shop/rates.json"]
    assert project_files(tmp_path) == wanted
    assert zipfile.ZipFile(pack_project(tmp_path, tmp_path / ".frazil").path).namelist() == wanted


def test_a_module_can_be_imported_out_of_the_pack(tmp_path: Path) -> None:
    write(tmp_path, "lakehouse.py", "shop/__init__.py", "shop/rules.py")
    project = pack_project(tmp_path, tmp_path / ".frazil")
    code = "import shop.rules; print(shop.rules.NAME, shop.rules.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(project.path)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["shop/rules.py", f"{project.path}/shop/rules.py"]


def test_the_same_modules_give_the_same_file_and_others_another(tmp_path: Path) -> None:
    write(tmp_path, "lakehouse.py")
    first = pack_project(tmp_path, tmp_path / ".a")
    os.utime(tmp_path / "lakehouse.py", (1, 1))
    again = pack_project(tmp_path, tmp_path / ".b")
    (tmp_path / "lakehouse.py").write_text("x = 1\n")
    other = pack_project(tmp_path, tmp_path / ".a")
    assert (first.path.name, first.path.read_bytes()) == (again.path.name, again.path.read_bytes())
    assert other.path.name != first.path.name


def test_a_folder_with_more_than_modules_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "lakehouse.py", "shop/__init__.py", "shop/model.bin")
    monkeypatch.setattr(pack, "MOST_BYTES", 50)
    with raises(ProjectError, path="shop/model.bin"):
        project_files(tmp_path)
