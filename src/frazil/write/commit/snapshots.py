"""A commit to one table, ready to be sent: requirements, updates, and the files that they refer to."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pyiceberg.manifest import DataFile, ManifestFile
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
from frazil.errors import SchemaMismatch, SinkError
from frazil.write.commit.manifests import merge_small, write_added, write_list
from frazil.write.commit.progress import MAIN
from frazil.write.commit.totals import totals_before
from frazil.write.files import WrittenFile

if TYPE_CHECKING:
    from pyiceberg.table import Table


class Publishable(Protocol):
    """A change of one table that a claim can be committed with: `Append`, `Move`."""

    @property
    def identifier(self) -> Identifier:
        """The table that is changed."""

    def build(self, table: Table, *, attempt: int, summary: Mapping[str, str], properties: Mapping[str, str]) -> Change:
        """The change for the table as it is now. It must add a snapshot to the ref, or move the ref, guarded by where
        it stood.
        """


@dataclass
class Append:
    """Files for a table. What was written for one attempt serves the next: the snapshot keeps its id, its manifests are
    written once.
    """

    identifier: Identifier
    files: Sequence[WrittenFile] = ()
    ref: str = MAIN
    snapshot_id: int | None = None  # drawn at the first attempt, unless the caller has to know it before
    _added: list[ManifestFile] | None = field(default=None, repr=False)

    def build(self, table: Table, *, attempt: int, summary: Mapping[str, str], properties: Mapping[str, str]) -> Change:
        """The change that adds the files as a new snapshot, if the ref still is where `table` saw it."""
        metadata = table.metadata
        check_required(table, self.files)
        if self.snapshot_id is None:
            self.snapshot_id = metadata.new_snapshot_id()
        if self._added is None:
            self._added = write_added(table, self.files, snapshot_id=self.snapshot_id)
        parent = head(metadata, self.ref)
        carried = merge_small(table, parent.manifests(table.io), snapshot_id=self.snapshot_id) if parent else []
        parent_id = parent.snapshot_id if parent else None
        location = write_list(
            table, [*self._added, *carried], snapshot_id=self.snapshot_id, parent_id=parent_id, attempt=attempt
        )
        counted = count_files(self.files, Operation.APPEND, totals_before(table.io, parent), summary)
        snapshot = next_snapshot(
            metadata, parent, snapshot_id=self.snapshot_id, manifest_list=location, summary=counted
        )
        updates = (
            AddSnapshotUpdate(snapshot=snapshot),
            move_ref(metadata, self.ref, self.snapshot_id),
            *set_properties(properties),
        )
        return Change(self.identifier, write_guards(metadata, self.ref, parent_id), updates)


@dataclass(frozen=True)
class Move:
    """A ref that moves to a snapshot which an engine has staged on a branch of its own; an empty one on top of it tells
    the progress.
    """

    identifier: Identifier
    snapshot_id: int
    base_id: int | None  # where the ref stood when the stage began; if it has moved since, stage again
    stage: str
    ref: str = MAIN

    def build(self, table: Table, *, attempt: int, summary: Mapping[str, str], properties: Mapping[str, str]) -> Change:
        """The change that publishes the stage and drops its branch."""
        metadata, staged = table.metadata, table.metadata.snapshot_by_id(self.snapshot_id)
        on_stage = head(metadata, self.stage)
        if staged is None or on_stage is None or on_stage.snapshot_id != self.snapshot_id:
            name = ".".join(self.identifier)
            raise SinkError(
                f"{name} has no snapshot {self.snapshot_id} on branch '{self.stage}'",
                hint="it is gone: stage it again",
                table=name,
                snapshot=self.snapshot_id,
                ref=self.stage,
            )
        new_id = metadata.new_snapshot_id()
        location = write_list(
            table, staged.manifests(table.io), snapshot_id=new_id, parent_id=staged.snapshot_id, attempt=attempt
        )
        counted = count_files((), Operation.APPEND, totals_before(table.io, staged), summary)
        record = next_snapshot(metadata, staged, snapshot_id=new_id, manifest_list=location, summary=counted)
        moved = (AddSnapshotUpdate(snapshot=record), move_ref(metadata, self.ref, new_id), drop_ref(self.stage))
        # The branch keeps the staged snapshot from expiring, with the files that the new one shares with it.
        required = (*guards(metadata, self.ref, self.base_id), at_snapshot(self.stage, self.snapshot_id))
        return Change(self.identifier, required, (*moved, *set_properties(properties)))


def head(metadata: TableMetadata, ref: str) -> Snapshot | None:
    """The snapshot that a ref points to."""
    return metadata.snapshot_by_name(ref)


def next_snapshot(
    metadata: TableMetadata, parent: Snapshot | None, *, snapshot_id: int, manifest_list: str, summary: Summary
) -> Snapshot:
    """The snapshot that follows `parent` on its ref."""
    return Snapshot.model_validate(
        {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": parent.snapshot_id if parent else None,
            "sequence-number": metadata.next_sequence_number(),
            # The clocks of two writers may differ: time must not run backwards along a ref.
            "timestamp-ms": max(int(time.time() * 1000), parent.timestamp_ms if parent else 0),
            "manifest-list": manifest_list,
            "schema-id": metadata.current_schema_id,
            "summary": summary,
        }
    )


def check_required(table: Table, files: Sequence[WrittenFile]) -> None:
    """Refuses files that may have a NULL in a column which was made required after they were written."""
    metadata = table.metadata
    for schema_id in {file.schema_id for file in files if file.schema_id not in (None, metadata.current_schema_id)}:
        before = next((schema for schema in metadata.schemas if schema.schema_id == schema_id), None)
        known = {field_id for field_id in before.field_ids if before.find_field(field_id).required} if before else set()
        for field_id in metadata.schema().field_ids:
            field = metadata.schema().find_field(field_id)
            if (
                field.required
                and field_id not in known
                and any(_may_have_null(file, field_id, schema_id) for file in files)
            ):
                raise SchemaMismatch(
                    ".".join(table.name()),
                    metadata.schema().find_column_name(field_id) or field.name,
                    expected=f"{field.field_type}, required",
                    got="NULLs in rows that were taken before it was made required",
                    hint="open the sink again and go on from its position: these rows are judged anew",
                )


def _may_have_null(file: WrittenFile, field_id: int, schema_id: int | None) -> bool:
    return file.schema_id == schema_id and file.rows > 0 and file.null_counts.get(field_id) != 0


def write_guards(metadata: TableMetadata, ref: str, snapshot_id: int | None) -> tuple[TableRequirement, ...]:
    """The same where rows are added: they were judged by this schema, so it must still be the table's."""
    return (
        *guards(metadata, ref, snapshot_id),
        AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),
    )


