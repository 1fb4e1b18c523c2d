"""The manifests of a new snapshot: files added, files dropped, small manifests merged, and the list of them all.

An append adds one manifest and carries the others over as they are (a fast append): a commit then costs the same on a
table of any size, and a repeated attempt rewrites only the list. So that a stream of small commits does not pile up
manifests, the small ones of a spec, of data or of deletes, are merged once there are
`commit.manifest.min-count-to-merge` of them (100), as Iceberg's own merging append does: one commit in 100 pays.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    write_manifest_list,
)

from frazil.protocol import PROPERTY_MANIFEST_BYTES
from frazil.pyiceberg_compat import copy_manifest
from frazil.write.commit.entries import as_added, as_deleted, as_existing, read_entries, write_entries
from frazil.write.commit.format3 import read_list_v3
from frazil.write.files import WrittenFile, avro_codec, new_metadata_file, writing

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

MB = 1 << 20
T = TypeVar("T")


def write_added(
    table: Table, files: Iterable[WrittenFile], *, snapshot_id: int, sequence: int | None = None
) -> list[ManifestFile]:
    """New manifests that add the files, one for each partition spec among them."""
    entries = [as_added(file.to_data_file(), snapshot_id, sequence) for file in files]
    return write_by_spec(table, entries, snapshot_id=snapshot_id)


def write_by_spec(
    table: Table,
    entries: Iterable[ManifestEntry],
    *,
    content: ManifestContent = ManifestContent.DATA,
    snapshot_id: int,
) -> list[ManifestFile]:
    """New manifests with these entries, one for each partition spec among them."""
    by_spec: dict[int, list[ManifestEntry]] = defaultdict(list)
    for entry in entries:
        by_spec[entry.data_file.spec_id].append(entry)
    return [_write(table, some, spec_id, content, snapshot_id) for spec_id, some in by_spec.items()]


def merge_small(table: Table, manifests: Sequence[ManifestFile], *, snapshot_id: int) -> list[ManifestFile]:
    """The manifests; where a spec has gathered too many small ones of a kind, with those merged."""
    properties = table.metadata.properties
    if properties.get("commit.manifest-merge.enabled", "true").lower() != "true":
        return list(manifests)
    target = _number(properties, PROPERTY_MANIFEST_BYTES, 8 * MB)
    least = _number(properties, "commit.manifest.min-count-to-merge", 100)
    kept: list[ManifestFile] = []
    small: dict[tuple[int, ManifestContent], list[ManifestFile]] = defaultdict(list)
    for manifest in manifests:
        kind = (manifest.partition_spec_id, manifest.content)
        (small[kind] if manifest.manifest_length < target else kept).append(manifest)
    for kind, group in small.items():
        for some in portions(group, lambda manifest: manifest.manifest_length, target):
            kept += [_merge(table, some, *kind, snapshot_id)] if len(group) >= least and len(some) > 1 else some
    return kept


def read_list(table: Table, snapshot: Snapshot) -> list[ManifestFile]:
    """The manifests of a snapshot, ready to be written into another list."""
    if table.metadata.format_version >= 3:
        return read_list_v3(table.io, snapshot.manifest_list)
    return snapshot.manifests(table.io)


def split_by_content(manifests: Iterable[ManifestFile]) -> tuple[list[ManifestFile], list[ManifestFile]]:
    """The manifests of data files, and those of delete files."""
    data: list[ManifestFile] = []
    deletes: list[ManifestFile] = []
    for manifest in manifests:
        (data if manifest.content == ManifestContent.DATA else deletes).append(manifest)
    return data, deletes


def has_files(manifest: ManifestFile) -> bool:
    """Whether a manifest may name a live file."""
    counts = (manifest.added_files_count, manifest.existing_files_count)
    return None in counts or sum(counts) > 0  # type: ignore[arg-type]  # none of them is None


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


def drop_files(
    table: Table, manifests: Sequence[ManifestFile], is_dropped: Callable[[DataFile], bool], *, snapshot_id: int
) -> tuple[list[ManifestFile], list[DataFile]]:
    """The manifests with some files marked as deleted by this snapshot, and these files.

    A manifest that loses no file stays as it is, what is left of another is written again. The deleted files of
    manifests of which nothing is left share one, so that a rewrite does not leave as many manifests as it found.
    """
    edited: list[ManifestFile] = []
    dropped: list[DataFile] = []
    emptied: dict[tuple[int, ManifestContent], list[ManifestEntry]] = defaultdict(list)
    for manifest in manifests:
        entries = read_entries(table, manifest)
        # One by one: two deletion vectors may lie in one file, and one of them may go without the other.
        goes = [is_dropped(entry.data_file) for entry in entries]
        dropped += [entry.data_file for entry, is_gone in zip(entries, goes, strict=True) if is_gone]
        kind = (manifest.partition_spec_id, manifest.content)
        if all(goes):
            emptied[kind] += [as_deleted(entry, snapshot_id) for entry in entries]
        elif any(goes):
            changed = [
                as_deleted(entry, snapshot_id) if is_gone else as_existing(entry)
                for entry, is_gone in zip(entries, goes, strict=True)
            ]
            edited.append(_write(table, changed, *kind, snapshot_id))
        else:
            edited.append(manifest)
    return edited + [
        _write(table, entries, *kind, snapshot_id) for kind, entries in emptied.items() if entries
    ], dropped


def _write(
    table: Table, entries: Sequence[ManifestEntry], spec_id: int, content: ManifestContent, snapshot_id: int
) -> ManifestFile:
    return write_entries(table, entries, spec_id=spec_id, content=content, snapshot_id=snapshot_id)


def _merge(
    table: Table, manifests: Sequence[ManifestFile], spec_id: int, content: ManifestContent, snapshot_id: int
) -> ManifestFile:
    entries = [as_existing(entry) for manifest in manifests for entry in read_entries(table, manifest)]
    return _write(table, entries, spec_id, content, snapshot_id)


def portions(items: Iterable[T], size: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """The items in their order, in portions of at most this size; one that is larger stands alone.

    >>> list(portions([3, 4, 9, 1], lambda number: number, 7))
    [[3, 4], [9], [1]]
    """
    portion: list[T] = []
    total = 0
    for item in items:
        if portion and total + size(item) > most:
            yield portion
            portion, total = [], 0
        portion.append(item)
        total += size(item)
    if portion:
        yield portion


def _number(properties: Mapping[str, str], key: str, default: int) -> int:
    return int(properties.get(key, default))
