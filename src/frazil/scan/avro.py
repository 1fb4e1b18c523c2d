"""Avro files as Arrow columns, without an object for each record: what manifests and manifest lists are made of.

A reader is compiled from the file's own schema: one step a field, which reads the field of the next record and appends it to flat lists.
They become Arrow arrays when the file ends. PyIceberg's compiled decoder reads the bytes; what is spared is its objects. Fields are found
by their Iceberg field ids, so that names and order do not matter.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection
from typing import Any

import pyarrow as pa
from pyiceberg.avro.codecs import KNOWN_CODECS
from pyiceberg.avro.decoder import BinaryDecoder, new_decoder

Step = Callable[[], None]
Json = Any  # a piece of an Avro schema: a name, a union as a list, or an object

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
MOST_ITEMS = 1_000_000  # columns, or splits of a file
NUMBERS = ("int", "long")
DAMAGE = (
    EOFError,
    KeyError,
    TypeError,
    IndexError,
    OverflowError,
    SystemError,
    MemoryError,
    UnicodeDecodeError,
    json.JSONDecodeError,
    zlib.error,
)


class AvroError(ValueError):
    """The bytes are no Avro file that Iceberg could have written."""


class Column:
    """The values of one field, growing record by record."""

    def __init__(self, schema: Json) -> None:
        self.schema = schema
        self.values: list[Any] = []

    def array(self) -> pa.Array:
        """The values as Arrow: whole numbers as 64 bits, text as text, everything else as the bytes that it is."""
        return pa.array(self.values, arrow_type(self.schema))


class ListColumn:
    """Lists, or maps by field id: how long each record's is, and then all of them in a row."""

    def __init__(self, value: Json, *, is_map: bool) -> None:
        self.value, self.is_map = value, is_map
        self.lengths: list[int | None] = []
        self.keys: list[int] = []
        self.values: list[Any] = []

    def array(self) -> pa.ListArray:
        """A list array; of (key, value), when it is a map."""
        values: pa.Array = pa.array(self.values, arrow_type(self.value))
        if self.is_map:
            values = pa.StructArray.from_arrays([pa.array(self.keys, pa.int32()), values], ["key", "value"])
        offsets, total = [0], 0
        for length in self.lengths:
            total += length or 0
            offsets.append(total)
        mask = pa.array([length is None for length in self.lengths], pa.bool_()) if None in self.lengths else None
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, mask=mask)


class RecordsColumn(ListColumn):
    """Lists of records, such as the summaries of partition fields in a manifest list."""

    def __init__(self) -> None:
        super().__init__("null", is_map=False)
        self.inner = Columns()


class Columns(dict[int, "Column | ListColumn | Columns"]):
    """The columns of a record by field id; a record inside of it has its own."""

    def plain(self, field_id: int) -> pa.Array | None:
        """The column of a plain field; None when the file does not have it."""
        found = self.get(field_id)
        return found.array() if isinstance(found, Column) else None

    def lists(self, field_id: int) -> pa.ListArray | None:
        """The column of a list or map; None when the file does not have it."""
        found = self.get(field_id)
        return found.array() if isinstance(found, ListColumn) else None

    def record(self, field_id: int) -> Columns:
        """The columns of a record inside of this one."""
        found = self.get(field_id)
        return found if isinstance(found, Columns) else Columns()


def arrow_type(schema: Json) -> pa.DataType:
    """
    >>> arrow_type(["null", {"type": "int", "logicalType": "date"}])
    DataType(int64)
    """
    known = {"boolean": pa.bool_(), "float": pa.float64(), "double": pa.float64(), "string": pa.string(), "null": pa.null()}
    name = kind_of(schema)
    return pa.int64() if name in NUMBERS else known.get(name, pa.binary())


def kind_of(schema: Json) -> str:
    """
    >>> kind_of(["null", {"type": "fixed", "size": 16, "logicalType": "uuid"}])
    'fixed'
    """
    plain = branch(schema)
    return str(plain["type"] if isinstance(plain, dict) else plain)


def branch(schema: Json) -> Json:
    """The schema without `null`; Iceberg has no other unions."""
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        if len(others) != 1:
            raise AvroError(f"a union that Iceberg does not write: {schema}")
        return branch(others[0])
    if isinstance(schema, dict) and isinstance(schema["type"], dict | list):
        return branch(schema["type"])
    return schema


def read_avro(content: bytes, *, unwanted: Collection[int] = ()) -> Columns:
    """All records of an Avro file as columns. Fields that are not wanted are passed over."""
    try:
        properties, count, records = _open(content)
        columns, decoder = Columns(), new_decoder(records)
        step = _record(decoder, json.loads(properties["avro.schema"]), columns, frozenset(unwanted))
        for _ in range(count):
            step()
        # The compiled decoder reads on behind the end without a word: what it found there must not get out.
        if decoder.tell() != len(records):
            raise AvroError("its records are longer or shorter than it says")
    except DAMAGE as exc:
        raise AvroError(f"it is damaged or not Avro ({type(exc).__name__}: {exc})") from exc
    return columns


