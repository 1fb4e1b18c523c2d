"""The catalog on each database, for the tests of its contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.client import FrazilCatalog
from tests.contract.history_lake import Past
from tests.kit.catalog_databases import Client
from tests.kit.fixtures import catalog, database, lake_server, postgres, s3_catalog, s3_store
from tests.kit.layouts import layout_of, on_small_disk

__all__ = [  # fixtures
    "catalog",
    "database",
    "lake_server",
    "layout_of",
    "on_small_disk",
    "postgres",
    "s3_catalog",
    "s3_store",
]


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


@pytest.fixture
def past(catalog: FrazilCatalog) -> Past:
    """A table of its own that a test gives a past."""
    past = Past(catalog)
    past.create()
    return past
