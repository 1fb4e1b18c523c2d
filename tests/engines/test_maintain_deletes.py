"""Upkeep of tables with deletes that Iceberg's Java library wrote: by equality, and deletion vectors of format 3, whose
rows have ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from frazil.client import FrazilCatalog
from frazil.lake import Lake
from frazil.upkeep.policy import DAY_MS, STEPS
from frazil.upkeep.steps import Keeper, now_ms
from frazil.write.commit.publish import RetryPolicy
from tests.engines.walkers import Spark, Sql, Walker

pytestmark = pytest.mark.usefixtures("live_stack")
Rows = list[tuple[Any, ...]]
NAMESPACE = "deleted"
EQUAL, VECTORS = f"{NAMESPACE}.equal", f"{NAMESPACE}.vectors"


@pytest.fixture(scope="module")
def spark(stack_catalog: FrazilCatalog, engines: dict[str, Walker]) -> Iterator[Spark]:
    engine = engines["spark"]
    assert isinstance(engine, Spark)
    stack_catalog.create_namespace(NAMESPACE)
    yield engine
    for identifier in stack_catalog.list_tables(NAMESPACE):
        stack_catalog.purge_table(identifier)
    stack_catalog.drop_namespace(NAMESPACE)


def perform(catalog: FrazilCatalog, table: str, *steps: str, retry: RetryPolicy | None = None) -> None:
    clock = {"clock_ms": lambda: now_ms() + 10 * DAY_MS}
    keeper = Keeper(catalog, tuple(table.split(".")), retry=retry or RetryPolicy(), **clock)  # type: ignore[arg-type]
    for step in steps or STEPS:
        assert keeper.perform(keeper.plan(step)).problems == ()


def ask(engine: Sql, table: str, columns: str = "id") -> Rows:
    if isinstance(engine, Spark):
        engine.sql(f"REFRESH TABLE lake.{table}")
    return sorted(engine.sql(f"SELECT {columns} FROM {engine.catalog_name}.{table}"))


def ids_in_sql(engines: dict[str, Walker], table: str) -> dict[str, list[int]]:
    return {name: [row[0] for row in ask(engine, table)] for name, engine in engines.items() if isinstance(engine, Sql)}


# --- equality deletes ------------------------------------------------------------------------------------------------


def delete_equal(spark: Spark, number: int) -> None:
    spark.process.call("tests.engines.zoo_java:delete_equal", f"lake.{EQUAL}", {"n": number})


@pytest.mark.requirement("spark.maintain")
def test_rows_deleted_by_equality_stay_deleted_for_every_engine(
    stack_catalog: FrazilCatalog, spark: Spark, engines: dict[str, Walker]
) -> None:
    """Also those whose delete is committed by Java while their files are rewritten, and not those that were appended
    after it.
    """
    spark.sql(
        f"CREATE TABLE lake.{EQUAL} (id BIGINT, n INT) USING iceberg TBLPROPERTIES "
        f"('upkeep.compact.min-input-files'='2')"
    )
    rows = pa.table({"id": pa.array(range(10), pa.int64()), "n": pa.array(range(10), pa.int32())})
    for start in (0, 5):
        stack_catalog.load_table(EQUAL).append(rows.slice(start, 5))
    delete_equal(spark, 3)
    stack_catalog.load_table(EQUAL).append(rows.slice(3, 1))
    left = [lambda: delete_equal(spark, 7)]

    def meanwhile(step: str) -> None:
        if step == "files written" and left:
            left.pop()()

    perform(stack_catalog, EQUAL, "compact", "deletes", retry=RetryPolicy(on_step=meanwhile))
    expected = [0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert ids_in_sql(engines, EQUAL) == {"spark": expected, "trino": expected, "duckdb": expected}
    (deletes,) = spark.sql(f"SELECT count(*) FROM lake.{EQUAL}.delete_files")
    assert (deletes, left) == ((1,), [])
    stack_catalog.load_table(EQUAL).append(rows.slice(7, 1))
    perform(stack_catalog, EQUAL)
    assert sorted(stack_catalog.load_table(EQUAL).scan().to_arrow()["id"].to_pylist()) == list(range(10))
    assert ids_in_sql(engines, EQUAL)["spark"] == list(range(10))


# --- format 3 --------------------------------------------------------------------------------------------------------


def fill(spark: Spark, start: int) -> None:
    """Two commits of fifty rows, some deleted by deletion vectors, one changed."""
    for first in (start, start + 50):
        values = ", ".join(f"({number}, 'label {number % 2}', {number})" for number in range(first, first + 50))
        spark.sql(f"INSERT INTO lake.{VECTORS} VALUES {values}")
    spark.sql(f"DELETE FROM lake.{VECTORS} WHERE id >= {start} AND id % 10 = 3")
    spark.sql(f"UPDATE lake.{VECTORS} SET n = -1 WHERE id = {start + 7}")


def lineage(spark: Spark) -> dict[int, tuple[int, int, int]]:
    """Each row's number, id and last change, as Spark tells them."""
    return {row[0]: row[1:] for row in ask(spark, VECTORS, "id, n, _row_id, _last_updated_sequence_number")}  # type: ignore[misc]


def lineage_here(catalog: FrazilCatalog) -> dict[int, tuple[int, int, int]]:
    """The same, as our own scan tells it."""
    table = (
        Lake(catalog=catalog)
        .table(VECTORS)
        .scan(columns=["id", "n", "_row_id", "_last_updated_sequence_number"])
        .to_arrow()
    )
    return {row["id"]: tuple(row.values())[1:] for row in table.to_pylist()}


@pytest.mark.requirement("spark.maintain")
def test_rows_of_format_3_keep_their_ids_as_spark_sees_them(
    stack_catalog: FrazilCatalog, spark: Spark, engines: dict[str, Walker]
) -> None:
    modes = "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read'"
    spark.sql(
        f"CREATE TABLE lake.{VECTORS} (id BIGINT, label STRING, n INT) USING iceberg PARTITIONED BY (label) "
        f"TBLPROPERTIES ('format-version'='3', 'upkeep.compact.min-input-files'='2', {modes})"
    )
    fill(spark, 0)
    before = lineage(spark)
    assert (len(before), lineage_here(stack_catalog)) == (90, before)
    perform(stack_catalog, VECTORS)
    assert lineage(spark) == before
    assert spark.sql(f"SELECT count(*) FROM lake.{VECTORS}.delete_files") == [(0,)]
    fill(spark, 100)  # Spark goes on: new rows, and vectors about the files that upkeep wrote
    spark.sql(f"DELETE FROM lake.{VECTORS} WHERE id = 8")
    grown = lineage(spark)
    assert {id: row for id, row in grown.items() if id < 100} == {id: row for id, row in before.items() if id != 8}
    assert len({row_id for _, row_id, _ in grown.values()}) == 179
    assert lineage_here(stack_catalog) == grown
    perform(stack_catalog, VECTORS)
    assert lineage(spark) == grown
    assert ids_in_sql({"duckdb": engines["duckdb"]}, VECTORS)["duckdb"] == sorted(grown)
    assert sorted(stack_catalog.load_table(VECTORS).scan().to_arrow()["id"].to_pylist()) == sorted(grown)
    spark.sql(f"CALL lake.system.rewrite_data_files(table => '{VECTORS}', options => map('rewrite-all', 'true'))")
    assert lineage(spark) == grown
    assert lineage_here(stack_catalog) == grown
