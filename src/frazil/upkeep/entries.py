"""Manifests without some of their files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestEntry, ManifestFile

from frazil.upkeep.groups import DeleteKey
from frazil.upkeep.replacing import Counts
from frazil.write.commit import OFFSET, as_deleted, as_existing, read_entries, write_entries

if TYPE_CHECKING:
    from pyiceberg.table import Table


def drop_files(
    table: Table, manifests: Sequence[ManifestFile], is_dropped: Callable[[DataFile], bool], *, snapshot_id: int
) -> tuple[list[ManifestFile], list[DataFile]]:
    """The manifests with some files marked as deleted by this snapshot, and these files.

    What is left of a manifest is written again. One of which nothing is left is not: its deleted files go into a single
    manifest with those of the others, so that a compaction does not leave as many manifests behind as it found.
    """
    made: list[ManifestFile] = []
    dropped: list[DataFile] = []
    emptied: dict[tuple[int, ManifestContent], list[ManifestEntry]] = {}
    for manifest in manifests:
        entries = read_entries(table, manifest)
        # One by one: two deletion vectors may lie in one file, and one of them may go without the other.
        gone = [entry.data_file for entry in entries if is_dropped(entry.data_file)]
        changed = [as_deleted(one, snapshot_id) if is_dropped(one.data_file) else as_existing(one) for one in entries]
        dropped += gone
        place = (manifest.partition_spec_id, manifest.content)
        if len(gone) == len(changed):
            emptied.setdefault(place, []).extend(changed)
        else:
            made.append(
                write_entries(table, changed, spec_id=place[0], content=place[1], snapshot_id=snapshot_id)
                if gone
                else manifest
            )
    for (spec_id, content), entries in emptied.items():
        made += (
            [write_entries(table, entries, spec_id=spec_id, content=content, snapshot_id=snapshot_id)]
            if entries
            else []
        )
    return made, dropped


def file_key(file: DataFile) -> DeleteKey:
    """What tells a file, or a deletion vector, from all others."""
    return file.file_path, file[OFFSET] if len(file) > OFFSET else None


def count_dropped_deletes(files: Sequence[DataFile]) -> Counts:
    """What a snapshot's summary says of delete files that went."""
    equal = [file for file in files if file.content == DataFileContent.EQUALITY_DELETES]
    vectors = [file for file in files if file.file_format == FileFormat.PUFFIN]
    by_position = [file for file in files if file.content == DataFileContent.POSITION_DELETES]
    return Counts(
        {
            "removed-delete-files": len(files),
            "removed-position-delete-files": len(by_position) - len(vectors),
            "removed-dvs": len(vectors),
            "removed-equality-delete-files": len(equal),
            "removed-position-deletes": sum(file.record_count for file in by_position),
            "removed-equality-deletes": sum(file.record_count for file in equal),
            "removed-files-size": sum(file.file_size_in_bytes for file in files),
        }
    )


def group_by_spec(files: Sequence[DataFile]) -> dict[int, list[DataFile]]:
    """The files by the partition spec that they were written with."""
    found: dict[int, list[DataFile]] = {}
    for file in files:
        found.setdefault(file.spec_id, []).append(file)
    return found
