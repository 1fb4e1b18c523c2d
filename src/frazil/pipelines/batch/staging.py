"""From landing files to staged files, which no reader sees yet: read, the user's function, types and checks,
duplicates, quarantine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.pipelines import Pipeline, failed, transform
from frazil.pipelines.batch import drift
from frazil.pipelines.batch.duplicates import sort_by_key
from frazil.pipelines.files import (
    POSITION,
    TASK_BYTES,
    FileColumns,
    FileRows,
    Malformed,
    Reader,
    Slice,
    SourceFrame,
    Task,
    TextContract,
    find_columns,
    pack_position,
    plan_tasks,
    read_frame,
)
from frazil.pipelines.sources import SourceFile
from frazil.sinks import IcebergTarget
from frazil.sinks.spark import (
    TaskPlan,
    TaskReport,
    TaskWork,
    add_up,
    read_reports,
    run_job,
    task_limits,
    tasks_at_once,
)
from frazil.spark import Batches, as_report, collect_reports, quoted, spark_errors, spread
from frazil.write.contract import Rejected, as_json
from frazil.write.files import BufferLimits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.pipelines.upsert import ChangeSet

MALFORMED_AT_ONCE = 1000  # a file with another delimiter has no other rows


@dataclass(frozen=True)
class StagedLoad:
    """Files that are written and not committed, and the number of rows that were read for them."""

    report: TaskReport = field(default_factory=TaskReport)
    rows_in: int = 0


@dataclass(frozen=True)
class Staging:
    """The work of one run on the driver."""

    pipeline: Pipeline
    files: Sequence[SourceFile]
    folder: Path
    spark: SparkSession
    target: IcebergTarget
    part: str
    io_properties: Mapping[str, str] = field(repr=False)

    @property
    def changes(self) -> ChangeSet | None:
        """What is to be merged; None where rows are in files."""
        return None

    def run(self) -> StagedLoad:
        """Writes the data files and the quarantine files of the run."""
        try:
            return self._run()
        except spark_errors() as exc:
            raise failed(self.pipeline, exc) from exc

    def _run(self) -> StagedLoad:
        source = self.pipeline.files
        paths, sizes = [source.locate(file, self.folder) for file in self.files], [file.size for file in self.files]
        cores = self.spark.sparkContext.defaultParallelism
        tasks = plan_tasks(paths, sizes, cores=cores, can_split=not source.csv.newlines_in_values)
        columns = find_columns(source, paths, self.io_properties, spark=self.spark, tasks=tasks)
        rows, frame, decision = self._transformed(columns, tasks)
        plan = self._plan(tasks)
        report = self._write(frame, plan) if frame is not None else TaskReport()
        quarantined_tasks = _only(tasks, decision.quarantined)
        # Without a single column there is nothing to call the function with; the files may still hold lines that are no
        # JSON.
        quarantined_tasks += rows.malformed_tasks if rows else _without(tasks, decision.quarantined)
        result = (
            self._quarantine(quarantined_tasks, columns, decision.quarantined, plan)
            if quarantined_tasks
            else TaskReport()
        )
        read = sum(count.rows for count in rows.counts.values()) if rows else 0
        return StagedLoad(report + result, read + result.counts.refused)

    def _transformed(
        self, columns: FileColumns, tasks: Sequence[Task]
    ) -> tuple[SourceFrame | None, DataFrame | None, drift.Decision]:
        """What the user's function makes of the files that are not quarantined; the table has the columns for it."""
        self._check_delimiter(columns)
        rows, frame = self._call(columns.schema, tasks)
        if frame is None:
            return None, None, drift.Decision()
        decision = drift.decide(
            self.pipeline.drift,
            returned=[
                name for name in frame.columns if name != POSITION and name not in self.pipeline.deciding_columns
            ],
            table=self.pipeline.target.name,
            known=self.target.layout.arrow.names,
            columns=columns,
            paths=[file.path for file in self.files],
            absent_is_null=self.pipeline.files.format == "json",
        )
        if decision.quarantined:
            left = [names for file, names in enumerate(columns.by_file) if file not in decision.quarantined]
            known = pa.schema([field for field in columns.schema if any(field.name in names for names in set(left))])
            rows, frame = self._call(known, _without(tasks, decision.quarantined))
        elif decision.add:
            self.target.evolve(arrow_schema(frame), names=decision.add)
        return rows, frame, decision

    def _check_delimiter(self, columns: FileColumns) -> None:
        """Before the function is called: with the whole header as one column, it would complain about any other."""
        source = self.pipeline.files
        if source.format == "csv" and source.csv.header and self.pipeline.drift != "quarantine":
            paths, known = [file.path for file in self.files], self.target.layout.arrow.names
            drift.check_delimiter(
                columns, paths, delimiter=source.csv.delimiter, table=self.pipeline.target.name, known=known
            )

    def _call(self, schema: pa.Schema, tasks: Sequence[Task]) -> tuple[SourceFrame | None, DataFrame | None]:
        if not len(schema) or not tasks:  # nothing but empty files
            return None, None
        rows = read_frame(self.spark, Reader(self.pipeline.files, schema, self.io_properties), tasks)
        return rows, transform(self.pipeline, rows.rows)

    def _plan(self, tasks: Sequence[Task]) -> TaskPlan:
        layout = self.target.layout
        slices = tuple(replace(piece, path=self.files[piece.file].path) for task in tasks for piece in task)
        return TaskPlan(
            layout,
            self.part,
            task_limits(BufferLimits(), tasks_at_once(self.spark)),
            FileRows(slices),
            quarantine=self.target.open_quarantine(self.part).layout,
            checks=self.pipeline.checks,
            kind=TextContract,
            key=self.pipeline.key,
        )

    def _write(self, frame: DataFrame, plan: TaskPlan) -> TaskReport:
        names = [*plan.layout.arrow.names, POSITION]
        if plan.key:
            partitions = max(
                self.spark.sparkContext.defaultParallelism, sum(file.size for file in self.files) // TASK_BYTES
            )
            frame = sort_by_key(frame, self.pipeline, plan.layout.schema, partitions=partitions)
        rows = frame.select(*(frame[quoted(name)] for name in frame.columns if name in names))
        # Here, where the error is the caller's own and not that of a task.
        TextContract.of(plan.layout).check_fields(_without_position(arrow_schema(rows)))
        return add_up(run_job(rows, plan))

    def _quarantine(
        self, tasks: Sequence[Task], columns: FileColumns, drifted: Mapping[int, tuple[str, ...]], plan: TaskPlan
    ) -> TaskReport:
        """The rows that cannot be taken apart, and all rows of drifted files, for the quarantine. Read once more: there
        are few of them.
        """
        reader = Reader(self.pipeline.files, columns.schema, self.io_properties)
        own = {piece.file: columns.by_file[piece.file] for task in tasks for piece in task}

        def quarantine(number: int) -> Batches:
            with plan.begin(number) as work:
                for piece in tasks[number]:
                    malformed: list[Malformed] = []
                    for batch in reader.read(piece, partial(_note_malformed, work, malformed)):
                        if piece.file in drifted:
                            _refuse_all(work, batch, own[piece.file], drift.reason(drifted[piece.file]))
                    _refuse_malformed(work, malformed)
                yield as_report(work.finish().to_json())

        return add_up(read_reports(collect_reports(spread(self.spark, len(tasks), quarantine, "report string"))))