def guards(metadata: TableMetadata, ref: str, snapshot_id: int | None) -> tuple[TableRequirement, ...]:
    """What must still hold when the commit arrives: the same table, and the ref at the snapshot that was read."""
    return (AssertTableUUID(uuid=metadata.table_uuid), at_snapshot(ref, snapshot_id))


def at_snapshot(ref: str, snapshot_id: int | None) -> AssertRefSnapshotId:
    """Requires that a ref is at a snapshot; None: that there is no such ref."""
    return AssertRefSnapshotId.model_validate({"ref": ref, "snapshot-id": snapshot_id})


def move_ref(metadata: TableMetadata, ref: str, snapshot_id: int) -> SetSnapshotRefUpdate:
    """Moves a branch, and keeps its own rules of retention."""
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


def count_files(
    files: Sequence[WrittenFile],
    operation: Operation,
    before: Mapping[str, str] | None,
    extra: Mapping[str, str],
    *,
    dropped: Sequence[DataFile] = (),
) -> Summary:
    """The summary of a snapshot that adds and drops files; `before` are the totals of its parent."""
    counts = {
        "added-data-files": len(files),
        "added-records": sum(file.rows for file in files),
        "added-files-size": sum(file.size_bytes for file in files),
        "deleted-data-files": len(dropped),
        "deleted-records": sum(file.record_count for file in dropped),
        "removed-files-size": sum(file.file_size_in_bytes for file in dropped),
        "changed-partition-count": len({(file.spec_id, file.partition) for file in files}),
    }
    counted = {key: json.dumps(value) for key, value in counts.items() if value}
    return update_snapshot_summaries(Summary(operation, **counted, **extra), before)
