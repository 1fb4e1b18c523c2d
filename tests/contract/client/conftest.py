"""A real catalog on loopback, clients of it, and a proxy that loses replies."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from tests.kit.lossy_proxy import LossyProxy, lossy_proxy

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def rows(*ids: int) -> pa.Table:
    """Rows with these ids."""
    return pa.table({"id": list(ids), "name": [f"n{number}" for number in ids]}, schema=SCHEMA)


def ids(catalog: FrazilCatalog, name: str) -> list[int]:
    """The ids in the table, sorted: what a reader sees."""
    return sorted(catalog.load_table(name).scan().to_arrow()["id"].to_pylist())


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_catalog(tmp_path_factory.mktemp("catalog")) as server:
        yield server.uri


@pytest.fixture
def catalog(uri: str) -> Iterator[FrazilCatalog]:
    """A client with an empty namespace `ns` that holds the empty tables `a` and `b`."""
    client = FrazilCatalog("lake", uri=uri)
    client.create_namespace_if_not_exists("ns")
    for identifier in client.list_tables("ns"):
        client.drop_table(identifier)
    for name in ("a", "b"):
        client.create_table(f"ns.{name}", SCHEMA)
    yield client
    client.close()


@pytest.fixture
def proxy(uri: str) -> Iterator[LossyProxy]:
    with lossy_proxy(uri) as running:
        yield running


@pytest.fixture
def shaky(catalog: FrazilCatalog, proxy: LossyProxy) -> Iterator[FrazilCatalog]:
    """A second client of the same catalog, through the proxy."""
    client = FrazilCatalog("lake", uri=proxy.uri)
    yield client
    client.close()
