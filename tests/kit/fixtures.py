"""Fixtures that several folders of tests share: their conftest imports them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.client import FrazilCatalog
from frazil.config import load_settings
from frazil.services import ports
from frazil.services.object_store import ObjectStore
from tests.kit.catalog_databases import DATABASES, fresh_database
from tools.own_database import postgres_database

BUCKET = "lakehouse"


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


@pytest.fixture(scope="module")
def s3_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A running object store: the properties that reach it."""
    folder = tmp_path_factory.mktemp("s3")
    flags = {"stack.folder": str(folder), "stack.ports.object_store": str(ports.free_port()), "stack.bucket": BUCKET}
    service = ObjectStore(load_settings(flags=flags, environ={}, folder=folder))
    service.start()
    stack = service.settings.stack
    secret = stack.secret_access_key.get_secret_value()
    yield {
        "s3.endpoint": f"http://{ports.HOST}:{service.port}",
        "s3.access-key-id": stack.access_key_id,
        "s3.secret-access-key": secret,
    }
    service.stop()
    for path in service.purge_paths():
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def s3_catalog(s3_store: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FrazilCatalog]:
    names = {
        "s3.endpoint": "AWS_ENDPOINT_URL",
        "s3.access-key-id": "AWS_ACCESS_KEY_ID",
        "s3.secret-access-key": "AWS_SECRET_ACCESS_KEY",
    }
    for key, name in names.items():
        monkeypatch.setenv(name, s3_store[key])
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    with running_catalog(tmp_path, warehouses={"default": f"s3://{BUCKET}/{tmp_path.name}"}) as running:
        client = FrazilCatalog("lake", **{**running.properties, **s3_store, "s3.region": "us-east-1"})
        client.create_namespace("lake")
        yield client
