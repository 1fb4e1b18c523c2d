"""A topic as a streaming frame: read, decoded, given to the pipeline's function; and the job that writes one batch of
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.errors import PipelineError, SourceDrift
from frazil.pipelines import Pipeline, transform
from frazil.pipelines.batch import arrow_schema
from frazil.pipelines.files import POSITION, TextContract, takes_text
from frazil.pipelines.sources import KafkaSource
from frazil.pipelines.stream.decode import PLACE, Decoder, JsonDecoder, OwnDecoder, Tombstones
from frazil.pipelines.stream.kafka import Start, client_options
from frazil.pipelines.stream.task import MessageRows, decode_messages
from frazil.pipelines.upsert import ChangePlan, ChangeSet, change_set
from frazil.sinks import IcebergTarget
from frazil.sinks.spark import TaskPlan, TaskReport, add_up, read_reports, run_job, task_limits, tasks_at_once
from frazil.spark import merging, task_number
from frazil.write.files import BufferLimits

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class StreamFrame:
    """A streaming frame, and what writes a batch of it: files, or changes. `decoded` are the reports of the tasks that
    decode, where these are others.
    """

    frame: DataFrame
    plan: TaskPlan | ChangePlan
    decoded: Accumulator[dict[int, Any]] | None = None

    @contextmanager
    def write(self, batch: DataFrame) -> Iterator[tuple[TaskReport, ChangeSet | None]]:
        """One job: the files of a batch are written, and told; changes are kept by Spark until the block ends."""
        if self.decoded is not None:
            self.decoded.value = {}
        if isinstance(self.plan, ChangePlan):
            with change_set(batch, self.plan) as changes:
                yield changes.report + self._decoded(), changes
            return
        yield add_up(run_job(batch, self.plan)) + self._decoded(), None

    def _decoded(self) -> TaskReport:
        return add_up(read_reports(self.decoded.value.values() if self.decoded is not None else ()))


@dataclass(frozen=True)
class FrameMaker:
    """Makes the streaming frame of a pipeline."""

    pipeline: Pipeline
    source: KafkaSource
    spark: SparkSession
    target: IcebergTarget
    part: str
    folder: Path

    def make(self, start: Start) -> StreamFrame:
        """The frame from a start on. Where the function changes nothing, one pass in Arrow does all; else Spark stands
        in between.
        """
        messages, decoder, layout = self._read(start), self._decoder(), self.target.layout
        limits = task_limits(BufferLimits(), tasks_at_once(self.spark))
        plan = TaskPlan(
            layout,
            self.part,
            limits,
            MessageRows(decoder),
            quarantine=self.target.open_quarantine(self.part).layout,
            checks=self.pipeline.checks,
            kind=TextContract,
        )
        if decoder is None:
            return self._made(transform(self.pipeline, _with_position(messages)), plan)
        reports: Accumulator[dict[int, Any]] = self.spark.sparkContext.accumulator({}, merging())
        schema = decoder.schema if decoder.schema is not None else _nullable(layout.arrow)
        rows = _decoded(messages, plan, schema, reports)
        transformed = transform(self.pipeline, rows)
        if transformed is rows:
            return StreamFrame(messages.select(*dict.fromkeys([*decoder.columns, *PLACE])), self._task_plan(plan))
        if decoder.schema is None:
            hint = (
                "sources.kafka(..., decode=..., schema=pa.schema([...])); or let the decoder do it all, and return "
                "the frame as it came"
            )
            raise PipelineError(
                f"pipeline '{self.pipeline.name}': its function changes what the decoder gives, and no schema says "
                f"that",
                hint=hint,
                pipeline=self.pipeline.name,
            )
        return self._made(transformed, replace(plan, source=MessageRows()), reports)

    def _read(self, start: Start) -> DataFrame:
        source, reader = self.source, self.spark.readStream.format("kafka")
        for key, value in client_options(source).items():
            reader = reader.option(f"kafka.{key}", value)
        topics = ("subscribePattern", source.pattern) if source.pattern else ("subscribe", ",".join(source.topics))
        options = {
            topics[0]: str(topics[1]),
            "startingOffsets": start.to_json(),
            "maxOffsetsPerTrigger": str(source.max_messages),
            "failOnDataLoss": str(source.data_loss == "stop").lower(),
        }
        return reader.options(**options).load().select("key", "value", "topic", "partition", "offset", "timestamp")

    def _decoder(self) -> Decoder | None:
        if callable(self.source.decode):
            return OwnDecoder(self.source.decode, self.source.schema, str(self.folder))
        if self.source.decode == "none":
            return None
        arrow = self.target.layout.arrow
        if nested := [field for field in arrow if not takes_text(field.type)]:
            raise PipelineError(
                f"pipeline '{self.pipeline.name}': column '{nested[0].name}' is {nested[0].type}, and a field of JSON "
                f"arrives as text",
                hint="decode the messages yourself: sources.kafka(..., decode=a function on Arrow batches)",
                pipeline=self.pipeline.name,
                column=nested[0].name,
            )
        texts = frozenset(field.name for field in arrow if pa.types.is_string(field.type))
        names = dict.fromkeys([*arrow.names, *self.pipeline.deciding_columns])
        decoder, tombstones = self.pipeline.drift == "quarantine", Tombstones.of(self.source, self.pipeline.rules)
        return JsonDecoder(tuple(names), texts, quarantine_unknown=decoder, tombstones=tombstones)

    def _task_plan(self, plan: TaskPlan) -> TaskPlan | ChangePlan:
        return ChangePlan(plan, self.pipeline.rules) if self.pipeline.mode == "upsert" else plan

    def _made(
        self, transformed: DataFrame, plan: TaskPlan, reports: Accumulator[dict[int, Any]] | None = None
    ) -> StreamFrame:
        """What writes the frame that the function gave; refused, where its columns do not fit."""
        layout, frame = plan.layout, self._task_plan(plan)
        if unknown := [
            name
            for name in transformed.columns
            if name not in (*layout.arrow.names, *self.pipeline.deciding_columns, POSITION)
        ]:
            hint = "drop them in the pipeline's function, or declare the columns and run: frazil apply"
            names = ", ".join(f"'{name}'" for name in unknown)
            raise SourceDrift(
                f"{layout.name} has no column {names}",
                columns=tuple(unknown),
                hint=hint,
                table=layout.name,
                column=names,
            )
        schema = pa.schema([field for field in arrow_schema(transformed) if field.name != POSITION])
        (frame if isinstance(frame, ChangePlan) else TextContract.of(layout)).check_fields(schema)
        return StreamFrame(transformed, frame, reports)


def _decoded(messages: DataFrame, plan: TaskPlan, schema: pa.Schema, reports: Accumulator[dict[int, Any]]) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = task_number()
        yield from decode_messages(
            plan, batches, task=task, on_end=lambda report: reports.add({task: report.to_json()})
        )

    rows = from_arrow_schema(schema.append(pa.field(POSITION, pa.string())), prefer_timestamp_ntz=True)
    return messages.mapInArrow(decode, rows)


def _with_position(messages: DataFrame) -> DataFrame:
    from pyspark.sql.functions import concat_ws

    return messages.withColumn(POSITION, concat_ws("/", *PLACE))


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])
