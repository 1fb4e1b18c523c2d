"""A catalog with authentication on each database, for the tests of access to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.access import Guarded, guarded_catalog


@pytest.fixture
def guarded(database: str, tmp_path: Path) -> Iterator[Guarded]:
    """A running catalog that asks for keys. Modules of tests put their own namespaces and tables into it."""
    with guarded_catalog(tmp_path, database) as running:
        yield running
