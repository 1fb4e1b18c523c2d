"""A catalog and a Spark session for the tests of one file: the conftest of their folder imports them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog, connect
from frazil.config import Settings, load_settings
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A JVM that will not live long should not spend its time on compiling itself.
CONF = {
    "spark.master": "local[2]",
    "spark.conf.spark.sql.shuffle.partitions": "2",
    "spark.conf.spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """The settings of a running catalog and of a small Spark."""
    folder = tmp_path_factory.mktemp("catalog")
    with running_catalog(folder) as server:
        yield load_settings(flags={"catalog.uri": server.uri, **CONF}, folder=folder, environ={})


@pytest.fixture(scope="module")
def spark(config: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of that Spark."""
    with spark_session(config, app_name="tests", log=tmp_path_factory.mktemp("spark") / "spark.log") as session:
        yield session


@pytest.fixture(scope="module")
def catalog(config: Settings) -> FrazilCatalog:
    """A client of the catalog, which has the namespace `lake`."""
    client = connect(config)
    client.create_namespace("lake")
    return client


@contextmanager
def own_jvm() -> Iterator[None]:
    """Sessions in a JVM of their own. PySpark keeps the one that it has started for as long as the process lives, so
    that a session of another test file would not get the jars that its settings name.
    """
    _end_jvm()
    try:
        yield
    finally:
        _end_jvm()


def _end_jvm() -> None:
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    if gateway is None:
        return
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()  # it ends then
    process.wait(60)
