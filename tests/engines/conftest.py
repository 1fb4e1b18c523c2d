"""One live stack of all five servers for every test in this folder: starting it costs more than the tests do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from frazil.artifacts.java import JavaNeed, find_java
from frazil.client import FrazilCatalog
from tests.kit.spark_lake import catalog, config, spark
from tests.kit.stack import Project, keep_logs, make_project
from tests.kit.stack_lake import connection

if TYPE_CHECKING:
    from tests.engines.walkers import Walker

__all__ = ["catalog", "config", "spark"]  # fixtures


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project of its own, for tests that start, break and stop servers."""
    stack = make_project(tmp_path / "project")
    yield stack
    stack.frazil("down", "--purge", "--yes", check=False)


@pytest.fixture(scope="session")
def live_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """All five servers, up and ready, on the Javas of wheels; after the last test nothing of them may be left."""
    homes = os.pathsep.join(str(find_java(need, search=[]).home) for need in (JavaNeed.KAFKA, JavaNeed.TRINO))
    stack = make_project(tmp_path_factory.mktemp("live") / "project", FRAZIL_JAVA_HOME=homes)
    try:
        stack.frazil("up", "--with", "trino,kafka,postgres")
        yield stack
    finally:
        stack.frazil("down")
        keep_logs(stack)
        stack.frazil("down", "--purge", "--yes")
    assert stack.processes() == []


@pytest.fixture(scope="session")
def stack_catalog(live_stack: Project) -> FrazilCatalog:
    """A client of the live stack's catalog."""
    return FrazilCatalog("lake", **connection(live_stack))


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
