"""Manifest writers for delete files, for format 3 and for blocks of many entries, none of which PyIceberg has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.manifest import (
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
    _inherit_from_manifest,
)

if TYPE_CHECKING:
    from pyiceberg.typedef import Record, TableVersion
    from pyiceberg.types import NestedField

BLOCK_ENTRIES = 250  # some 64 KB before they are packed, as Java has it
FILE_FIELDS = 20  # places in a data file's record of format 3


def inherit_from_manifest(entry: ManifestEntry, manifest: ManifestFile) -> ManifestEntry:
    """The entry with the sequence numbers and the spec id of its manifest. `_inherit_from_manifest`: PyIceberg applies
    it only in its own reader, which cuts doubles.
    """
    return _inherit_from_manifest(entry, manifest)


def copy_manifest(manifest: ManifestFile, *, length: int = 0) -> ManifestFile:
    """A copy that can be changed, with as many fields as are asked for at least. `_data`: records have no copy."""
    return ManifestFile(*manifest._data, *[None] * (length - len(manifest)))


def partition_fields_of(writer: ManifestWriter) -> tuple[NestedField, ...]:
    """`_spec`, `_schema`: the partition fields that a writer summarises."""
    return writer._spec.partition_type(writer._schema).fields


def partitions_of(writer: ManifestWriter) -> Iterable[Record]:
    """`_partitions`: the partitions of the files that a writer has written."""
    return writer._partitions


class DeleteManifestWriter(ManifestWriterV2):
    """Writes a manifest of delete files in format 2."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        """`_meta`: the header names the content, and PyIceberg always says `data`."""
        return {**super()._meta, "content": "deletes"}


class ManifestWriterV3(ManifestWriterV2):
    """Writes a manifest of data files, or of delete files, in format 3."""

    def __init__(self, *value: Any, content: ManifestContent = ManifestContent.DATA) -> None:
        super().__init__(*value)
        self.written_content = content

    def content(self) -> ManifestContent:
        return self.written_content

    @property
    def version(self) -> TableVersion:
        return 3

    @property
    def _meta(self) -> dict[str, str]:
        """`_meta`: as in `DeleteManifestWriter`."""
        return {**super()._meta, "content": "data" if self.written_content == ManifestContent.DATA else "deletes"}

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        """`_with_partition`, `_output_file`: PyIceberg opens the file with the schema of format 2."""
        schema = self._with_partition(3)
        return AvroOutputFile(self._output_file, schema, "manifest_entry", record_schema=schema, metadata=self._meta)

    def prepare_entry(self, entry: ManifestEntry) -> ManifestEntry:
        """`_data`: a file that was described in the words of format 2 gets the fields of format 3."""
        entry.data_file._data.extend([None] * (FILE_FIELDS - len(entry.data_file)))
        return super().prepare_entry(entry)

    def to_manifest_file(self) -> ManifestFile:
        manifest_file = super().to_manifest_file()
        return copy_manifest(manifest_file, length=len(manifest_file) + 1)  # where its row ids begin is not known yet


class _Blocks:
    def __init__(self, file: AvroOutputFile[ManifestEntry]) -> None:
        self._file = file
        self._waiting: list[ManifestEntry] = []

    def write_block(self, entries: list[ManifestEntry]) -> None:
        self._waiting += entries
        if len(self._waiting) >= BLOCK_ENTRIES:
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            self._file.write_block(self._waiting)
            self._waiting = []


@contextmanager
def in_blocks(writer: ManifestWriter) -> Iterator[None]:
    """Gathers the entries to Avro blocks. `_writer`: PyIceberg makes a block of each entry, and files ten times as
    large.
    """
    file = writer._writer
    blocks = _Blocks(file)
    writer._writer = blocks  # type: ignore[assignment]
    try:
        yield
        blocks.flush()
    finally:
        writer._writer = file  # which closes itself