def _refuse_all(work: TaskWork, batch: pa.RecordBatch, names: Sequence[str], reason: str) -> None:
    rows = batch.select(list(names)).to_pylist()
    _refuse(work, [(reason, as_json(row)) for row in rows], batch.column(POSITION).to_pylist())


def _note_malformed(work: TaskWork, malformed: list[Malformed], line: Malformed) -> None:
    malformed.append(line)
    if len(malformed) >= MALFORMED_AT_ONCE:
        _refuse_malformed(work, malformed)


def _refuse_malformed(work: TaskWork, malformed: list[Malformed]) -> None:
    if malformed:
        positions = [pack_position(line.slice, line.row) for line in malformed]
        _refuse(work, [(line.reason, as_json({"line": line.text})) for line in malformed], positions)
        malformed.clear()


def _refuse(work: TaskWork, rows: Sequence[tuple[str, str]], positions: Sequence[int]) -> None:
    """Takes rows, each a reason and the row as JSON, for the quarantine."""
    source = work.plan.source
    assert isinstance(source, FileRows)
    rejected = [Rejected(number, reason, raw) for number, (reason, raw) in enumerate(rows)]
    work.quarantine(rejected, [(source.spell(position), {}) for position in positions])


def _only(tasks: Sequence[Task], files: Mapping[int, object]) -> list[Task]:
    return _nonempty(tuple(piece for piece in task if piece.file in files) for task in tasks)


def _without(tasks: Sequence[Task], files: Mapping[int, object]) -> list[Task]:
    return _nonempty(tuple(piece for piece in task if piece.file not in files) for task in tasks)


def _nonempty(tasks: Iterable[tuple[Slice, ...]]) -> list[Task]:
    return [task for task in tasks if task]


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The Arrow types of a frame's columns."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema)


def _without_position(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field for field in schema if field.name != POSITION])
