"""What an upsert makes of a table: data files that go and come, delete files that go and come, and their manifests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestFile
from pyiceberg.table.snapshots import Operation

from frazil.write.commit import (
    Counts,
    as_added,
    count_added,
    count_dropped,
    count_written,
    drop_files,
    file_key,
    merge_small,
    write_added,
    write_by_spec,
)
from frazil.write.files import WrittenFile

if TYPE_CHECKING:
    from pyiceberg.table import Table

DeleteKey = tuple[str, int | None]  # a delete file, and where in it: many deletion vectors share a file


@dataclass(frozen=True)
class Edit:
    """Files that are to go, with the manifests that list them, and files that are to come."""

    removed: frozenset[str] = frozenset()  # data files
    replaced: frozenset[DeleteKey] = frozenset()  # deletes whose positions are among those of `deletes`
    manifests: frozenset[str] = frozenset()
    files: tuple[WrittenFile, ...] = ()
    deletes: tuple[DataFile, ...] = ()
    tally: Mapping[str, int] = field(default_factory=dict)

    @property
    def operation(self) -> Operation:
        """As Iceberg's own row deltas say it: rows that only come, only go, or both."""
        if not self.removed and not self.deletes:
            return Operation.APPEND
        return Operation.OVERWRITE if self.files else Operation.DELETE

    def write(
        self, table: Table, before: Sequence[ManifestFile], *, snapshot_id: int
    ) -> tuple[list[ManifestFile], Counts]:
        """The manifests of the new snapshot, made of those before it, and what the summary counts.

        New files, data and deletes, have no sequence number yet: they get that of the commit. So its deletes hold for
        every older data file, and name none of the new ones.
        """
        touched = [manifest for manifest in before if manifest.manifest_path in self.manifests]
        others = [manifest for manifest in before if manifest.manifest_path not in self.manifests]
        kept, dropped = drop_files(table, touched, self._drops, snapshot_id=snapshot_id)
        added = write_added(table, self.files, snapshot_id=snapshot_id)
        entries = [as_added(file, snapshot_id) for file in self.deletes]
        deletes = write_by_spec(table, entries, content=ManifestContent.DELETES, snapshot_id=snapshot_id)
        counts = count_written(self.files) + count_added(self.deletes) + count_dropped(dropped)
        return [*added, *deletes, *kept, *merge_small(table, others, snapshot_id=snapshot_id)], counts

    def _drops(self, file: DataFile) -> bool:
        if file.content == DataFileContent.DATA:
            return file.file_path in self.removed
        return file_key(file) in self.replaced
