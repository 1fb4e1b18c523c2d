"""Reads a value of any Avro type: for fields that Iceberg does not have, and for lists whose items may be null."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyiceberg.avro.decoder import BinaryDecoder

from frazil.scan.manifests.avro_schema import NUMBERS, AvroError, Json, is_plain, kind_of, null_index

MOST_ITEMS = 1_000_000  # columns, or splits of a file

Read = Callable[[], Any]


def any_reader(decoder: BinaryDecoder, schema: Json, plain: Callable[[str, Json], Read]) -> Read:
    """A function that reads the next value; `plain` makes those of types that hold no others."""

    def reader(inner: Json) -> Read:
        return any_reader(decoder, inner, plain)

    if isinstance(schema, list):
        return _union(decoder, [reader(branch) for branch in schema])
    kind = kind_of(schema)
    if kind == "record":
        return _record([(field["name"], reader(field["type"])) for field in schema["fields"]])
    if kind == "array":
        return _blocks(decoder, reader(schema["items"]))
    if kind == "map":
        key, value = plain("string", "string"), reader(schema["values"])
        return _blocks(decoder, lambda: (key(), value()))
    return plain("int" if kind == "enum" else kind, schema)


def _union(decoder: BinaryDecoder, branches: list[Read]) -> Read:
    def read() -> Any:
        at = decoder.read_int()
        if not 0 <= at < len(branches):
            raise AvroError("a union has no such branch")
        return branches[at]()

    return read


def _record(fields: list[tuple[str, Read]]) -> Read:
    return lambda: {name: read() for name, read in fields}


def _blocks(decoder: BinaryDecoder, read_item: Read) -> Read:
    def read() -> list[Any]:
        items: list[Any] = []
        while count := decoder.read_int():
            if count < 0:  # the block's size follows
                count = -count
                decoder.read_int()
            if len(items) + count > MOST_ITEMS:
                raise AvroError(f"a list says that it has {len(items) + count} items")
            items += [read_item() for _ in range(count)]
        return items

    return read


def is_regular_list(schema: Json) -> bool:
    """Whether an array is as Iceberg's writers have it: items that are never null, and numbers, records, or pairs with
    an int before.
    """
    items = schema["items"]
    if isinstance(items, list):
        return False
    return kind_of(items) in (*NUMBERS, "record")


def is_regular_map(schema: Json) -> bool:
    """Whether the pairs of a map are an int and a number or bytes, neither of them a union."""
    key, value = (field["type"] for field in schema["items"]["fields"])
    kinds = ("bytes", *NUMBERS)
    return (
        null_index(key) < 0
        and null_index(value) < 0
        and is_plain(value)
        and kind_of(key) in NUMBERS
        and kind_of(value) in kinds
    )


def encode_bounds(bounds: dict[int, bytes]) -> bytes:
    """A map from field ids to bytes in its plain Avro form.

    >>> encode_bounds({1: b"ab"})
    b'\\x02\\x02\\x04ab\\x00'
    """
    pairs = b"".join(_number(key) + _number(len(value)) + value for key, value in bounds.items())
    return (_number(len(bounds)) + pairs if bounds else b"") + b"\x00"


def _number(value: int) -> bytes:
    rest, number = value << 1 if value >= 0 else (-value << 1) - 1, bytearray()
    while rest > 0x7F:
        number.append(rest & 0x7F | 0x80)
        rest >>= 7
    number.append(rest)
    return bytes(number)
