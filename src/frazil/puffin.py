"""Puffin files: blobs of any kind that belong to a snapshot of a table, written and read by the specification.

from frazil.puffin import Blob, add_blobs, read_blobs

add_blobs(table, [Blob("my-sketch-v1", fields=(3,), payload=sketch)])    # one more commit: the snapshot's statistics
file names them for info, payload in read_blobs(table, type="my-sketch-v1"):
    ...

PyIceberg reads whole Puffin files and writes none; here a reader fetches the footer and then the blobs that are asked
for.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from frazil.errors import DataFileMissing, DataFileUnreadable, HistoryError

if TYPE_CHECKING:
    from pyiceberg.io import InputFile, OutputFile
    from pyiceberg.table import Table
    from pyiceberg.table.statistics import StatisticsFile

MAGIC = b"PFA1"
TAIL = 12  # bytes behind the footer's payload: its size, flags, magic
FOOTER_COMPRESSED = 1
# A blob may unpack to MOST_RATIO times its bytes; to FREE_BYTES in any case, for equal numbers compress well.
MOST_RATIO, FREE_BYTES = 100, 16 * 1024 * 1024
ZSTD, LZ4 = "zstd", "lz4"
# PyIceberg 0.12 cannot load a table whose metadata names a blob of another type. Others are found through the file's
# own footer.
NAMED_IN_METADATA = ("apache-datasketches-theta-v1", "deletion-vector-v1")


@dataclass(frozen=True)
class Blob:
    """Bytes to store, of a type that says how they are to be read, about fields of the table (by their ids)."""

    type: str
    fields: tuple[int, ...]
    payload: bytes
    properties: Mapping[str, str] = field(default_factory=dict)
    codec: str | None = ZSTD  # None: as they are


@dataclass(frozen=True)
class BlobInfo:
    """What a footer says of a blob."""

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    codec: str | None
    properties: Mapping[str, str]

    @classmethod
    def of(cls, blob: Mapping[str, Any]) -> BlobInfo:
        """A blob as the footer has it."""
        return cls(
            type=blob["type"],
            fields=tuple(blob["fields"]),
            snapshot_id=blob["snapshot-id"],
            sequence_number=blob["sequence-number"],
            offset=int(blob["offset"]),
            length=int(blob["length"]),
            codec=blob.get("compression-codec"),
            properties=dict(blob.get("properties") or {}),
        )

    def to_json(self) -> dict[str, Any]:
        """The blob as the footer has it."""
        blob = {
            "type": self.type,
            "fields": list(self.fields),
            "snapshot-id": self.snapshot_id,
            "sequence-number": self.sequence_number,
        }
        blob |= {"offset": self.offset, "length": self.length}
        blob |= {"compression-codec": self.codec} if self.codec else {}
        return blob | ({"properties": dict(self.properties)} if self.properties else {})


@dataclass(frozen=True)
class Written:
    """A finished Puffin file."""

    size: int
    footer_size: int
    blobs: tuple[BlobInfo, ...]


class PuffinWriter:
    """Writes a Puffin file, a blob at a time; it is complete when the `with` block ends without an error."""

    def __init__(self, output: OutputFile, *, properties: Mapping[str, str] | None = None) -> None:
        self._output, self._properties = output, {"created-by": "Frazil", **(properties or {})}
        self._blobs: list[BlobInfo] = []
        self.written: Written | None = None

    def __enter__(self) -> PuffinWriter:
        self._stream = self._output.create(overwrite=False)
        self._stream.write(MAGIC)
        self._at = len(MAGIC)
        return self

    def add(self, blob: Blob, *, snapshot_id: int, sequence_number: int) -> BlobInfo:
        """The blob is in the file, compressed if it says so."""
        stored = blob.payload if blob.codec is None else _compress(blob.payload, blob.codec)
        info = BlobInfo(
            blob.type,
            tuple(blob.fields),
            snapshot_id,
            sequence_number,
            self._at,
            len(stored),
            blob.codec,
            dict(blob.properties),
        )
        return self.copy(info, stored)

    def copy(self, info: BlobInfo, stored: bytes) -> BlobInfo:
        """A blob of another file is in this one, as it was stored there."""
        placed = BlobInfo(**{**vars(info), "offset": self._at, "length": len(stored)})
        self._stream.write(stored)
        self._at += len(stored)
        self._blobs.append(placed)
        return placed

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            footer = _footer(self._blobs, self._properties)
            self._stream.write(footer)
            self.written = Written(self._at + len(footer), len(footer), tuple(self._blobs))
        self._stream.close()


class PuffinReader:
    """A Puffin file's blobs: the footer is read at once, a blob's bytes when they are asked for."""

    def __init__(self, source: InputFile) -> None:
        self._source = source
        try:
            size = len(source)
            footer = json.loads(self._read_footer(size))
            self.blobs = tuple(BlobInfo.of(blob) for blob in footer["blobs"])
            self.properties: dict[str, str] = dict(footer.get("properties") or {})
        except FileNotFoundError as exc:
            raise DataFileMissing(source.location) from exc
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as exc:
            raise self._damaged(f"its footer cannot be understood ({exc})") from exc
        if any(info.offset < len(MAGIC) or info.length < 0 or info.offset + info.length > size for info in self.blobs):
            raise self._damaged("its footer names a blob that lies outside of it")

    def read(self, info: BlobInfo) -> bytes:
        """The blob's own bytes. One that unpacks to far more than it has is damaged, or meant to fill the memory."""
        stored = self.read_stored(info)
        if info.codec is None:
            return stored
        if info.codec not in (ZSTD, LZ4):
            raise self._damaged(f"the blob {info.type} is compressed with '{info.codec}'")
        return self._unpack(stored, info.codec)

    def read_stored(self, info: BlobInfo) -> bytes:
        """The blob's bytes as they are in the file."""
        data = self._read_range(info.offset, info.length)
        if len(data) < info.length:
            raise self._damaged(f"it ends inside the blob {info.type}")
        return data

    def _read_footer(self, size: int) -> bytes:
        """The footer's payload: magic, payload, its size, flags, magic."""
        tail = self._read_range(max(0, size - TAIL), TAIL)
        if len(tail) < TAIL or tail[8:] != MAGIC:
            raise self._damaged("it does not end as a Puffin file does")
        length, flags = int.from_bytes(tail[:4], "little", signed=True), tail[4]
        start = size - TAIL - length - len(MAGIC)
        if length < 0 or start < len(MAGIC) or flags & ~FOOTER_COMPRESSED:
            raise self._damaged("its last bytes do not fit a Puffin file")
        data = self._read_range(start, len(MAGIC) + length)
        if data[: len(MAGIC)] != MAGIC:
            raise self._damaged("no footer begins where it should")
        payload = data[len(MAGIC) :]
        return self._unpack(payload, LZ4) if flags & FOOTER_COMPRESSED else payload

    def _unpack(self, stored: bytes, codec: str) -> bytes:
        most = max(FREE_BYTES, MOST_RATIO * len(stored))
        try:
            unpacked = _decompress(stored, codec, most + 1)
        except OSError as exc:
            raise self._damaged(f"it cannot be unpacked ({exc})") from exc
        if len(unpacked) > most:
            raise self._damaged(f"{len(stored)} bytes of it unpack to more than {most}")
        return unpacked

    def _read_range(self, start: int, length: int) -> bytes:
        with self._source.open() as stream:
            stream.seek(start)
            return bytes(stream.read(length))

    def _damaged(self, reason: str) -> DataFileUnreadable:
        return DataFileUnreadable(self._source.location, reason)


