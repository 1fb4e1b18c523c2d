"""Scans of tables that Spark has written, merge-on-read in every format, and scans that Spark reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from frazil import Lake
from frazil.catalog.embedded import running_catalog
from frazil.config import load_settings
from tests.engines.spark_sql import SparkProcess

HERE = "tests.engines.scan_in_spark"


class Stage:
    """A catalog on local files and a Spark on it."""

    def __init__(self, uri: str, folder: Path) -> None:
        self.flags = {
            "catalog.uri": uri,
            "catalog.name": "lake",
            "spark.master": "local[2]",
            "stack.folder": str(folder),
        }
        self.lake = Lake(load_settings(flags=self.flags))
        self.spark = SparkProcess(self.flags, folder)

    def call(self, name: str, *arguments: Any) -> list[Any]:
        return self.spark.call(f"{HERE}:{name}", self.flags, *arguments)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("scan-spark")
    with running_catalog(folder / "lake") as server:
        stage = Stage(server.uri, folder)
        stage.spark.sql("CREATE NAMESPACE lake.zoo")
        for version in (2, 3):
            make(stage, version)
        yield stage
        stage.spark.close()


def make(stage: Stage, version: int) -> None:
    """Ids 0 to 299 in three countries, without those that end in 3 or 7; then a column renamed, one widened, one added,
    and more rows.
    """
    table = f"lake.zoo.sales_v{version}"
    modes = ", ".join(f"'write.{what}.mode'='merge-on-read'" for what in ("delete", "update", "merge"))
    properties = f"'format-version'='{version}', {modes}"
    columns = "id BIGINT, country STRING, amount INT, tags ARRAY<STRING>"
    stage.spark.sql(
        f"CREATE TABLE {table} ({columns}) USING iceberg PARTITIONED BY (country) TBLPROPERTIES ({properties})"
    )
    values = (
        "id, element_at(array('NO', 'SE', NULL), CAST(id % 3 AS INT) + 1), CAST(id AS INT), array(CAST(id AS STRING))"
    )
    stage.spark.sql(f"INSERT INTO {table} SELECT {values} FROM range(0, 300)")
    stage.spark.sql(f"DELETE FROM {table} WHERE id % 10 = 3")
    stage.spark.sql(f"DELETE FROM {table} WHERE id % 10 = 7")
    stage.spark.sql(f"ALTER TABLE {table} RENAME COLUMN amount TO total")
    stage.spark.sql(f"ALTER TABLE {table} ALTER COLUMN total TYPE BIGINT")
    stage.spark.sql(f"ALTER TABLE {table} ADD COLUMN note STRING")
    stage.spark.sql(f"INSERT INTO {table} VALUES (1000, 'NO', 5000000000, array('x', NULL), 'new')")


WHERES = [
    "id >= 0",
    "country = 'NO'",
    "country IS NULL AND id > 100",
    "id BETWEEN 30 AND 60",
    "total > 290 AND country != 'SE'",
    "note IS NOT NULL",
]
ASKED = {"id BETWEEN 30 AND 60": "id >= 30 AND id <= 60"}


@pytest.mark.requirement("daft.position-deletes")
@pytest.mark.parametrize("version", [2, 3])
def test_a_scan_has_the_rows_that_spark_has(stage: Stage, version: int) -> None:
    name = f"zoo.sales_v{version}"
    for where in WHERES:
        columns = ["id", "country", "total", "tags", "note"]
        spark = stage.spark.sql(f"SELECT {', '.join(columns)} FROM lake.{name} WHERE {where} ORDER BY id")
        ours = stage.lake.table(name).scan(where, columns).to_arrow().sort_by("id").to_pylist()
        assert [tuple(row.values()) for row in ours] == spark
        assert stage.lake.table(name).scan(where).count() == len(spark) > 0


@pytest.mark.parametrize("version", [2, 3])
def test_spark_reads_a_scan_in_its_tasks(stage: Stage, version: int) -> None:
    name = f"zoo.sales_v{version}"
    read = stage.call("read_scan", name, "total > 290 AND country = 'NO'", ["id", "note", "tags"])
    spark = stage.spark.sql(f"SELECT id, note, tags FROM lake.{name} WHERE total > 290 AND country = 'NO'")
    assert read == sorted([list(row) for row in spark], key=repr)
    assert len(read) == 3


def test_a_scan_without_a_session_takes_the_active_one(stage: Stage) -> None:
    where = "total > 290 AND country = 'NO'"
    read = stage.call("read_scan_in_active_session", "zoo.sales_v2", where)
    assert read == [row[0] for row in stage.spark.sql(f"SELECT id FROM lake.zoo.sales_v2 WHERE {where} ORDER BY id")]


PROJECT = """
from frazil import Table, column, pipeline, sources

landed = Table("zoo.landed", column("id", "long"), column("name", "string"))

@pipeline(source=sources.csv("landing/*.csv"), target=landed)
def load(frame):
    return frame
"""


def test_lake_run_loads_new_files_once_and_sends_events_of_openlineage(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "lakehouse.py").write_text(PROJECT)
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing/a.csv").write_text("id,name\n1,a\n2,b\n")
    (first, second), rows, events, page = stage.call("run_twice", str(tmp_path))
    assert (first[:2], second) == ([2, 1], [0, 0, None])
    assert stage.lake.table("zoo.landed").history()[0].snapshot_id == first[2]
    assert rows == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    jobs = ("frazil run", "load")
    assert events == [*(["START", job] for job in jobs), *(["COMPLETE", job] for job in reversed(jobs))]
    assert page.startswith("load: ")  # and tasks, if Spark was asked while there were any


def test_sparks_plan_tells_what_it_pushes_down(stage: Stage) -> None:
    pushed, kept, columns, plan = stage.call("explain_scan", "zoo.sales_v2", "country = 'NO' AND total > 290", ["id"])
    assert any("country = 'NO'" in item for item in pushed), plan
    assert any("total > 290" in item for item in pushed)
    assert any("total" in item for item in kept)  # Spark looks again at what files and row groups cannot decide
    assert {"id", "total"} <= set(columns)


def test_a_query_on_spark_travels_in_time(stage: Stage) -> None:
    first = stage.lake.load("zoo.sales_v2").snapshots()[0].snapshot_id
    counts = [stage.call("query", "SELECT count(*) FROM zoo.sales_v2", at) for at in (None, first, str(first))]
    assert counts == [[[241]], [[300]], [[300]]]
