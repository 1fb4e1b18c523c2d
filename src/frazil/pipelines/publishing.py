"""How what a run or a batch has made comes to its table: files directly, or by a stage if they are audited; changes by
a merge there.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.errors import PipelineError, WriterFenced
from frazil.pipelines.audited import Audit, Files, Kind
from frazil.pipelines.declare import Pipeline
from frazil.pipelines.stages import Also, Stages, Write
from frazil.pipelines.upsert import ChangeSet, Merge
from frazil.write.commit import Append

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyspark.sql import SparkSession

    from frazil.sinks.spark import FrameResult, FrameSink, Staged


@dataclass
class LoadPublisher:
    """Publishes what a run, or a batch of a stream, has made: files or changes, with or without an audit."""

    pipeline: Pipeline
    spark: SparkSession
    stages: Stages
    # what main was after the last audit: until somebody else commits, its rows need no second look
    passed: int | None = None
    merge: Merge | None = None  # of the changes that are published, or were last

    def clean(self, seen: TableMetadata | None = None) -> None:
        """Removes the branches of earlier writers, which can publish nothing any more, and what failed the
        last audit. `seen` is the table as it was loaded a moment ago: without such a branch there is nothing to do.
        """
        others = [self.pipeline.branch] if self.pipeline.audit else []
        if seen is None or self.stages.left(seen, *others):
            self.stages.clean(*others)

    def clean_rivals(self) -> None:
        """Removes the branches of runs that were killed, or that lost against this one; to be called after
        the commit.
        """
        if self.pipeline.audit or self.pipeline.mode == "upsert":
            with suppress(Exception):  # the rows are in; the next run removes what is left
                self.stages.clean_rivals()

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
        """All of it is in the table, in one commit, when this returns. `also` gives rows of other tables, for the
        snapshot of the rows.
        """
        self.merge = None
        if changes is not None and changes.rows:
            self.merge = Merge(self.stages, changes, self.pipeline.rules)
            return self._staged(sink, staged, self.merge, self._audit(rows), also, done)
        if self.pipeline.audit and staged.files:
            audit = self._audit(rows, self.passed if kind is Append else None)
            return self._staged(sink, staged, Files(self.stages, staged.files, kind), audit, also, done)
        try:
            return self._direct(sink, staged, kind, also, done)
        except (WriterFenced, PipelineError):  # refused for good: nothing of it is in, and nothing will be
            with suppress(Exception):  # the error that led here is the one to tell
                sink.discard(staged)
            raise

    def _direct(
        self, sink: FrameSink, staged: Staged, kind: Kind, also: Also | None, done: frozenset[str]
    ) -> FrameResult:
        if also is None:
            return sink.publish(staged, done=done)
        identifier = self.pipeline.target.identifier
        snapshot_id = self.stages.target.new_snapshot_id()  # the rows of the others have to name it
        return sink.publish(
            staged, also=also(snapshot_id), change=kind(identifier, staged.files, snapshot_id=snapshot_id), done=done
        )

    def _audit(self, rows: int, passed: int | None = None) -> Audit | None:
        return Audit(self.pipeline, self.spark, self.stages.catalog, rows, passed) if self.pipeline.audit else None

    def _staged(
        self,
        sink: FrameSink,
        staged: Staged,
        write: Write,
        audit: Audit | None,
        also: Also | None,
        done: frozenset[str],
    ) -> FrameResult:
        result = self.stages.publish(sink, staged, write, audit=audit, also=also, done=done)
        self.passed = result.snapshot_id if audit else None
        return result
