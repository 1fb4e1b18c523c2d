"""A run of a pipeline with mode 'upsert': landing files -> the user's function -> changes -> a merge, with ledger and progress."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from frazil.errors import PipelineError
from frazil.pipelines.declare import Pipeline
from frazil.pipelines.load_task import LoadPlan, LoadReport
from frazil.pipelines.reading import POSITION
from frazil.pipelines.staging import StagedLoad, Staging
from frazil.pipelines.upsert import map_changes
from frazil.pipelines.upsert_merge import Also, ChangeSet, Merger, change_set
from frazil.pipelines.upsert_task import ChangePlan
from frazil.sinks.spark import FrameSink, Staged
from frazil.sinks.upsert_rules import UpsertRules

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from frazil.client import FrazilCatalog
    from frazil.sinks.iceberg import IcebergTarget


def rules_of(pipeline: Pipeline) -> UpsertRules:
    """How the pipeline's changes find their rows."""
    return UpsertRules.of(pipeline.key, pipeline.sequence, pipeline.op)


@dataclass(frozen=True)
class ChangeStaging(Staging):
    """The work of one run on the driver: changes stay with Spark until they are merged; `kept` lets go of them."""

    kept: ExitStack = field(default_factory=ExitStack, kw_only=True)
    changes: list[ChangeSet] = field(default_factory=list, kw_only=True)

    def _write(self, given: DataFrame, plan: LoadPlan) -> LoadReport:
        rules = rules_of(self.pipeline)
        changes = ChangePlan(replace(plan, key=()), rules)
        names = [*plan.layout.arrow.names, *self.pipeline.beside, POSITION]
        rows = given.select(*(given[f"`{name.replace('`', '``')}`"] for name in given.columns if name in names))
        changes.check(_arrow_schema(rows))
        made = self.kept.enter_context(change_set(map_changes(rows, changes), rules))
        self.changes.append(made)
        return replace(made.report, rows=made.rows, duplicates=made.report.rows - made.rows)


@dataclass(frozen=True)
class UpsertRun:
    """A run that has taken its pipeline over."""

    pipeline: Pipeline
    catalog: FrazilCatalog
    target: IcebergTarget
    part: str

    @property
    def merger(self) -> Merger:
        return Merger(self.catalog, self.target, self.part, rules_of(self.pipeline))

    def publish(self, sink: FrameSink, staged: StagedLoad, changes: ChangeSet, also: Also) -> None:
        """Merges the changes, and commits them with all that belongs to the run."""
        report = staged.report
        try:
            self.merger.publish(sink, Staged((), report.quarantine_files), changes, also=also)
        except PipelineError:
            sink.discard(Staged((), report.quarantine_files))
            raise


def _arrow_schema(frame: DataFrame) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema)
