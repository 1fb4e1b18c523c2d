"""Landing files as a Spark frame, and what the reading of it has counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.pipelines.reading import POSITION, Malformed, Reader
from frazil.pipelines.slices import Task

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.accumulators import AccumulatorParam
    from pyspark.sql import DataFrame, SparkSession

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class TaskCount:
    """What one task has read: rows, and what was none."""

    rows: int
    malformed: int


@dataclass(frozen=True)
class SourceFrame:
    """The rows of a run's files; `counts` are there once the frame was computed, by the number of the task."""

    rows: DataFrame
    tasks: Sequence[Task]
    _counts: Accumulator[dict[int, TaskCount]]

    @property
    def counts(self) -> Mapping[int, TaskCount]:
        return self._counts.value

    @property
    def malformed_tasks(self) -> list[Task]:
        """The tasks that met rows which cannot be taken apart: these never came as far as Spark."""
        return [self.tasks[number] for number, count in sorted(self.counts.items()) if count.malformed]


def read_frame(spark: SparkSession, reader: Reader, tasks: Sequence[Task]) -> SourceFrame:
    """The files' rows with their position, one partition a task."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema = from_arrow_schema(reader.schema.append(pa.field(POSITION, pa.int64())))
    # A task that Spark repeats says the same again under its own number: so these counts are exact, which sums would not be.
    counts: Accumulator[dict[int, TaskCount]] = spark.sparkContext.accumulator({}, merging())

    def read_task(number: int) -> Batches:
        rows = malformed = 0

        def count(_: Malformed) -> None:
            nonlocal malformed
            malformed += 1

        for piece in tasks[number]:
            for batch in reader.read(piece, count):
                rows += batch.num_rows
                yield batch
        counts.add({number: TaskCount(rows, malformed)})

    return SourceFrame(spread(spark, len(tasks), read_task, schema), tasks, counts)


def spread(spark: SparkSession, tasks: int, work: Callable[[int], Batches], schema: Any) -> DataFrame:
    """What `work` gives for each number from 0, one partition a number."""

    def work_on(batches: Iterable[pa.RecordBatch]) -> Batches:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(number)

    return spark.range(0, tasks, 1, tasks).mapInArrow(work_on, schema)


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
