"""A stack folder, free ports, a toy server, and a repository of jars with an empty cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from frazil.artifacts.java import JavaNeed, find_java
from frazil.config import Settings, load_settings
from frazil.services import ports
from tests.unit.services.maven import Repository
from tests.unit.services.toy import SCRIPT, Toy


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    names = ("catalog", "object_store", "postgres", "kafka", "trino")
    chosen: dict[str, int] = {}
    for name in names:
        chosen[f"stack.ports.{name}"] = ports.free_port(avoid=chosen.values())
    flags = {key: str(port) for key, port in chosen.items()}
    return load_settings(
        flags={"stack.folder": str(tmp_path / "stack"), "stack.ready_seconds": "60", **flags},
        environ={},
        folder=tmp_path,
    )


@pytest.fixture
def make_toy(settings: Settings) -> Iterator[Callable[..., Toy]]:
    """Makes a toy server with another script or settings; all are stopped in the end."""
    made = []

    def make(script: str = SCRIPT, **stack: object) -> Toy:
        toy = Toy(settings.model_copy(update={"stack": settings.stack.model_copy(update=stack)}))
        toy.script = script
        made.append(toy)
        return toy

    yield make
    for toy in made:
        toy.stop()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of jars; the Java that fetches them is found once, on the machine or in the machine's cache."""
    monkeypatch.setenv("FRAZIL_JAVA_HOME", str(find_java(JavaNeed.JARS).home))
    monkeypatch.setenv("FRAZIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """A repository of jars on loopback, where `resolve_jars` looks."""
    made = Repository(tmp_path / "repository")
    monkeypatch.setenv("FRAZIL_IVY_SETTINGS", str(made.settings))
    yield made
    made.close()
