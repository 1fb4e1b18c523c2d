"""Spark on the Java of a wheel, started by Spark's own launcher; and the Java library in it."""

from __future__ import annotations

import pytest
from pyiceberg.table.snapshots import Snapshot

import frazil.sinks
from frazil.client import FrazilCatalog
from frazil.protocol import PROPERTY_REBASE_APPENDS
from tests.engines.walkers import Spark, Walker
from tests.kit.lossy_proxy import lossy_proxy

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


def test_spark_goes_on_from_the_reply_to_its_late_insert(
    engines: dict[str, Walker], stack_catalog: FrazilCatalog
) -> None:
    """Another writer commits just before the commit of Spark reaches the catalog."""
    spark = engines["spark"]
    assert isinstance(spark, Spark)
    properties = f"'{PROPERTY_REBASE_APPENDS}' = 'true', 'commit.retry.num-retries' = '0'"
    properties += ", 'write.merge.mode' = 'merge-on-read'"
    spark.sql("CREATE NAMESPACE lake.late")
    with lossy_proxy(stack_catalog.properties["uri"]) as proxy:
        spark.process.call("tests.engines.zoo_java:add_catalog", "slow", proxy.uri)
        for version in (2, 3):
            name, table = f"late.v{version}", f"slow.late.v{version}"
            spark.sql(f"CREATE TABLE {table} (id BIGINT) TBLPROPERTIES ({properties}, 'format-version' = '{version}')")
            spark.sql(f"INSERT INTO {table} VALUES (1), (2)")
            path = f"POST /v1/{stack_catalog.properties['prefix']}/namespaces/late/tables/v{version} "
            rows = [{"id": 3}, {"id": 4}]
            proxy.before(path.encode(), lambda name=name, rows=rows: _add(stack_catalog, name, rows))  # type: ignore[misc]
            spark.sql(f"INSERT INTO {table} VALUES (5)")
            spark.sql(f"INSERT INTO {table} VALUES (6)")
            assert spark.sql(f"SELECT id FROM {table} ORDER BY id") == [(id,) for id in range(1, 7)]
            snapshots = stack_catalog.load_table(name).metadata.snapshots
            assert [_rows(snapshot) for snapshot in snapshots] == [("2", "2"), ("2", "4"), ("1", "5"), ("1", "6")]
            parents = [snapshot.parent_snapshot_id for snapshot in snapshots[1:]]
            assert parents == [snapshot.snapshot_id for snapshot in snapshots[:-1]]
            if version == 3:
                assert spark.sql(f"SELECT id, _row_id FROM {table} ORDER BY id")[-2:] == [(5, 4), (6, 5)]
            spark.sql(f"DROP TABLE {table} PURGE")
    spark.sql("DROP NAMESPACE lake.late")


def _add(catalog: FrazilCatalog, table: str, rows: list[dict[str, int]]) -> None:
    """By an upsert: the sink does not append to tables of format 3."""
    frazil.sinks.upsert(catalog, ("late", table.partition(".")[2]), rows, key="id")


def _rows(snapshot: Snapshot) -> tuple[str | None, str | None]:
    assert snapshot.summary is not None
    return snapshot.summary["added-records"], snapshot.summary["total-records"]
