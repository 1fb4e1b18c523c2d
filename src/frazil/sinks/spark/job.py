"""The Spark job of a frame: a plan to the executors, reports back to the driver."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.errors import ProgressMismatch, RowRefused, SchemaMismatch, SinkError
from frazil.sinks import SinkOptions, Target
from frazil.sinks.spark.frame_rows import FrameRows, OffsetColumns
from frazil.sinks.spark.task import Staged, TaskPlan, TaskReport, join_offsets
from frazil.spark import as_report, collect_reports, python_error, task_number
from frazil.write.contract import Contract
from frazil.write.files import MB, BufferLimits, check_written, delete_quietly

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

LEAST_BUDGET_BYTES = 16 * MB
CHECKPOINT = "checkpoint/"  # before the id of a query: the source partition of a stream whose rows have no offsets
ArrowStep = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Through:
    """A step on Arrow batches, as for `mapInArrow`, and the columns that it gives in Spark's words: "id bigint, name
    string".
    """

    step: ArrowStep
    columns: str

    @property
    def schema(self) -> StructType:
        from pyspark.sql.types import StructType

        ddl = StructType.fromDDL(self.columns)
        assert isinstance(ddl, StructType), self.columns
        return ddl


def make_plan(
    target: Target,
    part: str,
    schema: StructType,
    *,
    options: SinkOptions,
    tasks: int,
    reached: Mapping[str, int],
    offsets: OffsetColumns | None = None,
    end: Mapping[str, int] | None = None,
    key: Sequence[str] = (),
) -> TaskPlan:
    """What the tasks must know to write rows of a schema; adds new columns to the table first, if the options
    say so.
    """
    name = target.layout.name
    rows = row_schema(schema, offsets, table=name)
    if options.extra_fields == "evolve" and (names := Contract.of(target.layout, extra="evolve").new_fields(rows)):
        target.evolve(rows, names=names)
    quarantine = target.open_quarantine(part) if options.bad_rows == "quarantine" else None
    plan = TaskPlan(
        target.layout,
        part,
        task_limits(options.limits, tasks),
        FrameRows(offsets, dict(reached), dict(end or {})),
        quarantine=quarantine.layout if quarantine else None,
        checks=options.checks,
        extra=options.extra_fields,
        key=tuple(key),
        quarantined=quarantine.reached if quarantine else {},
    )
    try:
        plan.contract.check_fields(rows)  # here, where the error is the caller's own, not that of a task
    except SchemaMismatch as exc:
        if exc.expected == "timestamp" and "tz=" in exc.got:
            exc.hint = (
                f"Spark's timestamp has a zone, and the table's has none: .withColumn('{exc.column}', "
                f"....cast('timestamp_ntz'))"
            )
        raise
    return plan


def run_job(frame: DataFrame, plan: TaskPlan, through: Through | None = None) -> list[TaskReport]:
    """What the tasks that write the frame report; only those that Spark counts as done, one per partition."""
    return read_reports(collect_reports(frame_of_reports(frame, plan, through)))


def frame_of_reports(frame: DataFrame, plan: TaskPlan, through: Through | None = None) -> DataFrame:
    """The frame whose tasks write the rows; each gives its report."""

    def write_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # The plan travels inside this function, pickled: what it holds is in no log and in no explained plan.
        yield as_report(plan.run(through.step(batches) if through else batches, task=task_number()).to_json())

    return map_rows(frame, write_rows, "report string")


def map_rows(frame: DataFrame, step: ArrowStep, schema: StructType | str) -> DataFrame:
    """`frame.mapInArrow` for columns of any name: PySpark asks for each by name, and takes what is before a dot for a
    struct.
    """
    names = frame.columns
    if all(name.isidentifier() for name in names):
        return frame.mapInArrow(step, schema)

    def named(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return step(batch.rename_columns(names) for batch in batches)

    return frame.toDF(*(f"c{number}" for number in range(len(names)))).mapInArrow(named, schema)


def read_reports(texts: Iterable[str]) -> list[TaskReport]:
    """The reports of tasks, as they have travelled."""
    return [TaskReport.from_json(text) for text in texts]


def add_up(reports: Iterable[TaskReport]) -> TaskReport:
    """All that the tasks have written and counted."""
    return sum(reports, TaskReport())


def as_staged(
    report: TaskReport, *, reached: Mapping[str, int] | None = None, end: Mapping[str, int] | None = None
) -> Staged:
    """What the tasks have written, and from where to where it reaches in the source."""
    ends = join_offsets(end or {}, report.end, max)
    start = {source: offset for source, offset in (reached or {}).items() if source in ends}
    return Staged(report.files, report.quarantine_files, report.counts, start, ends)


def check_report(report: TaskReport, *, reached: Mapping[str, int], table: str) -> None:
    """Refuses a frame of which a task gave up at a bad row, or wrote rows that have come in by another writer since the
    job began.
    """
    if report.stopped:
        refusal = report.counts.first_refusal
        assert refusal is not None
        raise RowRefused(table, refusal.reason, position=refusal.position, row=refusal.raw)
    check_written(report.files, report.counts.rows, table=table)
    for source, first in report.first.items():
        if first < reached.get(source, first):
            raise ProgressMismatch(
                f"{table}: rows from {first} of source '{source}' were written while another writer came to "
                f"{reached[source]}",
                hint="write the frame again: the rows that are in are left out then",
                table=table,
                source=source,
            )


def discard_files(staged: Staged, target: Target, part: str) -> None:
    """Deletes files that are in no commit, and in none that is under way."""
    for file in staged.files:
        delete_quietly(target.layout, file.path)
    if staged.quarantine_files:
        layout = target.open_quarantine(part).layout
        for file in staged.quarantine_files:
            delete_quietly(layout, file.path)


def row_schema(schema: StructType, offsets: OffsetColumns | None, *, table: str) -> pa.Schema:
    """The Arrow types in which rows of a Spark schema will arrive, without the columns that are dropped."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema

    names = schema.fieldNames()
    if offsets is not None and (missing := [name for name in (*offsets.sources, offsets.offset) if name not in names]):
        raise SchemaMismatch(
            table, missing[0], expected="a column of the frame, named in offsets", got=f"only {', '.join(names)}"
        )
    try:
        rows = to_arrow_schema(schema.toNullable())  # Spark calls a literal NOT NULL: that is no wish for the table
    except PySparkException as exc:
        raise SinkError(
            f"{table}: a column of the frame has a type that Arrow does not know: {python_error(str(exc))}", table=table
        ) from exc
    dropped = offsets.dropped if offsets else ()
    return pa.schema([row for row in rows if row.name not in dropped])


