"""The pytest fixtures: `frazil_catalog`, an empty catalog for each test, on a free port, gone afterwards; and
`frazil_model`, which runs a model of the project on given rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from frazil.catalog.embedded import EmbeddedCatalog


@pytest.fixture
def frazil_catalog() -> Iterator[EmbeddedCatalog]:
    """A running Iceberg REST catalog: `load_catalog("lake", **frazil_catalog.properties)`."""
    from frazil.catalog.embedded import running_catalog  # only when a test asks for it

    with running_catalog() as catalog:
        yield catalog


@pytest.fixture(scope="session")
def frazil_spark(pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    """A local Spark for all tests: that of `frazil test`, the warm Spark if one runs, else a new one."""
    from frazil.testing import shared_session

    with shared_session(pytestconfig.rootpath) as spark:
        yield spark


@pytest.fixture(scope="session")
def frazil_model(frazil_spark: SparkSession, pytestconfig: pytest.Config) -> Callable[..., pa.Table]:
    """Runs a model or pipeline of the project: `frazil_model("gold.revenue", {"silver.orders": [{"amount": 5}]})` is an
    Arrow table. `quarantined=1` expects a row that the table does not take.
    """
    from frazil.project import load_project
    from frazil.testing import ModelRunner

    return ModelRunner(load_project(pytestconfig.rootpath), frazil_spark).run
