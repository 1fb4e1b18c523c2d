"""Some data files of a table replaced by others, in one new snapshot: how rows leave a quarantine table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.typedef import Identifier

from frazil.client import Change
from frazil.write.commit.manifests import rewrite_without, write_added, write_list
from frazil.write.commit.progress import MAIN
from frazil.write.commit.snapshots import count_files, head, move_ref, next_snapshot, write_guards
from frazil.write.commit.totals import totals_before
from frazil.write.files import WrittenFile

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True)
class Rewrite:
    """Takes files out of a table and puts others in. The table must be as it was read: it is guarded by that very
    snapshot.
    """

    identifier: Identifier
    removed: Collection[str]
    files: Sequence[WrittenFile] = ()
    ref: str = MAIN

    def build(self, table: Table, *, attempt: int, summary: Mapping[str, str]) -> Change:
        """The change of the table as it was read, as an overwrite."""
        metadata, parent = table.metadata, head(table.metadata, self.ref)
        assert parent is not None  # the files to remove come from it
        new_id = metadata.new_snapshot_id()
        kept, dropped = self._split(table, parent.manifests(table.io), snapshot_id=new_id)
        manifests = [*write_added(table, self.files, snapshot_id=new_id), *kept]
        location = write_list(table, manifests, snapshot_id=new_id, parent_id=parent.snapshot_id, attempt=attempt)
        counted = count_files(
            self.files, Operation.OVERWRITE, totals_before(table.io, parent), summary, dropped=dropped
        )
        snapshot = next_snapshot(metadata, parent, snapshot_id=new_id, manifest_list=location, summary=counted)
        updates = (AddSnapshotUpdate(snapshot=snapshot), move_ref(metadata, self.ref, new_id))
        return Change(self.identifier, write_guards(metadata, self.ref, parent.snapshot_id), updates)

    def _split(
        self, table: Table, manifests: Sequence[ManifestFile], *, snapshot_id: int
    ) -> tuple[list[ManifestFile], list[DataFile]]:
        kept: list[ManifestFile] = []
        dropped: list[DataFile] = []
        for manifest in manifests:
            gone: list[DataFile] = []
            if manifest.content == ManifestContent.DATA:
                manifest, gone = rewrite_without(
                    table, manifest, lambda file: file.file_path in self.removed, snapshot_id=snapshot_id
                )
            kept.append(manifest)
            dropped += gone
        return kept, dropped
