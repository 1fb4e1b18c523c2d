"""Builds the snapshot of a commit: manifest list, summary with totals, requirements and updates.

Every operation (append, replace, upsert, rewrite, upkeep, rollback) decides on the manifests of the new snapshot and
counts what came and went; the rest is here.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary, update_snapshot_summaries
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.typedef import Identifier

from frazil.client import Change
from frazil.errors import ArgumentError, HistoryError
from frazil.write.commit.format3 import OFFSET, write_list_v3
from frazil.write.commit.manifests import has_files, read_list, write_list
from frazil.write.commit.progress import MAIN
from frazil.write.commit.totals import FEW_MANIFESTS, totals_before
from frazil.write.files import WrittenFile

if TYPE_CHECKING:
    from pyiceberg.table import Table

CONTENT_SIZE = OFFSET + 1  # place in a data file's record of format 3


@dataclass(frozen=True)
class Counts:
    """The files that came and went, in the words of a snapshot's summary."""

    values: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Counts) -> Counts:
        names = self.values.keys() | other.values.keys()
        return Counts({name: self.values.get(name, 0) + other.values.get(name, 0) for name in sorted(names)})

    @property
    def summary(self) -> dict[str, str]:
        return {name: str(value) for name, value in self.values.items() if value}


def count_written(files: Sequence[WrittenFile]) -> Counts:
    """What the summary says of new data files."""
    return Counts(
        {
            "added-data-files": len(files),
            "added-records": sum(file.rows for file in files),
            "added-files-size": sum(file.size_bytes for file in files),
            "changed-partition-count": len({(file.spec_id, file.partition) for file in files}),
        }
    )


def count_added(files: Iterable[DataFile]) -> Counts:
    """What the summary says of files that came, data and deletes."""
    return _count(files, "added", "added")


def count_dropped(files: Iterable[DataFile]) -> Counts:
    """What the summary says of files that went, data and deletes."""
    return _count(files, "removed", "deleted")


def _count(files: Iterable[DataFile], verb: str, verb_of_data: str) -> Counts:
    counts = Counter[str]()
    for file in files:
        is_vector = file.file_format == FileFormat.PUFFIN
        # The size of a deletion vector is that of its blob: many share a Puffin file.
        size = file[CONTENT_SIZE] if is_vector and len(file) > CONTENT_SIZE else file.file_size_in_bytes
        counts[f"{verb}-files-size"] += size or 0
        if file.content == DataFileContent.DATA:
            counts[f"{verb_of_data}-data-files"] += 1
            counts[f"{verb_of_data}-records"] += file.record_count
        else:
            kind = "equality" if file.content == DataFileContent.EQUALITY_DELETES else "position"
            counts[f"{verb}-delete-files"] += 1
            counts[f"{verb}-dvs" if is_vector else f"{verb}-{kind}-delete-files"] += 1
            counts[f"{verb}-{kind}-deletes"] += file.record_count
    return Counts(counts)


@dataclass(frozen=True)
class Draft:
    """A snapshot that is to become the head of a ref, and its parent: most often, the head of now."""

    table: Table
    ref: str
    parent: Snapshot | None
    snapshot_id: int
    attempt: int

    @classmethod
    def after_head(cls, table: Table, ref: str, snapshot_id: int, attempt: int, *, new_branch: bool = False) -> Draft:
        """A snapshot that is to follow the head of a branch, which must exist unless it is to be made."""
        if not new_branch:
            check_branch(table.metadata, ref, table=".".join(table.name()))
        return cls(table, ref, head(table.metadata, ref), snapshot_id, attempt)

    @property
    def manifests(self) -> list[ManifestFile]:
        """The parent's."""
        return read_list(self.table, self.parent) if self.parent else []

    @property
    def parent_id(self) -> int | None:
        return self.parent.snapshot_id if self.parent else None

    def write(
        self,
        operation: Operation,
        manifests: Sequence[ManifestFile],
        counts: Counts,
        summary: Mapping[str, str],
        *,
        most_manifests: int | None = FEW_MANIFESTS,
    ) -> Snapshot:
        """The snapshot with these manifests, whose list is written. To count missing totals of the parent, at most
        `most_manifests` are read.
        """
        # A manifest that only names what an older snapshot has deleted has no place in a new list.
        kept = [
            manifest for manifest in manifests if manifest.added_snapshot_id == self.snapshot_id or has_files(manifest)
        ]
        where: Any = {"snapshot_id": self.snapshot_id, "parent_id": self.parent_id, "attempt": self.attempt}
        totals = totals_before(self.table.io, self.parent, most_manifests=most_manifests)
        row_ids: dict[str, int] = {}
        if self.table.metadata.format_version >= 3:
            listed = write_list_v3(self.table, kept, **where)
            location, row_ids = listed.location, {"first_row_id": listed.first_row_id, "added_rows": listed.added_rows}
        else:
            location = write_list(self.table, kept, **where)
        snapshot = next_snapshot(
            self.table.metadata,
            self.parent,
            snapshot_id=self.snapshot_id,
            manifest_list=location,
            summary=summarise(operation, counts, totals, summary),
            after=head(self.table.metadata, self.ref),
        )
        return snapshot.model_copy(update=row_ids) if row_ids else snapshot

    def updates(self, snapshot: Snapshot, properties: Mapping[str, str] | None = None) -> tuple[TableUpdate, ...]:
        """Adds the snapshot, moves the ref to it, and sets properties of the table."""
        moved = move_ref(self.table.metadata, self.ref, snapshot.snapshot_id)
        return (AddSnapshotUpdate(snapshot=snapshot), moved, *set_properties(properties or {}))

    def change(self, identifier: Identifier, snapshot: Snapshot, properties: Mapping[str, str]) -> Change:
        """The commit of new rows: they were judged by the table's schema, so it must still be the same."""
        same_schema = AssertCurrentSchemaId.model_validate({"current-schema-id": self.table.metadata.current_schema_id})
        required = (*guards(self.table.metadata, self.ref, self.parent_id), same_schema)
        return Change(identifier, required, self.updates(snapshot, properties))


