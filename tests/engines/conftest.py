"""One live stack of all five servers for every test in this folder: starting it costs more than the tests do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.stack import Project, keep_logs, make_project

if TYPE_CHECKING:
    from tests.engines.walkers import Walker


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project of its own, for tests that start, break and stop servers."""
    stack = make_project(tmp_path / "project")
    yield stack
    stack.frazil("down", "--purge", "--yes", check=False)


@pytest.fixture(scope="session")
def live_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """All five servers, up and ready; after the last test nothing of them may be left."""
    stack = make_project(tmp_path_factory.mktemp("live") / "project")
    try:
        stack.frazil("up", "--with", "trino,kafka,postgres")
        yield stack
    finally:
        stack.frazil("down")
        keep_logs(stack)
        stack.frazil("down", "--purge", "--yes")
    assert stack.processes() == []


@pytest.fixture(scope="session")
def engines(live_stack: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Walker]]:
    """PyIceberg, Spark, Trino, DuckDB and Daft, connected to the live stack; one Spark for all tests, for it takes long
    to start.
    """
    from tests.engines.walkers import WALKERS

    connected = {name: walker(live_stack, tmp_path_factory.mktemp(name)) for name, walker in WALKERS.items()}
    yield connected
    for walker in connected.values():
        walker.close()
