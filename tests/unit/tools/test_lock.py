"""What `make setup` installs is pinned by version and hash, and names no address."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LOCKS = ("constraints.txt", "tools/uv.txt")


def requirements(lock: str) -> dict[str, list[str]]:
    """The name of each pinned package, and its hashes."""
    result: dict[str, list[str]] = {}
    for entry in (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        name = re.match(r"([\w.-]+)==", entry)
        assert name, f"{lock}: {entry[:60]!r} is not an exact version"
        result.setdefault(name[1].lower(), []).extend(re.findall(r"--hash=(sha256:[0-9a-f]{64})(?:\s|$)", entry))
    return result


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_is_pinned_by_hash_and_none_by_address(lock: str) -> None:
    assert "://" not in (ROOT / lock).read_text(encoding="utf-8")
    assert [name for name, hashes in requirements(lock).items() if not hashes] == []


def test_the_lock_holds_everything_that_the_project_and_its_build_ask_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = [project["project"]["dependencies"], *project["project"]["optional-dependencies"].values()]
    groups += [project["dependency-groups"]["dev"], project["build-system"]["requires"]]
    wanted = {re.split(r"[^\w.-]", requirement)[0].lower() for group in groups for requirement in group} - {"frazil"}
    assert wanted - set(requirements("constraints.txt")) == set()


def test_make_setup_demands_the_hashes() -> None:
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = [line for line in recipe.splitlines() if "pip install" in line]
    assert len(installs) == 3
    for line in installs:
        assert "--require-hashes" in line or ("--no-deps" in line and "--no-build-isolation" in line), line


def test_libraries_whose_private_parts_we_extend_have_an_upper_bound() -> None:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    bounds = {re.split(r"[^\w.-]", text)[0]: "<" in text for text in dependencies}
    assert (bounds["uvicorn"], bounds["pyiceberg"]) == (True, True)
