"""The pytest fixture `frazil_catalog`: an empty catalog for each test, on a free port, gone afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from frazil.catalog.embedded import EmbeddedCatalog


@pytest.fixture
def frazil_catalog() -> Iterator[EmbeddedCatalog]:
    """A running Iceberg REST catalog: `load_catalog("lake", **frazil_catalog.properties)`."""
    from frazil.catalog.embedded import running_catalog  # only when a test asks for it

    with running_catalog() as catalog:
        yield catalog
