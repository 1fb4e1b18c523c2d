"""A topic as a streaming frame: read, decoded, given to the pipeline's function; and the job that writes one batch of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.errors import PipelineError, SourceDrift
from frazil.pipelines.declare import Pipeline
from frazil.pipelines.decode import PLACE, Decoder, JsonDecoder, OwnDecoder
from frazil.pipelines.frame import as_report, collect_reports, merging
from frazil.pipelines.function import transform
from frazil.pipelines.kafka import Start, client_options
from frazil.pipelines.reading import POSITION
from frazil.pipelines.sources import KafkaSource
from frazil.pipelines.stream_task import StreamPlan, StreamReport
from frazil.pipelines.text import TextContract, takes_text
from frazil.sinks.buffer import BufferLimits
from frazil.sinks.iceberg import IcebergTarget
from frazil.sinks.layout import TableLayout
from frazil.sinks.spark_job import task_limits, tasks_at_once

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class StreamFrame:
    """A streaming frame, and what writes a batch of it. `decoded` are the reports of the tasks that decode, where these are others."""

    frame: DataFrame
    plan: StreamPlan
    decoded: Accumulator[dict[int, Any]] | None = None

    def write(self, batch: DataFrame) -> StreamReport:
        """One job: the files of a batch are written, and told."""
        if self.decoded is not None:
            self.decoded.value = {}
        plan = self.plan

        def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield as_report(plan.write(batches, task=_task()).to_json())

        texts = collect_reports(batch.mapInArrow(write, "report string"))
        texts += self.decoded.value.values() if self.decoded is not None else ()
        return sum(map(StreamReport.from_json, texts), StreamReport())


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
        """The frame from a start on. Where the function changes nothing, one pass in Arrow does all; else Spark stands in between."""
        messages, decoder, layout = self._read(start), self._decoder(), self.target.layout
        limits = task_limits(BufferLimits(), tasks_at_once(self.spark))
        plan = StreamPlan(layout, self.target.open_quarantine(self.part).layout, self.part, limits, (), self.pipeline.checks, (), decoder)
        if decoder is None:
            return StreamFrame(self._selected(transform(self.pipeline, _with_position(messages)), layout), plan)
        reports: Accumulator[dict[int, Any]] = self.spark.sparkContext.accumulator({}, merging())
        schema = decoder.schema if decoder.schema is not None else _nullable(layout.arrow)
        rows = _decoded(messages, plan, schema, reports)
        given = transform(self.pipeline, rows)
        if given is rows:
            return StreamFrame(messages.select(*dict.fromkeys([*decoder.columns, *PLACE])), plan)
        if decoder.schema is None:
            hint = "sources.kafka(..., decode=..., schema=pa.schema([...])); or let the decoder do it all, and return the frame as it came"
            raise PipelineError(
                f"pipeline '{self.pipeline.name}': its function changes what the decoder gives, and no schema says that", hint=hint
            )
        return StreamFrame(self._selected(given, layout), replace(plan, decoder=None), reports)

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
        if nested := [one for one in arrow if not takes_text(one.type)]:
            raise PipelineError(
                f"pipeline '{self.pipeline.name}': column '{nested[0].name}' is {nested[0].type}, and a field of JSON arrives as text",
                hint="decode the messages yourself: sources.kafka(..., decode=a function on Arrow batches)",
            )
        texts = frozenset(one.name for one in arrow if pa.types.is_string(one.type))
        return JsonDecoder(tuple(arrow.names), texts, set_aside=self.pipeline.drift == "quarantine")

    def _selected(self, given: DataFrame, layout: TableLayout) -> DataFrame:
        from pyspark.sql.pandas.types import to_arrow_schema

        if unknown := [name for name in given.columns if name not in (*layout.arrow.names, POSITION)]:
            hint = "drop them in the pipeline's function, or declare the columns and run: frazil apply"
            names = ", ".join(f"'{name}'" for name in unknown)
            raise SourceDrift(f"{layout.name} has no column {names}", columns=tuple(unknown), hint=hint)
        found = to_arrow_schema(given.schema)
        TextContract.of(layout).check_fields(pa.schema([one for one in found if one.name != POSITION]))
        return given


def _decoded(messages: DataFrame, plan: StreamPlan, schema: pa.Schema, reports: Accumulator[dict[int, Any]]) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = _task()
        yield from plan.decode(batches, task=task, on_end=lambda report: reports.add({task: report.to_json()}))

    rows = from_arrow_schema(schema.append(pa.field(POSITION, pa.string())), prefer_timestamp_ntz=True)
    return messages.mapInArrow(decode, rows)


def _with_position(messages: DataFrame) -> DataFrame:
    from pyspark.sql.functions import concat_ws

    return messages.withColumn(POSITION, concat_ws("/", *PLACE))


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([one.with_nullable(True) for one in schema])


def _task() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() if context else 0
