"""The sink in Spark: a frame is one commit. Executors write the files, the driver commits them; no row passes through
the driver.

    from frazil.sinks import spark as lake

    # a batch frame: all of it is in, or nothing
    lake.write_frame(frame, "lakehouse.sales", name="daily", bad_rows="quarantine", checks=["amount >= 0"])

    # a stream; Kafka's topic, partition and offset go along with the rows and are not columns of the table
    writer = lake.foreach_batch("lakehouse.uplink", name="uplink", offsets=lake.OffsetColumns(("topic", "partition"),
    "offset")) rows.writeStream.foreachBatch(writer).option("checkpointLocation", "...").start()

    # step by step, for pipelines
    sink = lake.open("lakehouse.sales", name="daily")            # or lake.open(lake.Delta("s3://bucket/table", {...}),
    name=...) staged = sink.stage(frame)                                   # one Spark job; files exist, unseen
    them if staged.counts.bad_share > 0.1:
        sink.discard(staged)                                     # deletes them: nothing can refer to them
    else:
        result = sink.publish(staged, also={"lakehouse.sales__ledger": ledger_rows})     # one commit of all tables
    result = sink.write(frame, position={"day": 20}, also=..., check=refuse_if_too_bad)  # the three in one

A frame's place in its source, so that a repeated one changes nothing:
- `offsets=OffsetColumns(...)`: each row says where it came from. Rows that the table has are left out on the executors,
  also when the checkpoint is lost. The table keeps the next offset of each source partition.
- `position={...}`: where the source stands after this frame. If the table has reached it, the frame is not even
  computed, and the result says `was_in`.
- neither: the frame is appended, all or nothing; who writes it twice has it twice.

`publish(staged, change=...)` commits something else than an append of the staged files under the same claim: a
`snapshots.Move`, or anything with `identifier` and `build` as `snapshots.Append` has them.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack

import pyarrow as pa
from pyiceberg.typedef import Identifier

from frazil.errors import MissingExtra, ProgressMismatch, SinkError
from frazil.moved import former_keywords
from frazil.sinks import (
    ONLY_SOURCE,
    BadRows,
    IcebergTarget,
    SinkOptions,
    Target,
    as_catalog,
    as_checks,
    as_position,
    check_names,
    check_stream,
    check_table,
    check_values,
    part_name,
)
from frazil.sinks.spark.frame_rows import KAFKA, OffsetColumns
from frazil.sinks.spark.job import (
    Through,
    add_up,
    as_staged,
    check_report,
    discard_files,
    make_plan,
    query_position,
    run_job,
    tasks_at_once,
)
from frazil.sinks.spark.task import Counts, Refusal, Staged, TaskReport
from frazil.spark import python_error, spark_errors
from frazil.write.commit import (
    MAIN,
    Claim,
    InputState,
    Mark,
    Overtaken,
    PartProgress,
    Publication,
    Publishable,
    RetryPolicy,
)
from frazil.write.contract import Contract, Extra
from frazil.write.files import BufferLimits, TableLayout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "KAFKA",
    "Counts",
    "Delta",
    "FrameOptions",
    "FrameResult",
    "FrameSink",
    "OffsetColumns",
    "Refusal",
    "Staged",
    "Through",
    "foreach_batch",
    "open",
    "write_frame",
]


S = TypeVar("S")
Takeover = Literal["open", "first commit"]  # when a sink fences the other writers of its name


@dataclass(frozen=True)
class Delta:
    """Where a Delta table is, and how to reach it."""

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold keys


class FrameOptions(TypedDict, total=False):
    """How rows are treated; as for the other hosts. `budget_bytes` is an executor's, shared by the tasks that run there
    at once.
    """

    checks: str | Sequence[str]
    extra_fields: Extra
    bad_rows: BadRows
    budget_bytes: int
    spool_folder: Path | None


@dataclass(frozen=True)
class FrameResult:
    """What became of a frame. `snapshot_id` is None where nothing had to be committed, and for Delta."""

    counts: Counts
    position: Mapping[str, int]
    snapshot_id: int | None = None
    was_in: bool = False


class FrameSink:
    """Writes frames to a table, each in one commit. Lives on the driver; opening it fences every other writer of the
    same name.

    With `takeover="first commit"`, the first commit is what fences them, and opening the sink changes nothing. That
    commit is refused with `WriterFenced` if another writer of the name has come first. For a sink of one commit: a
    stream has to fence at its start, or a writer that it replaces could outrun it again and again.

    After a commit that failed or whose end is not known, the sink is closed: open it again, and the table says where to
    go on. A frame that was refused before its commit (a task failed, a check said no) leaves the sink open and the
    table as it was.
    """

    def __init__(
        self,
        target: Target,
        part: str,
        *,
        options: SinkOptions | None = None,
        writer: str | None = None,
        takeover: Takeover = "open",
    ) -> None:
        self._target, self._part = target, part
        self._options = options or SinkOptions()
        self._writer = writer or uuid.uuid4().hex[:16]
        self._closed = False
        self._published: deque[str] = deque(maxlen=100)  # the first file of each of the last commits
        # one that cannot work is refused before another writer is fenced
        Contract.of(target.layout, checks=self._options.checks)
        self._planned: PartProgress | None = None  # the progress that the first commit takes over from
        if takeover == "open":
            self._progress = target.take_over(part, self._writer)
        else:
            planned = target.plan_takeover(part, self._writer)
            self._planned, self._progress = planned.before, planned.own

    def __repr__(self) -> str:
        """The table, the part, and where the source is to go on."""
        state = ", closed" if self._closed else ""
        return f"<FrameSink of {self.layout.name}, part '{self._part}': at {self.position or 'the beginning'}{state}>"

    @property
    def layout(self) -> TableLayout:
        """The table as it was seen last."""
        return self._target.layout

    @property
    def part(self) -> str:
        """The name that the progress is kept under."""
        return self._part

    @property
    def position(self) -> Mapping[str, int]:
        """Where the source is to go on, by source partition: everything before is in the table."""
        return dict(self._progress.offsets)

    @property
    def generation(self) -> int:
        """The number of this writer among those that have taken over one another."""
        return self._progress.generation

    def write(
        self,
        frame: DataFrame,
        *,
        position: Mapping[str, int] | None = None,
        offsets: OffsetColumns | None = None,
        also: Mapping[str | Identifier, pa.Table] | None = None,
        check: Callable[[Counts], None] | None = None,
    ) -> FrameResult:
        """The frame is in the table, with the quarantined rows and those of other tables, in one commit, when this
        returns.

        `check` is called on the driver between the tasks and the commit. If it raises, nothing is committed and the
        files are deleted.
        """
        staged = self.stage(frame, position=position, offsets=offsets)
        try:
            if check is not None and not staged.was_in:
                check(staged.counts)
        except BaseException:
            self.discard(staged)
            raise
        return self.publish(staged, also=also)

    def stage(
        self,
        frame: DataFrame,
        *,
        position: Mapping[str, int] | None = None,
        offsets: OffsetColumns | None = None,
        through: Through | None = None,
        key: Sequence[str] = (),
    ) -> Staged:
        """Runs the one Spark job that writes the frame's files. Readers do not see them before `publish`; `discard`
        removes them.

        `through` is a step of the caller's own on the frame's rows, as for `mapInArrow`; here it runs in the worker
        that writes, so that its rows do not travel to the JVM and back. With a `key`, the rows of each partition come
        sorted by it; of those with the same key the last is kept, and the others are counted as duplicates.
        """
        self._check_open()
        end = as_position(position, only_source=ONLY_SOURCE)
        if position is not None and offsets is not None:
            raise SinkError(
                f"{self.layout.name}: give the frame's position or its offset columns, not both", table=self.layout.name
            )
        if frame.isStreaming:
            hint = "rows.writeStream.foreachBatch(frazil.sinks.spark.driver.foreach_batch(...))"
            raise SinkError(f"{self.layout.name}: the frame is a stream", hint=hint, table=self.layout.name)
        if self.has_reached(end):
            return Staged(was_in=True)
        tasks, reached = tasks_at_once(frame.sparkSession), self.position
        schema = through.schema if through else frame.schema
        plan = make_plan(
            self._target,
            self._part,
            schema,
            options=self._options,
            tasks=tasks,
            reached=reached,
            offsets=offsets,
            end=end,
            key=key,
        )
        try:
            reports = run_job(frame, plan, through)
        except spark_errors() as exc:
            raise SinkError(
                f"{self.layout.name}: the Spark job failed: {python_error(str(exc))}",
                hint="nothing of this frame was committed",
            ) from exc
        return self.join(reports, end=end)

    def has_reached(self, end: Mapping[str, int]) -> bool:
        """Whether a frame that ends there is in; a position of which one half is in and the other is not, is
        an error.
        """
        known = self._progress.offsets
        behind = [name for name, offset in end.items() if name in known and offset <= known[name]]
        if behind and len(behind) < len(end):
            raise ProgressMismatch(
                f"{self.layout.name}: of the frame's position, '{behind[0]}' at {end[behind[0]]} is in the table, and "
                f"the rest is not",
                hint="let the source go on from sink.position, or give offsets=OffsetColumns(...), which leaves out "
                "the rows that are in",
                table=self.layout.name,
                problem="partly-committed",
            )
        return bool(behind)

    def join(self, reports: Sequence[TaskReport], *, end: Mapping[str, int] | None = None) -> Staged:
        """What tasks have written for this sink; for who runs `TaskPlan` otherwise than by `stage`."""
        report = add_up(reports)
        staged = as_staged(report, reached=self._progress.offsets, end=end)
        try:
            check_report(report, reached=self._progress.offsets, table=self.layout.name)
        except SinkError:
            self.discard(staged)
            raise
        return staged

    def publish(
        self,
        staged: Staged,
        *,
        also: Mapping[str | Identifier, pa.Table] | None = None,
        change: Publishable | None = None,
        done: Iterable[str] = (),
    ) -> FrameResult:
        """Commits staged files, quarantined rows, rows of other tables and the position, at once.

        `also` gives rows of other tables, or appends of files that are written. `change` replaces the append of the
        files, for a change of another kind under the same claim; a pipeline that has no files of ours gives `Staged()`
        with it. `done` names source partitions that are finished for good.
        """
        self._check_open()
        if staged.files and staged.files[0].path in self._published:
            raise SinkError(
                f"{self.layout.name}: these files are in the table: they were published before",
                hint="stage the frame again",
                table=self.layout.name,
                problem="already-published",
            )
        claim = self._claim(staged, frozenset(done))
        if staged.was_in or not (staged.files or staged.quarantine_files or also or change or claim.end or claim.done):
            return FrameResult(staged.counts, self.position, was_in=staged.was_in)
        others = {
            tuple(name.split(".")) if isinstance(name, str) else name: rows for name, rows in (also or {}).items()
        }
        # Until it is known how the commit ended: a second one under the same number could be taken for this one.
        self._closed = True
        try:
            done_commit = self._target.publish(
                staged.files, claim, quarantine_files=staged.quarantine_files, also=others, change=change
            )
        except Overtaken:  # certain: the stage's base is no longer the head, and never will be
            self._closed = False
            raise
        self._closed, self._progress, self._planned = False, done_commit.progress, None
        self._published += [file.path for file in staged.files[:1]]
        return FrameResult(staged.counts, self.position, done_commit.snapshot_id)

    def prepare(
        self,
        staged: Staged,
        *,
        change: Publishable,
        also: Mapping[Identifier, Any],
        inputs: Mapping[str, InputState],
        definition: str = "",
        marks: Mapping[str, Mark] | None = None,
    ) -> Publication:
        """The commit of a change with the tables and the query that it was made from, to be published together with
        others by `publish_together`. The sink is closed: it has made its one commit.
        """
        self._check_open()
        if not isinstance(self._target, IcebergTarget):
            raise SinkError(f"{self.layout.name}: only Iceberg tables are published together", table=self.layout.name)
        self._closed = True
        claim = replace(self._claim(staged, frozenset()), inputs=inputs, definition=definition, marks=marks or {})
        return self._target.prepare((), claim, quarantine_files=staged.quarantine_files, also=also, change=change)

    @property
    def inputs(self) -> Mapping[str, InputState]:
        """The tables that the rows were made from, as the last commit says."""
        return self._progress.inputs

    @property
    def definition(self) -> str:
        """The fingerprint of the query that made the rows, as the last commit says; empty if it is not known."""
        return self._progress.definition

    @property
    def marks(self) -> Mapping[str, Mark]:
        """How far inputs that are no tables were read, as the last commit says."""
        return self._progress.marks

    def discard(self, staged: Staged) -> None:
        """Deletes staged files: they are in no commit."""
        discard_files(staged, self._target, self._part)

    def discard_quarantine(self, staged: Staged) -> None:
        """The same for the files of refused rows alone, where a branch holds the others."""
        self.discard(replace(staged, files=()))

    # --- what it does ------------------------------------------------------------------------------------------------

    def _claim(self, staged: Staged, done: frozenset[str]) -> Claim:
        now = self._progress
        start, end = dict(staged.start), dict(staged.end)
        return Claim(self._part, self._writer, now.generation, now.commits + 1, start, end, done, self._planned)

    def _check_open(self) -> None:
        if self._closed:
            raise SinkError(
                f"the sink for part '{self._part}' is closed after a commit that failed",
                hint="open it again",
                part=self._part,
                problem="closed",
            )


# --- the short ways --------------------------------------------------------------------------------------------------


@former_keywords(patience="retry")
def open(  # frazil.sinks.spark.open reads as it should
    table: str | Identifier | Delta,
    *,
    name: str,
    catalog: Any = None,
    branch: str = MAIN,
    retry: RetryPolicy | None = None,
    **options: Unpack[FrameOptions],
) -> FrameSink:
    """A sink for frames: for a table of an Iceberg catalog, or for a Delta table.

    `name` is the stream's own: its progress is kept under it, and a writer that opens the same name takes over from the
    writer before. `catalog` is a `frazil.client.FrazilCatalog`, any catalog of PyIceberg, the address of a REST
    catalog, or nothing: the settings say.
    """
    return _open(table, name, catalog, branch, retry, "open", options)


def _open(
    table: str | Identifier | Delta,
    name: str,
    catalog: Any,
    branch: str,
    retry: RetryPolicy | None,
    takeover: Takeover,
    options: FrameOptions,
) -> FrameSink:
    check_stream(name)
    chosen = frame_options(**options)
    target = target_of(table, catalog, branch, retry or RetryPolicy())
    return FrameSink(target, part_name(name, 0), options=chosen, takeover=takeover)


@former_keywords(patience="retry")
def write_frame(
    frame: DataFrame,
    table: str | Identifier | Delta,
    *,
    name: str,
    position: Mapping[str, int] | None = None,
    offsets: OffsetColumns | None = None,
    also: Mapping[str | Identifier, pa.Table] | None = None,
    check: Callable[[Counts], None] | None = None,
    catalog: Any = None,
    branch: str = MAIN,
    retry: RetryPolicy | None = None,
    **options: Unpack[FrameOptions],
) -> FrameResult:
    """One frame, in one commit, which takes over, too; see `FrameSink.write` and `open`.

    If another writer of the name commits before it, this one is refused with `WriterFenced`, and nothing of the frame
    is in.
    """
    sink = _open(table, name, catalog, branch, retry, "first commit", options)
    return sink.write(frame, position=position, offsets=offsets, also=also, check=check)


@former_keywords(patience="retry")
def foreach_batch(
    table: str | Identifier | Delta,
    *,
    name: str,
    offsets: OffsetColumns | None = None,
    check: Callable[[Counts], None] | None = None,
    catalog: Any = None,
    branch: str = MAIN,
    retry: RetryPolicy | None = None,
    **options: Unpack[FrameOptions],
) -> Callable[[DataFrame, int], None]:
    """A function for `writeStream.foreachBatch`; it opens its sink at the first batch.

    Without `offsets`, the number of the batch in the query's checkpoint is the position: a batch that Spark repeats
    changes nothing as long as the checkpoint is kept, and a query with another checkpoint under the same name is
    refused.
    """
    check_stream(name)
    frame_options(**options)  # a wrong one is an error here, not in the first batch

    def open_sink() -> FrameSink:
        return open(table, name=name, catalog=catalog, branch=branch, retry=retry, **options)

    def write(sink: FrameSink, frame: DataFrame, batch_id: int) -> None:
        position = None if offsets else query_position(sink.position, frame, batch_id, table=sink.layout.name)
        sink.write(frame, position=position, offsets=offsets, check=check)

    return each_batch(open_sink, write)


def each_batch(
    open_sink: Callable[[], S], write: Callable[[S, DataFrame, int], None]
) -> Callable[[DataFrame, int], None]:
    """Writes the batches of a query to one sink; after an error the next batch opens it again."""
    opened: list[S] = []

    def write_batch(frame: DataFrame, batch_id: int) -> None:
        sink = opened.pop() if opened else open_sink()
        write(sink, frame, batch_id)
        opened.append(sink)

    return write_batch


def frame_options(**options: Unpack[FrameOptions]) -> SinkOptions:
    """The options of a sink from flat names; refuses a name or value that is no option."""
    check_names(options, FrameOptions.__annotations__, others=("catalog", "branch", "retry"))
    check_values(options)
    limits = BufferLimits(
        budget_bytes=options.get("budget_bytes", BufferLimits.budget_bytes), spool_folder=options.get("spool_folder")
    )
    return SinkOptions(
        limits=limits,
        checks=as_checks(options.get("checks", ())),
        extra_fields=options.get("extra_fields", SinkOptions.extra_fields),
        bad_rows=options.get("bad_rows", SinkOptions.bad_rows),
    )


def target_of(table: str | Identifier | Delta, catalog: Any, branch: str, retry: RetryPolicy) -> Target:
    """The table that `open` was given."""
    if not isinstance(table, Delta):
        return IcebergTarget(as_catalog(catalog), check_table(table), branch, retry)
    try:
        from frazil.sinks.delta import DeltaTarget
    except ModuleNotFoundError as exc:
        raise MissingExtra("deltalake", extra="delta") from exc
    return DeltaTarget(table.uri, dict(table.storage_options), retry)
