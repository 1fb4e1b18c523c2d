"""The wheel, built from the sdist and installed alone: it asks for enough, and needs nothing of the clone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import frazil

ROOT = Path(__file__).resolve().parents[2]
UV = [sys.executable, "-m", "uv"]
LEFT_OUT = ("PYTHON", "VIRTUAL_ENV", "FRAZIL")  # variables that would lead to the clone, or to another setting

PROGRAM = """
import sys
import frazil
from frazil.artifacts.pins import read_pins
from frazil.catalog import running_catalog

assert read_pins()["jars"]
with running_catalog("lake") as catalog, frazil.connect(catalog.uri) as lake:
    lake.apply(frazil.Table("shop.orders", frazil.column("id", "long"), frazil.column("country", "string")))
    orders = lake.table("shop.orders")
    orders.append([{"id": 1, "country": "NO"}, {"id": 2, "country": "SE"}])
    print(frazil.__file__)
    print(orders.scan("country = 'SE'").to_arrow().to_pylist())
"""


class Installed:
    """A virtual environment that holds the wheel, the extra `sinks` and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"

    def run(self, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=cwd,
            env=clean_environment(),
            capture_output=True,
            text=True,
            check=False,
        )


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, which is built from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    build = [*UV, "build", "-q", "--offline", "--no-build-isolation", "--python", sys.executable, "-o", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in an environment of its own, next to the pinned libraries."""
    environment = Installed(tmp_path_factory.mktemp("installed") / "venv")
    subprocess.run([*UV, "venv", "-q", "--offline", "--python", sys.executable, str(environment.folder)], check=True)
    install = [*UV, "pip", "install", "-q", "--python", str(environment.bin / "python")]
    install += ["--constraint", str(ROOT / "constraints.txt"), f"{wheel}[sinks]"]
    # `make setup` has left the libraries in uv's cache; without that cache they come from the index, as they did there.
    if subprocess.run([*install, "--offline"], check=False, capture_output=True).returncode != 0:
        subprocess.run(install, check=True)
    return environment


def test_the_command_shows_its_version_and_help(installed: Installed, tmp_path: Path) -> None:
    version = installed.run("frazil", "--version", cwd=tmp_path)
    assert (version.stdout, version.stderr) == (f"frazil, version {frazil.__version__}\n", "")
    assert installed.run("frazil", "--help", cwd=tmp_path).stdout.startswith("Usage: frazil [OPTIONS] COMMAND")


def test_a_catalog_a_table_and_a_scan_work_far_from_the_clone(installed: Installed, tmp_path: Path) -> None:
    done = installed.run("python", "-W", "error", "-c", PROGRAM, cwd=tmp_path)
    assert done.stderr == ""
    module, rows = done.stdout.splitlines()
    assert Path(module).is_relative_to(installed.folder)
    assert rows == "[{'id': 2, 'country': 'SE'}]"


def test_the_demo_names_the_extra_that_it_needs_before_it_begins(installed: Installed, tmp_path: Path) -> None:
    done = installed.run("frazil", "demo", cwd=tmp_path)
    assert (done.returncode, list(tmp_path.iterdir())) == (1, [])
    assert "pip install 'frazil[demo]'" in done.stderr


def test_a_new_project_loads(installed: Installed, tmp_path: Path) -> None:
    assert installed.run("frazil", "init", "shop", cwd=tmp_path).returncode == 0
    program = "from frazil.project import *; from pathlib import *; print(load_project(Path()).tables[0].name)"
    done = installed.run("python", "-c", program, cwd=tmp_path / "shop")
    assert (done.stdout, done.stderr) == ("shop.orders\n", "")
