"""Commits to one table, ready to be sent: files that are appended, and a staged snapshot that is published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pyiceberg.manifest import ManifestFile
from pyiceberg.table.snapshots import Operation
from pyiceberg.typedef import Identifier

from frazil.client import Change
from frazil.errors import SchemaMismatch, SinkError
from frazil.write.commit.builder import Counts, Draft, at_snapshot, count_written, drop_ref, guards, head
from frazil.write.commit.manifests import merge_small, write_added
from frazil.write.commit.progress import MAIN
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
    new_branch: bool = False  # the ref is made by this commit; otherwise it must exist
    _added: list[ManifestFile] | None = field(default=None, repr=False)

    def build(self, table: Table, *, attempt: int, summary: Mapping[str, str], properties: Mapping[str, str]) -> Change:
        """The change that adds the files as a new snapshot, if the ref still is where `table` saw it."""
        draft, added = self.begin(table, attempt)
        carried = merge_small(table, draft.manifests, snapshot_id=draft.snapshot_id)
        snapshot = draft.write(Operation.APPEND, [*added, *carried], count_written(self.files), summary)
        return draft.change(self.identifier, snapshot, properties)

    def begin(self, table: Table, attempt: int) -> tuple[Draft, list[ManifestFile]]:
        """The snapshot that is to follow the head of the ref, and the manifests of the new files."""
        check_required(table, self.files)
        new_id = self.snapshot_id = self.snapshot_id or table.metadata.new_snapshot_id()
        draft = Draft.after_head(table, self.ref, new_id, attempt, new_branch=self.new_branch)
        if self._added is None:
            self._added = write_added(table, self.files, snapshot_id=new_id)
        return draft, self._added


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
        draft = Draft(table, self.ref, staged, metadata.new_snapshot_id(), attempt)
        record = draft.write(Operation.APPEND, draft.manifests, Counts(), summary)
        # The branch keeps the staged snapshot from expiring, with the files that the new one shares with it.
        required = (*guards(metadata, self.ref, self.base_id), at_snapshot(self.stage, self.snapshot_id))
        return Change(self.identifier, required, (*draft.updates(record, properties), drop_ref(self.stage)))


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
                    hint="repeat the write, or open the sink again and go on from its position: they are checked again",
                )


def _may_have_null(file: WrittenFile, field_id: int, schema_id: int | None) -> bool:
    return file.schema_id == schema_id and file.rows > 0 and file.null_counts.get(field_id) != 0
