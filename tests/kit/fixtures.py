"""Fixtures that several folders of tests share: their conftest imports them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.client import FrazilCatalog
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


@pytest.fixture(scope="module")
def lake_server() -> Iterator[EmbeddedCatalog]:
    """A catalog on SQLite for the tests of one file, with the namespace `lake`."""
    with running_catalog() as running:
        FrazilCatalog("lake", **running.properties).create_namespace("lake")
        yield running


@pytest.fixture(scope="module")
def catalog(lake_server: EmbeddedCatalog) -> FrazilCatalog:
    """A client of it."""
    return FrazilCatalog("lake", **lake_server.properties)
