"""Avro files written by the tests themselves, in any schema: as other writers of manifests declare them."""

from __future__ import annotations

import bz2
import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyiceberg.avro.decoder import new_decoder

from frazil.scan.manifests.avro import MAGIC, _properties, _reader, open_avro
from frazil.scan.manifests.avro_values import _number as number
from frazil.scan.manifests.avro_values import any_reader

SYNC = bytes(range(16))
PACK: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda block: block,
    "deflate": lambda block: zlib.compress(block)[2:-4],
    "zstandard": lambda block: pa.compress(block, codec="zstd", asbytes=True),
    "snappy": lambda block: pa.compress(block, codec="snappy", asbytes=True) + zlib.crc32(block).to_bytes(4, "big"),
    "bzip2": bz2.compress,
}


def read_avro(content: bytes) -> tuple[Any, dict[str, str], list[dict[str, Any]]]:
    """The schema, the other properties and the records of a file."""
    file, decoder = open_avro(content), new_decoder(content)
    decoder.read(len(MAGIC))
    properties = _properties(decoder, len(content))
    records = new_decoder(file.records)
    read = any_reader(records, file.schema, lambda kind, schema: _reader(records, kind, schema))
    schema = json.loads(properties.pop("avro.schema"))
    properties.pop("avro.codec", None)
    return schema, properties, [read() for _ in range(file.count)]


def write_avro(schema: Any, properties: dict[str, str], records: list[dict[str, Any]], *, codec: str = "null") -> bytes:
    """A file of these records: one block."""
    head = {**properties, "avro.schema": json.dumps(schema), "avro.codec": codec}
    pairs = b"".join(text(key) + text(value) for key, value in head.items())
    names: dict[str, Any] = {}
    block = PACK[codec](b"".join(encode(schema, record, names) for record in records))
    return MAGIC + number(len(head)) + pairs + b"\x00" + SYNC + number(len(records)) + number(len(block)) + block + SYNC


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return number(len(raw)) + raw


def encode(schema: Any, value: Any, names: dict[str, Any]) -> bytes:
    """A value in Avro; a field that a record does not have is null."""
    if isinstance(schema, list):
        at = next(at for at, branch in enumerate(schema) if (branch in ("null", {"type": "null"})) == (value is None))
        return number(at) + (b"" if value is None else encode(schema[at], value, names))
    if isinstance(schema, dict) and "name" in schema:
        names[schema["name"]] = schema
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, dict | list):
        return encode(kind, value, names)
    match kind:
        case "record":
            return b"".join(encode(field["type"], value.get(field["name"]), names) for field in schema["fields"])
        case "array":
            items = b"".join(encode(schema["items"], item, names) for item in value)
            return (number(len(value)) + items if value else b"") + b"\x00"
        case "map":
            items = b"".join(text(key) + encode(schema["values"], item, names) for key, item in value.items())
            return (number(len(value)) + items if value else b"") + b"\x00"
        case "int" | "long" | "enum":
            return number(value)
        case "string" | "bytes":
            return text(value)
        case "boolean":
            return bytes([value])
        case "float" | "double":
            return struct.pack("<f" if kind == "float" else "<d", value)
        case "fixed":
            return bytes(value)
        case "null":
            return b""
        case _:
            return encode(names[kind], value, names)
