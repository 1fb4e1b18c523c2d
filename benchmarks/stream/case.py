"""One case in a process of its own: `python -m benchmarks.stream.case WRITER FOLDER URI BROKERS TOPIC BATCH`; prints
its cost as JSON.

WRITER is ours or plain; FOLDER is for logs and checkpoints; URI is the catalog's address.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.batch.tree import TreeMeter
from frazil import Table, column, pipeline, sources
from frazil.client import connect
from frazil.config import load_settings
from frazil.pipelines.stream.run import StreamOptions, run_stream
from frazil.spark.session import KAFKA_JARS, spark_session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from frazil.client import FrazilCatalog

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/uplink"
MESSAGE = (
    "device struct<id string, organization_id string>, event struct<type string, timestamp bigint, payload string>"
)


def make_table(catalog: FrazilCatalog, *, contract: bool) -> Table:
    """The uplink table; with a contract for ours, without for plain Spark, which turns what it cannot read
    into NULL.
    """
    table = Table(
        f"bench.uplink{time.time_ns()}",
        column("device_id", "string", required=contract),
        column("organization_id", "string"),
        column("event_timestamp", "timestamp", required=contract),
        column("event_type", "string", required=contract),
        column("payload", "string"),
        partition_by=["day(event_timestamp)"],
        properties={"write.parquet.compression-codec": "zstd"},
        checks=["event_timestamp >= '2000-01-01'"] if contract else [],
    )
    catalog.create_table(
        table.identifier, table.schema(), partition_spec=table.partition_spec(), properties=dict(table.properties)
    )
    return table


def read_events(messages: pa.RecordBatch) -> pa.RecordBatch:
    """The example's own decoder."""
    from events import flatten

    rows = flatten(messages.column("value").to_pylist()).drop_columns(["raw"])
    return rows.rename_columns([sources.ERROR if name == "error" else name for name in rows.schema.names])


def ours(
    spark: SparkSession, catalog: FrazilCatalog, folder: Path, brokers: str, topic: str, batch: int
) -> Callable[[], int]:
    """The pipeline."""
    source = sources.kafka(topic, servers=brokers, decode=read_events, max_messages=batch)
    result = pipeline(source=source, target=make_table(catalog, contract=True), name="uplink")(lambda rows: rows)
    state = folder / f"state{time.time_ns()}"
    state.mkdir()

    def write() -> int:
        done = run_stream(result, spark=spark, catalog=catalog, folder=EXAMPLE, options=StreamOptions(state))
        return done.rows + done.quarantined

    return write


def plain(
    spark: SparkSession, catalog: FrazilCatalog, folder: Path, brokers: str, topic: str, batch: int
) -> Callable[[], int]:
    """What one writes without Frazil."""
    from pyspark.sql.functions import col, from_json

    target = make_table(catalog, contract=False)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(batch)}

    def write() -> int:
        messages = spark.readStream.format("kafka").option("kafka.bootstrap.servers", brokers).options(**options).load()
        rows = messages.select(from_json(col("value").cast("string"), MESSAGE).alias("m")).selectExpr(
            "m.device.id AS device_id",
            "m.device.organization_id AS organization_id",
            "cast(timestamp_millis(m.event.timestamp) AS timestamp_ntz) AS event_timestamp",
            "m.event.type AS event_type",
            "m.event.payload AS payload",
        )
        writer = (
            rows.writeStream.format("iceberg")
            .outputMode("append")
            .trigger(availableNow=True)
            .option("fanout-enabled", "true")
        )
        writer.option("checkpointLocation", str(folder / f"c{time.time_ns()}")).toTable(
            f"{catalog.name}.{target.name}"
        ).awaitTermination()
        return sum(
            int(snapshot.summary["added-records"] or 0)
            for snapshot in catalog.load_table(target.identifier).snapshots()
            if snapshot.summary
        )

    return write


def main(writer: str, folder: str, uri: str, brokers: str, topic: str, batch: str) -> None:
    """Runs the case and prints its cost."""
    os.environ["PYTHONPATH"] = str(EXAMPLE)
    sys.path.append(str(EXAMPLE))
    flags = {"catalog.uri": uri, "spark.master": "local[2]"}
    settings = load_settings(flags=flags, folder=Path(folder), environ={})
    catalog = connect(settings)
    with spark_session(settings, app_name="stream", log=Path(folder) / "spark.log", more_jars=KAFKA_JARS) as spark:
        make = {"ours": ours, "plain": plain}[writer]
        write, meter, start = (
            make(spark, catalog, Path(folder), brokers, topic, int(batch)),
            TreeMeter(),
            time.perf_counter(),
        )
        with meter.measured():
            rows = write()
        print(
            json.dumps(
                {"cpu_s": meter.cpu_s, "wall_s": time.perf_counter() - start, "peak_mb": meter.peak_mb, "rows": rows}
            )
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
