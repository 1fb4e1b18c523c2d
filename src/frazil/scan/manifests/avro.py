"""Avro files as Arrow columns, without an object for each record: what manifests and manifest lists are made of.

A reader is compiled from the file's own schema: one step a field, which reads the field of the next record and appends
it to flat lists. They become Arrow arrays when the file ends. PyIceberg's compiled decoder reads the bytes; what is
spared is its objects. Fields are found by their Iceberg field ids, so that names and order do not matter.
"""

from __future__ import annotations

import json
import struct
import zlib
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.avro.decoder import BinaryDecoder, new_decoder

from frazil.scan.manifests.avro_codecs import unpack
from frazil.scan.manifests.avro_schema import (
    NUMBERS,
    PRIMITIVES,
    AvroError,
    Json,
    branch,
    is_map,
    is_plain,
    kind_of,
    null_index,
    parse_schema,
)
from frazil.scan.manifests.avro_values import MOST_ITEMS, any_reader, encode_bounds, is_regular_list, is_regular_map

Step = Callable[[], None]

NEVER_NULL = frozenset({2, 102})  # the data file of an entry, and its partition
_64_BITS = 2**64 - 1
_DOUBLE = struct.Struct("<d")
MAGIC = b"Obj\x01"
SYNC_BYTES = 16
LEAST_ROOM_BYTES = 64 << 20  # a file may always unpack to so much
MOST_RATIO = 50  # and else to this multiple of its size
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


class Column:
    """The values of one field, growing record by record."""

    def __init__(self, schema: Json) -> None:
        self.schema = schema
        self.values: list[Any] = []

    def array(self) -> pa.Array:
        """The values as Arrow: whole numbers as 64 bits, text as text, everything else as the bytes that it is."""
        return pa.array(self.values, arrow_type(self.schema))


class ListColumn:
    """Lists of numbers, or maps from field ids to numbers: how long each record's is, and then all of them in a row."""

    def __init__(self, *, is_map: bool) -> None:
        self.is_map = is_map
        self.lengths: list[int | None] = []
        self.numbers = array("Q")  # of a map key, value, key, value; the compiled decoder hands out arrays of this type

    def array(self) -> pa.ListArray:
        """A list array; of (key, value), when it is a map."""
        flat = np.frombuffer(self.numbers, np.int64) if len(self.numbers) else np.empty(0, np.int64)
        return list_array(
            np.array([-1 if length is None else length for length in self.lengths], np.int32), flat, is_map=self.is_map
        )


class BoundsColumn:
    """Maps from field ids to bytes, as they are in the file, and of the fields that are wanted at once the values."""

    def __init__(self, wanted: Collection[int]) -> None:
        self.raw: list[bytes | None] = []
        self.values: dict[int, list[bytes | None]] = {field_id: [] for field_id in wanted}

    def array(self) -> pa.Array:
        """Each record's map in its Avro form, for `pick_bounds`."""
        return pa.array(self.raw, pa.binary())

    def picked(self) -> dict[int, pa.Array]:
        """The bytes of each field that was wanted at once."""
        return {field_id: pa.array(values, pa.binary()) for field_id, values in self.values.items()}


class RecordsColumn:
    """Lists of records, such as the summaries of partition fields in a manifest list."""

    def __init__(self) -> None:
        self.lengths: list[int | None] = []
        self.inner = Columns()


def list_array(lengths: NDArray[np.int32], flat: NDArray[np.int64], *, is_map: bool) -> pa.ListArray:
    """Lists of numbers, or of (key, value), from all numbers in a row; a length of -1 is null."""
    values = pa.array(flat)
    if is_map:
        values = pa.StructArray.from_arrays(
            [pa.array(flat[0::2].astype(np.int32)), pa.array(flat[1::2])], ["key", "value"]
        )
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(np.maximum(lengths, 0), out=offsets[1:])
    null = lengths < 0
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(null) if null.any() else None)


def pick_bounds(maps: pa.Array, field_id: int) -> pa.Array:
    """One field's bytes out of maps in their Avro form."""
    return pa.array([bound.get(field_id) for bound in read_bounds(maps)], pa.binary())


def read_bounds(maps: pa.Array) -> Iterator[dict[int, bytes]]:
    """Maps in their Avro form as dictionaries; empty where there is none."""
    for raw in maps.to_pylist():
        bounds: dict[int, bytes] = {}
        if raw is not None:
            decoder = new_decoder(raw)
            while count := decoder.read_int():
                if count < 0:
                    decoder.read_int()
                decoder.read_int_bytes_dict(abs(count), bounds)
        yield bounds