def add_blobs(table: Table, blobs: Sequence[Blob], *, snapshot_id: int | None = None) -> StatisticsFile:
    """The blobs belong to a snapshot (the current one), in addition to those that it has; one of the same type and
    fields is replaced.
    """
    current = table.metadata.current_snapshot_id if snapshot_id is None else snapshot_id
    if current is None:
        name = ".".join(table.name())
        hint = "write rows first: blobs belong to a snapshot"
        raise HistoryError(f"{name} has no snapshot", hint=hint, table=name)
    return add_blobs_to_each(table, blobs, [current])[0]


def add_blobs_to_each(table: Table, blobs: Sequence[Blob], snapshot_ids: Sequence[int]) -> list[StatisticsFile]:
    """The same for several snapshots, in one commit."""
    files = [_with_blobs(table, blobs, snapshot_id) for snapshot_id in snapshot_ids]
    with table.update_statistics() as update:
        for file in files:
            update.set_statistics(file)
    return files


def _with_blobs(table: Table, blobs: Sequence[Blob], snapshot_id: int) -> StatisticsFile:
    """A new statistics file of a snapshot, with what the one before has."""
    from pyiceberg.table.statistics import StatisticsFile

    snapshot = table.snapshot_by_id(snapshot_id)
    if snapshot is None:
        name = ".".join(table.name())
        hint = "frazil log --all lists those that are kept"
        raise HistoryError(f"{name} has no snapshot {snapshot_id}", hint=hint, table=name)
    path = f"{table.location()}/metadata/{snapshot.snapshot_id}-{uuid.uuid4()}.stats"
    replaced = {(blob.type, tuple(blob.fields)) for blob in blobs}
    with PuffinWriter(table.io.new_output(path)) as writer:
        for reader, info in _stored(table, snapshot.snapshot_id):
            if (info.type, info.fields) not in replaced:
                writer.copy(info, reader.read_stored(info))
        for blob in blobs:
            writer.add(blob, snapshot_id=snapshot.snapshot_id, sequence_number=snapshot.sequence_number or 0)
    assert writer.written is not None
    named = [blob.to_json() for blob in writer.written.blobs if blob.type in NAMED_IN_METADATA]
    about = {"snapshot-id": snapshot.snapshot_id, "statistics-path": path, "file-size-in-bytes": writer.written.size}
    return StatisticsFile.model_validate(
        about | {"file-footer-size-in-bytes": writer.written.footer_size, "blob-metadata": named}
    )


