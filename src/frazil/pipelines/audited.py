"""Write, audit, publish: rows go to a branch, the checks run there, and main gets the rows with their progress only if they pass.

The branch is a stage: it begins at main's head each time, and knows no progress of its own. Publishing moves main to the staged snapshot
in the one commit that also moves the progress, so that a kill at any moment leaves either nothing on main, or all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from frazil.client.changes import Change
from frazil.errors import AuditFailed, PipelineError
from frazil.pipelines.declare import Pipeline, is_query
from frazil.pipelines.function import telling
from frazil.sinks.publish import Overtaken, Patience, until_decided
from frazil.sinks.snapshots import STAGED_BY, Append, Move, Publishable, guards, head, move_ref

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.typedef import Identifier
    from pyspark.sql import SparkSession

    from frazil.client import FrazilCatalog
    from frazil.sinks.files import WrittenFile
    from frazil.sinks.spark import FrameResult, FrameSink, Staged

ATTEMPTS = 5


class StagedChange(Publishable, Protocol):
    """A change whose snapshot is known once it is built."""

    snapshot_id: int | None


class Kind(Protocol):
    """`Append`, or `Replace`: how files come to a ref."""

    def __call__(self, identifier: Identifier, files: Sequence[WrittenFile], ref: str) -> StagedChange:
        """The change that brings the files there."""


@dataclass(frozen=True)
class AuditedPublisher:
    """Publishes the staged files of a pipeline after its audit."""

    pipeline: Pipeline
    spark: SparkSession
    catalog: FrazilCatalog
    patience: Patience

    def publish(
        self,
        sink: FrameSink,
        staged: Staged,
        *,
        rows: int,
        kind: Kind = Append,
        also: Callable[[int], Mapping[str | Identifier, pa.Table]] | None = None,
        done: frozenset[str] = frozenset(),
    ) -> FrameResult:
        """Commits to main what the audit has let pass. `also` gives rows of other tables, for the snapshot of the staged rows.

        If main moves meanwhile, the files are staged on its new head and the audit runs once more.
        """
        for _ in range(ATTEMPTS):
            base, snapshot_id = self._stage(staged.files, kind)
            try:
                failures = self.audit(snapshot_id)
            except BaseException:
                sink.discard_quarantine(staged)
                raise
            if failures:
                sink.discard_quarantine(staged)
                raise AuditFailed(self.pipeline.name, self.pipeline.target.name, self.pipeline.branch, rows=rows, failures=failures)
            move = Move(self.pipeline.target.identifier, snapshot_id, base, self.pipeline.branch)
            try:
                return sink.publish(staged, also=also(snapshot_id) if also else None, change=move, done=done)
            except Overtaken:
                continue
        raise PipelineError(
            f"pipeline '{self.pipeline.name}': {self.pipeline.target.name} changed {ATTEMPTS} times while the new rows were audited",
            hint="nothing was published; run again when fewer others write to the table, or audit less",
        )

    def _stage(self, files: Sequence[WrittenFile], kind: Kind) -> tuple[int, int]:
        """The files are on the branch, which has grown out of main's head; gives the snapshots of both."""
        target, branch = self.pipeline.target, self.pipeline.branch
        change = kind(target.identifier, files, branch)

        def reset(_: int) -> int:
            metadata = self.catalog.load_table(target.identifier).metadata
            main, old = head(metadata, "main"), head(metadata, branch)
            assert main is not None  # the take-over has made one
            if old is None or old.snapshot_id != main.snapshot_id:
                requirements = guards(metadata, branch, old.snapshot_id if old else None)
                self.catalog.commit_changes([Change(target.identifier, requirements, (move_ref(metadata, branch, main.snapshot_id),))])
            return main.snapshot_id

        def write(number: int) -> int:
            table = self.catalog.load_table(target.identifier)
            on_branch = head(table.metadata, branch)
            if on_branch is not None and on_branch.snapshot_id == change.snapshot_id:
                return on_branch.snapshot_id  # the reply was lost, the commit was not
            if on_branch is None or on_branch.snapshot_id != base:
                raise PipelineError(
                    f"pipeline '{self.pipeline.name}': another program writes to branch '{branch}' of {target.name}",
                    hint="is another run of this pipeline under way? else name another branch in @pipeline(branch=...)",
                )
            built = change.build(table, attempt=number, summary={STAGED_BY: self.pipeline.name}, properties={})
            self.catalog.commit_changes([built])
            assert change.snapshot_id is not None
            return change.snapshot_id

        self.patience.on_step("before stage")
        base = until_decided(reset, name=target.name, patience=self.patience)
        staged_id = until_decided(write, name=target.name, patience=self.patience)
        self.patience.on_step("staged")
        return base, staged_id

    def audit(self, snapshot_id: int) -> dict[str, int]:
        """What each check that failed has found."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        failures = {}
        for check in self.pipeline.audit:
            query = audit_query(check, f"{self._spark_name()} VERSION AS OF {snapshot_id}")
            try:
                (found,) = self.spark.sql(query).collect()[0]
            except (PySparkException, Py4JError) as exc:
                raise PipelineError(
                    f"pipeline '{self.pipeline.name}': the audit '{check}' cannot be run: {telling(str(exc))}",
                    hint=f"main is unchanged, the new rows are on branch '{self.pipeline.branch}'; mend the check and run again",
                ) from exc
            if found:
                failures[check] = found
        return failures

    def _spark_name(self) -> str:
        parts = (self.catalog.name, *self.pipeline.target.identifier)
        return ".".join(f"`{part}`" for part in parts)


def audit_query(check: str, table: str) -> str:
    """The query that counts what a check finds wrong. A condition that is NULL for a row has not failed, as everywhere in SQL.

    >>> audit_query("amount < 10", "t")
    'SELECT count(*) FROM t WHERE NOT (amount < 10)'
    >>> audit_query("SELECT id FROM {table} GROUP BY 1 HAVING count(*) > 1", "t")
    'SELECT count(*) FROM (SELECT id FROM t GROUP BY 1 HAVING count(*) > 1)'
    """
    if is_query(check):
        return f"SELECT count(*) FROM ({check.strip().rstrip(';').replace('{table}', table)})"  # noqa: S608  # the project's own SQL
    return f"SELECT count(*) FROM {table} WHERE NOT ({check})"  # noqa: S608
