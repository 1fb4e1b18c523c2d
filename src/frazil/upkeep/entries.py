"""Manifests without some of their files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestFile

from frazil.sinks.entries import as_deleted, as_existing, write_entries

if TYPE_CHECKING:
    from pyiceberg.table import Table


def drop_files(
    table: Table, manifests: Sequence[ManifestFile], is_dropped: Callable[[DataFile], bool], *, snapshot_id: int
) -> tuple[list[ManifestFile], list[DataFile]]:
    """The manifests with some files marked as deleted by this snapshot, and these files.

    What is left of a manifest is written again. One of which nothing is left is not: its deleted files go into a single manifest with
    those of the others, so that a compaction does not leave as many manifests behind as it found.
    """
    made: list[ManifestFile] = []
    dropped: list[DataFile] = []
    emptied: dict[tuple[int, ManifestContent], list[ManifestEntry]] = {}
    for manifest in manifests:
        entries = manifest.fetch_manifest_entry(table.io)  # live ones alone
        gone = {entry.data_file.file_path for entry in entries if is_dropped(entry.data_file)}
        changed = [as_deleted(one, snapshot_id) if one.data_file.file_path in gone else as_existing(one) for one in entries]
        dropped += [entry.data_file for entry in changed if entry.data_file.file_path in gone]
        place = (manifest.partition_spec_id, manifest.content)
        if len(gone) == len(changed):
            emptied.setdefault(place, []).extend(changed)
        else:
            made.append(write_entries(table, changed, spec_id=place[0], content=place[1], snapshot_id=snapshot_id) if gone else manifest)
    for (spec_id, content), entries in emptied.items():
        made += [write_entries(table, entries, spec_id=spec_id, content=content, snapshot_id=snapshot_id)] if entries else []
    return made, dropped


def group_by_spec(files: Sequence[DataFile]) -> dict[int, list[DataFile]]:
    """The files by the partition spec that they were written with."""
    found: dict[int, list[DataFile]] = {}
    for file in files:
        found.setdefault(file.spec_id, []).append(file)
    return found
