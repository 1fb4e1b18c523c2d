"""A stream: messages of Kafka -> the user's function -> the table, one commit per batch, with quarantine and progress.

What the table has reached decides where reading begins, and a batch moves that in the commit of its rows. So a query
without state needs no checkpoint of Spark's: it gets an empty one at every start, and none can be lost, stale or
another query's. One with state has to keep its own, and is refused when it is not there (`stateful`).
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frazil.errors import FrazilError, PipelineError, SourceDrift, TooManyBadRows, WriterFenced
from frazil.moved import former_fields
from frazil.ownership import check_pipeline
from frazil.pipelines import Pipeline, RunResult, RunStart, failed, note_run, tell_ended, tell_error, tell_started
from frazil.pipelines.sources import KafkaSource
from frazil.pipelines.stream import stateful
from frazil.pipelines.stream.kafka import Start, TopicPartition, batch_end, check_seen, lag, plan_start, read_partitions
from frazil.pipelines.stream.progress import OUTCOMES, OnChange, StreamProgress, ignore
from frazil.sinks.spark import CHECKPOINT, query_position
from frazil.spark import spark_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from frazil.client import FrazilCatalog
    from frazil.pipelines.upsert import ChangeSet
    from frazil.sinks.spark import TaskReport
    from frazil.write.commit import RetryPolicy

POLL_SECONDS = 0.2
TOP_REASONS = 5
# in what Spark and Kafka say of messages that are gone
_LOSS = ("KAFKA_DATA_LOSS", "OffsetOutOfRange", "data may have been")
FEW_ROWS = 1000  # of a batch: too few to speak of a share


@former_fields(patience="retry")
@dataclass(frozen=True)
class StreamOptions:
    """How a stream runs: to the end of what is there (`once`), or continuously, one batch per interval while there
    is something new.

    `state` is a folder of its own for each pipeline.
    """

    state: Path
    once: bool = True
    interval_seconds: float = 10.0
    on_change: OnChange = ignore
    # when set, the batch under way is finished, and no other begun
    stop: threading.Event = field(default_factory=threading.Event)
    retry: RetryPolicy | None = None
    owner: str | None = None  # the name of the project that runs it; None: as the settings of its folder say
    adopt: bool = False  # tables of another project become this one's


def run_stream(
    pipeline: Pipeline,
    *,
    spark: SparkSession,
    catalog: FrazilCatalog,
    folder: Path,
    options: StreamOptions,
    progress: StreamProgress | None = None,
) -> StreamProgress:
    """Reads what the table does not have. Safe to call again after any failure, here or on another machine."""
    stream_progress = progress or StreamProgress(pipeline.name, pipeline.target.name)
    run = RunResult(pipeline.name, pipeline.target.name, run_id=str(uuid.uuid4()))
    begun, error = time.monotonic(), None
    stream = _Stream(pipeline, spark, catalog, folder, options, stream_progress)
    source = _source(pipeline)
    topics = tuple(f"kafka://{source.servers.split(',')[0]}/{topic}" for topic in source.topics)
    tell_started(RunStart(run.run_id, pipeline.name, pipeline.target.name, topics=topics))
    try:
        stream.run()
    except BaseException as exc:
        error = tell_error(exc, catalog.properties)
        if isinstance(exc, WriterFenced) and not exc.made_anew:
            raise PipelineError(
                f"pipeline '{pipeline.name}': another run of it has begun since, and goes on in this one's place",
                hint="the table says which messages are in, and the other one goes on from there; let one run at a "
                "time",
                pipeline=pipeline.name,
            ) from exc
        raise
    finally:
        ended = replace(
            run, snapshot_id=stream_progress.snapshot_id, seconds=round(time.monotonic() - begun, 3), error=error
        )
        ended = replace(ended, rows_in=stream_progress.rows_in, duplicates=stream_progress.merged.get("duplicates", 0))
        ended = replace(ended, rows=stream_progress.rows, quarantined=stream_progress.quarantined)
        tell_ended(ended)
        if stream_progress.batches or error:
            note_run(ended, pipeline.target, catalog, owner=stream.owner.project)
    return stream_progress


def waiting(pipeline: Pipeline, *, spark: SparkSession, catalog: FrazilCatalog) -> dict[str, tuple[int, int]]:
    """The offsets that a run would read, from and to, by partition. Changes nothing."""
    from frazil.pipelines.batch import load_target
    from frazil.sinks import part_name
    from frazil.write.commit import read_progress

    progress = read_progress(load_target(pipeline, catalog).metadata).part(part_name(pipeline.name, 0)).offsets
    partitions = read_partitions(spark, _source(pipeline))
    start = _plan(pipeline, progress, partitions)
    lags = {}
    for partition in partitions:
        first = max(start.offsets[partition.topic][str(partition.number)], partition.earliest)
        if first < partition.latest:
            lags[f"{partition.topic}/{partition.number}"] = (first, partition.latest)
    return lags


class _Stream:
    """A stream under way. `write` is called by Spark in a thread of its own, a batch at a time."""

    def __init__(
        self,
        pipeline: Pipeline,
        spark: SparkSession,
        catalog: FrazilCatalog,
        folder: Path,
        options: StreamOptions,
        progress: StreamProgress,
    ) -> None:
        from frazil.pipelines.batch import load_target
        from frazil.sinks import IcebergTarget, part_name
        from frazil.write.commit import RetryPolicy

        self.pipeline, self.spark, self.catalog, self.folder, self.options = pipeline, spark, catalog, folder, options
        self.progress, self.source = progress, _source(pipeline)
        live = load_target(pipeline, catalog)
        self.owner = check_pipeline(
            pipeline.target.identifier, catalog, folder, project=options.owner, adopt=options.adopt
        )
        self.retry = options.retry or RetryPolicy()
        self.target = IcebergTarget(
            catalog, pipeline.target.identifier, retry=self.retry, key=pipeline.upserted_by, table=live
        )
        self.part = part_name(pipeline.name, 0)
        self.error: BaseException | None = None
        self.busy = threading.Lock()

    def run(self) -> None:
        """Takes the table over, and writes batches until the end, an error, or a wish to stop."""
        from frazil.pipelines import LoadPublisher, Stages
        from frazil.pipelines.stream.frame import FrameMaker
        from frazil.sinks import SinkOptions
        from frazil.sinks.spark import FrameSink

        maker = FrameMaker(self.pipeline, self.source, self.spark, self.target, self.part, self.folder)
        before = self.target.progress().part(self.part).offsets
        start = self._start(before)
        frame = maker.make(start)
        self.operators = stateful.stateful_operators(frame.frame)
        self.checkpoint = self._checkpoint(before)  # whatever is refused, is refused before another stream is fenced
        if self.options.once and not self.operators and not self._is_behind(start):
            return
        self.owner.claim()
        self.sink = FrameSink(self.target, self.part, options=SinkOptions(checks=self.pipeline.checks))
        self.publisher = LoadPublisher(
            self.pipeline, self.spark, Stages(self.catalog, self.target, self.part, self.sink.generation)
        )
        self.publisher.clean()
        self.start = self._start(self.sink.position)
        self.micro_batch = frame if self.start == start else maker.make(self.start)
        self.progress.accepted_losses += self.start.losses
        try:
            self._run_query()
        finally:
            if not self.operators:
                shutil.rmtree(self.checkpoint, ignore_errors=True)

    # --- before the first batch --------------------------------------------------------------------------------------

    def _start(self, reached: Mapping[str, int]) -> Start:
        self.partitions = read_partitions(self.spark, self.source)
        self.ids = {partition.topic: partition.id for partition in self.partitions}
        self.latest = {
            topic: {
                str(partition.number): partition.latest for partition in self.partitions if partition.topic == topic
            }
            for topic in self.ids
        }
        return _plan(
            self.pipeline, {} if any(name.startswith(CHECKPOINT) for name in reached) else reached, self.partitions
        )

    def _is_behind(self, start: Start) -> bool:
        return any(
            start.reached.get(partition.source, partition.earliest) < partition.latest for partition in self.partitions
        )

    def _checkpoint(self, reached: Mapping[str, int]) -> Path:
        """The folder for Spark's notes: an empty one, unless the query keeps state."""
        name, table, kept = self.pipeline.name, self.pipeline.target.name, self.options.state.resolve() / "checkpoint"
        if self.operators:
            stateful.check_stateful(reached, stateful.Checkpoint.read(kept), self.operators, pipeline=name, table=table)
            return kept
        stateful.check_stateless(reached, pipeline=name, table=table)
        for old in self.options.state.glob("run-*"):
            if not _is_alive(int(old.name.split("-")[1])):
                shutil.rmtree(old, ignore_errors=True)
        return self.options.state.resolve() / f"run-{os.getpid()}-{uuid.uuid4().hex[:8]}"

    # --- the query ---------------------------------------------------------------------------------------------------

    def _run_query(self) -> None:
        trigger: dict[str, Any] = (
            {"availableNow": True}
            if self.options.once
            else {"processingTime": f"{self.options.interval_seconds} seconds"}
        )
        writer = self.micro_batch.frame.writeStream.foreachBatch(self.write).option(
            "checkpointLocation", self.checkpoint.as_uri()
        )
        query = writer.queryName(f"frazil-{self.pipeline.name}-{uuid.uuid4().hex[:8]}").trigger(**trigger).start()
        try:
            self._wait(query)
        finally:
            if query.isActive:
                query.stop()
        self._raise(query)

    def _wait(self, query: StreamingQuery) -> None:
        seen: tuple[int, str] | None = None
        while query.isActive and not self.options.stop.wait(POLL_SECONDS):
            if (last := query.lastProgress) is not None and (last.batchId, last.timestamp) != seen:
                seen = (last.batchId, last.timestamp)
                self._tell_lag(last)
        with self.busy:  # the batch under way is finished; one that begins now sees the wish, and ends at once
            pass

    def _tell_lag(self, last: Any) -> None:
        sources = json.loads(last.json)["sources"]
        if sources and (latest := sources[0].get("latestOffset")):
            self.latest = latest
        self._tell()

    def _tell(self) -> None:
        if not self.operators:  # else only Spark knows
            self.progress.lag = lag(self.latest, {**self.start.reached, **self.sink.position}, self.ids)
        self.options.on_change(self.progress)

    def _raise(self, query: StreamingQuery) -> None:
        """What has ended the query, if that is not the wish to stop."""
        exc = self.error or query.exception()
        if exc is None or isinstance(exc, _Stopped):
            return
        if any(sign in f"{exc} {exc.__cause__}" for sign in _LOSS):
            self._start(self.sink.position)  # says which messages are lost
        raise exc if self.error is not None else failed(self.pipeline, Exception(str(exc))) from exc.__cause__

    # --- a batch -----------------------------------------------------------------------------------------------------

    def write(self, frame: DataFrame, number: int) -> None:
        """Writes a batch; what goes wrong is kept, for on its way through the JVM it becomes a text."""
        with self.busy:
            try:
                if self.options.stop.is_set():
                    raise _Stopped
                self._write(frame, number)
            except BaseException as exc:
                self.error = self.error or exc
                raise

    def _write(self, frame: DataFrame, number: int) -> None:
        begun = time.monotonic()
        end = self._end(frame, number)
        if self.operators and self.sink.has_reached(end):
            frame.write.format("noop").mode("append").save()  # the state has to move on, too
            return
        try:
            with self.micro_batch.write(frame) as (report, changes):
                snapshot_id = self._publish(report, changes, end)
        except spark_errors() as exc:
            raise failed(self.pipeline, exc) from exc
        seconds, merged = time.monotonic() - begun, self._merged(report, changes)
        self.progress.count(report.counts.rows, report.counts.refused, seconds, snapshot_id, merged=merged)
        self._tell()

    def _merged(self, report: TaskReport, changes: ChangeSet | None) -> dict[str, int] | None:
        """What became of the batch's changes, as the merge has said; None for an append, and where Spark did
        not say.
        """
        if changes is None:
            return None
        if not changes.rows:
            return {**dict.fromkeys(OUTCOMES, 0), "rows": 0}
        assert self.publisher.merge is not None
        if (counts := self.publisher.merge.counts) is None:
            self.progress.uncounted += report.counts.rows
            return None
        return {**counts, "duplicates": report.counts.rows - changes.rows}

    def _end(self, frame: DataFrame, number: int) -> dict[str, int]:
        """Where the source stands after the batch."""
        if self.operators:
            return query_position(self.sink.position, frame, number, table=self.pipeline.target.name)
        text = (self.checkpoint / "offsets" / str(number)).read_text()
        try:
            return batch_end(text, self.ids)
        except KeyError:  # a topic that came since
            self.ids = {partition.topic: partition.id for partition in read_partitions(self.spark, self.source)}
            return batch_end(text, self.ids)

    def _publish(self, report: TaskReport, changes: ChangeSet | None, end: Mapping[str, int]) -> int | None:
        from frazil.sinks.spark import Staged

        now = self.sink.position
        moved = {source: at for source, at in end.items() if now.get(source) != at}
        start = {source: now[source] for source in moved if source in now}
        staged = Staged(report.files, report.quarantine_files, start=start, end=moved)
        try:
            self._check(report, end)
        except FrazilError:
            self.sink.discard(staged)
            raise
        done = frozenset(name for name in self.start.done if name in now)
        return self.publisher.publish(
            self.sink, staged, rows=report.counts.rows, changes=changes, done=done
        ).snapshot_id

    def _check(self, report: TaskReport, end: Mapping[str, int]) -> None:
        """Refuses a batch that is not what it should be."""
        name = self.pipeline.name
        if not self.operators:
            check_seen(
                report.seen,
                end,
                {**self.start.reached, **self.sink.position},
                ids=self.ids,
                table=self.pipeline.target.name,
            )
        if report.unknown:
            fields = ", ".join(f"'{name}'" for name in report.unknown)
            hint = (
                "declare the columns and run: frazil apply; or set drift='quarantine', or decode the messages yourself"
            )
            raise SourceDrift(
                f"pipeline '{name}': messages have {fields}, which {self.pipeline.target.name} does not",
                columns=report.unknown,
                hint=hint,
                pipeline=name,
            )
        rows, limit = report.counts.rows + report.counts.refused, self.pipeline.max_bad_share
        if rows >= FEW_ROWS and report.counts.refused > limit * rows:
            reasons = dict(sorted(report.reasons.items(), key=lambda pair: -pair[1])[:TOP_REASONS])
            raise TooManyBadRows(name, bad=report.counts.refused, rows=rows, limit=limit, reasons=reasons)


class _Stopped(Exception):
    """A batch that is not begun, because the stream is to stop."""


def _source(pipeline: Pipeline) -> KafkaSource:
    assert isinstance(pipeline.source, KafkaSource)
    return pipeline.source


def _plan(pipeline: Pipeline, reached: Mapping[str, int], partitions: list[TopicPartition]) -> Start:
    accept = _source(pipeline).data_loss == "accept"
    return plan_start(reached, partitions, pipeline=pipeline.name, table=pipeline.target.name, accept_loss=accept)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
