"""A repository of jars on loopback, and an empty cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.artifacts.java import JavaNeed, find_java
from tests.kit.maven import Repository


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of jars; the Java that fetches them is found once, on the machine or in the machine's cache."""
    monkeypatch.setenv("FRAZIL_JAVA_HOME", str(find_java(JavaNeed.JARS).home))
    monkeypatch.setenv("FRAZIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """A repository of jars on loopback, where `resolve_jars` looks."""
    repository = Repository(tmp_path / "repository")
    monkeypatch.setenv("FRAZIL_IVY_SETTINGS", str(repository.settings))
    yield repository
    repository.close()
