"""Some data files of a table replaced by others, in one new snapshot: how rows leave a quarantine table."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Operation
from pyiceberg.typedef import Identifier

from frazil.client import Change
from frazil.write.commit.builder import Draft, count_dropped, count_written
from frazil.write.commit.manifests import drop_files, split_by_content, write_added
from frazil.write.commit.progress import MAIN
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
        draft = Draft.after_head(table, self.ref, table.metadata.new_snapshot_id(), attempt)
        data, deletes = split_by_content(draft.manifests)
        kept, dropped = drop_files(
            table, data, lambda file: file.file_path in self.removed, snapshot_id=draft.snapshot_id
        )
        added = write_added(table, self.files, snapshot_id=draft.snapshot_id)
        counts = count_written(self.files) + count_dropped(dropped)
        snapshot = draft.write(Operation.OVERWRITE, [*added, *kept, *deletes], counts, summary)
        return draft.change(self.identifier, snapshot, {})