class Columns(dict[int, "Column | ListColumn | BoundsColumn | RecordsColumn | Columns"]):
    """The columns of a record by field id; a record inside of it has its own.

    `held_bytes` is what stays in memory as long as a column has not become an array, which is then made when it is
    asked for; `forget` lets go of what was unpacked for that.
    """

    def __init__(self) -> None:
        super().__init__()
        self.held_bytes = 0
        self.forget: Callable[[], None] = lambda: None

    def plain(self, field_id: int) -> pa.Array | None:
        """The column of a plain field; None when the file does not have it."""
        column = self.get(field_id)
        return column.array() if isinstance(column, Column) else None

    def lists(self, field_id: int) -> pa.ListArray | None:
        """The column of a list or map; None when the file does not have it."""
        column = self.get(field_id)
        return column.array() if isinstance(column, ListColumn) else None

    def bounds(self, field_id: int) -> BoundsColumn | None:
        """The column of a map to bytes; None when the file does not have it."""
        column = self.get(field_id)
        return column if isinstance(column, BoundsColumn) else None

    def record(self, field_id: int) -> Columns:
        """The columns of a record inside of this one."""
        column = self.get(field_id)
        return column if isinstance(column, Columns) else Columns()


def arrow_type(schema: Json) -> pa.DataType:
    """
    >>> arrow_type(["null", {"type": "int", "logicalType": "date"}])
    DataType(int64)
    """
    known = {
        "boolean": pa.bool_(),
        "float": pa.float64(),
        "double": pa.float64(),
        "string": pa.string(),
        "null": pa.null(),
    }
    name = kind_of(schema)
    return pa.int64() if name in NUMBERS else known.get(name, pa.binary())


@dataclass(frozen=True, slots=True)
class AvroFile:
    """What is in an Avro file: the schema of its records, how many there are, and the bytes of all in a row; and the
    file as it was.
    """

    schema: Json
    count: int
    records: bytes
    content: bytes


def open_avro(content: bytes) -> AvroFile:
    """An Avro file from its bytes, with its blocks unpacked."""
    try:
        return _open(content)
    except DAMAGE as exc:
        raise _damaged(exc) from exc


def read_records(file: AvroFile, *, unwanted: Collection[int] = (), bounds_of: Collection[int] = ()) -> Columns:
    """All records as columns, read one by one. Fields that are not wanted are passed over; `bounds_of` are the columns
    whose bounds are needed at once.
    """
    columns, decoder = Columns(), new_decoder(file.records)
    try:
        source = _Source(decoder, file.records, frozenset(unwanted), tuple(bounds_of))
        steps = _record(source, file.schema, columns)
        for _ in range(file.count):
            for step in steps:
                step()
        # The compiled decoder reads on behind the end without a word: what it found there must not get out.
        if decoder.tell() != len(file.records):
            raise AvroError("its records are longer or shorter than it says")
    except DAMAGE as exc:
        raise _damaged(exc) from exc
    return columns


def _damaged(exc: Exception) -> AvroError:
    return AvroError(f"it is damaged or not Avro ({type(exc).__name__}: {exc})")


def _open(content: bytes) -> AvroFile:
    decoder = new_decoder(content)
    if content[: len(MAGIC)] != MAGIC:
        raise AvroError("it does not start as an Avro file does")
    decoder.read(len(MAGIC))
    properties = _properties(decoder, len(content))
    sync, total, blocks = decoder.read(SYNC_BYTES), 0, []
    codec, room = properties.get("avro.codec", "null"), max(LEAST_ROOM_BYTES, MOST_RATIO * len(content))
    while decoder.tell() < len(content):
        count, block = decoder.read_int(), _bytes(decoder, len(content))
        blocks.append(unpack(codec, block, room))
        room -= len(blocks[-1])
        if decoder.read(SYNC_BYTES) != sync:
            raise AvroError("a block does not end where it should")
        if not 0 <= count <= len(blocks[-1]):
            raise AvroError(f"a block of {len(blocks[-1])} bytes says that it has {count} records")
        total += count
    return AvroFile(parse_schema(properties["avro.schema"]), total, b"".join(blocks), content)


