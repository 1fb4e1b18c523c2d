"""Java and Spark plan through the catalog: the same files, deletes and residuals as their own planning, and the same
rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import DayTransform, IdentityTransform

from frazil.artifacts.jars import resolve_jars
from frazil.artifacts.java import JavaNeed, find_java
from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.spark.session import ICEBERG_RUNTIME
from tests.contract.test_catalog_scans import SCHEMA, rows

OPENED = (
    "java.lang",
    "java.lang.invoke",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
)
OPENED += ("sun.nio.ch", "sun.util.calendar", "sun.security.action")
SPEC = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "country"), PartitionField(3, 1001, DayTransform(), "day")
)
PLANNED, PLAIN = "planned", "plain"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCatalog]:
    with running_catalog(tmp_path_factory.mktemp("planning")) as running:
        load_catalog("setup", **running.properties).create_namespace("lake")
        yield running


@pytest.fixture(scope="module")
def gateway() -> Iterator[JavaGateway]:
    """A JVM of its own with the jars of Spark and Iceberg: other tests have a Spark in this process."""
    (runtime,) = resolve_jars([ICEBERG_RUNTIME])
    options = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED]
    port, process = launch_gateway(
        classpath=f"{runtime}:{Path(pyspark.__file__).parent / 'jars'}/*",
        java_path=str(find_java(JavaNeed.SPARK).executable),
        javaopts=["-Xmx1g", *options],
        die_on_exit=True,
        return_proc=True,
    )
    java_gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    yield java_gateway
    java_gateway.shutdown()
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


@pytest.fixture(scope="module")
def catalogs(gateway: JavaGateway, server: EmbeddedCatalog) -> dict[str, Any]:
    """Java's REST catalog twice: once it plans itself, once it lets the server plan."""
    result = {}
    for name, mode in ((PLAIN, "client"), (PLANNED, "server")):
        catalog = gateway.jvm.org.apache.iceberg.rest.RESTCatalog()
        catalog.setConf(gateway.jvm.org.apache.hadoop.conf.Configuration())
        files = "org.apache.iceberg.hadoop.HadoopFileIO"
        catalog.initialize(name, {"uri": server.uri, "scan-planning-mode": mode, "io-impl": files})
        result[name] = catalog
    return result


@pytest.fixture(scope="module")
def orders(server: EmbeddedCatalog, catalogs: dict[str, Any], gateway: JavaGateway) -> str:
    """Data files of PyIceberg, and delete files of every kind that Java has added (no rows in them: only
    planned).
    """
    table = load_catalog("setup", **server.properties).create_table("lake.orders", SCHEMA, partition_spec=SPEC)
    for start in range(0, 90, 30):
        table.append(rows(start, 30))
    java = load(gateway, catalogs[PLAIN], "orders")
    of_one = next(task.file.file_path for task in table.scan("country = 'NO' and id = 0")._plan_files_local())
    delta = java.newRowDelta()
    delta.addDeletes(delete(gateway, java.spec(), "positions").withPartitionPath("country=NO/day=1970-01-02").build())
    delta.addDeletes(delete(gateway, java.spec(), "equality").withPartitionPath("country=SE/day=1970-01-03").build())
    delta.addDeletes(
        delete(gateway, java.spec(), "positions", "named")
        .withPartitionPath("country=NO/day=1970-01-01")
        .withReferencedDataFile(of_one)
        .build()
    )
    delta.commit()
    table.refresh().append(rows(90, 30))
    return "orders"


def delete(gateway: JavaGateway, spec: Any, kind: str, name: str | None = None) -> Any:
    file_builder = gateway.jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(spec)
    file_builder = (
        file_builder.ofPositionDeletes() if kind == "positions" else file_builder.ofEqualityDeletes(numbers(gateway, 1))
    )
    return (
        file_builder.withPath(f"/nowhere/{name or kind}.parquet")
        .withFormat("parquet")
        .withFileSizeInBytes(10)
        .withRecordCount(1)
    )


def numbers(gateway: JavaGateway, *values: int) -> Any:
    array = gateway.new_array(gateway.jvm.int, len(values))
    for at, value in enumerate(values):
        array[at] = value
    return array


def load(gateway: JavaGateway, catalog: Any, name: str) -> Any:
    return catalog.loadTable(gateway.jvm.org.apache.iceberg.catalog.TableIdentifier.parse(f"lake.{name}"))


def tasks(table: Any, expr: Any) -> dict[str, tuple[list[str], str]]:
    """The files of a plan, each with its deletes and what is left of the filter."""
    result, planned = {}, table.newScan().filter(expr).planFiles()
    iterator = planned.iterator()
    while iterator.hasNext():
        task = iterator.next()
        # A decimal travels as text, and Java binds it later: the quotes around it are no difference.
        result[task.file().location()] = (
            sorted(response.location() for response in task.deletes()),
            str(task.residual()).replace('"', ""),
        )
    planned.close()
    return result


