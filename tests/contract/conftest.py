"""The catalog on each database, for the tests of its contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.client import FrazilCatalog
from tests.contract.history_lake import Past
from tests.kit.catalog_databases import DATABASES, Client, fresh_database
from tests.kit.lake import lake_catalog
from tests.kit.layouts import layout_of, on_small_disk
from tools.own_database import postgres_database

__all__ = ["layout_of", "on_small_disk"]  # fixtures


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


@pytest.fixture
def server(database: str, tmp_path: Path) -> Iterator[EmbeddedCatalog]:
    """A running catalog with two warehouses."""
    warehouses = {"default": str(tmp_path / "warehouse"), "cold": str(tmp_path / "cold")}
    with running_catalog(
        tmp_path, database=database, warehouses=warehouses, allow_locations=[str(tmp_path / "allowed")]
    ) as running:
        yield running


@pytest.fixture
def overlapping(database: str, tmp_path: Path) -> Iterator[EmbeddedCatalog]:
    """A running catalog whose tables may lie in each other's folders, as in lakes from before that was refused."""
    with running_catalog(tmp_path, database=database, allow_overlap=True) as running:
        yield running


@pytest.fixture
def client(server: EmbeddedCatalog) -> Iterator[Client]:
    client = Client(server.uri)
    yield client
    client.session.close()


@pytest.fixture(scope="module")
def catalog() -> Iterator[FrazilCatalog]:
    """A catalog for the tests of one file, with the namespace `lake`."""
    with lake_catalog() as result:
        yield result


@pytest.fixture
def past(catalog: FrazilCatalog) -> Past:
    """A table of its own that a test gives a past."""
    result = Past(catalog)
    result.create()
    return result