def _properties(decoder: BinaryDecoder, end: int) -> dict[str, str]:
    properties: dict[str, str] = {}
    while count := decoder.read_int():
        if count < 0:
            decoder.read_int()
        for _ in range(abs(count)):
            key = _bytes(decoder, end).decode()
            properties[key] = _bytes(decoder, end).decode("utf-8", "replace")
    return properties


def _bytes(decoder: BinaryDecoder, end: int) -> bytes:
    length = decoder.read_int()
    if not 0 <= length <= end - decoder.tell():
        raise AvroError("it ends too early")
    return decoder.read(length)


# --- one step a field ------------------------------------------------------------------------------------------------
# `null_at` is where a union has its null: 0 or 1; -1 when the field is never null. The decoder's methods are bound once
# a file.


@dataclass(frozen=True, slots=True)
class _Source:
    """What all steps read from."""

    decoder: BinaryDecoder
    records: bytes
    unwanted: frozenset[int]
    bounds_of: tuple[int, ...]


def _record(source: _Source, schema: Json, columns: Columns) -> tuple[Step, ...]:
    """The steps of a record; those of a record inside of it are among them, which spares a call for each."""
    return tuple(step for field in schema["fields"] for step in _field(source, field, columns))


def _field(source: _Source, field: Json, columns: Columns) -> tuple[Step, ...]:
    schema, field_id = field["type"], field.get("field-id", -1 - len(columns))
    null_at = null_index(schema)
    kind = kind_of(schema) if is_plain(schema) else ""
    if kind == "record":
        columns[field_id] = inner = Columns()
        steps = _record(source, branch(schema), inner)
        return steps if null_at < 0 else (_optional_record(source, field, steps, inner, null_at),)
    if kind == "array":
        return (_array(source, field_id, branch(schema), columns, null_at),)
    if kind not in PRIMITIVES and kind != "fixed":  # no field of Iceberg's
        return (_discard(any_reader(source.decoder, schema, partial(_reader, source.decoder))),)
    columns[field_id] = column = Column(schema)
    return (_plain(source.decoder, _reader(source.decoder, kind, branch(schema)), column, null_at),)


def _optional_record(source: _Source, field: Json, steps: tuple[Step, ...], inner: Columns, null_at: int) -> Step:
    """A record that may be missing. Sail declares the partition so; only one that is missing indeed is an error."""
    read_int, is_required = source.decoder.read_int, field.get("field-id") in NEVER_NULL and bool(steps)

    def read_record() -> None:
        if read_int() != null_at:
            for step in steps:
                step()
        elif is_required:
            raise AvroError(f"the record {field['name']} is NULL, which Iceberg does not write")
        else:
            _append_null(inner)

    return read_record


def _append_null(columns: Columns) -> None:
    for column in columns.values():
        match column:
            case Columns():
                _append_null(column)
            case Column():
                column.values.append(None)
            case BoundsColumn():
                column.raw.append(None)
                for values in column.values.values():
                    values.append(None)
            case _:
                column.lengths.append(None)


def _discard(read: Callable[[], Any]) -> Step:
    def read_and_drop() -> None:
        read()

    return read_and_drop


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
        # PyIceberg's compiled decoder reads a double as a 32-bit float
        "double": lambda: _DOUBLE.unpack(decoder.read(8))[0],
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


def _array(source: _Source, field_id: int, schema: Json, columns: Columns, null_at: int) -> Step:
    items = schema["items"]
    if not is_regular_list(schema):
        return _irregular(source, field_id, schema, columns, null_at)
    if kind_of(items) != "record":
        columns[field_id] = numbers = ListColumn(is_map=False)
        return _numbers(source, numbers, null_at, keep=True)
    if not is_map(schema):
        columns[field_id] = records = RecordsColumn()
        return _records(source, records, items, null_at)
    if not is_regular_map(schema):
        return _irregular(source, field_id, schema, columns, null_at)
    if kind_of(items["fields"][1]["type"]) == "bytes":
        columns[field_id] = bounds = BoundsColumn(source.bounds_of)
        return _bounds(source, bounds, null_at)
    keep, counts = field_id not in source.unwanted, ListColumn(is_map=True)
    if keep:
        columns[field_id] = counts
    return _numbers(source, counts, null_at, keep=keep)


