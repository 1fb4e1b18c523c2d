"""Landing files as a Spark frame, and what the reading of it has counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.pipelines.files.malformed import Malformed
from frazil.pipelines.files.reading import POSITION, Reader
from frazil.pipelines.files.slices import Task
from frazil.spark import Batches, merging, spread

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession


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
    # A task that Spark repeats says the same again under its own number: so these counts are exact, which sums would
    # not be.
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
