"""Changes that are ready to be merged: one for each key, kept by Spark, and counted.

Tasks in Python make changes of rows (`upsert_task`): they read text, report what is wrong, and quarantine bad rows.
Rows that come in the table's own types, good and each of another key, need nothing of that, and whether they are so
Spark can see for itself: they stay in the JVM. If only one of them is not, tasks make all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from frazil.pipelines.files import TASK_BYTES
from frazil.pipelines.upsert.task import REPORT, ChangePlan
from frazil.sinks.spark import Counts, TaskReport, add_up, map_rows, read_reports
from frazil.spark import quoted, task_number
from frazil.write.upsert import ARRIVAL, DELETED, UpsertRules

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

HASHED_ROWS = 1_000_000  # what a task may hold in a hash table, which cannot spill
# for what is read twice, packing costs more than it saves
AS_THEY_ARE = {"spark.sql.inMemoryColumnarStorage.compressed": "false"}
BAD = "_frazil_bad"
RANK, COUNT = "_frazil_rank", "_frazil_count"


@dataclass(frozen=True)
class ChangeSet:
    """Changes that are ready to be merged, one for each key, kept by Spark; what was counted of them; and where their
    keys lie.

    They `fit` if the tasks that merge them can hold them in memory.
    """

    frame: DataFrame
    report: TaskReport
    rows: int
    ends: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    fits: bool = False
    by_spark: bool = False  # no task has seen them


@contextmanager
def change_set(frame: DataFrame, plan: ChangePlan, *, by_spark: bool = True) -> Iterator[ChangeSet]:
    """The changes that the rows of a frame are, computed once; they are let go of at the end. By tasks in any case
    without `by_spark`.
    """
    with ExitStack() as kept:
        if not frame._jdf.queryExecution().analyzed().deterministic():
            # With rand() or uuid() a row is another one each time it is computed, and a merge refuses that: these are
            # computed for good.
            frame = frame.localCheckpoint()
        work = _Work(plan.rules, kept, _tasks(frame))
        if by_spark and (judged := judge(frame, plan)) is not None:
            if (changes := work.of_judged(judged)) is not None:
                yield changes
                return
            kept.close()
        yield work.of_tasks(map_changes(frame, plan))


def map_changes(frame: DataFrame, plan: ChangePlan) -> DataFrame:
    """The frame's rows as changes, with the reports of the tasks among them."""

    def make(batches: Any) -> Any:
        yield from plan.run(batches, task=task_number())

    return map_rows(frame, make, plan.spark_schema())