def read_blobs(
    table: Table, *, type: str | None = None, snapshot_id: int | None = None
) -> Iterator[tuple[BlobInfo, bytes]]:
    """The blobs of a snapshot (the current one), each with its bytes; of one type, or all."""
    current = table.metadata.current_snapshot_id if snapshot_id is None else snapshot_id
    for reader, info in _stored(table, current):
        if type in (None, info.type):
            yield info, reader.read(info)


def _stored(table: Table, snapshot_id: int | None) -> Iterator[tuple[PuffinReader, BlobInfo]]:
    for statistic in table.metadata.statistics:
        if statistic.snapshot_id == snapshot_id:
            reader = PuffinReader(table.io.new_input(statistic.statistics_path))
            yield from ((reader, info) for info in reader.blobs)


def _footer(blobs: Sequence[BlobInfo], properties: Mapping[str, str]) -> bytes:
    payload = json.dumps({"blobs": [info.to_json() for info in blobs], "properties": dict(properties)}).encode()
    return MAGIC + payload + len(payload).to_bytes(4, "little", signed=True) + bytes(4) + MAGIC


def _compress(payload: bytes, codec: str) -> bytes:
    """One frame that says how long its content is, as the specification asks."""
    import pyarrow as pa

    if codec != ZSTD:
        raise ValueError(f"blobs are written as they are or with '{ZSTD}', not with '{codec}'")
    return bytes(pa.compress(payload, codec=codec, asbytes=True))


def _decompress(stored: bytes, codec: str, most: int) -> bytes:
    """The unpacked bytes; those beyond `most` are left out."""
    import pyarrow as pa

    with pa.CompressedInputStream(pa.BufferReader(stored), codec) as stream:
        return bytes(stream.read(most))
