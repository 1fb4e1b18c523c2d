"""The catalog as its own processes on each database, for tests that break it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.spark_drivers import DRIVERS
from tests.kit.fixtures import database, postgres
from tests.kit.stack import Project, make_project

__all__ = ["database", "postgres"]  # fixtures


@pytest.fixture(scope="session")
def fault_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """SeaweedFS, Kafka and the catalog, for tests that strike them down."""
    project = make_project(tmp_path_factory.mktemp("faults") / "project")
    project.frazil("up", "--with", "kafka")
    yield project
    DRIVERS.stop()
    project.frazil("up")  # what lies on the ground cannot be taken down in order
    project.frazil("down", "--purge", "--yes")
    assert project.processes() == []
