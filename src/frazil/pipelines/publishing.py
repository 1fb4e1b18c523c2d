"""How what a run or a batch has made comes to its table: files directly, or by a stage if they are audited; changes by a merge there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.pipelines.audited import Audit, Files, Kind
from frazil.pipelines.declare import Pipeline
from frazil.pipelines.stages import Also, Stages, Write
from frazil.pipelines.upsert_merge import Merge
from frazil.pipelines.upsert_set import ChangeSet
from frazil.sinks.snapshots import Append

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.sinks.spark import FrameResult, FrameSink, Staged


@dataclass
class LoadPublisher:
    """Publishes what a run, or a batch of a stream, has made: files or changes, with or without an audit."""

    pipeline: Pipeline
    spark: SparkSession
    stages: Stages
    passed: int | None = None  # what main was after the last audit: until somebody else commits, its rows need no second look

    def clean(self) -> None:
        """Removes what runs before this one have left; to be called once the pipeline is taken over."""
        self.stages.clean(*([self.pipeline.branch] if self.pipeline.audit else []))

    def publish(
        self,
        sink: FrameSink,
        staged: Staged,
        *,
        rows: int,
        changes: ChangeSet | None = None,
        kind: Kind = Append,
        also: Also | None = None,
        done: frozenset[str] = frozenset(),
    ) -> FrameResult:
        """All of it is in the table, in one commit, when this returns. `also` gives rows of other tables, for the snapshot of the rows."""
        if changes is not None and changes.rows:
            merge = Merge(self.stages, changes, self.pipeline.rules)
            return self._staged(sink, staged, merge, self._audit(rows), also, done)
        if self.pipeline.audit and staged.files:
            audit = self._audit(rows, self.passed if kind is Append else None)
            return self._staged(sink, staged, Files(self.stages, staged.files, kind), audit, also, done)
        if also is None:
            return sink.publish(staged, done=done)
        identifier = self.pipeline.target.identifier
        snapshot_id = self.stages.catalog.load_table(identifier).metadata.new_snapshot_id()  # the rows of the others have to name it
        return sink.publish(staged, also=also(snapshot_id), change=kind(identifier, staged.files, snapshot_id=snapshot_id), done=done)

    def _audit(self, rows: int, passed: int | None = None) -> Audit | None:
        return Audit(self.pipeline, self.spark, self.stages.catalog, rows, passed) if self.pipeline.audit else None

    def _staged(
        self, sink: FrameSink, staged: Staged, write: Write, audit: Audit | None, also: Also | None, done: frozenset[str]
    ) -> FrameResult:
        result = self.stages.publish(sink, staged, write, audit=audit, also=also, done=done)
        self.passed = result.snapshot_id if audit else None
        return result
