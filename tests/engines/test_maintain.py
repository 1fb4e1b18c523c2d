"""A table that Spark has filled, changed and deleted from, maintained on SeaweedFS: every engine reads the same rows
before and after.
"""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from pyiceberg.table import Table

from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from frazil.upkeep import SparkEngine
from frazil.upkeep.policy import DAY_MS, STEPS
from frazil.upkeep.steps import Keeper, now_ms
from tests.contract.upkeep_lake import Kept
from tests.engines.walkers import Daft, Pyiceberg, Spark, Sql, Walker
from tests.kit.stack import Project
from tests.kit.stack_lake import environment, s3_client, stored_objects
from tests.kit.upkeep import make_worker, own_database, run_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "upkeep.events"
Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def table(stack_catalog: FrazilCatalog, engines: dict[str, Walker]) -> Iterator[str]:
    """Days with spaces and colons in their names, files of two partitionings, rows deleted merge-on-read, a renamed
    column.
    """
    spark = engines["spark"]
    assert isinstance(spark, Sql)
    spark.create_namespace("upkeep")
    modes = "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read'"
    spark.sql(
        f"CREATE TABLE lake.{TABLE} (id BIGINT, label STRING, amount DECIMAL(12,2)) USING iceberg PARTITIONED BY "
        f"(label) "
        f"TBLPROPERTIES ('format-version'='2', 'upkeep.compact.min-input-files'='2', {modes})"
    )
    fill(spark, 0)
    spark.sql(f"ALTER TABLE lake.{TABLE} RENAME COLUMN amount TO price")
    spark.sql(f"ALTER TABLE lake.{TABLE} ADD PARTITION FIELD bucket(2, id)")
    fill(spark, 100)
    yield TABLE
    stack_catalog.purge_table(TABLE)
    stack_catalog.drop_namespace("upkeep")


def fill(spark: Sql, start: int) -> None:
    """Two commits with fifty rows each, and a few rows deleted and changed."""
    for first in (start, start + 50):
        values = ", ".join(
            f"({number}, 'it is {number % 2}:0{number % 2}', {number}.25)" for number in range(first, first + 50)
        )
        spark.sql(f"INSERT INTO lake.{TABLE} VALUES {values}")
    spark.sql(f"DELETE FROM lake.{TABLE} WHERE id >= {start} AND id % 10 = 3")
    spark.sql(f"UPDATE lake.{TABLE} SET label = 'other' WHERE id = {start + 7}")


def read(engine: Walker) -> Rows:
    if isinstance(engine, Sql):
        if "Spark" in type(engine).__name__:
            engine.sql(f"REFRESH TABLE lake.{TABLE}")
        return sorted(engine.sql(f"SELECT id, label, CAST(price AS DOUBLE) FROM {engine.catalog_name}.{TABLE}"))
    if isinstance(engine, Pyiceberg):
        rows = engine.catalog.load_table(TABLE).scan().to_arrow().to_pylist()
    else:
        import daft

        assert isinstance(engine, Daft)
        rows = daft.read_iceberg(engine.pyiceberg.catalog.load_table(TABLE), io_config=engine.io).to_pylist()
    return sorted((row["id"], row["label"], float(row["price"])) for row in rows)


def reached_by(table: Table) -> set[str]:
    """Every file that the table leads to, as PyIceberg reads it."""
    reached = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    for snapshot in table.metadata.snapshots:
        manifests = snapshot.manifests(table.io)
        reached |= {snapshot.manifest_list, *(manifest.manifest_path for manifest in manifests)}
        reached |= {
            entry.data_file.file_path for manifest in manifests for entry in manifest.fetch_manifest_entry(table.io)
        }
    return reached


def expected(*starts: int) -> Rows:
    numbers = [number for start in starts for number in range(start, start + 100) if number % 10 != 3]
    return [
        (number, "other" if number % 100 == 7 else f"it is {number % 2}:0{number % 2}", number + 0.25)
        for number in numbers
    ]


