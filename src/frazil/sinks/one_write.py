"""Writes without a stream: `append`, `overwrite`, `upsert` and `delete`, each in one commit.

A sink keeps progress, so that a source can repeat rows. These writes have no source to resume and keep none: what is
called twice is in twice. Everything else is the sink's: types, checks, quarantine, schema evolution, file sizes. Within
one call a lost reply or a conflict is settled before it returns, so no call writes its rows twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.table.update import AddSnapshotUpdate

from frazil.protocol import SUMMARY_UPSERT
from frazil.sinks.iceberg import IcebergTarget
from frazil.sinks.python import Options, sink_options
from frazil.sinks.sink import ArrowSink, SinkOptions
from frazil.sinks.upsert_sink import UpsertSink
from frazil.write.commit import (
    MAIN,
    Append,
    Claim,
    Committed,
    PartProgress,
    Publishable,
    quarantine_of,
    until_decided,
)
from frazil.write.files import WrittenFile, check_present
from frazil.write.upsert import FORMATS, Ops, ReplaceRows, Upsert, UpsertRules

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.typedef import Identifier

    from frazil.client import Change
    from frazil.write.commit import CommitCatalog

WRITER = "write"  # the part that quarantined rows of these writes name
NO_CLAIM = Claim(part=WRITER, writer="", generation=0, commit=1, start={}, end={})


@dataclass(frozen=True, repr=False)
class WriteResult:
    """What a write has done, in rows. `snapshot_id` is None if nothing had to be committed, and for a dry run."""

    table: str
    snapshot_id: int | None = None
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    quarantined: int = 0
    dry_run: bool = False

    def __repr__(self) -> str:
        """The table, the rows and the snapshot."""
        names = ("inserted", "updated", "deleted", "unchanged", "quarantined")
        counts = [f"{getattr(self, name):,} {name}" for name in names if getattr(self, name)] or ["no rows"]
        state = "dry run" if self.dry_run else f"snapshot {self.snapshot_id}" if self.snapshot_id else "no commit"
        return f"<WriteResult {self.table}: {', '.join(counts)}; {state}>"


@dataclass
class OneWriteTarget(IcebergTarget):
    """A table that takes one batch, in one commit, and keeps no progress."""

    replaces: BooleanExpression | None = None  # rows that match go in the same commit

    def __post_init__(self) -> None:
        super().__post_init__()
        self.change: Change | None = None  # the commit that has happened
        self.result = WriteResult(self.layout.name)

    def take_over(self, part: str, writer: str) -> PartProgress:
        """Commits nothing: there is no other writer to fence."""
        return PartProgress(writer=writer)

    def publish(
        self,
        files: Sequence[WrittenFile],
        claim: Claim,
        *,
        quarantine_files: Sequence[WrittenFile] = (),
        also: Mapping[Identifier, pa.Table] | None = None,
        change: Publishable | None = None,
    ) -> Committed:
        """Commits the files and the quarantined rows, or finds that they are in."""
        self.retry.on_step("files written")
        check_present([*files, *quarantine_files], self.layout)
        target = change or self._target(files)
        rejected = Append(quarantine_of(self.identifier), quarantine_files)
        sent: list[Change] = []

        def attempt(number: int) -> Change:
            table = self.catalog.load_table(self.identifier)
            for earlier in sent:  # its id is new and random: if it is there, that attempt has happened
                if any(table.metadata.snapshot_by_id(snapshot_id) for snapshot_id in earlier.snapshot_ids):
                    return earlier
            changes = [target.build(table, attempt=number, summary={}, properties={})]
            if quarantine_files:
                quarantine = self.catalog.load_table(rejected.identifier)
                changes.append(rejected.build(quarantine, attempt=number, summary={}, properties={}))
            sent.append(changes[0])
            self.catalog.commit_changes(changes)
            return changes[0]

        self.change = until_decided(attempt, name=self.layout.name, retry=self.retry)
        snapshot_id = next(iter(self.change.snapshot_ids), None)
        quarantined = sum(file.rows for file in quarantine_files)
        counted = _count(self.layout.name, target, files, self.change)
        self.result = replace(counted, snapshot_id=snapshot_id, quarantined=quarantined)
        return Committed(PartProgress(writer=claim.writer), snapshot_id)

    def _target(self, files: Sequence[WrittenFile]) -> Publishable:
        if self.replaces is None:
            return Append(self.identifier, files, self.ref)
        return ReplaceRows(self.identifier, self.replaces, files, self.ref)


def _count(table: str, target: Publishable, files: Sequence[WrittenFile], change: Change) -> WriteResult:
    """What became of the rows."""
    if isinstance(target, Upsert):
        tally: dict[str, int] = json.loads(_summary(change).get(SUMMARY_UPSERT, "{}"))
        unchanged = tally.pop("late", 0)
        return WriteResult(table, **tally, unchanged=unchanged)  # type: ignore[arg-type]  # all are counts
    deleted = target.removed_rows if isinstance(target, ReplaceRows) else 0
    return WriteResult(table, inserted=sum(file.rows for file in files), deleted=deleted)


def _summary(change: Change) -> Mapping[str, str]:
    snapshots = [update.snapshot for update in change.updates if isinstance(update, AddSnapshotUpdate)]
    return snapshots[0].summary.additional_properties if snapshots and snapshots[0].summary else {}


def append(
    catalog: CommitCatalog, identifier: Identifier, rows: Any, *, branch: str = MAIN, options: Options | None = None
) -> WriteResult:
    """Appends the rows in one commit."""
    target = OneWriteTarget(catalog, identifier, branch)
    _write(target, rows, options)
    return target.result


def overwrite(
    catalog: CommitCatalog,
    identifier: Identifier,
    rows: Any,
    *,
    filter: BooleanExpression | None = None,
    branch: str = MAIN,
    options: Options | None = None,
) -> WriteResult:
    """Replaces the rows that match a filter, or all of them, by new ones, in one commit."""
    target = OneWriteTarget(catalog, identifier, branch, replaces=filter or AlwaysTrue())
    _write(target, rows, options)
    if target.change is None:  # no rows came: the old ones go all the same
        target.publish((), NO_CLAIM)
    return target.result


def upsert(
    catalog: CommitCatalog,
    identifier: Identifier,
    rows: Any,
    *,
    key: str | Sequence[str],
    sequence: str | None = None,
    op: str | Ops | None = None,
    branch: str = MAIN,
    options: Options | None = None,
) -> WriteResult:
    """Applies rows as changes by key, in one commit."""
    rules = UpsertRules.of(key, sequence, op)
    target = OneWriteTarget(catalog, identifier, branch, key=rules.key, formats=FORMATS)
    with _OneUpsert(target, WRITER, rules, options=_options(options)) as sink:
        sink.write(rows)
    return target.result


def delete(
    catalog: CommitCatalog, identifier: Identifier, filter: BooleanExpression, *, branch: str = MAIN
) -> WriteResult:
    """Deletes the rows that match a filter, in one commit."""
    target = OneWriteTarget(catalog, identifier, branch, replaces=filter)
    target.publish((), NO_CLAIM)
    return target.result


class _OneUpsert(UpsertSink):
    """All changes in one commit, however many."""

    def _is_due(self) -> bool:
        return False


def _write(target: OneWriteTarget, rows: Any, options: Options | None) -> None:
    with ArrowSink(target, WRITER, options=_options(options)) as sink:
        sink.write(rows)


def _options(options: Options | None) -> SinkOptions:
    chosen: Options = {**(options or {}), "flush_rows": None, "flush_bytes": None, "flush_seconds": None}
    return sink_options(**chosen)
