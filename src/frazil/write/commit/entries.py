"""Single manifests and their entries: of data files, and of delete files, which PyIceberg reads and does not write."""

from __future__ import annotations

import math
import struct
import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import (
    DEFAULT_READ_VERSION,
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    write_manifest,
)
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, FloatType

from frazil.errors import SinkError
from frazil.pyiceberg_compat import (
    DeleteManifestWriter,
    ManifestWriterV3,
    fields_by_id,
    in_blocks,
    partition_fields_of,
    partitions_of,
)
from frazil.write.commit import format3
from frazil.write.files import avro_codec, new_metadata_file, writing

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata


LOWER_BOUND, UPPER_BOUND = 2, 3  # places in a partition field's summary


def write_entries(
    table: Table,
    entries: Iterable[ManifestEntry],
    *,
    spec_id: int,
    content: ManifestContent = ManifestContent.DATA,
    snapshot_id: int,
) -> ManifestFile:
    """A new manifest with these entries."""
    location = new_metadata_file(table, f"{uuid.uuid4()}-m0.avro")
    with writing(location), _writer(table, location, spec_id, content, snapshot_id) as writer, in_blocks(writer):
        for entry in entries:
            writer.add_entry(entry)
    return _with_ordered_zeros(writer.to_manifest_file(), writer)


def _with_ordered_zeros(manifest: ManifestFile, writer: ManifestWriter) -> ManifestFile:
    """The manifest with -0.0 before 0.0 in the bounds of its partitions, as the specification orders them.

    Python calls both equal, so PyIceberg may put -0.0 as the upper bound of files that hold 0.0; Java would then skip
    the manifest.
    """
    for place, field in enumerate(partition_fields_of(writer)):
        if not isinstance(field.field_type, FloatType | DoubleType):
            continue
        summary = manifest.partitions[place] if manifest.partitions else None
        for bound, zero in ((LOWER_BOUND, -0.0), (UPPER_BOUND, 0.0)):
            if summary is not None and summary[bound] is not None and _is_zero(summary[bound]):
                has_it = any(_is_same_zero(partition[place], zero) for partition in partitions_of(writer))
                summary[bound] = to_bytes(field.field_type, zero if has_it else -zero)
    return manifest


def _is_zero(bound: bytes) -> bool:
    return not any(bound[:-1]) and bound[-1] in (0x00, 0x80)


def _is_same_zero(value: object, zero: float) -> bool:
    return isinstance(value, float) and value == 0 and math.copysign(1, value) == math.copysign(1, zero)


def read_entries(table: Table, manifest: ManifestFile) -> list[ManifestEntry]:
    """The live entries of a manifest, with exact partition values: PyIceberg's own reader cuts doubles."""
    is_third = table.metadata.format_version >= 3
    entries = format3.read_entries(table.io, manifest) if is_third else read_files(table.io, manifest)
    _restore_doubles(table, manifest.partition_spec_id, entries)
    return entries


def _restore_doubles(table: Table, spec_id: int, entries: Sequence[ManifestEntry]) -> None:
    """Gives partitions of double their own value again where a manifest was rewritten through a 32-bit float.

    Earlier versions, and others that use PyIceberg 0.12, wrote 0.10000000149011612 for 0.1. All rows of an identity
    partition have its value, so the bounds of the column tell what it was.

    Position deletes lie in the partition of their data files, and nothing tells its own value for them: while there are
    any, all stays as it is.
    """
    for place, partition_field in enumerate(table.metadata.specs()[spec_id].fields):
        sources = [
            field for schema in table.metadata.schemas if (field := fields_by_id(schema).get(partition_field.source_id))
        ]
        is_double = any(isinstance(field.field_type, DoubleType) for field in sources)
        if not isinstance(partition_field.transform, IdentityTransform) or not is_double:
            continue
        if _has_position_deletes(table.metadata):
            return
        for file in (entry.data_file for entry in entries):
            bound = (file.lower_bounds or {}).get(partition_field.source_id)
            if (
                bound is not None
                and len(bound) == 8
                and bound == (file.upper_bounds or {}).get(partition_field.source_id)
            ):
                (value,) = struct.unpack("<d", bound)
                if file.partition[place] not in (None, value) and file.partition[place] == _as_float(value):
                    file.partition[place] = value


def _has_position_deletes(metadata: TableMetadata) -> bool:
    """Whether the head of a branch or tag may have position deletes."""
    heads = [metadata.snapshot_by_name(ref) for ref in metadata.refs]
    counts = [
        head.summary["total-position-deletes"] if head.summary is not None else None
        for head in heads
        if head is not None
    ]
    return any(number != "0" for number in counts)


def _as_float(value: float) -> float:
    """The value as a 32-bit float; infinity where that is too small."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def read_files(io: FileIO, manifest: ManifestFile) -> list[ManifestEntry]:
    """The live entries of a manifest of any format, with the fields that format 2 has."""
    return format3.read_live_entries(io, manifest, MANIFEST_ENTRY_SCHEMAS[DEFAULT_READ_VERSION])


def as_added(file: DataFile, snapshot_id: int, sequence: int | None = None) -> ManifestEntry:
    """A new file; with a sequence number if its rows are as old as that, else it gets that of the commit."""
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, sequence_number=sequence, data_file=file
    )


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


def file_key(file: DataFile) -> tuple[str, int | None]:
    """What tells a file, or a deletion vector in a file, from all others."""
    return file.file_path, file[format3.OFFSET] if len(file) > format3.OFFSET else None


def schema_of(metadata: TableMetadata, spec: PartitionSpec) -> Schema:
    """The newest schema in which a spec makes sense: a column that an older spec was made of may have been dropped
    since.
    """
    sources = {field.source_id for field in spec.fields}
    for schema in (metadata.schema(), *sorted(metadata.schemas, key=lambda candidate: -candidate.schema_id)):
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
        return ManifestWriterV3(spec, schema, output, snapshot_id, codec, content=content)
    if content == ManifestContent.DELETES:
        return DeleteManifestWriter(spec, schema, output, snapshot_id, codec)
    return write_manifest(metadata.format_version, spec, schema, output, snapshot_id, codec)
