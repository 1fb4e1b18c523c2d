"""Single manifests and their entries: of data files, and of delete files, which PyIceberg reads and does not write."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
    write_manifest,
)

from frazil.errors import SinkError
from frazil.sinks import format3
from frazil.sinks.disk import writing
from frazil.sinks.options import avro_codec, new_metadata_file

if TYPE_CHECKING:
    from pyiceberg.avro.file import AvroOutputFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata


BLOCK_ENTRIES = 250  # some 64 KB before they are packed, as Java has it


class _Blocks:
    """What a manifest writer of PyIceberg writes to. It makes a block of each entry, which packs badly: files are ten times as large."""

    def __init__(self, file: AvroOutputFile[ManifestEntry]) -> None:
        self._file = file
        self._waiting: list[ManifestEntry] = []

    def write_block(self, entries: list[ManifestEntry]) -> None:
        """Takes the entries; they are written when there are enough for a block."""
        self._waiting += entries
        if len(self._waiting) >= BLOCK_ENTRIES:
            self.flush()

    def flush(self) -> None:
        """Writes what waits."""
        if self._waiting:
            self._file.write_block(self._waiting)
            self._waiting = []


@contextmanager
def _in_blocks(writer: ManifestWriter) -> Iterator[None]:
    file = writer._writer
    blocks = _Blocks(file)
    writer._writer = blocks  # type: ignore[assignment]
    try:
        yield
        blocks.flush()
    finally:
        writer._writer = file  # which closes itself


class _DeleteManifestWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def write_entries(
    table: Table, entries: Iterable[ManifestEntry], *, spec_id: int, content: ManifestContent = ManifestContent.DATA, snapshot_id: int
) -> ManifestFile:
    """A new manifest with these entries."""
    location = new_metadata_file(table, f"{uuid.uuid4()}-m0.avro")
    with writing(location), _writer(table, location, spec_id, content, snapshot_id) as writer, _in_blocks(writer):
        for entry in entries:
            writer.add_entry(entry)
    return writer.to_manifest_file()


def read_entries(table: Table, manifest: ManifestFile) -> list[ManifestEntry]:
    """The live entries of a manifest."""
    if table.metadata.format_version >= 3:
        return format3.read_entries(table.io, manifest)
    return manifest.fetch_manifest_entry(table.io)


def as_added(file: DataFile, snapshot_id: int, sequence: int | None = None) -> ManifestEntry:
    """A new file; with a sequence number if its rows are as old as that, else it gets that of the commit."""
    return ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, sequence_number=sequence, data_file=file)


def as_existing(entry: ManifestEntry) -> ManifestEntry:
    entry.status = ManifestEntryStatus.EXISTING
    return entry


def as_deleted(entry: ManifestEntry, snapshot_id: int) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.DELETED,
        snapshot_id=snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )


def schema_of(metadata: TableMetadata, spec: PartitionSpec) -> Schema:
    """The newest schema in which a spec makes sense: a column that an older spec was made of may have been dropped since."""
    sources = {one.source_id for one in spec.fields}
    for schema in (metadata.schema(), *sorted(metadata.schemas, key=lambda one: -one.schema_id)):
        if sources <= set(schema.field_ids):
            return schema
    raise SinkError(
        f"partition spec {spec.spec_id} is made of a column that no schema of the table has any more",
        hint="rewrite its files with the engine that wrote them",
    )


def _writer(table: Table, location: str, spec_id: int, content: ManifestContent, snapshot_id: int) -> ManifestWriter:
    metadata = table.metadata
    spec, output = metadata.specs()[spec_id], table.io.new_output(location)
    schema = schema_of(metadata, spec)
    codec = avro_codec(metadata.properties)
    if metadata.format_version >= 3:
        return format3.ManifestWriterV3(spec, schema, output, snapshot_id, codec, content=content)
    if content == ManifestContent.DELETES:
        return _DeleteManifestWriter(spec, schema, output, snapshot_id, codec)
    return write_manifest(metadata.format_version, spec, schema, output, snapshot_id, codec)
