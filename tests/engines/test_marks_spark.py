"""Spark's own sources by a high-water mark: files, a database by JDBC, a data source in Python."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from frazil import Lake, Table, column, pipeline, sources
from frazil.client import connect
from frazil.config import Settings
from frazil.errors import PipelineError
from frazil.pipelines import Pipeline, RunResult
from frazil.pipelines.models import GraphRun, derivation_of
from frazil.write.commit import RetryPolicy, read_progress

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
_numbers = count()
NOON = dt.datetime(2024, 1, 15, 12, 0, 0, 123456, tzinfo=dt.UTC)


class Loading:
    """A table of its own, and a pipeline that fills it from a Spark source."""

    def __init__(self, spark: SparkSession, config: Settings, folder: Path) -> None:
        self.spark, self.catalog, self.folder = spark, connect(config), folder
        self.lake = Lake(catalog=self.catalog)
        self.namespace = f"n{next(_numbers)}"
        self.catalog.create_namespace(self.namespace)

    def pipeline(self, source: sources.SparkSource, kind: str = "long", **options: Any) -> Pipeline:
        target = Table(f"{self.namespace}.rows", column("id", "long"), column("mark", kind))
        if not self.catalog.table_exists(target.identifier):
            self.catalog.create_table(target.identifier, target.schema())

        @pipeline(source=source, target=target, **options)
        def load(rows: DataFrame) -> DataFrame:
            names = {name.lower(): name for name in rows.columns}
            return rows.select(rows[names["id"]].alias("id"), rows[names["mark"]].alias("mark"))

        return load

    def run(self, declared: Pipeline, **options: Any) -> RunResult:
        return GraphRun([derivation_of(declared)], self.spark, self.catalog, self.folder, "tests", **options).run()[0]

    def ids(self) -> list[int]:
        return sorted(self.lake.table(f"{self.namespace}.rows").scan().to_arrow()["id"].to_pylist())

    def mark(self) -> str:
        metadata = self.catalog.load_table(f"{self.namespace}.rows").metadata
        return str(read_progress(metadata).part("load/part-0").marks["rows"])


@pytest.fixture
def loading(spark: SparkSession, config: Settings, tmp_path: Path) -> Loading:
    return Loading(spark, config, tmp_path)


def write(loading: Loading, kind: str, *rows: tuple[int, object]) -> None:
    frame = loading.spark.createDataFrame(list(rows), f"id long, mark {kind}")
    frame.coalesce(1).write.mode("append").orc(str(loading.folder / "orc"))


def orc(loading: Loading, **options: Any) -> sources.SparkSource:
    return sources.spark("orc", high_water_mark="mark", path=loading.folder / "orc", **options)


@pytest.mark.parametrize(
    ("kind", "table_kind", "values", "shown"),
    [
        ("timestamp", "timestamptz", (NOON, NOON + dt.timedelta(microseconds=1)), "2024-01-15 12:00:00.123457+00:00"),
        ("date", "date", (dt.date(2024, 1, 15), dt.date(2024, 1, 16)), "2024-01-16"),
        ("decimal(12,2)", "decimal(12,2)", (Decimal("9.90"), Decimal("10.10")), "10.10"),
        ("string", "string", ("2024-01-15", "2024-01-16"), "2024-01-16"),
    ],
)
def test_rows_above_the_mark_are_read_once_whatever_its_type(
    loading: Loading, kind: str, table_kind: str, values: tuple[object, object], shown: str
) -> None:
    load = loading.pipeline(orc(loading), table_kind)
    write(loading, kind, (1, values[0]))
    loading.run(load)
    write(loading, kind, (2, values[1]))
    loading.run(load)
    again = loading.run(load)
    assert (loading.ids(), loading.mark(), again.snapshot_id) == ([1, 2], shown, None)


def test_appends_refuse_what_they_would_lose_or_repeat(loading: Loading) -> None:
    load = loading.pipeline(orc(loading))
    write(loading, "long", (1, 10), (2, 20))
    loading.run(load)
    write(loading, "long", (3, 20))
    with pytest.raises(PipelineError) as late:
        loading.run(load)
    write(loading, "long", (4, None))
    with pytest.raises(PipelineError) as null:
        loading.run(load)
    assert [late.value.problem, null.value.problem] == ["late-rows", "null"]
    assert loading.ids() == [1, 2]


def test_an_upsert_reads_the_rows_of_the_last_value_again(loading: Loading) -> None:
    load = loading.pipeline(orc(loading), mode="upsert", key=["id"])
    write(loading, "long", (1, 10), (2, 20))
    loading.run(load)
    write(loading, "long", (3, 20), (4, 15))  # 15 comes too late
    loading.run(load)
    assert loading.ids() == [1, 2, 3]
    loading.run(load, full_refresh=frozenset(("load",)))
    assert (loading.ids(), loading.mark()) == ([1, 2, 3, 4], "20")


def test_a_source_whose_values_went_back_is_refused_and_an_empty_one_is_not(loading: Loading) -> None:
    def load(*rows: tuple[int, int]) -> Pipeline:
        return loading.pipeline(sources.spark(numbered(rows), high_water_mark="mark"))

    assert loading.run(load()).snapshot_id is None
    loading.run(load((1, 10), (2, 20)))
    assert loading.run(load()).snapshot_id is None
    with pytest.raises(PipelineError) as raised:
        loading.run(load((3, 5)))
    assert (raised.value.problem, loading.ids()) == ("went-back", [1, 2])


@pytest.mark.parametrize(("mode", "expected"), [("rebuild", [2, 3]), ("upsert", [1, 2, 3])])
def test_a_source_without_a_mark_is_read_whole_by_each_run(loading: Loading, mode: Any, expected: list[int]) -> None:
    options = {"key": ["id"]} if mode == "upsert" else {}
    for rows in (((1, 10), (2, 20)), ((2, 5), (3, 30))):
        loading.run(loading.pipeline(sources.spark(numbered(rows)), mode=mode, **options))
    assert loading.ids() == expected


def numbered(rows: Sequence[tuple[int, int]]) -> type[DataSource]:
    """A data source in Python that gives these rows."""

    class Numbered(DataSource):
        @classmethod
        def name(cls) -> str:
            return "numbered"

        def schema(self) -> str:
            return "id long, mark long"

        def reader(self, schema: StructType) -> DataSourceReader:
            return NumberedReader()

    class NumberedReader(DataSourceReader):
        def read(self, partition: object) -> Iterator[tuple[int, int]]:
            return iter(rows)

    return Numbered


class Database:
    """Derby in the memory of Spark's JVM."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.url = f"jdbc:derby:memory:{name};create=true"
        assert spark._jvm is not None
        self._connection = spark._jvm.java.sql.DriverManager.getConnection(self.url)

    def execute(self, statement: str) -> None:
        self._connection.createStatement().execute(statement)

    def options(self) -> Mapping[str, str]:
        return {"url": self.url, "driver": "org.apache.derby.jdbc.EmbeddedDriver", "dbtable": "orders"}


class Killed(BaseException):
    """The driver is gone."""


def test_a_database_is_read_by_its_time_of_change_and_a_killed_run_repeats_nothing(loading: Loading) -> None:
    database = Database(loading.spark, loading.namespace)
    database.execute("CREATE TABLE orders (id BIGINT, mark TIMESTAMP)")
    load = loading.pipeline(sources.spark("jdbc", high_water_mark="MARK", **database.options()), "timestamptz")
    expected = []
    for number, step in enumerate(("staged", "before commit", "after commit")):
        database.execute(f"INSERT INTO orders VALUES ({number}, TIMESTAMP('2024-01-15 12:00:0{number}'))")
        expected.append(number)

        def kill(name: str, step: str = step) -> None:
            if name == step:
                raise Killed

        with pytest.raises(Killed):
            loading.run(load, retry=RetryPolicy(on_step=kill))
        loading.run(load)
        assert loading.ids() == expected, step
