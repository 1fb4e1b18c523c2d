"""Manifests and manifest lists of an append.

An append adds one manifest and carries the others over as they are (a fast append): a commit then costs the same on a
table of any size, and a repeated attempt rewrites only the list. So that a stream of small commits does not pile up
manifests, the small ones of a spec are merged once there are `commit.manifest.min-count-to-merge` of them (100), as
Iceberg's own merging append does: one commit in 100 pays.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestFile,
    write_manifest_list,
)

from frazil.protocol import PROPERTY_MANIFEST_BYTES
from frazil.pyiceberg_compat import copy_manifest
from frazil.write.commit.entries import as_added, as_deleted, as_existing, read_entries, write_entries
from frazil.write.files import WrittenFile, avro_codec, new_metadata_file, writing

if TYPE_CHECKING:
    from pyiceberg.table import Table

MB = 1 << 20


def write_added(table: Table, files: Sequence[WrittenFile], *, snapshot_id: int) -> list[ManifestFile]:
    """New manifests that add the files, one for each partition spec among them."""
    by_spec: dict[int, list[DataFile]] = defaultdict(list)
    for file in files:
        by_spec[file.spec_id].append(file.to_data_file())
    return [
        write_entries(table, [as_added(file, snapshot_id) for file in some], spec_id=spec_id, snapshot_id=snapshot_id)
        for spec_id, some in by_spec.items()
    ]


def merge_small(table: Table, manifests: Sequence[ManifestFile], *, snapshot_id: int) -> list[ManifestFile]:
    """The manifests, where a spec has gathered too many small ones with those merged."""
    properties = table.metadata.properties
    if properties.get("commit.manifest-merge.enabled", "true").lower() != "true":
        return list(manifests)
    target = _number(properties, PROPERTY_MANIFEST_BYTES, 8 * MB)
    least = _number(properties, "commit.manifest.min-count-to-merge", 100)
    kept: list[ManifestFile] = []
    small: dict[int, list[ManifestFile]] = defaultdict(list)
    for manifest in manifests:
        mergeable = manifest.content == ManifestContent.DATA and manifest.manifest_length < target
        (small[manifest.partition_spec_id] if mergeable else kept).append(manifest)
    for spec_id, group in small.items():
        for some in _bins(group, target):
            kept += [_merge(table, spec_id, some, snapshot_id)] if len(group) >= least and len(some) > 1 else some
    return kept


def write_list(
    table: Table, manifests: Sequence[ManifestFile], *, snapshot_id: int, parent_id: int | None, attempt: int
) -> str:
    """A new manifest list; gives its location."""
    location = new_metadata_file(table, f"snap-{snapshot_id}-{attempt}-{uuid.uuid4()}.avro")
    with (
        writing(location),
        write_manifest_list(
            table.metadata.format_version,
            table.io.new_output(location),
            snapshot_id,
            parent_id,
            table.metadata.next_sequence_number(),
            avro_codec(table.metadata.properties),
        ) as writer,
    ):
        # PyIceberg puts the sequence number into what it is given: the next attempt, with another number, would find
        # this one there.
        writer.add_manifests([copy_manifest(manifest) for manifest in manifests])
    return location


def rewrite_without(
    table: Table, manifest: ManifestFile, is_dropped: Callable[[DataFile], bool], *, snapshot_id: int
) -> tuple[ManifestFile, list[DataFile]]:
    """The manifest with the dropped files marked as deleted by this snapshot, and these files; the same one if there
    are none.
    """
    entries = read_entries(table, manifest)
    dropped = [entry.data_file for entry in entries if is_dropped(entry.data_file)]
    if not dropped:
        return manifest, []
    paths = {file.file_path for file in dropped}
    changed = [
        as_deleted(entry, snapshot_id) if entry.data_file.file_path in paths else as_existing(entry)
        for entry in entries
    ]
    return write_entries(table, changed, spec_id=manifest.partition_spec_id, snapshot_id=snapshot_id), dropped


def _merge(table: Table, spec_id: int, manifests: Sequence[ManifestFile], snapshot_id: int) -> ManifestFile:
    entries = [as_existing(entry) for manifest in manifests for entry in read_entries(table, manifest)]
    return write_entries(table, entries, spec_id=spec_id, snapshot_id=snapshot_id)


def _bins(manifests: Sequence[ManifestFile], target: int) -> list[list[ManifestFile]]:
    bins: list[list[ManifestFile]] = [[]]
    size = 0
    for manifest in manifests:
        if bins[-1] and size + manifest.manifest_length > target:
            bins.append([])
            size = 0
        bins[-1].append(manifest)
        size += manifest.manifest_length
    return bins


def _number(properties: Mapping[str, str], key: str, default: int) -> int:
    return int(properties.get(key, default))
