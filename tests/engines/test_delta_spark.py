"""Delta tables of the sink, as Delta on Spark reads them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from frazil.config import load_settings
from frazil.spark.session import spark_session
from tests.kit.delta_tables import HELD, comparable, holdable, rows_of, write

# PySpark leaves the socket of toArrow() to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

DELTA_JARS = [
    f"io.delta:{name}:4.4.0"
    for name in ("delta-spark_4.1_2.13", "delta-storage", "delta-kernel-api", "delta-kernel-defaults")
]
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",  # of the log, for each table: 50 tasks otherwise
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "America/St_Johns",  # a value that is read as local time is off by hours
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    flags = {"spark.master": "local[1]", **{f"spark.conf.{name}": value for name, value in DELTA.items()}}
    settings = load_settings(flags=flags, folder=folder, environ={})
    with spark_session(settings, app_name="tests", log=folder / "spark.log", more_jars=DELTA_JARS) as session:
        yield session


@pytest.mark.soak
def test_spark_finds_the_partition_values_that_were_written(spark: SparkSession, tmp_path: Path) -> None:
    differing = {}
    for number, case in enumerate(case for case in HELD if case.is_identity):
        uri = str(tmp_path / str(number))
        expected = comparable(write(uri, case, holdable(case)))
        result = comparable(rows_of(spark.read.format("delta").load(uri).toArrow()))
        if result != expected:
            differing[case.name] = {
                key: (value, result.get(key)) for key, value in expected.items() if result.get(key, "gone") != value
            }
    assert differing == {}
