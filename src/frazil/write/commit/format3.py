"""Manifests and manifest lists of format 3, which PyIceberg reads in part and does not write.

Format 3 gives every row an id that it keeps for life. A file says where its ids begin (`first_row_id`), or inherits
that from its manifest, which has it from the list of the first snapshot that it was in: see "row lineage" in the
specification. So a list that is written again must keep what the manifests have, and an entry that moves to another
manifest must say what it had inherited.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.avro.codecs import AVRO_CODEC_KEY
from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    UNASSIGNED_SEQ,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.schema import Schema

from frazil.pyiceberg_compat import copy_manifest, inherit_from_manifest
from frazil.scan.reading import ROW_ID, UPDATED
from frazil.write.commit.avro import ExactAvroFile
from frazil.write.files import avro_codec, new_metadata_file, writing

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table

LIST_SCHEMA, ENTRY_SCHEMA = MANIFEST_LIST_FILE_SCHEMAS[3], MANIFEST_ENTRY_SCHEMAS[3]
SEQUENCE, MIN_SEQUENCE, MANIFEST_FIRST_ROW = 4, 5, 15  # places in a manifest's record
FILE_FIRST_ROW, REFERENCED, OFFSET = 16, 17, 18  # places in a data file's record


def with_lineage(schema: Schema) -> Schema:
    """The schema of data files whose rows were somewhere else before: they keep who they are, and when they were last
    changed.
    """
    return Schema(
        *schema.fields, ROW_ID, UPDATED, schema_id=schema.schema_id, identifier_field_ids=schema.identifier_field_ids
    )


# --- reading ---------------------------------------------------------------------------------------------------------


def read_list_v3(io: FileIO, location: str) -> list[ManifestFile]:
    """The manifests of a list, with the first row id of each."""
    kinds: dict[int, Any] = {-1: ManifestFile, 508: PartitionFieldSummary}
    with AvroFile[ManifestFile](
        io.new_input(location), LIST_SCHEMA, read_types=kinds, read_enums={517: ManifestContent}
    ) as reader:
        return list(reader)


def read_entries(io: FileIO, manifest: ManifestFile) -> list[ManifestEntry]:
    """The live entries of a manifest of format 3; what they inherit is filled in."""
    live_entries = read_live_entries(io, manifest, ENTRY_SCHEMA)
    _inherit_row_ids([entry.data_file for entry in live_entries], manifest)
    return live_entries


def read_live_entries(io: FileIO, manifest: ManifestFile, schema: Schema) -> list[ManifestEntry]:
    """The live entries of a manifest, with the fields of a schema; sequence numbers and the spec id are inherited."""
    kinds: dict[int, Any] = {-1: ManifestEntry, 2: DataFile}
    enums: dict[int, Any] = {0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent}
    with ExactAvroFile[ManifestEntry](
        io.new_input(manifest.manifest_path), schema, read_types=kinds, read_enums=enums
    ) as reader:
        return [
            inherit_from_manifest(entry, manifest) for entry in reader if entry.status != ManifestEntryStatus.DELETED
        ]


def _inherit_row_ids(files: Sequence[DataFile], manifest: ManifestFile) -> None:
    """A file without a first row id gets that of the manifest, plus the rows of those before it that have
    none either.
    """
    following = manifest[MANIFEST_FIRST_ROW] if len(manifest) > MANIFEST_FIRST_ROW else None
    if manifest.content != ManifestContent.DATA or following is None:
        return
    for file in files:
        if file[FILE_FIRST_ROW] is None:
            file[FILE_FIRST_ROW] = following
            following += file.record_count


# --- writing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WrittenList:
    """A manifest list, and the row ids that it has given out: from one on, so many."""

    location: str
    first_row_id: int
    added_rows: int


def write_list_v3(
    table: Table, manifests: Sequence[ManifestFile], *, snapshot_id: int, parent_id: int | None, attempt: int
) -> WrittenList:
    """A new manifest list. Data manifests that have no row ids yet get them; all others keep theirs."""
    metadata = table.metadata
    sequence, first = metadata.next_sequence_number(), getattr(metadata, "next_row_id", None) or 0
    location = new_metadata_file(table, f"snap-{snapshot_id}-{attempt}-{uuid.uuid4()}.avro")
    said = {
        "snapshot-id": snapshot_id,
        "parent-snapshot-id": "null" if parent_id is None else parent_id,
        "sequence-number": sequence,
    }
    said |= {"first-row-id": first, "format-version": 3}
    said[AVRO_CODEC_KEY] = avro_codec(metadata.properties)
    following, prepared = first, list[ManifestFile]()
    for manifest in manifests:
        prepare = _prepare(manifest, snapshot_id=snapshot_id, sequence=sequence)
        if prepare.content == ManifestContent.DATA and prepare[MANIFEST_FIRST_ROW] is None:
            prepare[MANIFEST_FIRST_ROW] = following
            # Also existing files may have no ids yet, after an upgrade. Unused ids are no loss.
            following += (prepare.added_rows_count or 0) + (prepare.existing_rows_count or 0)
        prepared.append(prepare)
    meta = {key: str(value) for key, value in said.items()}
    output = table.io.new_output(location)
    with (
        writing(location),
        AvroOutputFile[ManifestFile](output, LIST_SCHEMA, "manifest_file", LIST_SCHEMA, meta) as writer,
    ):
        writer.write_block(prepared)
    return WrittenList(location, first, following - first)


def _prepare(manifest: ManifestFile, *, snapshot_id: int, sequence: int) -> ManifestFile:
    copied = copy_manifest(manifest, length=MANIFEST_FIRST_ROW + 1)
    for place in (SEQUENCE, MIN_SEQUENCE):
        if copied[place] == UNASSIGNED_SEQ:
            assert copied.added_snapshot_id == snapshot_id  # only what this commit has written has no number yet
            copied[place] = sequence
    return copied
