"""docs/tutorial.md, followed command by command: the wheel in an environment of its own, real servers, a new home."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.artifacts import cache_folder
from frazil.services import ports
from tests.kit.tutorial import Follower, read_steps

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
UV = [sys.executable, "-m", "uv"]
PORTS = {"CATALOG": 8181, "OBJECT_STORE": 8333, "KAFKA": 9092}


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The programs of a virtual environment in which the page's own command has installed Frazil."""
    environment, wheels = tmp_path / "lake", tmp_path / "dist"
    build = [*UV, "build", "-q", "--wheel", "--offline", "--no-build-isolation", "--python", sys.executable]
    subprocess.run([*build, "-o", str(wheels)], cwd=ROOT, check=True)
    (wheel,) = wheels.glob("*.whl")
    extras = re.search(r"pip install './frazil(\[.*?\])'", PAGE)
    assert extras
    subprocess.run([*UV, "venv", "-q", "--offline", "--python", sys.executable, str(environment)], check=True)
    install = [*UV, "pip", "install", "-q", "--python", str(environment / "bin" / "python")]
    install += ["--constraint", str(ROOT / "constraints.txt"), f"{wheel}{extras[1]}"]
    # `make setup` has left the libraries in uv's cache; without that cache they come from the index, as they did there.
    if subprocess.run([*install, "--offline"], check=False, capture_output=True).returncode != 0:
        subprocess.run(install, check=True)
    return environment / "bin"


@pytest.fixture
def follower(installed: Path, tmp_path: Path) -> Iterator[Follower]:
    """A reader with an empty home and free ports; downloads are those of this machine. In the end no server runs."""
    chosen: list[int] = []
    for _ in PORTS:
        chosen.append(ports.free_port(avoid=chosen))
    here = dict(zip(PORTS.values(), chosen, strict=True))
    (tmp_path / "home").mkdir()
    environment = {
        "PATH": f"{installed}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(tmp_path / "home"),
        "LANG": "C.UTF-8",
        "FRAZIL_CACHE": str(cache_folder()),
        **{f"FRAZIL_STACK__PORTS__{name}": str(here[port]) for name, port in PORTS.items()},
        **{name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")},
    }
    follower = Follower(tmp_path, environment, here)
    yield follower
    subprocess.run([str(installed / "frazil"), "down"], cwd=follower.folder, env=environment, check=True)


@pytest.mark.long
@pytest.mark.timeout(1800)  # some forty programs and four servers, one after the other
def test_every_command_of_the_tutorial_works_and_prints_what_is_shown(follower: Follower) -> None:
    for step in read_steps(PAGE):
        follower.follow(step)
    assert follower.folder.name == "shop"
