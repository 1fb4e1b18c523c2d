"""Uplink messages from Kafka into the table, each exactly once, on Spark: the same rows as `flow.py` makes on Bytewax.

python on_spark.py                                                       and again after a crash

Settings, in the environment: BROKERS (127.0.0.1:9092), TOPIC (uplink), FOLLOW=no to stop at its end, BATCH_SIZE
(messages in a commit, at most), CHECKPOINT (checkpoint): where Spark notes how far it has read. If that is lost, it
reads all again, and what is in is left out. The catalog and the object store are found as by `frazil`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from events import SCHEMA, flatten
from lakehouse import uplink
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from frazil.config import load_settings
from frazil.sinks.spark import KAFKA, foreach_batch
from frazil.spark import KAFKA_JARS, spark_session

PLACE = [pa.field("topic", pa.string()), pa.field("partition", pa.int32()), pa.field("offset", pa.int64())]


def to_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of messages, each with its place in Kafka."""
    for batch in batches:
        rows = flatten(batch.column("value").to_pylist())
        place = [batch.column(column.name) for column in PLACE]
        yield pa.record_batch([*rows.columns, *place], schema=pa.schema([*SCHEMA, *PLACE]))


def read_rows(spark: SparkSession, environ: dict[str, str]) -> DataFrame:
    """The stream of rows."""
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", environ.get("BROKERS", "127.0.0.1:9092"))
        .option("subscribe", environ.get("TOPIC", "uplink"))
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", environ.get("BATCH_SIZE", "50000"))
        .load()
    )
    schema = from_arrow_schema(pa.schema([*SCHEMA, *PLACE]), prefer_timestamp_ntz=True)
    return messages.select("value", "topic", "partition", "offset").mapInArrow(to_rows, schema)


def main(environ: dict[str, str]) -> None:
    with spark_session(
        load_settings(), app_name="uplink", log=Path(".frazil/spark.log"), more_jars=KAFKA_JARS
    ) as spark:
        spark.sparkContext.addPyFile(str(Path(__file__).with_name("events.py")))  # the executors need it, too
        follow = environ.get("FOLLOW", "yes") != "no"
        query = (
            read_rows(spark, environ)
            .writeStream.foreachBatch(foreach_batch(uplink.name, name="uplink", offsets=KAFKA))
            .option("checkpointLocation", environ.get("CHECKPOINT", "checkpoint"))
            .trigger(**({"processingTime": "10 seconds"} if follow else {"availableNow": True}))
            .start()
        )
        query.awaitTermination()


if __name__ == "__main__":
    main(dict(os.environ))
