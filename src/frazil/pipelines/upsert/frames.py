"""`upsert_frame`: a Spark frame of changes into a table by key, exactly once. For pipelines, and for `foreachBatch` of
any stream.

from frazil.pipelines.upsert import upsert_batches, upsert_frame

upsert_frame(frame, "lakehouse.customers", name="crm", key=["id"], sequence="updated_at", op="op", position={"day": 20})

writer = upsert_batches("lakehouse.customers", name="crm", key=["id"], sequence="updated_at", op="op")
rows.writeStream.foreachBatch(writer).option("checkpointLocation", "...").start()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from frazil.errors import RowRefused, SinkError
from frazil.pipelines import Stages, publish
from frazil.pipelines.files import FileRows
from frazil.pipelines.upsert.changes import change_set
from frazil.pipelines.upsert.merge import Merge
from frazil.pipelines.upsert.task import ChangePlan
from frazil.sinks import BadRows, IcebergTarget, SinkOptions, as_catalog, as_checks, check_table, part_name
from frazil.sinks.spark import (
    Counts,
    FrameResult,
    FrameSink,
    Staged,
    Takeover,
    TaskPlan,
    TaskReport,
    each_batch,
    query_position,
    row_schema,
    task_limits,
    tasks_at_once,
)
from frazil.spark import spark_error, spark_errors
from frazil.write.commit import RetryPolicy
from frazil.write.files import BufferLimits
from frazil.write.upsert import Ops, UpsertRules

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.typedef import Identifier
    from pyspark.sql import DataFrame


class UpsertFrames:
    """Upserts frames, each in one commit. Lives on the driver; opening it fences every other writer of the same name.

    After a commit that failed or whose end is not known, open it again: the table says where to go on. `takeover` is
    that of `FrameSink`.
    """

    def __init__(
        self,
        table: str | Identifier,
        *,
        name: str,
        key: str | Sequence[str],
        sequence: str | None = None,
        op: str | Ops | None = None,
        checks: str | Sequence[str] = (),
        bad_rows: BadRows = "stop",
        catalog: Any = None,
        retry: RetryPolicy | None = None,
        takeover: Takeover = "open",
    ) -> None:
        self._rules, self._bad_rows = UpsertRules.of(key, sequence, op), bad_rows
        catalog = as_catalog(catalog)
        self._target = IcebergTarget(catalog, check_table(table), retry=retry or RetryPolicy(), key=self._rules.key)
        self._rules.check(self._target.layout)
        self._part, self._checks = part_name(name, 0), as_checks(checks)
        chosen = SinkOptions(checks=self._checks, bad_rows=bad_rows)
        self._sink = FrameSink(self._target, self._part, options=chosen, takeover=takeover)
        self._stages = Stages(catalog, self._target, self._part, self._sink.generation)
        self._stages.clean()
        self._by_spark = True

    @property
    def position(self) -> Mapping[str, int]:
        """Where the source is to go on, by source partition: everything before is in the table."""
        return self._sink.position

    def write(
        self,
        frame: DataFrame,
        *,
        position: Mapping[str, int] | None = None,
        also: Mapping[str | Identifier, pa.Table] | None = None,
        check: Callable[[Counts], None] | None = None,
    ) -> FrameResult:
        """The changes are in the table, with the quarantined rows and those of other tables, in one commit, when this
        returns.

        `position` says where the source stands after the frame; if the table has reached it, the frame is not computed.
        `check` is called between the tasks and the merge: if it raises, nothing is committed.
        """
        end = dict(position or {})
        if self._sink.has_reached(end):
            return FrameResult(Counts(), self.position, was_in=True)
        try:
            with change_set(frame, self.plan(frame), by_spark=self._by_spark) as changes:
                self._by_spark = changes.by_spark  # what came in one frame will come in the next
                counts = replace(changes.report.counts, first_refusal=None)
                known = self.position
                start = {name: known[name] for name in end if name in known}
                staged = Staged((), changes.report.quarantine_files, counts, start, end)
                self._refuse(changes.report, staged, counts, check)
                merge = Merge(self._stages, changes, self._rules) if changes.rows else None
                also_rows = (lambda _: also) if also else None
                return publish(self._sink, staged, stages=self._stages, write=merge, also=also_rows)
        except spark_errors() as exc:
            hint = "nothing of this frame was committed"
            raise SinkError(
                f"{self._target.layout.name}: the Spark job failed: {spark_error(str(exc))}",
                hint=hint,
                table=self._target.layout.name,
            ) from exc

    def clean_rivals(self) -> None:
        """Removes the branches of writers that were killed, or that lost against this one; to be called after the first
        commit.
        """
        with suppress(Exception):  # the rows are in; the next writer removes what is left
            self._stages.clean_rivals()

    def plan(self, frame: DataFrame) -> ChangePlan:
        """How the rows of a frame become changes; refuses columns that do not fit."""
        layout, spark = self._target.layout, frame.sparkSession
        quarantine = self._target.open_quarantine(self._part).layout
        limits = task_limits(BufferLimits(), tasks_at_once(spark))
        load = TaskPlan(layout, self._part, limits, FileRows(()), quarantine, self._checks)
        plan = ChangePlan(load, self._rules)
        plan.check_fields(row_schema(frame.schema, None, table=layout.name))
        return plan

    def _refuse(
        self, report: TaskReport, staged: Staged, counts: Counts, check: Callable[[Counts], None] | None
    ) -> None:
        try:
            if counts.refused and self._bad_rows == "stop":
                reason = max(report.reasons, key=lambda text: report.reasons[text])
                raise RowRefused(
                    self._target.layout.name, reason, position=f"one of {counts.refused:,} bad rows", row=""
                )
            if check is not None:
                check(counts)
        except BaseException:
            self._sink.discard(staged)
            raise


def upsert_frame(
    frame: DataFrame,
    table: str | Identifier,
    *,
    position: Mapping[str, int] | None = None,
    also: Mapping[str | Identifier, pa.Table] | None = None,
    check: Callable[[Counts], None] | None = None,
    **options: Any,
) -> FrameResult:
    """One frame of changes, in one commit, which takes over, too; the options are those of `UpsertFrames`.

    If another writer of the name commits before it, this one is refused with `WriterFenced`, and nothing of the frame
    is in.
    """
    frames = UpsertFrames(table, takeover="first commit", **options)
    result = frames.write(frame, position=position, also=also, check=check)
    if result.snapshot_id is not None:
        frames.clean_rivals()
    return result


def upsert_batches(
    table: str | Identifier, *, on_result: Callable[[FrameResult], None] | None = None, **options: Any
) -> Callable[[DataFrame, int], None]:
    """A function for `writeStream.foreachBatch`; it takes the table over at the first batch.

    The number of the batch in the query's checkpoint is the position: a batch that Spark repeats changes nothing as
    long as the checkpoint is kept, and a query with another checkpoint under the same name is refused.
    """
    name = table if isinstance(table, str) else ".".join(table)

    def write(frames: UpsertFrames, frame: DataFrame, batch_id: int) -> None:
        result = frames.write(frame, position=query_position(frames.position, frame, batch_id, table=name))
        if on_result is not None:
            on_result(result)

    return each_batch(lambda: UpsertFrames(table, **options), write)
