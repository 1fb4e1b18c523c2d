"""Inputs on a real Spark: formats that need a jar, what each does with the condition on a high-water mark, and tables
that others compact, repartition and give other columns between two runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, GreaterThanOrEqual
from pyspark.sql.types import StructType

from frazil import Lake, Table, column, pipeline, sources
from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog, connect
from frazil.config import Settings, load_settings
from frazil.errors import PipelineError
from frazil.pipelines.models import GraphRun, Model, ModelSchemas, derivation_of, model
from frazil.pipelines.models.marks import condition, load
from frazil.spark.session import spark_session
from frazil.write.commit import Mark
from tests.engines.test_delta_spark import DELTA, DELTA_JARS
from tests.engines.upsert_writer import CONF
from tests.kit.spark_lake import own_jvm

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
AVRO_JAR = "org.apache.spark:spark-avro_2.13:4.1.1"
MORE = {
    "spark.sql.python.filterPushdown.enabled": "true",
    **{name: DELTA[name] for name in ("spark.sql.extensions", "spark.sql.catalog.spark_catalog")},
    "spark.databricks.delta.snapshotPartitions": "1",
}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    folder = tmp_path_factory.mktemp("catalog")
    flags = {**CONF, "spark.packages": ",".join([AVRO_JAR, *DELTA_JARS])}
    flags |= {f"spark.conf.{name}": value for name, value in MORE.items()}
    with running_catalog(folder) as server:
        yield load_settings(flags={"catalog.uri": server.uri, **flags}, folder=folder, environ={})


@pytest.fixture(scope="module")
def spark(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    with own_jvm(), spark_session(settings, app_name="tests", log=log) as session:
        yield session


@pytest.fixture(scope="module")
def catalog(settings: Settings) -> FrazilCatalog:
    return connect(settings)


def write(spark: SparkSession, format: str, path: Path, *ids: int) -> None:
    rows = spark.createDataFrame([(number,) for number in ids], "id long").coalesce(1)
    rows.write.format(format).mode("append").save(str(path))


@pytest.mark.soak
@pytest.mark.parametrize(
    ("format", "mode"),
    [("avro", "append"), ("delta", "upsert")],  # next to Delta's extensions, MERGE needs those of Iceberg
)
def test_a_format_is_loaded_from_its_mark_on(
    spark: SparkSession, catalog: FrazilCatalog, tmp_path: Path, format: str, mode: Any
) -> None:
    target = Table(f"{format}.rows", column("id", "long"))
    source = sources.spark(format, high_water_mark="id", path=tmp_path / "rows")

    @pipeline(source=source, target=target, mode=mode, key=["id"])
    def load_rows(rows: DataFrame) -> DataFrame:
        return rows

    lake = Lake(catalog=catalog)
    catalog.create_namespace(format)
    catalog.create_table(target.identifier, target.schema())
    run = GraphRun([derivation_of(load_rows)], spark, catalog, tmp_path, "tests")
    seen = []
    for ids in ((1, 2), (3,)):
        write(spark, format, tmp_path / "rows", *ids)
        run.run()
        seen.append(sorted(lake.table(target.name).scan().to_arrow()["id"].to_pylist()))
    assert (seen, run.run()[0].snapshot_id) == ([[1, 2], [1, 2, 3]], None)


@pytest.mark.parametrize("format", ["parquet", "orc", "avro", "delta"])
def test_files_get_the_condition_on_the_mark(spark: SparkSession, tmp_path: Path, format: str) -> None:
    write(spark, format, tmp_path / "rows", 1, 2)
    source = sources.spark(format, high_water_mark="id", path=tmp_path / "rows")
    assert "GreaterThanOrEqual(id,2)" in physical_plan(spark, source)


def test_a_database_gets_the_condition_in_its_query(spark: SparkSession, tmp_path: Path) -> None:
    url = f"jdbc:derby:memory:{tmp_path.name};create=true"
    assert spark._jvm is not None
    connection = spark._jvm.java.sql.DriverManager.getConnection(url)
    connection.createStatement().execute("CREATE TABLE orders (id BIGINT)")
    driver = "org.apache.derby.jdbc.EmbeddedDriver"
    source = sources.spark("jdbc", high_water_mark="ID", url=url, driver=driver, dbtable="orders")
    # the star: the database does it, and Spark does not look again
    assert "PushedFilters: [*Or(GreaterThanOrEqual(ID,2),IsNull(ID))]" in physical_plan(spark, source)


def test_a_data_source_in_python_gets_the_condition(spark: SparkSession, tmp_path: Path) -> None:
    source = sources.spark(Numbers, high_water_mark="id", log=tmp_path / "log")
    rows = above(spark, source).collect()
    assert [row.id for row in rows] == [2, 3]
    assert (tmp_path / "log").read_text() == "id >= 2"


class Numbers(DataSource):
    """The numbers from the lower bound of the pushed condition on; the file `log` gets the condition."""

    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "id long NOT NULL"  # else Spark asks for NULL, too, and a reader in Python gets no OR

    def reader(self, schema: StructType) -> DataSourceReader:
        return NumbersReader(self.options["log"])


class NumbersReader(DataSourceReader):
    def __init__(self, log: str) -> None:
        self.log, self.first = log, 0

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        for each in filters:
            if isinstance(each, GreaterThanOrEqual):
                self.first = each.value
                Path(self.log).write_text(f"{'.'.join(each.attribute)} >= {each.value}")
            else:
                yield each

    def read(self, partition: Any) -> Iterator[tuple[int]]:
        return iter([(number,) for number in range(self.first, 4)])


def above(spark: SparkSession, source: sources.SparkSource) -> DataFrame:
    """The rows that a run reads whose mark is 2."""
    return load(source, spark).where(condition(source, Mark(source.high_water_mark or "", "bigint", "2", 1)))


def physical_plan(spark: SparkSession, source: sources.SparkSource) -> str:
    return str(above(spark, source)._jdf.queryExecution().executedPlan().toString())


# --- tables that change between two runs -----------------------------------------------------------------------------


class Shop:
    """A table of orders that others change, and models over it."""

    def __init__(self, spark: SparkSession, catalog: FrazilCatalog, folder: Path) -> None:
        self.spark, self.catalog, self.folder, self.lake = spark, catalog, folder, Lake(catalog=catalog)
        self.namespace = f"shop{next(_numbers)}"
        catalog.create_namespace(self.namespace)
        self.orders = f"{self.namespace}.orders"
        self.sql("CREATE TABLE {orders} (id BIGINT, country STRING, amount INT) USING iceberg")

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        rows = self.spark.sql(text.replace("{orders}", f"{self.catalog.name}.{self.orders}")).collect()
        return sorted(tuple(row) for row in rows)

    def model(self, name: str, sql: str, **options: Any) -> Model:
        declared = model(f"{self.namespace}.{name}", sql.replace("{orders}", self.orders), **options)
        if not self.catalog.table_exists(declared.name):
            schemas = {self.orders: self.catalog.load_table(self.orders).schema()}
            (table,) = ModelSchemas(lambda: self.spark, self.folder / "models").tables([declared], schemas)
            self.catalog.create_table(table.identifier, table.schema(), partition_spec=table.partition_spec())
        return declared

    def run(self, *models: Model, **options: Any) -> list[int | None]:
        """The rows that each model has written; None if it was up to date."""
        derivations = [derivation_of(each) for each in models]
        results = GraphRun(derivations, self.spark, self.catalog, self.folder, "tests", **options).run()
        return [None if result.snapshot_id is None else result.rows for result in results]

    def rows(self, declared: Model) -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in self.lake.table(declared.name).scan().to_arrow().to_pylist())


_numbers = count()


@pytest.fixture
def shop(spark: SparkSession, catalog: FrazilCatalog, tmp_path: Path) -> Shop:
    return Shop(spark, catalog, tmp_path)


@pytest.mark.requirement("spark.table-source")
def test_what_spark_compacts_is_no_change(shop: Shop) -> None:
    copy = shop.model("copy", "SELECT id, amount FROM {orders}", mode="append")
    for number in (1, 2):
        shop.sql(f"INSERT INTO {{orders}} VALUES ({number}, 'NO', 10)")
    assert shop.run(copy) == [2]
    compact = f"CALL {shop.catalog.name}.system.rewrite_data_files(table => '{shop.orders}', "
    shop.sql(compact + "options => map('rewrite-all', 'true'))")
    assert shop.run(copy) == [None]
    shop.sql("INSERT INTO {orders} VALUES (3, 'NO', 10)")
    shop.sql(compact + "options => map('rewrite-all', 'true'))")
    assert (shop.run(copy), shop.rows(copy)) == ([1], [(1, 10), (2, 10), (3, 10)])


@pytest.mark.soak
def test_a_table_with_another_partition_spec_is_followed(shop: Shop) -> None:
    query = "SELECT country, sum(amount) AS amount FROM {orders} GROUP BY country"
    clean = shop.model("clean", "SELECT id, amount FROM {orders}", mode="upsert", key=["id"])
    totals = shop.model("totals", query, mode="replace-partition", partition_by="country")
    shop.sql("INSERT INTO {orders} VALUES (1, 'NO', 10), (2, 'SE', 20)")
    shop.run(clean, totals)
    shop.sql("ALTER TABLE {orders} ADD PARTITION FIELD country")
    shop.sql("INSERT INTO {orders} VALUES (3, 'SE', 5)")
    shop.sql("DELETE FROM {orders} WHERE id = 1")
    shop.run(clean, totals)
    assert shop.rows(clean) == shop.sql("SELECT id, amount FROM {orders}")
    assert shop.rows(totals) == shop.sql(query)


@pytest.mark.soak
def test_columns_that_are_added_widened_or_dropped_upstream_change_nothing_else(shop: Shop) -> None:
    query = "SELECT id, CAST(amount AS BIGINT) AS amount FROM {orders}"
    clean = shop.model("clean", query, mode="upsert", key=["id"])
    for number, change in enumerate(
        ("ADD COLUMN note STRING", "ALTER COLUMN amount TYPE BIGINT", "DROP COLUMN note"), start=1
    ):
        shop.sql(f"INSERT INTO {{orders}} (id, country, amount) VALUES ({number}, 'NO', {number})")
        shop.run(clean)
        shop.sql(f"ALTER TABLE {{orders}} {change}")
        assert shop.run(clean) == [None], change
    shop.sql("DELETE FROM {orders} WHERE id = 1")
    shop.sql("INSERT INTO {orders} (id, country, amount) VALUES (9, 'NO', 5000000000)")
    shop.run(clean)
    assert shop.rows(clean) == shop.sql(query)


@pytest.mark.requirement("spark.table-source")
def test_a_column_that_is_renamed_upstream_needs_another_query(shop: Shop) -> None:
    before = shop.model("clean", "SELECT id, amount FROM {orders}", mode="append")
    shop.sql("INSERT INTO {orders} VALUES (1, 'NO', 10)")
    shop.run(before)
    shop.sql("ALTER TABLE {orders} RENAME COLUMN amount TO total")
    after = shop.model("clean", "SELECT id, total AS amount FROM {orders}")
    shop.run(after)  # although the newest snapshot has the old name
    assert shop.rows(after) == [(1, 10)]
    shop.sql("INSERT INTO {orders} VALUES (2, 'NO', 20)")
    with pytest.raises(PipelineError, match="amount") as raised:
        shop.run(before, full_refresh=frozenset((before.name,)))
    assert (raised.value.pipeline, shop.rows(after)) == (before.name, [(1, 10)])


@pytest.mark.requirement("spark.table-source")
def test_a_branch_of_an_input_is_read_in_its_environment_alone(shop: Shop) -> None:
    copy = shop.model("copy", "SELECT id FROM {orders}", mode="append")
    shop.sql("INSERT INTO {orders} VALUES (1, 'NO', 10)")
    shop.run(copy)
    shop.sql("ALTER TABLE {orders} CREATE BRANCH dev")
    shop.lake.table(shop.orders).append([{"id": 2, "country": "NO", "amount": 1}], branch="dev")
    assert (shop.run(copy), shop.run(copy, env="dev")) == ([None], [1])
    assert shop.rows(copy) == [(1,)]
    on_branch = shop.lake.table(copy.name).scan(at="dev").to_arrow()["id"].to_pylist()
    assert sorted(on_branch) == [1, 2]
