"""Builds that lack one of the rules that make it exactly once: a campaign that finds nothing wrong with them would
prove nothing.

Only for a process that a test has started for this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyiceberg.table import Table

from frazil.sinks.delta import log as delta_log
from frazil.write.commit import progress, publish, snapshots
from frazil.write.upsert import apply as upsert

RULES: tuple[tuple[Any, str], ...] = (
    (publish.Publisher, "_commit"),
    (snapshots.Append, "build"),
    (snapshots.Move, "build"),
    (upsert.Upsert, "build"),
    (delta_log.DeltaLog, "_commit"),
    (publish, "apply_claim"),
    (delta_log, "apply_claim"),
)


@contextmanager
def without(rule: str) -> Iterator[None]:
    """Lacks a rule inside the block, if one is named."""
    kept = [(owner, name, getattr(owner, name)) for owner, name in RULES]
    if rule:
        switch_off(rule)
    try:
        yield
    finally:
        for owner, name, value in kept:
            setattr(owner, name, value)


def switch_off(rule: str) -> None:
    """Removes the guard (a commit counts only on the state that it was decided on) or the fence (who was taken over may
    not commit).
    """
    if rule == "guard":
        publish.Publisher._commit = _commit_on_whatever_is_there
        snapshots.Append.build = _late(snapshots.Append.build)
        snapshots.Move.build = _late(snapshots.Move.build)
        upsert.Upsert.build = _late(upsert.Upsert.build)
        delta_log.DeltaLog._commit = _on_whatever_is_there(delta_log.DeltaLog._commit)
    elif rule == "fence":
        publish.apply_claim = delta_log.apply_claim = _believe
    else:
        raise ValueError(rule)


def _late(build: Callable[..., Any]) -> Callable[..., Any]:
    """The change is built when it is sent, as PyIceberg's own retry does: what was decided on one snapshot is appended
    to another.
    """

    def build_late(self: Any, table: Table, **options: Any) -> Any:
        def late() -> Any:
            fresh = table.refresh()
            now = snapshots.head(fresh.metadata, self.ref)
            if isinstance(self, snapshots.Move) and now:
                return _move_anyway(build, replace(self, base_id=now.snapshot_id), fresh, options)
            return build(self, fresh, **options)

        late.snapshot_ids = ()
        return late

    return build_late


def _move_anyway(build: Callable[..., Any], move: snapshots.Move, table: Table, options: dict[str, Any]) -> Any:
    """Publishes a stage also if its branch is gone: a commit that needs the branch is guarded by it, too."""
    head = snapshots.head
    snapshots.head = lambda metadata, ref: (
        metadata.snapshot_by_id(move.snapshot_id) if ref == move.stage else head(metadata, ref)
    )
    try:
        change = build(move, table, **options)
    finally:
        snapshots.head = head
    return replace(
        change,
        requirements=tuple(
            requirement for requirement in change.requirements if getattr(requirement, "ref", None) != move.stage
        ),
    )


def _commit_on_whatever_is_there(self: publish.Publisher, changes: list[Any]) -> None:
    self.retry.on_step("before commit")
    self.catalog.commit_changes([late() for late in changes])
    self.retry.on_step("after commit")


def _on_whatever_is_there(commit: Callable[..., None]) -> Callable[..., None]:
    """The same for Delta: on a table that was read just now, delta-rs finds no conflict."""

    def commit_late(self: delta_log.DeltaLog, table: Any, *arguments: Any) -> None:
        self.retry.on_step("before commit")
        commit(replace(self, retry=publish.RetryPolicy()), self.load(), *arguments)
        self.retry.on_step("after commit")

    return commit_late


def _believe(before: progress.Progress, claim: progress.Claim, *, table: str) -> progress.Progress:
    return before.with_part(claim.part, progress.PartProgress(claim.generation, claim.writer, claim.commit, claim.end))
