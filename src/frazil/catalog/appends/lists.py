"""Manifest lists as the records that they consist of, each as its bytes, so that one list is made of another without
decoding what both share.

Java and PyIceberg write the records of a format version alike, byte for byte. So the list of a fast append is its new
records and then those of its parent, and a comparison of bytes tells that. A list whose writer took another order of
fields is decoded and encoded again in the common one. Manifests that name no live file may be left out of a new list.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple

from frazil.catalog.appends.avro import (
    MAGIC,
    SYNC_BYTES,
    AvroFile,
    Key,
    Reader,
    encode_block,
    encode_long,
    read_records,
)
from frazil.catalog.appends.problems import NotRebased
from frazil.scan.manifests import AvroError, parse_schema

PACK_FROM_BYTES = 64 * 1024  # smaller lists are quicker to write than to pack
KEPT_RECORD_BYTES = 2048
DATA = 0
_NULL, _VALUE = b"\x00", b"\x02"  # the branch of an optional field
_ROW_ID_VERSION = 3
# Field ids of the specification, in the order in which the records have them, up to the partitions.
_NUMBERS = (501, 502, 517, 515, 516, 503, 504, 505, 506, 512, 513, 514)
_FIELDS: frozenset[Key] = frozenset((500, *_NUMBERS, 507, 508, 509, 518, 510, 511, 519, 520))
_DEFAULTS = {517: DATA, 515: 0, 516: 0}  # lists of format 1 do not have them


class Listed(NamedTuple):
    """What a list says of a manifest."""

    path: str
    length: int
    spec_id: int
    content: int
    sequence: int
    min_sequence: int
    snapshot_id: int
    added_files: int
    existing_files: int
    deleted_files: int
    added_rows: int
    existing_rows: int
    deleted_rows: int
    partitions: bytes  # as they are in the file
    key_metadata: bytes | None
    first_row_id: int | None

    @property
    def identity(self) -> tuple[Any, ...]:
        """What tells whether it is the same manifest, with the same place in the table's history."""
        return *self[:7], self.first_row_id

    @property
    def is_live(self) -> bool:
        """Whether it names a file that is part of the table."""
        return self.added_files + self.existing_files > 0


@dataclass(frozen=True, slots=True)
class ManifestList:
    """The records of a manifest list, one by one and in a row."""

    records: tuple[bytes, ...]
    raw: bytes

    @classmethod
    def of(cls, records: Sequence[bytes]) -> ManifestList:
        return cls(tuple(records), b"".join(records))

    @property
    def nbytes(self) -> int:
        return 2 * len(self.raw) + 64 * len(self.records)


EMPTY = ManifestList((), b"")


# --- reading ---------------------------------------------------------------------------------------------------------


def read_list(file: AvroFile, version: int) -> ManifestList:
    """The records of a list, in the common layout of a format version."""
    if _layout(file.schema) == _own_layout(version):
        return ManifestList(_split(file.records, file.count, version), file.records)
    return ManifestList.of([_encode_fields(record, version) for record in read_records(file, _FIELDS)])


def find_added(file: AvroFile, parent: ManifestList, version: int) -> tuple[bytes, ...]:
    """The records that a client's list adds to those of its parent; NotRebased if it lacks or changes one of these."""
    if _layout(file.schema) == _own_layout(version) and file.records.endswith(parent.raw):
        own = file.records[: len(file.records) - len(parent.raw)]
        return _split(own, file.count - len(parent.records), version)
    known = {describe(record, version).identity: record for record in parent.records}
    added = []
    for record in read_list(file, version).records:
        if known.pop(describe(record, version).identity, None) is None:
            added.append(record)
    if any(describe(record, version).is_live for record in known.values()):
        raise NotRebased("it has merged or replaced manifests of its parent")
    return tuple(added)


def _split(records: bytes, count: int, version: int) -> tuple[bytes, ...]:
    """Records of the common layout one by one."""
    reader, parts = Reader(records), []
    for _ in range(count):
        start = reader.at
        _read(reader, version)
        parts.append(records[start : reader.at])
    if reader.at != len(records):
        raise AvroError("its records are longer or shorter than it says")
    return tuple(parts)


def describe(record: bytes, version: int) -> Listed:
    """What a record of the common layout says. What short ones say is kept, as most are asked for again."""
    return _describe(record, version) if len(record) <= KEPT_RECORD_BYTES else _read(Reader(record), version)


@lru_cache(maxsize=4096)
def _describe(record: bytes, version: int) -> Listed:
    return _read(Reader(record), version)


def _read(reader: Reader, version: int) -> Listed:
    try:
        path = reader.block().decode("utf-8")
    except UnicodeDecodeError as exc:
        raise AvroError("a path is not UTF-8") from exc
    numbers = [reader.long() for _ in _NUMBERS]
    start = reader.at
    _skip_partitions(reader)
    partitions = reader.content[start : reader.at]
    key_metadata = reader.block() if _has_value(reader) else None
    first_row_id = reader.long() if version >= _ROW_ID_VERSION and _has_value(reader) else None
    return Listed._make((path, *numbers, partitions, key_metadata, first_row_id))


