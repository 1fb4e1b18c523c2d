"""Tables of many files, made as metadata alone and fast: PyIceberg writes one entry, the others are its bytes with
other values in them.

A file holds a part of a day: 50 files per day, 1,000 files per manifest, so that a manifest covers 20 days. Ids grow
with time, as they do where a sequence hands them out.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestampType

FIRST_DAY, FILES_A_DAY, FILES_A_MANIFEST, ROWS = 15_000, 50, 1_000, 100_000
DAY_US = 86_400_000_000
NUMBERS = [NestedField(at, f"metric_{at}", LongType()) for at in range(5, 13)]
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "at", TimestampType()),
    NestedField(3, "name", StringType()),
    NestedField(4, "amount", DoubleType()),
    *NUMBERS,
)
SPEC = PartitionSpec(PartitionField(2, 1000, DayTransform(), "at_day"))
# What the template has where every file has its own: as long as what is put there.
PATH, DAY, LOW_ID, HIGH_ID, LOW_AT, HIGH_AT = "P" * 80, 19_999, b"lowid..1", b"higid..1", b"low-at.1", b"hig-at.1"


def make_table(folder: Path, files: int) -> Path:
    """The metadata file of a table with a number of files."""
    folder.mkdir(parents=True)
    head, record = _template(folder)
    io, listed = PyArrowFileIO(), []
    for start in range(0, files, FILES_A_MANIFEST):
        numbers = range(start, min(files, start + FILES_A_MANIFEST))
        path = folder / f"m{start:08d}.avro"
        path.write_bytes(head + _block(record, numbers, head[-16:]))
        listed.append(_listed(path, numbers))
    snapshot_list = folder / "snap-1.avro"
    with write_manifest_list(2, io.new_output(str(snapshot_list)), 1, None, 1, avro_compression="deflate") as writer:
        writer.add_manifests(listed)
    metadata = folder / "v1.metadata.json"
    metadata.write_text(json.dumps(_metadata(folder, snapshot_list)))
    return metadata


def _template(folder: Path) -> tuple[bytes, list[bytes]]:
    """What a manifest starts with, and the pieces of an entry between the values that each file has of its own."""
    path = folder / "template.avro"
    with write_manifest(2, SPEC, SCHEMA, PyArrowFileIO().new_output(str(path)), 1, avro_compression="null") as writer:
        entry = ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=1, data_file=_file())
        writer.add_entry(entry)
    content = path.read_bytes()
    path.unlink()
    head_end = content.index(content[-16:]) + 16
    head = content[:head_end].replace(b"\x08null", b"\x0edeflate")
    body = content[head_end:-16]
    _, at = _read_long(body, 0)
    _, at = _read_long(body, at)
    rest, pieces = body[at:], []
    for marker in (PATH.encode(), _long(DAY), LOW_ID, LOW_AT, HIGH_ID, HIGH_AT):
        piece, rest = rest.split(marker, 1)
        pieces.append(piece)
    return head, [*pieces, rest]


def _file() -> DataFile:
    ids = SCHEMA.field_ids
    same = struct.pack("<q", 7)
    arguments = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=PATH,
        file_format=FileFormat.PARQUET,
        partition=Record(DAY),
        record_count=ROWS,
        file_size_in_bytes=32 * 1024 * 1024,
        column_sizes=dict.fromkeys(ids, 2_000_000),
        value_counts=dict.fromkeys(ids, ROWS),
        null_value_counts=dict.fromkeys(ids, 0),
        nan_value_counts={4: 0},
        lower_bounds={item: {1: LOW_ID, 2: LOW_AT, 3: b"aaaaaaaaaaaaaaaa"}.get(item, same) for item in ids},
        upper_bounds={item: {1: HIGH_ID, 2: HIGH_AT, 3: b"zzzzzzzzzzzzzzzz"}.get(item, same) for item in ids},
        split_offsets=[4],
        sort_order_id=0,
    )
    arguments.spec_id = 0
    return arguments


def _block(pieces: list[bytes], numbers: range, sync: bytes) -> bytes:
    """The entries of a manifest as one block."""
    before_path, before_day, before_low, before_low_at, before_high, before_high_at, end = pieces
    records = []
    for number in numbers:
        day, part = FIRST_DAY + number // FILES_A_DAY, number % FILES_A_DAY
        at = day * DAY_US + part * (DAY_US // FILES_A_DAY)
        path = f"s3://lakehouse/events/data/at_day={day}/part-{number:010d}".ljust(72, "0") + ".parquet"
        low, high = struct.pack("<q", number * ROWS), struct.pack("<q", number * ROWS + ROWS - 1)
        low_at, high_at = struct.pack("<q", at), struct.pack("<q", at + DAY_US // FILES_A_DAY - 1)
        parts = (before_path, path.encode(), before_day, _long(day), before_low, low, before_low_at, low_at)
        records.append(b"".join((*parts, before_high, high, before_high_at, high_at, end)))
    packer = zlib.compressobj(6, wbits=-15)
    packed = packer.compress(b"".join(records)) + packer.flush()
    return _long(len(records)) + _long(len(packed)) + packed + sync


def _listed(path: Path, numbers: range) -> ManifestFile:
    days = [struct.pack("<i", FIRST_DAY + number // FILES_A_DAY) for number in (numbers[0], numbers[-1])]
    summary = PartitionFieldSummary(False, False, days[0], days[1])  # has null, has NaN, from, up to
    return ManifestFile.from_args(
        manifest_path=str(path),
        manifest_length=path.stat().st_size,
        partition_spec_id=0,
        content=ManifestContent.DATA,
        sequence_number=1,
        min_sequence_number=1,
        added_snapshot_id=1,
        added_files_count=len(numbers),
        existing_files_count=0,
        deleted_files_count=0,
        added_rows_count=len(numbers) * ROWS,
        existing_rows_count=0,
        deleted_rows_count=0,
        partitions=[summary],
    )


def _metadata(folder: Path, snapshot_list: Path) -> dict[str, Any]:
    snapshot = {
        "snapshot-id": 1,
        "sequence-number": 1,
        "timestamp-ms": 1,
        "manifest-list": str(snapshot_list),
        "schema-id": 0,
    }
    return {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": str(folder),
        "last-sequence-number": 1,
        "last-updated-ms": 1,
        "last-column-id": 12,
        "schemas": [SCHEMA.model_dump(mode="json", by_alias=True)],
        "current-schema-id": 0,
        "partition-specs": [SPEC.model_dump(mode="json", by_alias=True)],
        "default-spec-id": 0,
        "last-partition-id": 1000,
        "properties": {},
        "snapshots": [snapshot | {"summary": {"operation": "append"}}],
        "current-snapshot-id": 1,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "refs": {"main": {"snapshot-id": 1, "type": "branch"}},
    }


def _long(value: int) -> bytes:
    """Avro's variable-length, zigzag coding.

    >>> _long(19_999).hex(), _long(-1).hex()
    ('beb802', '01')
    """
    return bytes(_septets(value << 1 if value >= 0 else (-value << 1) - 1))


def _septets(value: int) -> Iterator[int]:
    while value > 0x7F:
        yield (value & 0x7F) | 0x80
        value >>= 7
    yield value


def _read_long(content: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
