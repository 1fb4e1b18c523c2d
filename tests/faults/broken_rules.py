"""Builds that lack one of the rules that make it exactly once: a campaign that finds nothing wrong with them would prove nothing.

Only for a process that a test has started for this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyiceberg.table import Table

from frazil.sinks import delta_log, progress, publish, snapshots


def switch_off(rule: str) -> None:
    """Removes the guard (a commit counts only on the state that it was decided on) or the fence (who was taken over may not commit)."""
    if rule == "guard":
        publish.Publisher._commit = _commit_on_whatever_is_there
        snapshots.Append.build = _late(snapshots.Append.build)
        delta_log.DeltaLog._commit = _on_whatever_is_there(delta_log.DeltaLog._commit)
    elif rule == "fence":
        publish.apply_claim = delta_log.apply_claim = _believe
    else:
        raise ValueError(rule)


def _late(build: Callable[..., Any]) -> Callable[..., Any]:
    """The change is built when it is sent, as PyIceberg's own retry does: what was decided on one snapshot is appended to another."""

    def build_late(self: snapshots.Append, table: Table, **options: Any) -> Any:
        late = lambda: build(self, table.refresh(), **options)  # noqa: E731
        late.snapshot_ids = ()
        return late

    return build_late


def _commit_on_whatever_is_there(self: publish.Publisher, changes: list[Any]) -> None:
    self.patience.on_step("before commit")
    self.catalog.commit_changes([late() for late in changes])
    self.patience.on_step("after commit")


def _on_whatever_is_there(commit: Callable[..., None]) -> Callable[..., None]:
    """The same for Delta: on a table that was read just now, delta-rs finds nobody in its way."""

    def commit_late(self: delta_log.DeltaLog, table: Any, *arguments: Any) -> None:
        self.patience.on_step("before commit")
        commit(replace(self, patience=publish.Patience()), self.load(), *arguments)
        self.patience.on_step("after commit")

    return commit_late


def _believe(before: progress.Progress, claim: progress.Claim, *, table: str) -> progress.Progress:
    return before.with_part(claim.part, progress.PartProgress(claim.generation, claim.writer, claim.commit, claim.end))
