"""The wheel, built from the sdist and installed alone: it asks for enough, and needs nothing of the clone. The core is
installed on each version of Python that is found; all extras on each of them, and `[demo]` with pip, by `make soak`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
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

VERSIONS = ("3.11", "3.12", "3.13")  # those of docs/install.md

# What the core has to do without any extra.
CORE = """
import platform
import frazil
from frazil.catalog import running_catalog

with running_catalog("lake") as catalog, frazil.connect(catalog.uri) as lake:
    lake.apply(frazil.Table("shop.orders", frazil.column("id", "long")))
    print(platform.python_version(), [table.name for table in lake.tables()])
    print(frazil.__file__)
"""

# Every module, as far as the extras of this version go.
IMPORTS = """
import importlib, pkgutil, sys
import frazil

for module in pkgutil.walk_packages(frazil.__path__, "frazil."):
    if not module.name.startswith("frazil.examples") and "__main__" not in module.name:
        try:
            importlib.import_module(module.name)
        except ImportError as exc:
            print(module.name, exc)
        except frazil.errors.MissingExtra as exc:
            print(module.name, exc.library)
"""
WITHOUT = {"3.13": {"frazil.sinks.bytewax bytewax"}}  # has no wheel for it


@cache
def find_python(version: str) -> Path | None:
    """An interpreter of this version: that of the tests, one on PATH, of pyenv, or that uv knows."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return Path(sys.executable)
    candidates = (Path(python) for find in (_on_path, _of_pyenv, _known_to_uv) for python in find(version))
    return next((candidate for candidate in candidates if _is(candidate, version)), None)


def _on_path(version: str) -> list[str]:
    python = shutil.which(f"python{version}")
    return [python] if python else []


def _of_pyenv(version: str) -> list[str]:
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    return sorted(map(str, pyenv.glob(f"versions/{version}.*/bin/python{version}")), reverse=True)


def _known_to_uv(version: str) -> list[str]:
    find = [*UV, "python", "find", "--no-python-downloads", "--system", version]
    return subprocess.run(find, capture_output=True, text=True, check=False).stdout.split("\n")[:1]


def _is(python: Path, version: str) -> bool:
    """Whether it runs, and is of this version: a shim of pyenv may lead nowhere."""
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return (done.returncode, done.stdout.strip()) == (0, version)


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> Path:
    interpreter = find_python(request.param)
    if interpreter is None:
        pytest.skip(f"no Python {request.param} here: neither on PATH, nor of pyenv, nor known to uv")
    return interpreter


class Installed:
    """A virtual environment that holds the wheel, what it asks for, and nothing else."""

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
    """The wheel, which is built from the sdist, as docs/install.md says, with the build tools of the lock."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = folder.glob("*.whl")
    assert len(list(folder.glob("*.tar.gz"))) == 1
    return wheel


def install(folder: Path, python: Path, what: str) -> Installed:
    """The wheel in an environment of its own, next to the pinned libraries."""
    environment = Installed(folder)
    subprocess.run([*UV, "venv", "-q", "--offline", "--python", str(python), str(folder)], check=True)
    command = [*UV, "pip", "install", "-q", "--python", str(environment.bin / "python")]
    command += ["--constraint", str(ROOT / "constraints.txt"), what]
    # `make setup` has left the libraries in uv's cache; without that cache they come from the index, as they did there.
    if subprocess.run([*command, "--offline"], check=False, capture_output=True).returncode != 0:
        subprocess.run(command, check=True)
    return environment


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(tmp_path_factory.mktemp("installed") / "venv", Path(sys.executable), f"{wheel}[sinks]")


def test_the_core_installs_and_serves_a_catalog_on_each_python(
    python: Path, wheel: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    core = install(tmp_path / "venv", python, str(wheel))
    done = core.run("python", "-W", "error", "-c", CORE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (version, tables), module = done.stdout.splitlines()[0].split(" ", 1), done.stdout.splitlines()[1]
    assert version.startswith(request.node.callspec.params["python"])
    assert tables == "['shop.orders']"
    assert Path(module).is_relative_to(core.folder)
    (tmp_path / ".pyiceberg.yaml").write_text("catalog:\n  lake:\n    uri: http://from-yaml:1\n")
    assert "http://from-yaml:1" in core.run("frazil", "config", cwd=tmp_path).stdout
    shown = core.run("frazil", "--version", cwd=tmp_path)
    assert (shown.stdout, shown.stderr) == (f"frazil, version {frazil.__version__}\n", "")


@pytest.mark.soak
def test_all_extras_install_and_every_module_imports_on_each_python(
    python: Path, wheel: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    everything = install(tmp_path / "venv", python, f"{wheel}[all]")
    done = everything.run("python", "-c", IMPORTS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    missing = set(done.stdout.splitlines()) - {"frazil.catalog.pytest_plugin No module named 'pytest'"}
    assert missing == WITHOUT.get(request.node.callspec.params["python"], set())
    done = everything.run("python", "-W", "error", "-c", PROGRAM, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.soak
def test_pip_installs_the_demo_and_it_runs_far_from_the_clone(wheel: Path, tmp_path: Path) -> None:
    """The commands of docs/install.md in an environment that pip alone has filled."""
    environment = Installed(tmp_path / "venv")
    subprocess.run([sys.executable, "-m", "venv", str(environment.folder)], check=True)
    done = environment.run("pip", "install", "-q", "--disable-pip-version-check", f"{wheel}[demo]", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = environment.run("frazil", "demo", "--only", "tables,load", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "daily_sales: 100,080 rows from 5 files are in lakehouse.sales" in done.stdout
    assert (tmp_path / "frazil-demo/sales/lakehouse.py").exists()


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
