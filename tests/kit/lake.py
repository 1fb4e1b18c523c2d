"""A catalog for tests that need one and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog


@contextmanager
def lake_catalog(*, allow_overlap: bool = False) -> Iterator[FrazilCatalog]:
    """A client of a catalog of its own, with the namespace `lake`; both end with the block."""
    with running_catalog(allow_overlap=allow_overlap) as server:
        client = FrazilCatalog("lake", **server.properties)
        client.create_namespace("lake")
        yield client
