"""Avro files that clients wrote, read within limits: no length of the file is believed, and nothing past its end is
read.

Manifest lists and manifests of an append are small, so plain Python is quick enough; PyIceberg's compiled decoder does
not check lengths, which is no way to read what a stranger wrote.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from frazil.scan.manifests import AvroError, parse_schema

Json = Any  # a piece of an Avro schema: a name, a union as a list, or an object
Read = Callable[["Reader"], Any]
Key = int | str  # of a field
NOTHING: frozenset[Key] = frozenset()

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
SCHEMA_BYTES = 64 * 1024  # schemas are kept; Iceberg's have a few kilobytes
RECORD_BYTES = 16  # that a record has at least: those of manifests and their lists have the path of a file
MOST_ITEMS = 200_000  # of all lists of a file that are wanted: the partitions of some ten thousand manifests
SPARE_VALUES = 10_000  # that a file may have more than its bytes allow for
_64_BITS = 2**64 - 1
_LENGTHS = {"float": 4, "double": 8}


class Reader:
    """The next values in some bytes. Raises AvroError where they end too early."""

    __slots__ = ("at", "content", "items", "values")

    def __init__(self, content: bytes) -> None:
        self.content, self.at, self.items, self.values = content, 0, 0, 0

    def long(self) -> int:
        """A number, of one to ten bytes."""
        content, at, number, shift = self.content, self.at, 0, 0
        try:
            while (byte := content[at]) >= 0x80:
                number |= (byte & 0x7F) << shift
                shift += 7
                at += 1
                if shift > 63:
                    raise AvroError("a number is too long")
        except IndexError:
            raise AvroError("it ends too early") from None
        number |= byte << shift
        if number > _64_BITS:
            raise AvroError("a number is too long")
        self.at = at + 1
        return (number >> 1) ^ -(number & 1)

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        start = self.at
        if not 0 <= count <= len(self.content) - start:
            raise AvroError("it ends too early")
        self.at = start + count
        return self.content[start : self.at]

    def block(self) -> bytes:
        """Bytes with their length in front."""
        return self.take(self.long())

    def spend(self, count: int) -> None:
        """Passes when so many more values fit in the bytes that were read. What Iceberg writes has two bytes for three
        values at least (a pair of numbers, and the pair); a schema can declare thousands that take none.
        """
        self.values += count
        if 2 * self.values > 3 * self.at + SPARE_VALUES:
            raise AvroError("it has more values than its bytes allow for")

    def count(self) -> int:
        """The number of items in the next block of a list, of which each has a byte at least; 0 at its end."""
        count = self.long()
        if count < 0:  # the size of the block follows
            count = -count
            self.long()
        if count > len(self.content) - self.at:
            raise AvroError(f"a list says that it has {count} items")
        return count


# --- files -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AvroFile:
    """What an Avro file holds: its properties, the number of its records, and their bytes in a row."""

    properties: dict[str, bytes]
    count: int
    records: bytes

    def text(self, key: str) -> str | None:
        """A property as text; None when there is none."""
        value = self.properties.get(key)
        return None if value is None else value.decode("utf-8", "replace")

    @property
    def schema(self) -> str:
        """The schema of the records as JSON."""
        schema = self.text("avro.schema") or ""
        if len(schema) > SCHEMA_BYTES:
            raise AvroError(f"its schema has {len(schema)} characters")
        return schema


def open_avro(content: bytes, *, most_bytes: int) -> AvroFile:
    """The file with its blocks unpacked, if they have at most `most_bytes`."""
    reader = Reader(content)
    if reader.take(len(MAGIC)) != MAGIC:
        raise AvroError("it does not start as an Avro file does")
    properties: dict[str, bytes] = {}
    while count := reader.count():
        for _ in range(count):
            key = reader.block().decode("utf-8", "replace")
            properties[key] = reader.block()
    sync, total, blocks, room = reader.take(SYNC_BYTES), 0, list[bytes](), most_bytes
    unpack = _unpacker(properties.get("avro.codec", b"null").decode("utf-8", "replace"))
    while reader.at < len(content):
        count, packed = reader.long(), reader.block()
        block = unpack(packed, room)
        if len(block) > room:
            raise AvroError("it unpacks to more than is read")
        if reader.take(SYNC_BYTES) != sync or not 0 <= count <= len(block):
            raise AvroError("a block does not end where it should")
        room -= len(block)
        total += count
        blocks.append(block)
    return AvroFile(properties, total, b"".join(blocks))


def _unpacker(codec: str) -> Callable[[bytes, int], bytes]:
    """A function that unpacks a block, up to a byte more than there is room for."""
    if codec == "null":
        return lambda packed, _room: packed
    if codec == "deflate":
        return _inflate
    if codec == "zstandard":
        return _zstandard_unpacker()
    raise AvroError(f"its blocks are packed with '{codec}', which is not read here")


def _inflate(packed: bytes, room: int) -> bytes:
    unpacker = zlib.decompressobj(-15)
    try:
        content = unpacker.decompress(packed, room + 1)
    except zlib.error as exc:
        raise AvroError(f"a block cannot be unpacked ({exc})") from exc
    if not unpacker.eof and len(content) <= room:
        raise AvroError("a block ends too early")
    return content


def _zstandard_unpacker() -> Callable[[bytes, int], bytes]:
    from zstandard import ZstdDecompressor, ZstdError

    unpacker = ZstdDecompressor()  # one for all blocks: a new one takes memory for the window that a block asks for

    def unpack(packed: bytes, room: int) -> bytes:
        try:
            with unpacker.stream_reader(packed) as reader:
                return bytes(reader.read(room + 1))
        except ZstdError as exc:
            raise AvroError(f"a block cannot be unpacked ({exc})") from exc

    return unpack


# --- records ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def record_reader(schema: str, wanted: frozenset[Key]) -> Read:
    """A function that reads the next record of a schema: a dict of the fields that are wanted, by their ids, by name
    where a field has no id. What is not wanted is read and forgotten.
    """
    try:
        parsed = parse_schema(schema)
        if not isinstance(parsed, dict) or parsed.get("type") != "record":
            raise AvroError("its schema is no record")
        return _reader(parsed, wanted)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as exc:
        raise AvroError(f"its schema is damaged ({type(exc).__name__}: {exc})") from exc


def _reader(schema: Json, wanted: frozenset[Key]) -> Read:
    if isinstance(schema, list):
        return _union([_reader(branch, wanted) for branch in schema])
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        return _record(schema["fields"], wanted)
    if kind == "array":
        return _array(schema["items"], wanted)
    if kind == "fixed":
        return _fixed(int(schema["size"]))
    if kind in _LENGTHS:
        return _fixed(_LENGTHS[kind])
    plain: dict[str, Read] = {
        "null": lambda _reader: None,
        "boolean": lambda reader: reader.take(1) == b"\x01",
        "int": Reader.long,
        "long": Reader.long,
        "bytes": Reader.block,
        "string": lambda reader: reader.block().decode("utf-8"),
    }
    if kind not in plain:
        raise AvroError(f"its schema has a type that Iceberg does not write: {kind}")
    return plain[kind]


def _union(branches: list[Read]) -> Read:
    def read(reader: Reader) -> Any:
        at = reader.long()
        if not 0 <= at < len(branches):
            raise AvroError("a union has no such branch")
        return branches[at](reader)

    return read


def _record(schemas: list[Json], wanted: frozenset[Key]) -> Read:
    fields: list[tuple[Key, Read, bool]] = []
    for field in schemas:
        key = field.get("field-id", field["name"])
        keeps = key in wanted
        fields.append((key, _reader(field["type"], wanted if keeps else NOTHING), keeps))
    count = len(fields) + 1

    def read(reader: Reader) -> dict[Key, Any]:
        reader.spend(count)
        record: dict[Key, Any] = {}
        for key, value, keeps in fields:
            if keeps:
                record[key] = value(reader)
            else:
                value(reader)
        return record

    return read


def _array(items: Json, wanted: frozenset[Key]) -> Read:
    if _least_bytes(items) < 1:
        raise AvroError("its schema has lists of items without a byte")
    item = _reader(items, wanted)

    def skip(reader: Reader) -> None:
        while count := reader.count():
            for _ in range(count):
                item(reader)

    def read(reader: Reader) -> list[Any]:
        values: list[Any] = []
        while count := reader.count():
            reader.items += count
            if reader.items > MOST_ITEMS:
                raise AvroError(f"its lists have more than {MOST_ITEMS} items")
            values += [item(reader) for _ in range(count)]
        return values

    return read if wanted else skip


def _fixed(size: int) -> Read:
    return lambda reader: reader.take(size)


def _least_bytes(schema: Json) -> int:
    """How few bytes a value can have: a list of values without any could claim to have any number of them.

    >>> _least_bytes("null"), _least_bytes(["null", "long"]), _least_bytes({"type": "fixed", "size": 16})
    (0, 1, 16)
    """
    if isinstance(schema, list):
        return 1
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        return sum(_least_bytes(field["type"]) for field in schema["fields"])
    if kind == "fixed":
        return int(schema["size"])
    return 0 if kind == "null" else 1


def read_records(file: AvroFile, wanted: frozenset[Key]) -> Iterator[dict[Key, Any]]:
    """The records of a file, one after the other, with the fields that are wanted."""
    if file.count > len(file.records) // RECORD_BYTES:
        raise AvroError(f"it has {file.count} records in {len(file.records)} bytes")
    read, reader = record_reader(file.schema, wanted), Reader(file.records)
    for _ in range(file.count):
        try:
            record = read(reader)
        except UnicodeDecodeError as exc:
            raise AvroError(f"a text is not UTF-8 ({exc})") from exc
        yield record
    if reader.at != len(file.records):
        raise AvroError("its records are longer or shorter than it says")


# --- writing ---------------------------------------------------------------------------------------------------------


def encode_long(number: int) -> bytes:
    """
    >>> encode_long(0), encode_long(-1), encode_long(64)
    (b'\\x00', b'\\x01', b'\\x80\\x01')
    """
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def encode_block(content: bytes) -> bytes:
    return encode_long(len(content)) + content
