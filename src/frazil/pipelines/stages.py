"""Staging branches: a change waits there, unseen by readers, until one commit publishes it with its progress.

A stage begins at the ref's head. Something is written to it (Spark's MERGE, or files), audits look at it there.
Publishing moves the ref to what is staged, if the ref still is at that head, and drops the branch. If it is not, all is
done once more, on the new head. Each attempt has a branch of its own: what a driver still writes after it was taken
over is on a branch that is never read. A driver that is killed leaves a branch. The next stream removes it at its
start; the next batch run when it has committed, for until then the branch may belong to a run that is still going on.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from frazil.client import Change
from frazil.errors import PipelineError
from frazil.protocol import STAGING_PREFIX, SUMMARY_STAGED_BY
from frazil.write.commit import MAIN, Append, drop_ref, guards, head, move_ref, until_decided

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from frazil.client import FrazilCatalog
    from frazil.sinks import IcebergTarget

T = TypeVar("T")
ATTEMPTS = 10


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
        """How the branches of this part begin: names of parts may hold what a branch in SQL may not. Each ref has its
        own: its writers count their generations by themselves.
        """
        part = self.part if self.target.ref == MAIN else f"{self.part}\0{self.target.ref}"
        return f"{STAGING_PREFIX}_{hashlib.sha256(part.encode()).hexdigest()[:10]}_"

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
                    dict.fromkeys(guard for name, at in left.items() for guard in guards(metadata, name, at))
                )
                self._commit(requirements, *map(drop_ref, left))
            return list(left)

        return self._until_decided(attempt)

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
                hint="another run of this pipeline came first; run again to bring in what is still out of date",
                table=self.target.layout.name,
                ref=stage,
                problem="overtaken",
            )
        return table

    def begin(self) -> tuple[str, int | None]:
        """Makes a branch at the head of the ref; both are returned. If the ref has no snapshot, the branch begins with
        an empty one.
        """
        stage = f"{self.prefix}{self.generation}_{uuid.uuid4().hex[:8]}"
        empty = Append(self.target.identifier, ref=stage, new_branch=True)

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

        return stage, self._until_decided(attempt)

    def rename(self, stage: str, branch: str) -> None:
        """Gives what is staged another branch, in place of what that one had."""
        self._until_decided(lambda _: self._rename(stage, branch))

    def _rename(self, stage: str, branch: str) -> None:
        metadata = self._load().metadata
        if (staged := head(metadata, stage)) is not None:
            old = head(metadata, branch)
            both = (
                *guards(metadata, stage, staged.snapshot_id),
                *guards(metadata, branch, old.snapshot_id if old else None),
            )
            self._commit(tuple(dict.fromkeys(both)), move_ref(metadata, branch, staged.snapshot_id), drop_ref(stage))

    def drop(self, stage: str) -> None:
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
        return until_decided(attempt, name=self.target.layout.name, retry=self.target.retry)