def task_limits(limits: BufferLimits, tasks: int) -> BufferLimits:
    """One task's share of what an executor may use.

    >>> task_limits(BufferLimits(budget_bytes=256 * MB), 4).budget_bytes // MB
    64
    """
    return replace(
        limits, budget_bytes=max(limits.budget_bytes // tasks, min(LEAST_BUDGET_BYTES, limits.budget_bytes)), threads=1
    )


def tasks_at_once(spark: SparkSession) -> int:
    """How many tasks run in one executor at the same time."""
    master = spark.conf.get("spark.master", "") or ""
    if local := re.fullmatch(r"local(?:\[(\*|\d+)(?:,\d+)?\])?", master):
        return (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)
    # A standalone executor takes all cores of its worker unless told otherwise: this machine's number is the best
    # guess.
    cores = spark.conf.get("spark.executor.cores", str(os.cpu_count() or 1) if master.startswith("spark:") else "1")
    each = spark.conf.get("spark.task.cpus", "1")
    return max(int(cores or 1) // max(int(each or 1), 1), 1)


def query_position(known: Mapping[str, int], frame: DataFrame, batch_id: int, *, table: str) -> dict[str, int]:
    """The position of a batch by its number, for the streaming query that the calling thread works for."""
    query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    return batch_position(known, query, batch_id, table=table)


def batch_position(known: Mapping[str, int], query: str | None, batch_id: int, *, table: str) -> dict[str, int]:
    """The position of a stream's batch whose rows carry no offsets: its number, in the checkpoint that gave it.

    >>> batch_position({"checkpoint/q1": 4}, "q1", 4, table="t")
    {'checkpoint/q1': 5}
    """
    own = f"{CHECKPOINT}{query}"
    if others := [name for name in known if name.startswith(CHECKPOINT) and name != own]:
        raise ProgressMismatch(
            f"{table}: the table has batches of the query {others[0].removeprefix(CHECKPOINT)}, and this one, with "
            f"another checkpoint, "
            f"is {query}: it is unknown which of its rows are committed",
            hint="go on with the old checkpoint, or give offsets=OffsetColumns(...), or write under another name if "
            "all its rows are new",
            table=table,
            problem="other-checkpoint",
        )
    return {own: batch_id + 1}
