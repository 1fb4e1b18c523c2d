"""Branches on which a change waits, where nobody sees it, until it comes to its ref with the progress in one commit.

A stage begins at the ref's head. Something is written to it (Spark's MERGE, or files), audits look at it there.
Publishing moves the ref to what is staged, if the ref still is at that head, and drops the branch. If it is not, all is
done once more, on the new head. Each attempt has a branch of its own: what a driver still writes after it was taken
over is on a branch that is never read. A driver that is killed leaves a branch. The next stream removes it at its
start; the next batch run when it has committed, for until then the branch may belong to a run that is still going on.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from frazil.client import Change
from frazil.errors import CommitUnknown, PipelineError, WriterFenced
from frazil.protocol import STAGING_PREFIX, SUMMARY_STAGED_BY
from frazil.write.commit import Append, Move, Overtaken, drop_ref, guards, head, move_ref, until_decided

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.typedef import Identifier

    from frazil.client import FrazilCatalog
    from frazil.sinks import IcebergTarget
    from frazil.sinks.spark import FrameResult, FrameSink, Staged

T = TypeVar("T")
ATTEMPTS = 10
Also = Callable[[int], "Mapping[str | Identifier, pa.Table | Append]"]
Write = Callable[[str], int]  # brings something to a branch, and gives the snapshot that it has then


class Judge(Protocol):
    """What looks at a staged snapshot before the ref has it: `audited.Audit`."""

    @property
    def branch(self) -> str:
        """Where a snapshot that did not pass is kept, to be looked at."""

    def check(self, snapshot_id: int, base_id: int | None) -> None:
        """Raises if it may not be published. The stage began at `base_id`; None: the ref had no snapshot."""


@dataclass(frozen=True)
class Stages:
    """The stages of one part of a stream or a pipeline."""

    catalog: FrazilCatalog
    target: IcebergTarget
    part: str
    # of the writer, or what it will be with its first commit: no writer removes a stage of its successor
    generation: int
    attempts: int = ATTEMPTS

    @property
    def pipeline(self) -> str:
        """The name that the part was made of."""
        return self.part.rpartition("/")[0]

    @property
    def prefix(self) -> str:
        """How the branches of this part begin: names of parts may hold what a branch in SQL may not."""
        return f"{STAGING_PREFIX}_{hashlib.sha256(self.part.encode()).hexdigest()[:10]}_"

    def clean(self, *others: str) -> list[str]:
        """Removes the branches that writers of earlier generations have left, and those named; these can publish
        nothing any more.
        """
        return self._clean(self.generation, others)

    def left(self, metadata: TableMetadata, *others: str) -> dict[str, int]:
        """The branches that `clean` removes, and where they are."""
        return self._left(metadata, self.generation, others)

    def clean_rivals(self) -> list[str]:
        """Removes the branches of writers that planned the same generation, once this one has it: they are killed, or
        will be refused.
        """
        return self._clean(self.generation + 1)

    def _clean(self, before: int, others: Sequence[str] = ()) -> list[str]:
        def attempt(_: int) -> list[str]:
            metadata = self._load().metadata
            left = self._left(metadata, before, others)
            if left:
                requirements = tuple(
                    dict.fromkeys(one for name, at in left.items() for one in guards(metadata, name, at))
                )
                self._commit(requirements, *map(drop_ref, left))
            return list(left)

        return self._until_decided(attempt)

    def publish(
        self,
        sink: FrameSink,
        staged: Staged,
        write: Write,
        *,
        audit: Judge | None = None,
        also: Also | None = None,
        done: frozenset[str] = frozenset(),
    ) -> FrameResult:
        """What is written is in the table, with the quarantined rows of `staged`, rows of other tables and the
        position, when this returns.

        `also` is given the staged snapshot. One that does not pass the audit is on the audit's branch when its error is
        raised.
        """
        for _ in range(self.attempts):
            stage = f"{self.prefix}{self.generation}_{uuid.uuid4().hex[:8]}"
            base = self._begin(stage)
            try:
                snapshot_id = write(stage)
                self.target.patience.on_step("staged")
                if audit is not None:
                    self._audit(audit, snapshot_id, base, stage)
                move = Move(self.target.identifier, snapshot_id, base, stage, self.target.ref)
                return sink.publish(staged, also=also(snapshot_id) if also else None, change=move, done=done)
            except Overtaken:
                self._drop(stage)
            except CommitUnknown:  # it may still come
                raise
            except Exception as exc:
                self._drop(stage)
                # of the writing or the audit, or refused: nothing is in
                if isinstance(exc, PipelineError | WriterFenced):
                    sink.discard_quarantine(staged)
                raise
        sink.discard_quarantine(staged)
        raise PipelineError(
            f"{self.target.layout.name} changed {self.attempts} times while a change of it was staged",
            hint="nothing was committed; run again when fewer others write to the table; merge-on-read and fewer "
            "audits take less time",
            table=self.target.layout.name,
            problem="contended",
        )

    def _left(self, metadata: TableMetadata, before: int, others: Sequence[str]) -> dict[str, int]:
        def is_left(name: str) -> bool:
            generation = name.removeprefix(self.prefix).partition("_")[0]
            return name.startswith(self.prefix) and not (generation.isdecimal() and int(generation) >= before)

        return {name: ref.snapshot_id for name, ref in metadata.refs.items() if is_left(name) or name in others}

    def table_at(self, stage: str) -> Table:
        """The table, if the branch is still there."""
        table = self._load()
        if head(table.metadata, stage) is None:
            raise PipelineError(
                f"{self.target.layout.name}: branch '{stage}' is gone",
                hint="another run of this pipeline came first",
                table=self.target.layout.name,
                ref=stage,
            )
        return table

    def _begin(self, stage: str) -> int | None:
        """Makes the branch, at the head of the ref, which is returned. If the ref has no snapshot, the branch begins
        with an empty one.
        """
        empty = Append(self.target.identifier, ref=stage)

        def attempt(number: int) -> int | None:
            table = self._load()
            now, known = head(table.metadata, self.target.ref), head(table.metadata, stage)
            if known is not None:  # the reply was lost, the commit was not
                return known.snapshot_id if known.snapshot_id != empty.snapshot_id else None
            if now is None:
                self.catalog.commit_changes(
                    [empty.build(table, attempt=number, summary={SUMMARY_STAGED_BY: self.pipeline}, properties={})]
                )
                return None
            self._commit(guards(table.metadata, stage, None), move_ref(table.metadata, stage, now.snapshot_id))
            return now.snapshot_id

        return self._until_decided(attempt)

    def _audit(self, audit: Judge, snapshot_id: int, base_id: int | None, stage: str) -> None:
        """Raises if the snapshot does not pass; it then has the audit's branch in place of the stage."""
        try:
            audit.check(snapshot_id, base_id)
        except Exception:
            self._until_decided(lambda _: self._rename(stage, audit.branch))
            raise

    def _rename(self, stage: str, branch: str) -> None:
        metadata = self._load().metadata
        if (staged := head(metadata, stage)) is not None:
            old = head(metadata, branch)
            both = (
                *guards(metadata, stage, staged.snapshot_id),
                *guards(metadata, branch, old.snapshot_id if old else None),
            )
            self._commit(tuple(dict.fromkeys(both)), move_ref(metadata, branch, staged.snapshot_id), drop_ref(stage))

    def _drop(self, stage: str) -> None:
        """Removes the branch; one that stays is removed by the next run."""
        with suppress(Exception):  # the error that led here is the one to tell
            metadata = self._load().metadata
            if (now := head(metadata, stage)) is not None:
                self._commit(guards(metadata, stage, now.snapshot_id), drop_ref(stage))

    def _load(self) -> Table:
        table: Table = self.catalog.load_table(self.target.identifier)
        return table

    def _commit(self, requirements: tuple[Any, ...], *updates: Any) -> None:
        self.catalog.commit_changes([Change(self.target.identifier, requirements, updates)])

    def _until_decided(self, attempt: Callable[[int], T]) -> T:
        return until_decided(attempt, name=self.target.layout.name, patience=self.target.patience)