def next_snapshot(
    metadata: TableMetadata,
    parent: Snapshot | None,
    *,
    snapshot_id: int,
    manifest_list: str,
    summary: Summary,
    after: Snapshot | None = None,
) -> Snapshot:
    """The child of `parent`, not older than that nor than `after`."""
    before = [snapshot.timestamp_ms for snapshot in (parent, after) if snapshot]
    return Snapshot.model_validate(
        {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": parent.snapshot_id if parent else None,
            "sequence-number": metadata.next_sequence_number(),
            # The clocks of two writers may differ: time must not run backwards along a ref.
            "timestamp-ms": max([int(time.time() * 1000), *before]),
            "manifest-list": manifest_list,
            "schema-id": metadata.current_schema_id,
            "summary": summary,
        }
    )


def summarise(
    operation: Operation, counts: Counts, before: Mapping[str, str] | None, extra: Mapping[str, str]
) -> Summary:
    """The summary of a snapshot, with the totals of its parent carried on."""
    # PyIceberg counts for some operations only; the sums are the same for all.
    counted = update_snapshot_summaries(Summary(Operation.OVERWRITE, **counts.summary, **extra), before)
    return Summary(operation, **counted.additional_properties)


def head(metadata: TableMetadata, ref: str = MAIN) -> Snapshot | None:
    """The snapshot that a ref points to."""
    return metadata.snapshot_by_name(ref)


def guards(metadata: TableMetadata, ref: str, snapshot_id: int | None) -> tuple[TableRequirement, ...]:
    """What must still hold when the commit arrives: the same table, and the ref at the snapshot that was read."""
    return (AssertTableUUID(uuid=metadata.table_uuid), at_snapshot(ref, snapshot_id))


def at_snapshot(ref: str, snapshot_id: int | None) -> AssertRefSnapshotId:
    """Requires that a ref is at a snapshot; None: that there is no such ref."""
    return AssertRefSnapshotId.model_validate({"ref": ref, "snapshot-id": snapshot_id})


def check_branch(metadata: TableMetadata, ref: str, *, table: str) -> None:
    """Refuses a write to a branch that does not exist, or to a tag.

    A table without snapshots has no branches yet, and none can be created: there the first write makes the branch.
    """
    if not isinstance(ref, str):
        raise ArgumentError("branch", ref, expected="the name of a branch")
    if ref in metadata.refs:
        _check_no_tag(metadata, ref, table=table)
    elif ref != MAIN and metadata.refs:
        branches = [name for name, known in metadata.refs.items() if known.snapshot_ref_type == SnapshotRefType.BRANCH]
        near = get_close_matches(ref, branches, n=3, cutoff=0.5)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        raise HistoryError(
            f"{table} has no branch '{ref}'; it has: {', '.join(sorted(branches)) or 'none'}",
            hint=f"{meant}To create it: frazil branch create {table} {ref}, or create_branch('{ref}') of the table",
            table=table,
            ref=ref,
            problem="missing",
        )


def _check_no_tag(metadata: TableMetadata, ref: str, *, table: str | None = None) -> None:
    known = metadata.refs.get(ref)
    if known is not None and known.snapshot_ref_type == SnapshotRefType.TAG:
        of = f" of {table}" if table else ""
        raise HistoryError(
            f"'{ref}'{of} is a tag, and only a branch can be written to; nothing was changed",
            hint=f"create_branch(name, at='{ref}') makes a branch that begins there",
            table=table,
            ref=ref,
            problem="tag",
        )


def move_ref(metadata: TableMetadata, ref: str, snapshot_id: int) -> SetSnapshotRefUpdate:
    """Moves a branch, and keeps its own rules of retention. A tag never moves."""
    _check_no_tag(metadata, ref)
    known = metadata.refs.get(ref)
    return SetSnapshotRefUpdate.model_validate(
        {
            "ref-name": ref,
            "type": SnapshotRefType.BRANCH,
            "snapshot-id": snapshot_id,
            "max-ref-age-ms": known.max_ref_age_ms if known else None,
            "max-snapshot-age-ms": known.max_snapshot_age_ms if known else None,
            "min-snapshots-to-keep": known.min_snapshots_to_keep if known else None,
        }
    )


def drop_ref(name: str) -> RemoveSnapshotRefUpdate:
    """Removes a branch or a tag."""
    return RemoveSnapshotRefUpdate.model_validate({"ref-name": name})


def set_properties(properties: Mapping[str, str]) -> tuple[TableUpdate, ...]:
    return (SetPropertiesUpdate(updates=dict(properties)),) if properties else ()