def _irregular(source: _Source, field_id: int, schema: Json, columns: Columns, null_at: int) -> Step:
    """A list whose items are declared as Iceberg's writers do not: read as it is, and kept where it holds what Iceberg
    has there.
    """
    read = any_reader(source.decoder, schema, partial(_reader, source.decoder))
    keep: Callable[[list[Any] | None], None]
    if is_map(_items_unwrapped(schema)):
        value = (
            kind_of(branch(schema["items"])["fields"][1]["type"])
            if is_plain(branch(schema["items"])["fields"][1]["type"])
            else ""
        )
        keep = _keep_pairs(source, field_id, columns, value)
    elif is_plain(schema["items"]) and kind_of(schema["items"]) in NUMBERS:
        columns[field_id] = numbers = ListColumn(is_map=False)
        keep = partial(_keep_numbers, numbers)
    else:
        keep = _drop

    def read_list() -> None:
        keep(None if null_at >= 0 and source.decoder.read_int() == null_at else read())

    return read_list


def _drop(_items: list[Any] | None) -> None:
    """For what Iceberg does not have, or is not wanted."""


def _items_unwrapped(schema: Json) -> Json:
    return {**schema, "items": branch(schema["items"]) if is_plain(schema["items"]) else "null"}


def _keep_numbers(column: ListColumn, items: list[Any] | None) -> None:
    if items is not None and None in items:
        raise AvroError("a list of numbers holds NULL, which Iceberg does not write")
    column.lengths.append(None if items is None else len(items))
    column.numbers.extend(item & _64_BITS for item in items or ())


def _keep_pairs(source: _Source, field_id: int, columns: Columns, value: str) -> Callable[[list[Any] | None], None]:
    """Keeps maps whose keys are field ids: an entry whose value is NULL says nothing of its column."""
    if value == "bytes":
        columns[field_id] = bounds = BoundsColumn(source.bounds_of)
        return lambda pairs: _keep_bounds(bounds, pairs)
    if value not in NUMBERS or field_id in source.unwanted:
        return _drop
    columns[field_id] = counts = ListColumn(is_map=True)

    def keep(pairs: list[Any] | None) -> None:
        known = _known_pairs(pairs or ())
        counts.lengths.append(None if pairs is None else len(known))
        counts.numbers.extend(number & _64_BITS for pair in known for number in pair)

    return keep


def _keep_bounds(column: BoundsColumn, pairs: list[Any] | None) -> None:
    known = dict(_known_pairs(pairs or ()))
    column.raw.append(None if pairs is None else encode_bounds(known))
    for field_id, values in column.values.items():
        values.append(known.get(field_id))


def _known_pairs(pairs: Iterable[Any]) -> list[tuple[Any, ...]]:
    known = [tuple(pair.values()) for pair in pairs if pair is not None]
    return [pair for pair in known if pair[0] is not None and pair[1] is not None]


def _numbers(source: _Source, column: ListColumn, null_at: int, *, keep: bool) -> Step:
    """Blocks of numbers, each with a count before it, until one is empty."""
    read_int, read_ints = source.decoder.read_int, source.decoder.read_ints
    lengths, numbers, each = column.lengths, column.numbers, 2 if column.is_map else 1

    def read_numbers() -> None:
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
            ints = read_ints(each * count)
            if keep:
                numbers.extend(ints)
            total += count
        lengths.append(total)

    return read_numbers


def _bounds(source: _Source, column: BoundsColumn, null_at: int) -> Step:
    decoder, records, raw = source.decoder, source.records, column.raw
    read_int, tell, read_pairs = decoder.read_int, decoder.tell, decoder.read_int_bytes_dict
    wanted = tuple((field_id, values.append) for field_id, values in column.values.items())

    def read_bounds() -> None:
        bounds: dict[int, bytes] = {}
        if null_at >= 0 and read_int() == null_at:
            raw.append(None)
        else:
            start = tell()
            while count := read_int():
                if count < 0:
                    count = -count
                    read_int()
                if count > MOST_ITEMS:
                    raise AvroError(f"a map says that it has {count} items")
                read_pairs(count, bounds)
            raw.append(records[start : tell()])
        for field_id, append in wanted:
            append(bounds.get(field_id))

    return read_bounds


def _records(source: _Source, column: RecordsColumn, items: Json, null_at: int) -> Step:
    read_int, lengths, steps = source.decoder.read_int, column.lengths, _record(source, items, column.inner)

    def read_records() -> None:
        if null_at >= 0 and read_int() == null_at:
            lengths.append(None)
            return
        total = 0
        while count := read_int():
            if count < 0:
                count = -count
                read_int()
            for _ in range(min(count, MOST_ITEMS)):
                for step in steps:
                    step()
            total += count
        lengths.append(total)

    return read_records