def _open(content: bytes) -> tuple[dict[str, str], int, bytes]:
    """The file's properties, how many records there are, and all of them in a row."""
    decoder = new_decoder(content)
    if content[: len(MAGIC)] != MAGIC:
        raise AvroError("it does not start as an Avro file does")
    decoder.read(len(MAGIC))
    properties = _properties(decoder, len(content))
    sync, total, blocks = decoder.read(SYNC_BYTES), 0, []
    codec = KNOWN_CODECS[properties.get("avro.codec", "null")]  # type: ignore[index]
    while decoder.tell() < len(content):
        count, block = decoder.read_int(), _bytes(decoder, len(content))
        blocks.append(codec.decompress(block) if codec else block)
        if decoder.read(SYNC_BYTES) != sync:
            raise AvroError("a block does not end where it should")
        if not 0 <= count <= len(blocks[-1]):
            raise AvroError(f"a block of {len(blocks[-1])} bytes says that it has {count} records")
        total += count
    return properties, total, b"".join(blocks)


def _properties(decoder: BinaryDecoder, end: int) -> dict[str, str]:
    found: dict[str, str] = {}
    while count := decoder.read_int():
        if count < 0:
            decoder.read_int()
        for _ in range(abs(count)):
            key = _bytes(decoder, end).decode()
            found[key] = _bytes(decoder, end).decode("utf-8", "replace")
    return found


def _bytes(decoder: BinaryDecoder, end: int) -> bytes:
    length = decoder.read_int()
    if not 0 <= length <= end - decoder.tell():
        raise AvroError("it ends too early")
    return decoder.read(length)


# --- one step a field ------------------------------------------------------------------------------------------------------------
# `null_at` is where a union has its null: 0 or 1; -1 when the field is never null. The decoder's methods are bound once a file.


def _record(decoder: BinaryDecoder, schema: Json, columns: Columns, unwanted: frozenset[int]) -> Step:
    steps = tuple(_field(decoder, field, columns, unwanted) for field in schema["fields"])

    def read_record() -> None:
        for step in steps:
            step()

    return read_record


def _field(decoder: BinaryDecoder, field: Json, columns: Columns, unwanted: frozenset[int]) -> Step:
    schema, plain, kind = field["type"], branch(field["type"]), kind_of(field["type"])
    null_at = schema.index("null") if isinstance(schema, list) else -1
    field_id = field.get("field-id", -1 - len(columns))
    if kind == "record":
        if null_at >= 0:
            raise AvroError(f"the record {field['name']} may be missing, which Iceberg does not write")
        columns[field_id] = inner = Columns()
        return _record(decoder, plain, inner, unwanted)
    if kind == "array":
        column = _list_column(plain)
        if field_id not in unwanted:
            columns[field_id] = column
        return _list(decoder, column, branch(plain["items"]), null_at, keep=field_id not in unwanted)
    columns[field_id] = plain_column = Column(schema)
    return _plain(decoder, _reader(decoder, kind, plain), plain_column, null_at)


def _reader(decoder: BinaryDecoder, kind: str, schema: Json) -> Callable[[], Any]:
    if kind == "fixed":
        size = schema["size"]
        return lambda: decoder.read(size)
    known: dict[str, Callable[[], Any]] = {
        "int": decoder.read_int,
        "long": decoder.read_int,
        "string": decoder.read_utf8,
        "bytes": decoder.read_bytes,
        "boolean": decoder.read_boolean,
        "float": decoder.read_float,
        "double": decoder.read_double,
        "null": lambda: None,
    }
    return known[kind]


def _plain(decoder: BinaryDecoder, read: Callable[[], Any], column: Column, null_at: int) -> Step:
    read_int, append = decoder.read_int, column.values.append
    if null_at < 0:
        return lambda: append(read())

    def read_value() -> None:
        append(None if read_int() == null_at else read())

    return read_value


def _list_column(schema: Json) -> ListColumn:
    items = branch(schema["items"])
    if kind_of(items) != "record":
        return ListColumn(items, is_map=False)
    if schema.get("logicalType") == "map":
        return ListColumn(items["fields"][1]["type"], is_map=True)
    return RecordsColumn()


def _list(decoder: BinaryDecoder, column: ListColumn, items: Json, null_at: int, *, keep: bool) -> Step:
    """The step of a list or map: its blocks, each with a count before it, until one is empty."""
    read_int, lengths, read_some = decoder.read_int, column.lengths, _items(decoder, column, items, keep=keep)

    def read_list() -> None:
        if null_at >= 0 and read_int() == null_at:
            lengths.append(None)
            return
        total = 0
        while count := read_int():
            if count < 0:  # the block's size follows
                count = -count
                read_int()
            if count > MOST_ITEMS:
                raise AvroError(f"a list says that it has {count} items")
            read_some(count)
            total += count
        lengths.append(total)

    return read_list


def _items(decoder: BinaryDecoder, column: ListColumn, items: Json, *, keep: bool) -> Callable[[int], None]:
    read_ints, keys, values = decoder.read_ints, column.keys, column.values
    if isinstance(column, RecordsColumn):
        step = _record(decoder, items, column.inner, frozenset())

        def read_records(count: int) -> None:
            for _ in range(count):
                step()

        return read_records
    if not column.is_map:
        return lambda count: values.extend(read_ints(count))
    if kind_of(column.value) == "bytes":
        return lambda count: _read_bounds(decoder, count, keys, values)

    def read_counts(count: int) -> None:
        pairs = read_ints(2 * count)
        if keep:
            keys.extend(pairs[::2])
            values.extend(pairs[1::2])

    return read_counts


def _read_bounds(decoder: BinaryDecoder, count: int, keys: list[int], values: list[bytes]) -> None:
    found: dict[int, bytes] = {}
    decoder.read_int_bytes_dict(count, found)
    if len(found) != count:
        raise AvroError("a map has one key twice")
    keys.extend(found)
    values.extend(found.values())
