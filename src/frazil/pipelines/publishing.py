"""Publishes the files or changes of a run, a micro-batch or a frame to the target table, exactly once: directly, or
through a staging branch, where changes are merged and audits look at the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from frazil.errors import CommitUnknown, PipelineError, WriterFenced
from frazil.pipelines.audited import Audit
from frazil.pipelines.declare import Pipeline
from frazil.pipelines.stages import Stages
from frazil.pipelines.upsert import ChangeSet, Merge
from frazil.protocol import SUMMARY_STAGED_BY
from frazil.write.commit import Append, Move, Overtaken, Publishable, head, until_decided

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.typedef import Identifier
    from pyspark.sql import SparkSession

    from frazil.sinks.spark import FrameResult, FrameSink, Staged
    from frazil.write.files import WrittenFile

Also = Callable[[int], "Mapping[str | Identifier, pa.Table | Append]"]
Write = Callable[[str], int]  # brings something to a branch, and gives the snapshot that it has then


class Judge(Protocol):
    """What looks at a staged snapshot before the ref has it: `audited.Audit`."""

    @property
    def branch(self) -> str:
        """Where a snapshot that did not pass is kept, to be looked at."""

    def check(self, snapshot_id: int, base_id: int | None) -> None:
        """Raises if it may not be published. The stage began at `base_id`; None: the ref had no snapshot."""


class StagedChange(Publishable, Protocol):
    """A change whose snapshot is known once it is built."""

    snapshot_id: int | None


class Kind(Protocol):
    """`Append`, or `Replace`: how files come to a ref."""

    def __call__(
        self, identifier: Identifier, files: Sequence[WrittenFile], ref: str = ..., snapshot_id: int | None = ...
    ) -> StagedChange:
        """The change that brings the files there."""


def publish(
    sink: FrameSink,
    staged: Staged,
    *,
    stages: Stages,
    write: Write | None = None,
    kind: Kind = Append,
    audit: Judge | None = None,
    also: Also | None = None,
    done: frozenset[str] = frozenset(),
) -> FrameResult:
    """The files of `staged`, or what `write` brings to a staging branch, are in the table when this returns, in one
    commit with the quarantined rows, rows of other tables and the position.

    `also` is given the snapshot of the rows. If one does not pass the audit, the audit's error is raised and the
    snapshot is on the audit's branch.
    """
    if write is None:
        return _publish_files(sink, staged, stages, kind, also, done)
    for _ in range(stages.attempts):
        stage, base = stages.begin()
        try:
            snapshot_id = write(stage)
            stages.target.retry.on_step("staged")
            if audit is not None:
                check_staged(audit, snapshot_id, base, stages, stage)
            move = Move(stages.target.identifier, snapshot_id, base, stage, stages.target.ref)
            return sink.publish(staged, also=also(snapshot_id) if also else None, change=move, done=done)
        except Overtaken:
            stages.drop(stage)
        except CommitUnknown:  # it may still come
            raise
        except Exception as exc:
            stages.drop(stage)
            # of the writing or the audit, or refused: nothing is in
            if isinstance(exc, PipelineError | WriterFenced):
                sink.discard_quarantine(staged)
            raise
    sink.discard_quarantine(staged)
    table = stages.target.layout.name
    raise PipelineError(
        f"{table} changed {stages.attempts} times while a change of it was staged",
        hint="nothing was committed; run again when fewer others write to the table; merge-on-read and fewer "
        "audits take less time",
        table=table,
        problem="contended",
    )


def _publish_files(
    sink: FrameSink, staged: Staged, stages: Stages, kind: Kind, also: Also | None, done: frozenset[str]
) -> FrameResult:
    try:
        if also is None:
            return sink.publish(staged, done=done)
        target = stages.target
        snapshot_id = target.new_snapshot_id()  # the rows of the others have to name it
        change = kind(target.identifier, staged.files, target.ref, snapshot_id=snapshot_id)
        return sink.publish(staged, also=also(snapshot_id), change=change, done=done)
    except (WriterFenced, PipelineError):  # refused for good: nothing of it is in, and nothing will be
        with suppress(Exception):  # the error that led here is the one to tell
            sink.discard(staged)
        raise


def check_staged(audit: Judge, snapshot_id: int, base_id: int | None, stages: Stages, stage: str) -> None:
    """Raises if the snapshot does not pass; it then has the audit's branch in place of the stage."""
    try:
        audit.check(snapshot_id, base_id)
    except Exception:
        stages.rename(stage, audit.branch)
        raise


@dataclass(frozen=True)
class Files:
    """Brings files to a stage; a `Write`."""

    stages: Stages
    files: Sequence[WrittenFile]
    kind: Kind

    def __call__(self, stage: str) -> int:
        """Commits the files to the branch; gives their snapshot."""
        stages, target = self.stages, self.stages.target
        change = self.kind(target.identifier, self.files, stage)

        def attempt(number: int) -> int:
            table = stages.table_at(stage)
            on_branch = head(table.metadata, stage)
            assert on_branch is not None
            if on_branch.snapshot_id == change.snapshot_id:
                return on_branch.snapshot_id  # the reply was lost, the commit was not
            built = change.build(table, attempt=number, summary={SUMMARY_STAGED_BY: stages.pipeline}, properties={})
            stages.catalog.commit_changes([built])
            assert change.snapshot_id is not None
            return change.snapshot_id

        return until_decided(attempt, name=target.layout.name, retry=target.retry)


@dataclass
class LoadPublisher:
    """Publishes what a run, or a batch of a stream, has made: files or changes, with or without an audit."""

    pipeline: Pipeline
    spark: SparkSession
    stages: Stages
    # what main was after the last audit: until another writer commits, its rows need no second check
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
        write: Write | None = None
        self.merge, audit = None, None
        if changes is not None and changes.rows:
            write = self.merge = Merge(self.stages, changes, self.pipeline.rules)
            audit = self._audit(rows)
        elif self.pipeline.audit and staged.files:
            write = Files(self.stages, staged.files, kind)
            audit = self._audit(rows, self.passed if kind is Append else None)
        result = publish(sink, staged, stages=self.stages, write=write, kind=kind, audit=audit, also=also, done=done)
        if write is not None:
            self.passed = result.snapshot_id if audit else None
        return result

    def _audit(self, rows: int, passed: int | None = None) -> Audit | None:
        return Audit(self.pipeline, self.spark, self.stages.catalog, rows, passed) if self.pipeline.audit else None
