"""Work spread over Spark tasks, and what they report back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.accumulators import AccumulatorParam
    from pyspark.sql import DataFrame, SparkSession

Batches = Iterator[pa.RecordBatch]


def spread(spark: SparkSession, tasks: int, work: Callable[[int], Batches], schema: Any) -> DataFrame:
    """What `work` gives for each number from 0, one partition a number."""

    def work_on(batches: Iterable[pa.RecordBatch]) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(number)

    return spark.range(0, tasks, 1, tasks).mapInArrow(work_on, schema)


def task_number() -> int:
    """The number of the partition that the calling task works on; 0 outside a task."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() if context else 0


def collect_reports(frame: DataFrame) -> list[str]:
    """The texts that the tasks of a frame of one column report."""
    return [row[0] for row in frame.collect()]


def as_report(report: Any) -> pa.RecordBatch:
    """A text, or any value as JSON, as what `collect_reports` collects."""
    return pa.record_batch([pa.array([report if isinstance(report, str) else json.dumps(report)])], names=["report"])


def merging() -> AccumulatorParam[dict[int, Any]]:
    """What makes an accumulator of dictionaries: later entries of a key win."""
    from pyspark.accumulators import AccumulatorParam

    class Merging(AccumulatorParam[dict[int, Any]]):
        """Dictionaries, joined."""

        def zero(self, value: dict[int, Any]) -> dict[int, Any]:
            return {}

        def addInPlace(self, value1: dict[int, Any], value2: dict[int, Any]) -> dict[int, Any]:
            value1.update(value2)
            return value1

    return Merging()


def quoted(name: str) -> str:
    """A column's name as Spark reads it, whatever is in it.

    >>> quoted("a.`b`")
    '`a.``b```'
    """
    escaped = name.replace("`", "``")
    return f"`{escaped}`"
