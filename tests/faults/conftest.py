"""The catalog as its own processes on each database, for tests that break it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.conftest import Project, make_project
from tests.faults.spark_drivers import DRIVERS
from tests.kit.catalog_databases import DATABASES, fresh_database
from tools.own_database import postgres_database


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL server of these tests."""
    with postgres_database(tmp_path_factory.mktemp("postgres")) as url:
        yield url


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database of each kind."""
    postgres_url = request.getfixturevalue("postgres") if request.param == "postgresql" else ""
    with fresh_database(request.param, tmp_path, postgres_url) as url:
        yield url


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
