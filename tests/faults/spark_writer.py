"""The campaign's writer as a Spark stream: a driver that starts once, takes jobs on its standard input, and tells how
each ended.

A driver takes ten seconds to start, so it lives until it is killed.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frazil.config import load_settings
from frazil.errors import WriterFenced
from frazil.sinks.delta.target import DeltaTarget
from frazil.sinks.iceberg import IcebergTarget
from frazil.sinks.spark import driver as lake
from frazil.spark.session import KAFKA_JARS, spark_session
from tests.faults.broken_rules import without
from tests.faults.pipeline_runner import QUICK
from tests.faults.sink_writer import (
    FAILED,
    FENCED,
    OPTIONS,
    REPEATED_ROWS,
    SOURCES,
    Job,
    catalog_of,
    error_of_ours,
    retry_policy_of,
)
from tests.faults.upsert_writer import upsert_with_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW = "id long, day long, note string"
READY = "ready"


def write_with_spark(spark: SparkSession, job: Job) -> int:
    """Writes the topic up to its end, in micro-batches; gives the exit code that a process would have."""
    seen: list[BaseException] = []
    table: Any = lake.Delta(job.place, job.connection) if job.kind == "delta" else job.table

    def write_and_note(frame: DataFrame, number: int) -> None:
        try:
            write(frame, number)
        except BaseException as exc:  # on its way through the JVM it becomes a text
            seen.append(exc)
            raise

    try:
        catalog = None if job.kind == "delta" else catalog_of(job)
        write = lake.foreach_batch(
            table, name="s", offsets=lake.KAFKA, catalog=catalog, retry=retry_policy_of(job), **OPTIONS
        )
        query = _rows(spark, job).writeStream.foreachBatch(write_and_note).option("checkpointLocation", job.state)
        query.trigger(availableNow=True).start().awaitTermination()
    except Exception as exc:
        ours = error_of_ours(seen[0] if seen else exc)
        print(f"spark writer: {exc} ({ours!r})", file=sys.stderr, flush=True)
        return FENCED if isinstance(ours, WriterFenced) else FAILED
    return 0


def _rows(spark: SparkSession, job: Job) -> DataFrame:
    from pyspark.sql.functions import col, from_json

    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", job.brokers)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", job.topic)
        .option("startingOffsets", _starting_offsets(job))
        .option("maxOffsetsPerTrigger", job.flush_rows * 2)
        .load()
    )
    row = from_json(col("value").cast("string"), ROW)
    return messages.select(row.alias("row"), "topic", "partition", "offset").select(
        "row.*", "topic", "partition", "offset"
    )


def _starting_offsets(job: Job) -> str:
    """Where a stream without a checkpoint begins: a little before where the table stands."""
    if (Path(job.state) / "offsets").exists():
        return "earliest"  # Spark goes by its checkpoint
    target = (
        DeltaTarget(job.place, job.connection)
        if job.kind == "delta"
        else IcebergTarget(catalog_of(job), tuple(job.table.split(".")))
    )
    known = target.progress().part("s/part-0").offsets
    offsets = {
        str(number): max(known.get(f"{job.topic}/{number}", 0) - REPEATED_ROWS, 0) for number in range(len(SOURCES))
    }
    return json.dumps({job.topic: offsets})


def main(log: str) -> None:
    """Answers each job, a line of JSON, with a line."""
    flags = {
        "spark.master": "local[2]",
        "spark.conf.spark.sql.shuffle.partitions": "2",
        "spark.conf.spark.driver.extraJavaOptions": QUICK,
    }
    answers = sys.stdout
    sys.stdout = sys.stderr
    settings = load_settings(flags=flags, environ={}, folder=Path(log).parent)
    with spark_session(settings, app_name="faults", log=Path(log), more_jars=KAFKA_JARS) as spark:
        print(READY, file=answers, flush=True)
        for line in sys.stdin:
            job = Job(**json.loads(line))
            with without(job.broken):
                write = upsert_with_spark if job.merge_mode else write_with_spark
                print(write(spark, job), file=answers, flush=True)


def as_line(job: Job) -> str:
    return json.dumps(asdict(job)) + "\n"


if __name__ == "__main__":
    main(sys.argv[1])
