"""Compaction on Spark: the executors rewrite groups with the code of `rewriting`, the driver commits what they report.

Spark's own `rewrite_data_files` commits by itself: it retries behind our back, verifies no rows, and knows nothing of a
sink's progress in the snapshot. Here a task is a group, no row passes through Spark, and nothing but descriptions of
files comes back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil import vector
from frazil.errors import UpkeepError
from frazil.spark import python_error, spark_errors
from frazil.upkeep.compact import Finished
from frazil.upkeep.groups import Group
from frazil.upkeep.rewriting import Rewriter
from frazil.vector import Builder
from frazil.write.files import WrittenFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAVE = 4  # groups for each core that are handed out at once: then they are committed, and the next ones follow


class SparkEngine:
    """Rewrites groups on Spark's executors, a task each."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def rewrite(self, rewriter: Rewriter, groups: Sequence[Group]) -> Iterator[Finished]:
        """Each group with its new files, wave after wave."""
        each = max(self._spark.sparkContext.defaultParallelism * WAVE, 1)
        for start in range(0, len(groups), each):
            yield from self._wave(rewriter, groups[start : start + each])

    def index_builder(self) -> Builder:
        """Builds on the executors, too, a task for each segment."""
        return Builder(engine=vector.SparkEngine(self._spark))

    def _wave(self, rewriter: Rewriter, groups: Sequence[Group]) -> Iterator[Finished]:
        numbers = self._spark.range(0, len(groups), 1, len(groups))
        try:
            rows = numbers.mapInArrow(_task(rewriter, tuple(groups)), "number long, report string").collect()
        except spark_errors() as exc:
            raise UpkeepError(
                f"{rewriter.layout.name}: the Spark job failed: {python_error(str(exc))}",
                hint="groups that were committed before are in; what these tasks have written are orphans",
                table=rewriter.layout.name,
            ) from exc
        for row in rows:
            yield groups[row["number"]], _read_report(row["report"])


def _task(
    rewriter: Rewriter, groups: tuple[Group, ...]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`. What it needs travels inside it, pickled: keys of the store are in no log and no
    explained plan.
    """

    def rewrite(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                report = _write_report(rewriter, groups[number])
                yield pa.record_batch([pa.array([number], pa.int64()), pa.array([report])], names=["number", "report"])

    return rewrite


def _write_report(rewriter: Rewriter, group: Group) -> str:
    try:
        return json.dumps({"files": [file.to_json() for file in rewriter.rewrite(group)]})
    except UpkeepError as exc:
        return json.dumps({"problem": exc.message, "hint": exc.hint})


def _read_report(text: str) -> list[WrittenFile] | UpkeepError:
    report = json.loads(text)
    if "problem" in report:
        return UpkeepError(report["problem"], hint=report["hint"])
    return [WrittenFile.from_json(file) for file in report["files"]]
