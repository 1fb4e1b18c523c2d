"""One case in a process of its own: `python -m benchmarks.batch.case WRITER FOLDER URI`; prints what it cost as JSON.

WRITER is ours, ours-key, plain or plain-distinct; FOLDER holds the landing files; URI is the catalog's address.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.batch.tree import TreeMeter
from frazil import Table, column, pipeline, sources
from frazil.client import connect
from frazil.config import load_settings
from frazil.pipelines.batch.run import run_pipeline
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.client import FrazilCatalog

PROPERTIES = {"write.format.default": "parquet", "write.parquet.compression-codec": "snappy"}
COLUMNS = [
    ("order_id", "string"),
    ("customer_id", "string"),
    ("amount", "decimal(12,2)"),
    ("country", "string"),
    ("ingestion_date", "date"),
]
REQUIRED = {"order_id", "customer_id", "amount", "ingestion_date"}


def declare(name: str, *, contract: bool) -> Table:
    """The table: with NOT NULL and a check for ours, without for plain Spark, which turns what it cannot read into
    NULL.
    """
    columns = [column(item, kind, required=contract and item in REQUIRED) for item, kind in COLUMNS]
    return Table(
        name,
        *columns,
        partition_by=["ingestion_date"],
        properties=PROPERTIES,
        checks=["amount >= 0"] if contract else [],
    )


def capitals(orders: DataFrame) -> DataFrame:
    """What both do to the rows."""
    from pyspark.sql import functions as F

    return orders.withColumn("country", F.upper("country"))


def ours(spark: SparkSession, catalog: FrazilCatalog, folder: Path, *, key: bool) -> Callable[[], int]:
    """The pipeline."""
    target = declare(f"bench.ours{time.time_ns()}", contract=True)
    catalog.create_table(
        target.identifier, target.schema(), partition_spec=target.partition_spec(), properties=dict(target.properties)
    )
    result = pipeline(source=sources.csv("*.csv"), target=target, key=["order_id"] if key else [])(capitals)
    return lambda: run_pipeline(result, spark=spark, catalog=catalog, folder=folder).rows


def plain(spark: SparkSession, catalog: FrazilCatalog, folder: Path, *, distinct: bool) -> Callable[[], int]:
    """What one writes without Frazil."""
    target = declare(f"bench.plain{time.time_ns()}", contract=False)
    catalog.create_table(
        target.identifier, target.schema(), partition_spec=target.partition_spec(), properties=dict(target.properties)
    )
    schema = ", ".join(f"{name} {kind}" for name, kind in COLUMNS)

    def write() -> int:
        rows = capitals(spark.read.schema(schema).option("header", "true").csv(str(folder / "*.csv")))
        rows = rows.dropDuplicates(["order_id"]) if distinct else rows
        rows.writeTo(f"{catalog.name}.{target.name}").append()
        snapshot = catalog.load_table(target.identifier).current_snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        return int(snapshot.summary["added-records"] or 0)

    return write


def main(writer: str, folder: str, uri: str) -> None:
    """Runs the case and prints its cost."""
    settings = load_settings(flags={"catalog.uri": uri, "spark.master": "local[2]"}, folder=Path(folder), environ={})
    catalog = connect(settings)
    with spark_session(settings, app_name="batch", log=Path(folder) / "spark.log") as spark:
        make = {
            "ours": lambda: ours(spark, catalog, Path(folder), key=False),
            "ours-key": lambda: ours(spark, catalog, Path(folder), key=True),
            "plain": lambda: plain(spark, catalog, Path(folder), distinct=False),
            "plain-distinct": lambda: plain(spark, catalog, Path(folder), distinct=True),
        }[writer]
        write, meter, start = make(), TreeMeter(), time.perf_counter()
        with meter.measured():
            rows = write()
        print(
            json.dumps(
                {"cpu_s": meter.cpu_s, "wall_s": time.perf_counter() - start, "peak_mb": meter.peak_mb, "rows": rows}
            )
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
