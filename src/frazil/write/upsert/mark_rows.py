"""Merge-on-read: the old rows of changes are marked as deleted where they are, and the new ones go to files of their
own.

A file of which no row is left is dropped instead, if the manifest that lists it is small: a stream of changes to the
same few keys would else leave a file per commit, of nothing but deleted rows, and every later commit would look at all
of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
from pyiceberg.manifest import DataFile
from pyiceberg.typedef import Record

from frazil.errors import SinkError
from frazil.scan.planning import EQUALITY, DeleteFile, FileTask
from frazil.scan.reading import Positions
from frazil.write.commit import DeletedRows, read_entries, read_list, write_position_deletes, write_vectors
from frazil.write.files import TableLayout
from frazil.write.upsert.changes import Decision
from frazil.write.upsert.edit import DeleteKey, Edit
from frazil.write.upsert.lookup import Lookup, Met
from frazil.write.upsert.plan import Candidate, written_partition

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

MERGE_MODE = "write.merge.mode"
COPY_ON_WRITE, MERGE_ON_READ = "copy-on-write", "merge-on-read"
SMALL_MANIFEST = 256 << 10  # it is written again for a file that is dropped


@dataclass(frozen=True, eq=False)
class Marked:
    """Rows of a file that go, by their positions in order; with those that were deleted before."""

    file: Candidate
    positions: Positions
    before: Positions
    is_all: bool  # no row is left

    @property
    def path(self) -> str:
        return self.file.task.path

    @property
    def is_dropped(self) -> bool:
        return self.is_all and self.file.manifest_bytes <= SMALL_MANIFEST

    @property
    def own_deletes(self) -> list[DeleteFile]:
        """The vector of the file, and position delete files about it alone: a new vector takes their place."""
        deletes = [delete for delete in self.file.task.deletes if delete.content != EQUALITY]
        return [delete for delete in deletes if delete.is_vector or delete.target == self.path]


def mark(met: Sequence[Met], decision: Decision, lookup: Lookup) -> list[Marked]:
    """The rows that go: all rows of a key whose change is not late."""
    marked: list[Marked] = []
    for file in met:
        if not len(file.numbers):
            continue
        assert file.positions is not None
        goes = pc.invert(decision.late.take(file.numbers))
        positions = file.positions.filter(goes).to_numpy()
        if len(positions):
            before = lookup.deleted(file.file.task)
            marked.append(Marked(file.file, positions, before, len(positions) == _live_rows(file.file.task, before)))
    return marked


def _live_rows(task: FileTask, deleted: Positions) -> int | None:
    """How many rows of a file are not deleted; None if that is not known without reading it."""
    if any(delete.content == EQUALITY for delete in task.deletes):
        return None
    return task.rows - int(np.count_nonzero((deleted >= 0) & (deleted < task.rows)))


@dataclass(frozen=True)
class Marking:
    """The deletes of one attempt, for the table as it is then."""

    table: Table
    parent: Snapshot
    layout: TableLayout
    marked: Sequence[Marked]

    @property
    def key(self) -> tuple[object, ...]:
        """What the delete files depend on: they serve later attempts as long as it is the same."""
        marked = tuple((*rows.file.state, rows.is_dropped, rows.positions.tobytes()) for rows in self.marked)
        return (self._has_vectors, *marked)  # format 3 takes no new position delete files

    def write(self) -> tuple[DataFile, ...]:
        """The delete files."""
        kept = [rows for rows in self.marked if not rows.is_dropped]
        if self._has_vectors:
            both = [(rows, np.union1d(rows.before, rows.positions)) for rows in kept]
            return tuple(write_vectors(self.table.io, self.layout, [self._deleted(*pair) for pair in both]))
        deleted = [self._deleted(rows, rows.positions) for rows in kept]
        return tuple(write_position_deletes(self.table.io, self.layout, deleted))

    def edit(self, deletes: tuple[DataFile, ...]) -> Edit:
        """What is to be done to the table's manifests; the files to come are not part of it."""
        dropped = [rows for rows in self.marked if rows.is_dropped]
        replaced = [delete for rows in self.marked for delete in rows.own_deletes] if self._has_vectors else []
        return Edit(
            removed=frozenset(rows.path for rows in dropped),
            replaced=frozenset(_key(delete) for delete in replaced),
            manifests=frozenset(
                [*(rows.file.manifest for rows in dropped), *(delete.manifest.path for delete in replaced)]
            ),
            deletes=deletes,
        )

    @property
    def _has_vectors(self) -> bool:
        return self.table.metadata.format_version >= 3

    def _deleted(self, rows: Marked, positions: Positions) -> DeletedRows:
        task = rows.file.task
        is_current = task.spec_id == self.layout.spec.spec_id
        partition = (
            Record(*written_partition(task.partition, self.layout)) if is_current else self._old_partitions[rows.path]
        )
        return DeletedRows(rows.path, positions, task.spec_id, partition)

    @cached_property
    def _old_partitions(self) -> dict[str, Record]:
        """The partitions of files of older specs, as their manifests have them: a delete file must lie in the same."""
        wanted = {rows.path for rows in self.marked if rows.file.task.spec_id != self.layout.spec.spec_id}
        listed = {rows.file.manifest for rows in self.marked if rows.path in wanted}
        entries = [
            entry
            for manifest in read_list(self.table, self.parent)
            if manifest.manifest_path in listed
            for entry in read_entries(self.table, manifest)
        ]
        return {entry.data_file.file_path: entry.data_file.partition for entry in entries}


def _key(delete: DeleteFile) -> DeleteKey:
    return delete.path, delete.fact("content_offset") if delete.is_vector else None


def merges_on_read(layout: TableLayout, format_version: int) -> bool:
    """Whether upserts of a table are merge-on-read, as its property says.

    Format 1 has no deletes. Format 3 gives each row an id for life, which copy-on-write does not keep.
    """
    mode = layout.properties.get(MERGE_MODE, COPY_ON_WRITE).lower()
    if mode not in (COPY_ON_WRITE, MERGE_ON_READ):
        raise SinkError(
            f"{layout.name}: property {MERGE_MODE} is '{mode}', expected '{COPY_ON_WRITE}' or '{MERGE_ON_READ}'",
            hint=f"set {MERGE_MODE} of the table to one of them",
            table=layout.name,
            option=MERGE_MODE,
            got=mode,
        )
    if format_version >= 3 and mode == COPY_ON_WRITE:
        raise SinkError(
            f"{layout.name} has format version {format_version}, and its upserts are {COPY_ON_WRITE}, which does not "
            "keep the ids of rows",
            hint=f"set {MERGE_MODE} of the table to '{MERGE_ON_READ}'",
            table=layout.name,
            option=MERGE_MODE,
            got=mode,
        )
    return mode == MERGE_ON_READ and format_version >= 2