def expressions(gateway: JavaGateway) -> dict[str, Any]:
    make = gateway.jvm.org.apache.iceberg.expressions.Expressions
    long, both = gateway.jvm.java.lang.Long.valueOf, getattr(make, "and")
    bucket = make.equal(make.bucket("id", 4), gateway.jvm.java.lang.Integer.valueOf(1))
    return {
        "everything": make.alwaysTrue(),
        "a country": make.equal("country", "NO"),
        "a country and an id": both(make.equal("country", "SE"), make.equal("id", long(4))),
        "a time": make.greaterThanOrEqual("at", "1970-01-04T12:00:00"),
        "an amount": make.lessThan("amount", gateway.jvm.java.math.BigDecimal("12.00")),
        "not a country": getattr(make, "not")(make.startsWith("country", "N")),
        "some ids": getattr(make, "in")("id", [long(3), long(88)]),
        "a bucket and a country": both(bucket, make.equal("country", "DK")),
        "nothing": make.isNull("country"),
    }


@pytest.mark.parametrize(
    "name",
    ["everything", "a country", "a country and an id", "a time", "an amount", "not a country", "some ids", "nothing"],
)
def test_java_gets_the_plan_that_it_would_have_made(
    catalogs: dict[str, Any], gateway: JavaGateway, orders: str, name: str
) -> None:
    expr = expressions(gateway)[name]
    own, servers = (tasks(load(gateway, catalogs[which], orders), expr) for which in (PLAIN, PLANNED))
    assert servers == own
    assert load(gateway, catalogs[PLANNED], orders).newScan().getClass().getSimpleName() == "RESTTableScan"


def test_a_filter_on_a_transform_is_left_to_java(catalogs: dict[str, Any], gateway: JavaGateway, orders: str) -> None:
    expr = expressions(gateway)["a bucket and a country"]
    own, servers = (tasks(load(gateway, catalogs[which], orders), expr) for which in (PLAIN, PLANNED))
    assert set(own) <= set(servers)
    assert "bucket" in next(iter(servers.values()))[1]


def test_without_being_asked_java_plans_by_itself(gateway: JavaGateway, server: EmbeddedCatalog, orders: str) -> None:
    catalog = gateway.jvm.org.apache.iceberg.rest.RESTCatalog()
    catalog.setConf(gateway.jvm.org.apache.hadoop.conf.Configuration())
    catalog.initialize("usual", {"uri": server.uri, "io-impl": "org.apache.iceberg.hadoop.HadoopFileIO"})
    assert load(gateway, catalog, orders).newScan().getClass().getSimpleName() == "DataTableScan"


@pytest.fixture(scope="module")
def spark(gateway: JavaGateway, server: EmbeddedCatalog) -> Iterator[Any]:
    builder = gateway.jvm.org.apache.spark.sql.SparkSession.builder().master("local[1]").appName("planning")
    conf = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    conf["spark.sql.extensions"] = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    conf |= {"spark.sql.shuffle.partitions": "1", "spark.sql.warehouse.dir": str(server.folder / "spark")}
    for name, mode in ((PLAIN, "client"), (PLANNED, "server")):
        conf |= {
            f"spark.sql.catalog.{name}": "org.apache.iceberg.spark.SparkCatalog",
            f"spark.sql.catalog.{name}.type": "rest",
        }
        conf |= {f"spark.sql.catalog.{name}.uri": server.uri, f"spark.sql.catalog.{name}.scan-planning-mode": mode}
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.mark.parametrize("version", [2, 3])
def test_spark_reads_the_same_rows_through_the_servers_plan(spark: Any, version: int) -> None:
    table = f"lake.sales_v{version}"
    properties = (
        f"'format-version'='{version}', 'write.delete.mode'='merge-on-read', 'write.parquet.page-row-limit'='100'"
    )
    spark.sql(
        f"CREATE TABLE plain.{table} (id BIGINT, country STRING) USING iceberg PARTITIONED BY (country) TBLPROPERTIES "
        f"({properties})"
    )
    values = "SELECT id, CASE id % 3 WHEN 0 THEN 'NO' WHEN 1 THEN 'SE' END FROM range(0, 300)"
    spark.sql(f"INSERT INTO plain.{table} {values}")
    spark.sql(f"DELETE FROM plain.{table} WHERE id % 10 = 3 AND country = 'NO'")
    for where in ("true", "country = 'NO'", "country IS NULL AND id > 100", "id BETWEEN 30 AND 60"):
        query = "SELECT id, country FROM {}." + table + f" WHERE {where} ORDER BY id"
        read = [[str(row) for row in spark.sql(query.format(name)).collectAsList()] for name in (PLAIN, PLANNED)]
        assert read[0] == read[1]
        assert read[0]