def assert_all_read(engines: dict[str, Walker], rows: Rows) -> None:
    for name, engine in engines.items():
        assert read(engine) == rows, name


@pytest.mark.requirement("spark.maintain")
def test_every_engine_reads_the_same_after_all_steps(
    live_stack: Project, stack_catalog: FrazilCatalog, table: str, engines: dict[str, Walker]
) -> None:
    bucket = live_stack.settings.stack.bucket
    prefix = stack_catalog.load_table(table).location().removeprefix(f"s3://{bucket}/")
    s3_client(live_stack).put_object(Bucket=bucket, Key=f"{prefix}/data/label=it+is+1%3A01/left.parquet", Body=b"x")
    assert_all_read(engines, expected(0, 100))
    keeper = Keeper(stack_catalog, tuple(table.split(".")), clock_ms=lambda: now_ms() + 10 * DAY_MS)
    reports = [keeper.perform(keeper.plan(step)) for step in STEPS]
    assert [report.problems for report in reports] == [()] * len(STEPS)
    assert_all_read(engines, expected(0, 100))
    live = stack_catalog.load_table(table)
    assert (len(live.metadata.snapshots), reports[STEPS.index("orphans")].files) == (1, 1)
    assert not any(task.delete_files for task in live.scan().plan_files())
    assert {f"s3://{bucket}/{key}" for key in stored_objects(live_stack, f"{prefix}/")} == reached_by(live)
    for step in STEPS:  # once more: files of the older partitioning lie next to others
        keeper.perform(keeper.plan(step))
    assert [keeper.plan(step).detail for step in STEPS] == [None] * len(STEPS)


def test_groups_are_rewritten_on_spark(
    live_stack: Project, stack_catalog: FrazilCatalog, table: str, engines: dict[str, Walker]
) -> None:
    spark = engines["spark"]
    assert isinstance(spark, Sql)
    fill(spark, 200)
    words = ("maintain", table, "--engine", "spark", "--yes", "--rewrite-all", "--output", "json")
    done = subprocess.run(
        live_stack.command(*words),
        cwd=live_stack.folder,
        env=environment(live_stack),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = {entry["step"]: entry for entry in json.loads(done.stdout)}
    assert (result["compact"]["done"], result["compact"]["problems"]) == (True, [])
    assert {task.file.spec_id for task in stack_catalog.load_table(table).scan().plan_files()} == {1}
    assert_all_read(engines, expected(0, 100, 200))


def test_upkeep_by_the_catalog_rewrites_on_spark_what_is_much(engines: dict[str, Walker], tmp_path: Path) -> None:
    spark, database = engines["spark"], f"sqlite:///{tmp_path}/catalog.db"
    assert isinstance(spark, Spark)
    with running_catalog(tmp_path, database=database) as server:
        catalog = FrazilCatalog("lake", **server.properties)
        catalog.create_namespace("lake")
        kept = Kept(catalog, "lake.t").create("day")
        for number in range(6):
            kept.append(number)
        jobs = spark.process.call("tests.engines.test_maintain:work_on_spark", database, server.properties)
        assert (len(kept.paths()), kept.ids(), jobs) == (1, list(range(6)), [1])
        with own_database(database) as opened:
            run = run_of(opened, "lake.t")
    assert run is not None
    assert (run["outcome"], run["saved_files"], run["problems"]) == ("done", 5, [])


def work_on_spark(spark: SparkSession, database: str, properties: dict[str, str]) -> list[int]:
    """A worker in the process of Spark, to which every compaction is much; gives the number of jobs that Spark did."""
    group = "upkeep by the catalog"
    spark.sparkContext.setJobGroup(group, group)
    with own_database(database) as opened, patch("frazil.catalog.upkeep.table_run.MUCH_BYTES", 0):
        worker = make_worker(opened, properties)
        worker.large = functools.partial(SparkEngine, spark)
        worker.run(once=True)
    return [len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))]