def _has_value(reader: Reader) -> bool:
    branch = reader.take(1)
    if branch not in (_NULL, _VALUE):
        raise AvroError("a union has no such branch")
    return branch == _VALUE


def _skip_partitions(reader: Reader) -> None:
    if not _has_value(reader):
        return
    while count := reader.count():
        for _ in range(count):
            reader.take(1)
            if _has_value(reader):
                reader.take(1)
            for _ in range(2):
                if _has_value(reader):
                    reader.block()


# --- layouts ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _layout(schema: str) -> Any:
    """How the bytes of a schema's records are laid out: field ids and types, without names."""
    try:
        return _shape(parse_schema(schema))
    except (KeyError, TypeError, ValueError, RecursionError) as exc:
        raise AvroError(f"its schema is damaged ({type(exc).__name__}: {exc})") from exc


def _shape(schema: Any) -> Any:
    if isinstance(schema, list):
        return ("union", *map(_shape, schema))
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        return ("record", *((field.get("field-id"), _shape(field["type"])) for field in schema["fields"]))
    if kind == "array":
        return ("array", _shape(schema["items"]))
    return {"int": "number", "long": "number"}.get(kind, kind)


@cache
def _own_schema(version: int) -> str:
    from pyiceberg.manifest import MANIFEST_LIST_FILE_SCHEMAS  # large: a server that rebases nothing does not load it
    from pyiceberg.utils.schema_conversion import AvroSchemaConversion

    converted = AvroSchemaConversion().iceberg_to_avro(MANIFEST_LIST_FILE_SCHEMAS[version], schema_name="manifest_file")
    return json.dumps(converted)


@cache
def _own_layout(version: int) -> Any:
    return _layout(_own_schema(version))


# --- writing ---------------------------------------------------------------------------------------------------------


def encode(listed: Listed, version: int) -> bytes:
    """A record of the common layout."""
    parts = [encode_block(listed.path.encode()), *map(encode_long, listed[1:13]), listed.partitions]
    parts.append(_NULL if listed.key_metadata is None else _VALUE + encode_block(listed.key_metadata))
    if version >= _ROW_ID_VERSION:
        parts.append(_NULL if listed.first_row_id is None else _VALUE + encode_long(listed.first_row_id))
    return b"".join(parts)


def _encode_fields(record: dict[Any, Any], version: int) -> bytes:
    """The same from the fields of a record in another layout."""
    path, numbers = record.get(500), [_number(record, field_id) for field_id in _NUMBERS]
    key_metadata, first_row_id = record.get(519), record.get(520)
    if not isinstance(path, str) or not isinstance(key_metadata, bytes | None):
        raise AvroError("it is no manifest list")
    if type(first_row_id) not in (int, type(None)):
        raise AvroError("it is no manifest list")
    partitions = _encode_partitions(record.get(507))
    return encode(Listed._make((path, *numbers, partitions, key_metadata, first_row_id)), version)


def _number(record: dict[Any, Any], field_id: int) -> int:
    value = record.get(field_id)
    value = _DEFAULTS.get(field_id) if value is None else value
    if type(value) is not int:
        raise AvroError(f"it has no field {field_id}, or no number there")
    return value


def _encode_partitions(partitions: Any) -> bytes:
    if partitions is None:
        return _NULL
    if not isinstance(partitions, list) or not all(isinstance(partition, dict) for partition in partitions):
        raise AvroError("it is no manifest list")
    summaries = b"".join(map(_encode_partition, partitions))
    return _VALUE + (encode_long(len(partitions)) + summaries if partitions else b"") + b"\x00"


def _encode_partition(partition: dict[Any, Any]) -> bytes:
    has_null, has_nan = partition.get(509), partition.get(518)
    bounds = (partition.get(510), partition.get(511))
    if not isinstance(has_null, bool) or not isinstance(has_nan, bool | None):
        raise AvroError("it is no manifest list")
    if not all(isinstance(bound, bytes | None) for bound in bounds):
        raise AvroError("it is no manifest list")
    nan = _NULL if has_nan is None else _VALUE + bytes([has_nan])
    return bytes([has_null]) + nan + b"".join(_NULL if b is None else _VALUE + encode_block(b) for b in bounds)


def write_list(manifests: ManifestList, version: int, properties: dict[str, str]) -> bytes:
    """The file of a manifest list, with these properties in its head."""
    packs = len(manifests.raw) >= PACK_FROM_BYTES
    head = {"avro.schema": _own_schema(version), "avro.codec": "deflate" if packs else "null"} | properties
    pairs = [encode_block(key.encode()) + encode_block(value.encode()) for key, value in head.items()]
    sync, records = os.urandom(SYNC_BYTES), _deflate(manifests.raw) if packs else manifests.raw
    block = [encode_long(len(manifests.records)), encode_block(records), sync] if manifests.records else []
    return b"".join((MAGIC, encode_long(len(pairs)), *pairs, b"\x00", sync, *block))


def _deflate(content: bytes) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    return packer.compress(content) + packer.flush()
