"""A command that uses the warm Spark of the folder it runs in: `python -m tests.engines.warm_client WHAT [FILE]`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from frazil.config import load_settings
from frazil.spark import spark_conf, spark_session
from frazil.spark.warm import warm_session


def count_in_tasks(spark: SparkSession, _: Path) -> object:
    """An accumulator of this client's, a callback of this client's, and a setting of its session."""
    counted = spark.sparkContext.accumulator(0)

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            counted.add(batch.num_rows)
            yield batch

    spark.range(0, 100, 1, 4).mapInArrow(count, "id bigint").collect()
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    landing = Path("changes")
    landing.mkdir(exist_ok=True)
    (landing / "a.json").write_text('{"id": 1}\n{"id": 2}\n')
    seen: list[int] = []

    def take(batch: DataFrame, _: int) -> None:
        seen.extend(row.id for row in batch.collect())

    stream = spark.readStream.schema("id bigint").json(str(landing.absolute()))
    stream.writeStream.trigger(availableNow=True).foreachBatch(take).start().awaitTermination()
    return {"counted": counted.value, "seen": sorted(seen)}


def apply_rules(spark: SparkSession, _: Path) -> object:
    """What a module of the project says to a worker, and where the worker is."""

    def apply(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import rules  # type: ignore[import-not-found]  # a file of the folder

        for _ in batches:
            yield pa.record_batch([pa.array([f"{rules.WORD} in {Path.cwd()}"])], names=["word"])

    return [row.word for row in spark.range(0, 1, 1, 1).mapInArrow(apply, "word string").collect()]


def work_for_ever(spark: SparkSession, started: Path) -> object:
    """A job that ends only if it is cancelled."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        started.touch()
        while True:
            time.sleep(0.1)
            yield from ()

    return spark.range(0, 1, 1, 1).mapInArrow(work, "id bigint").collect()


def reasons(memory: str, *jars: str) -> list[str]:
    """Why a command with this driver memory and these jars does not use the warm Spark."""
    settings, said = load_settings(flags={"spark.driver_memory": memory}), list[str]()
    with ExitStack() as stack:
        assert warm_session(stack, settings, spark_conf, "test", jars, said.append) is None
    return said


def main(what: str, file: str = ".", *more: str) -> None:
    if what == "reasons":
        print(json.dumps({"result": reasons(file, *more)}))
        return
    settings = load_settings()
    with spark_session(settings, app_name=what, log=Path("own-spark.log"), tell=print) as spark:
        jvm = spark.sparkContext._jvm
        assert jvm is not None
        result = globals()[what](spark, Path(file))
        print(json.dumps({"jvm": jvm.java.lang.ProcessHandle.current().pid(), "result": result}))


if __name__ == "__main__":
    main(*sys.argv[1:])
