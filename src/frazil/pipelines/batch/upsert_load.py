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
    made: list[ChangeSet] = field(default_factory=list, kw_only=True)

    @property
    def changes(self) -> ChangeSet | None:
        return next(iter(self.made), None)

    def _write(self, given: DataFrame, plan: TaskPlan) -> TaskReport:
        rules = self.pipeline.rules
        changes = ChangePlan(replace(plan, key=()), rules)
        names = [*plan.layout.arrow.names, *self.pipeline.beside, POSITION]
        rows = given.select(*(given[quoted(name)] for name in given.columns if name in names))
        changes.check_fields(arrow_schema(rows))
        made = self.kept.enter_context(change_set(rows, changes))
        self.made.append(made)
        duplicates = made.report.counts.rows - made.rows
        return replace(made.report, counts=made.report.counts + Counts(rows=-duplicates, duplicates=duplicates))
