"""From landing files to changes that wait to be merged: the staging of a pipeline with mode 'upsert'."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from frazil.pipelines.batch.staging import Staging, arrow_schema
from frazil.pipelines.files import POSITION
from frazil.pipelines.upsert import ChangePlan, ChangeSet, change_set
from frazil.sinks.spark import Counts, TaskPlan, TaskReport
from frazil.spark import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class ChangeStaging(Staging):
    """The work of one run on the driver: changes stay with Spark until they are merged; `kept` lets go of them."""

    kept: ExitStack = field(default_factory=ExitStack, kw_only=True)
    change_sets: list[ChangeSet] = field(default_factory=list, kw_only=True)

    @property
    def changes(self) -> ChangeSet | None:
        return next(iter(self.change_sets), None)

    def _write(self, frame: DataFrame, plan: TaskPlan) -> TaskReport:
        rules = self.pipeline.rules
        changes = ChangePlan(replace(plan, key=()), rules)
        names = [*plan.layout.arrow.names, *self.pipeline.deciding_columns, POSITION]
        rows = frame.select(*(frame[quoted(name)] for name in frame.columns if name in names))
        changes.check_fields(arrow_schema(rows))
        change_rows = self.kept.enter_context(change_set(rows, changes))
        self.change_sets.append(change_rows)
        duplicates = change_rows.report.counts.rows - change_rows.rows
        return replace(
            change_rows.report, counts=change_rows.report.counts + Counts(rows=-duplicates, duplicates=duplicates)
        )