def judge(frame: DataFrame, plan: ChangePlan) -> DataFrame | None:
    """The rows as changes, `BAD` where the contract will find a fault; None where that takes more than to look for
    NULL.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType

    table, ops = plan.load.layout.schema, plan.rules.op
    if plan.load.checks or not all(field.field_type.is_primitive for field in table.fields):
        return None
    wanted = {
        field.name: field.dataType
        for field in plan.spark_schema().fields
        if field.name not in (DELETED, ARRIVAL, REPORT)
    }
    wanted |= {ops.column: StringType()} if ops else {}
    if {field.name: field.dataType for field in frame.schema.fields} != wanted or len(frame.columns) != len(wanted):
        return None
    needed = _any(F.col(quoted(name)).isNull() for name in plan.rules.judged)
    lacking = _any(F.col(quoted(field.name)).isNull() for field in table.fields if field.required)
    deleted = unknown = F.lit(False)
    if ops is not None:
        deleted, put = _is_one_of(ops.column, ops.deletes), _is_one_of(ops.column, ops.upserts)
        unknown = ~(deleted | put)
    return frame.withColumns({DELETED: deleted, BAD: needed | unknown | (~deleted & lacking)})


@dataclass(frozen=True)
class _Work:
    """The changes of one frame; what Spark keeps of them is in `kept`."""

    rules: UpsertRules
    kept: ExitStack
    tasks: int

    def of_judged(self, judged: DataFrame) -> ChangeSet | None:
        """The changes; None if one is bad, or one of several of the same key."""
        from pyspark.sql import functions as F

        held = self._keep(self._by_key(judged))
        bad, keys, most, *ends = self._count(held, BAD, ~F.col(BAD), F.count_if(BAD))
        if bad or (most or 0) > 1:
            return None
        return replace(self._found(held.drop(BAD), TaskReport(counts=Counts(keys)), keys, ends), by_spark=True)

    def of_tasks(self, frame: DataFrame) -> ChangeSet:
        """The changes that tasks have made, and their reports, which stand among them."""
        from pyspark.sql import functions as F

        held, is_change = self._keep(self._by_key(frame)), F.col(REPORT).isNull()
        reports, keys, most, *ends = self._count(
            held, REPORT, is_change, F.collect_list(F.when(~is_change, F.struct(REPORT, COUNT)))
        )
        report = add_up(read_reports(text for text, times in reports for _ in range(times)))
        changes = held.filter(is_change).drop(REPORT)
        if (most or 0) > 1:
            changes = self._keep(self._last_of_each(changes))
        return self._found(changes.drop(ARRIVAL), report, keys, ends)

    def _by_key(self, frame: DataFrame) -> DataFrame:
        """The rows of a key in one partition."""
        return frame.repartition(self.tasks, *self._key)

    def _keep(self, frame: DataFrame) -> DataFrame:
        """The frame, computed once: a merge reads its source twice."""
        from pyspark import StorageLevel

        held = frame.persist(StorageLevel.MEMORY_AND_DISK)
        self.kept.callback(held.unpersist)
        return held

    def _count(self, held: DataFrame, rejected: str, is_change: Column, *asked: Column) -> Any:
        """In one pass over what is kept: what is `asked`; how many keys there are, the most changes of one, and where
        the keys lie.
        """
        from pyspark.sql import functions as F

        ends = [function(column) for column in self._key for function in (F.min, F.max)]
        counted = held.groupBy(*self._key, rejected).agg(F.count("*").alias(COUNT))
        asking = counted.agg(*asked, F.count_if(is_change), F.max(F.when(is_change, F.col(COUNT))), *ends)
        with settings(held.sparkSession, AS_THEY_ARE):
            return asking.collect()[0]

    def _found(self, changes: DataFrame, report: TaskReport, keys: int, ends: Sequence[Any]) -> ChangeSet:
        pairs = {name: (ends[2 * at], ends[2 * at + 1]) for at, name in enumerate(self.rules.key)}
        return ChangeSet(changes, report, keys, pairs, fits=keys <= self.tasks * HASHED_ROWS)

    def _last_of_each(self, changes: DataFrame) -> DataFrame:
        """Of the changes of a key the last, by the sequence and then by arrival. To sort them costs more than to see
        that none is twice.
        """
        from pyspark.sql import functions as F
        from pyspark.sql.window import Window

        order = [F.col(quoted(self.rules.sequence)).desc()] if self.rules.sequence else []
        latest = Window.partitionBy(*self._key).orderBy(*order, F.col(ARRIVAL).desc())
        return changes.withColumn(RANK, F.row_number().over(latest)).filter(F.col(RANK) == 1).drop(RANK)

    @property
    def _key(self) -> list[Column]:
        from pyspark.sql import functions as F

        return [F.col(quoted(name)) for name in self.rules.key]


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session for a while; after it they are as they were."""
    before = {name: spark.conf.get(name, None) for name in values}
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, known in before.items():
            spark.conf.unset(name) if known is None else spark.conf.set(name, known)


def _tasks(frame: DataFrame) -> int:
    """As many as make the frame's rows: what Spark keeps is not split into its usual 200, a task each."""
    spark, query = frame.sparkSession, frame._jdf.queryExecution()
    least = spark.sparkContext.defaultParallelism
    if query.executedPlan().nodeName() != "AdaptiveSparkPlan":
        return max(frame.rdd.getNumPartitions(), least)
    # To count the partitions of such a plan is to run its shuffles.
    wanted = int(query.optimizedPlan().stats().sizeInBytes()) // TASK_BYTES
    return max(least, min(wanted, int(spark.conf.get("spark.sql.shuffle.partitions") or 1)))


def _is_one_of(column: str, words: Sequence[str]) -> Column:
    """Whether a column holds one of these words, as they are written by all; of other spellings the contract knows
    more.
    """
    from pyspark.sql import functions as F

    forms = sorted({form for word in words for form in (word.lower(), word.upper())})
    return F.coalesce(F.col(quoted(column)).isin(forms), F.lit(False))


def _any(some: Iterable[Column]) -> Column:
    from pyspark.sql import functions as F

    return reduce(or_, some, F.lit(False))
