"""What one task does with changes: types, checks, quarantine files. The good ones go on to Spark, and with them, as a
last row, a report.

So the rows and what was counted of them are one task's word, however often Spark repeats a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.errors import PipelineError
from frazil.pipelines.files import POSITION
from frazil.sinks.spark import Counts, TaskPlan, TaskReport, TaskWork
from frazil.write.upsert import ARRIVAL, ChangeContract, UpsertRules, count_up

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

REPORT = "_frazil_report"


@dataclass(frozen=True)
class ChangePlan:
    """Everything that a task must know: where bad rows go, how they are detected, and how changes find their rows."""

    load: TaskPlan
    rules: UpsertRules

    @property
    def contract(self) -> ChangeContract:
        """What the table asks of the changes."""
        return ChangeContract(self.load.layout, self.rules, self.load.checks, kind=self.load.kind)

    @property
    def arrow(self) -> pa.Schema:
        """The rows that tasks give: changes, the place of each in its source, and the report."""
        return self.contract.arrow.append(pa.field(ARRIVAL, pa.int64())).append(pa.field(REPORT, pa.string()))

    def check_fields(self, schema: pa.Schema) -> None:
        """Refuses rows that lack a column or have one of a type that does not fit; here, where the error is the
        caller's own.
        """
        rows = pa.schema([field for field in schema if field.name != POSITION])
        self.contract.check_fields(rows)
        self.contract.rows.check_fields(rows)

    def spark_schema(self) -> StructType:
        """The same in Spark's types; refuses a table that has others."""
        from pyspark.errors import PySparkException
        from pyspark.sql.pandas.types import from_arrow_schema

        for field in self.load.layout.arrow:
            if pa.types.is_time(field.type) or isinstance(field.type, pa.BaseExtensionType):
                raise PipelineError(
                    f"{self.load.layout.name}: column '{field.name}' is of type "
                    f"{self.load.layout.schema.find_type(field.name)}, "
                    "which changes cannot have on their way through Spark",
                    hint="upsert into this table with frazil.sinks.open(..., mode='upsert')",
                    column=field.name,
                    table=self.load.layout.name,
                )
        try:
            nullable = pa.schema([field.with_nullable(True) for field in self.arrow])
            return from_arrow_schema(nullable, prefer_timestamp_ntz=True)
        except PySparkException as exc:
            raise PipelineError(
                f"{self.load.layout.name}: a column has a type that Spark does not know: {exc}",
                reason=str(exc),
                table=self.load.layout.name,
            ) from exc

    def run(self, batches: Iterable[pa.RecordBatch], *, task: int) -> Iterator[pa.RecordBatch]:
        """The good changes, batch by batch, and the report; whatever goes wrong, it leaves no file behind."""
        schema = self.arrow
        with self.load.begin(task, self.contract) as work:
            for batch in batches:
                yield from _changes(work, batch, schema).to_batches()
            yield report_row(work.finish(), schema)

    def __repr__(self) -> str:
        return f"ChangePlan({self.load.layout.name}, {self.load.part})"  # the layout holds keys


def _changes(work: TaskWork, batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """The changes of a batch, each with its position in the source; bad ones are quarantined."""
    placed, accepted = work.take(batch)
    if (arrival := placed.arrival()) is None:
        arrival = count_up(placed.rows.num_rows, start=work.taken - placed.rows.num_rows)
    work.counts += Counts(rows=accepted.rows.num_rows)
    kept = arrival if accepted.numbers is None else arrival.take(accepted.numbers)
    columns = [*accepted.rows.columns, kept, pa.nulls(accepted.rows.num_rows, pa.string())]
    return pa.table(columns, schema=schema).combine_chunks()


def report_row(report: TaskReport, schema: pa.Schema) -> pa.RecordBatch:
    """A report among rows: all other columns are NULL, or False."""
    columns = [
        pa.array([False]) if field.type == pa.bool_() and not field.nullable else pa.nulls(1, field.type)
        for field in schema
    ]
    columns[schema.get_field_index(REPORT)] = pa.array([report.to_json()], pa.string())
    return pa.RecordBatch.from_arrays(columns, schema=schema)
