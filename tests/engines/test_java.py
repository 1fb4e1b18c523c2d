"""Spark on the Java of a wheel, started by Spark's own launcher; and the Java library in it."""

from __future__ import annotations

import pytest

from frazil.client import FrazilCatalog
from frazil.protocol import PROPERTY_REBASE_APPENDS
from tests.engines.walkers import Spark, Walker

pytestmark = pytest.mark.usefixtures("live_stack")


def test_spark_runs_on_the_java_of_a_wheel(engines: dict[str, Walker]) -> None:
    spark = engines["spark"]
    assert isinstance(spark, Spark)
    version = "java_method('java.lang.System', 'getProperty', 'java.version')"
    assert spark.sql(f"SELECT sum(id), {version} FROM range(1000)") == [(499500, "21.0.8")]


def test_java_and_spark_take_an_append_that_the_catalog_has_rebased(
    engines: dict[str, Walker], stack_catalog: FrazilCatalog
) -> None:
    spark = engines["spark"]
    assert isinstance(spark, Spark)
    spark.sql("CREATE NAMESPACE lake.rebased")
    for table in ("t", "source"):
        spark.sql(
            f"CREATE TABLE lake.rebased.{table} (id BIGINT) TBLPROPERTIES ('{PROPERTY_REBASE_APPENDS}' = 'true', "
            "'commit.retry.num-retries' = '0')"
        )
    spark.sql("INSERT INTO lake.rebased.t VALUES (1)")
    spark.sql("INSERT INTO lake.rebased.source VALUES (2)")
    names = ("lake.rebased.t", "lake.rebased.source", "INSERT INTO lake.rebased.t VALUES (3)")
    before, parent, late, moved, manifests = spark.process.call("tests.engines.zoo_java:append_late", *names)
    spark.sql("INSERT INTO lake.rebased.t VALUES (4)")
    spark.sql("REFRESH TABLE lake.rebased.t")
    assert spark.sql("SELECT id FROM lake.rebased.t ORDER BY id") == [(1,), (2,), (3,), (4,)]
    result = stack_catalog.load_table("rebased.t")
    ids = [snapshot.snapshot_id for snapshot in result.metadata.snapshots]
    assert (ids[:3], moved, manifests) == ([before, parent, late], True, 3)
    assert sorted(result.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]
    for table in ("t", "source"):
        spark.sql(f"DROP TABLE lake.rebased.{table} PURGE")
    spark.sql("DROP NAMESPACE lake.rebased")
