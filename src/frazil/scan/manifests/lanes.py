"""A place in each record of an Avro file, all of them moved on together by numpy; and the columns that are read on the
way.

Long fields are not decoded: their columns know where they lie, and become Arrow when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from frazil.scan.manifests.avro import BoundsColumn, Column, Columns, ListColumn, arrow_type, list_array
from frazil.scan.manifests.avro_schema import NUMBERS, Json, branch

Numbers: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

MOST_BOUNDS = 5_000  # in a map, which is walked one by one: a damaged count must not keep a server busy
ROWS = 8_192  # records whose lists are looked at together, so that what that takes stays small
PADDING = bytes(4096)  # so that what is cut out may reach behind the end
MARK = "record that may be missing"  # a field that is only the number before such a record
TOO_LONG = "a number of more than 64 bits"
VALUES: dict[str, np.dtype[Any]] = {"boolean": np.dtype("u1"), "float": np.dtype("<f4"), "double": np.dtype("<f8")}


class NotVectorized(Exception):
    """The records are not as this reader needs them: read them one by one."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an entry, or of a record in it: `owner` is where its column goes."""

    owner: Columns
    field_id: int
    schema: Json
    kind: str
    null_at: int  # where the union has its null; -1 when the field is never null


# --- columns ---------------------------------------------------------------------------------------------------------


class Values(Column):
    """A field that is decoded already."""

    def __init__(self, schema: Json, array: pa.Array) -> None:
        super().__init__(schema)
        self._found = array

    def array(self) -> pa.Array:
        return self._found


class Texts(Column):
    """Bytes of each record, where they lie; a length of -1 is null."""

    def __init__(self, lanes: Lanes, schema: Json, starts: Numbers, lengths: Numbers) -> None:
        super().__init__(schema)
        self._lanes, self._starts, self._lengths = lanes, starts.astype(np.int32), lengths.astype(np.int32)

    def array(self) -> pa.Array:
        kind, size = arrow_type(self.schema), int(self._lengths[0])
        if 0 < size <= len(PADDING) and (self._lengths == size).all():
            return self._even(kind, size)
        records, places = self._lanes.records, zip(self._starts.tolist(), self._lengths.tolist(), strict=True)
        return pa.array([None if length < 0 else records[start : start + length] for start, length in places], kind)

    def _even(self, kind: pa.DataType, size: int) -> pa.Array:
        data = self._lanes.cut(self._starts, size)
        offsets = np.arange(0, data.size + 1, size, dtype=np.int32)
        array = pa.Array.from_buffers(kind, len(data), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
        if kind == pa.string():
            array.validate(full=True)
        return array


class Lists(ListColumn):
    """Lists of numbers, or maps from numbers to numbers, where they lie; a length of -1 is null."""

    def __init__(self, lanes: Lanes, starts: Numbers, lengths: Numbers, *, is_map: bool) -> None:
        super().__init__(is_map=is_map)
        self._lanes, self._starts, self._lengths = lanes, starts.astype(np.int32), lengths.astype(np.int32)

    def array(self) -> pa.ListArray:
        flat = self._lanes.numbers_at(self._starts, np.maximum(self._lengths, 0) * (2 if self.is_map else 1))
        return list_array(self._lengths, flat, is_map=self.is_map)


class Maps(BoundsColumn):
    """Maps from field ids to bytes, where they lie, and where the bytes of those fields lie that are wanted at once."""

    def __init__(self, whole: Texts, values: dict[int, Texts]) -> None:
        super().__init__(())
        self._whole, self._values = whole, values

    def array(self) -> pa.Array:
        return self._whole.array()

    def picked(self) -> dict[int, pa.Array]:
        return {field_id: values.array() for field_id, values in self._values.items()}


# --- all records at once ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Window:
    """Some bytes of each record in a row: where those of each start, where numbers end, and the first of these that is
    each record's.
    """

    bytes: NDArray[np.uint8]
    rows: Numbers
    ends: Numbers
    first: Numbers

    def lengths(self, counts: NDArray[np.integer]) -> Numbers:
        """How many bytes the first numbers of each record take, of which there are so many."""
        return np.asarray(self.ends[self.first + counts - 1] - self.rows + 1)

    def numbers(self, counts: NDArray[np.integer]) -> Numbers:
        """The first numbers of each record, so many, all in a row."""
        some, passed = counts > 0, np.cumsum(counts) - counts
        which = np.repeat(self.first - passed, counts) + np.arange(counts.sum())
        first = self.ends.take(which - 1, mode="clip") + 1
        first[passed[some]] = self.rows[some]
        return _decode(self.bytes, first, self.ends[which])


class Lanes:
    """A place in each record; all of them move on together. A malformed block decodes to garbage; it is detected at the
    end.
    """

    def __init__(self, records: bytes, again: Callable[[], bytes] | None = None) -> None:
        self._unpacked: bytes | None = records + PADDING
        self._again, self._size = again, len(records)
        self.at: Numbers = np.zeros(0, np.int64)

    @property
    def records(self) -> bytes:
        """All records, and some more; unpacked again if need be."""
        unpacked = self._unpacked
        if unpacked is None:
            assert self._again is not None
            unpacked = self._unpacked = self._again() + PADDING
        return unpacked

    @property
    def _bytes(self) -> NDArray[np.uint8]:
        return np.frombuffer(self.records, np.uint8)

    def forget(self) -> None:
        """Lets go of the unpacked records, if they can be had again."""
        self.at = np.zeros(0, np.int64)
        if self._again is not None:
            self._unpacked = None

    def cut(self, starts: NDArray[np.integer], size: int) -> NDArray[np.uint8]:
        """A number of bytes from each position, one row per record."""
        if size > len(PADDING):
            raise NotVectorized("too much of one field")
        bytes_ = self._bytes
        # one from each byte on
        rows: NDArray[np.uint8] = np.ndarray((len(bytes_) - size + 1, size), np.uint8, bytes_, strides=(1, 1))
        return np.asarray(rows[np.minimum(starts, len(rows) - 1)])

    def number(self) -> Numbers:
        """The next number of each record."""
        byte = self._next()
        self.at = self.at + 1
        if np.bitwise_or.reduce(byte) < 128:
            return SHORT.take(byte)
        value, more = (byte & 127).astype(np.int64), byte > 127
        for shift in range(7, 64, 7):
            byte = self._next()
            value |= (byte & 127).astype(np.int64) * more << shift
            self.at = self.at + more
            more &= byte > 127
            if not np.count_nonzero(more):
                return _signed(value)
        raise NotVectorized(TOO_LONG)

    def number_before(self, places: Numbers) -> Numbers:
        """The number that ends where each of the places starts; it starts where the one before it ends."""
        first = places - 1
        for _ in range(9):
            more = self._bytes.take(first - 1, mode="clip") > 127
            if not np.count_nonzero(more):
                break
            first = first - more
        return _decode(self._bytes, first, places - 1)

    def numbers_at(self, starts: NDArray[np.int32], counts: NDArray[np.int32]) -> Numbers:
        """So many numbers from each of the places on, all in a row."""
        parts = [self._window(starts[some], counts[some]).numbers(counts[some]) for some in _slices(len(starts))]
        return np.concatenate(parts)

    def pass_numbers(self, counts: Numbers) -> None:
        """Passes so many numbers of each record, one at least."""
        parts = [self._window(self.at[some], counts[some]).lengths(counts[some]) for some in _slices(len(counts))]
        self.at = self.at + np.concatenate(parts)

    def _window(self, starts: NDArray[np.integer], counts: NDArray[np.integer]) -> Window:
        """The bytes from each of the places on that have so many numbers."""
        for width in (3, 10):  # bytes a number: most are small
            cut = self.cut(starts, width * int(counts.max(initial=0)) + 1)
            rows, ends = np.arange(0, cut.size + 1, cut.shape[1]), np.flatnonzero(cut < 128)
            first = np.searchsorted(ends, rows)  # the last of them is behind the end
            if (first[:-1] + counts <= first[1:]).all():
                return Window(cut.ravel(), rows[:-1], ends, first[:-1])
        raise NotVectorized(TOO_LONG)

    def _next(self) -> NDArray[np.uint8]:
        return self._bytes.take(self.at, mode="clip")

    @contextmanager
    def _only(self, some: Mask) -> Iterator[None]:
        """Moves some of the lanes on, and not the others."""
        if np.count_nonzero(some) == len(some):
            yield
            return
        every, self.at = self.at, self.at[some]
        yield
        moved, self.at = self.at, every.copy()
        self.at[some] = moved

    # --- fields ------------------------------------------------------------------------------------------------------

    def read_all(self, fields: Sequence[Field], bounds_of: Collection[int] = ()) -> None:
        """Makes columns of the fields that follow in each record."""
        for field in fields:
            there = self._there(field.null_at)
            if field.kind == MARK:
                if not there.all():
                    raise NotVectorized("a record that is missing")
                continue
            with self._only(there):
                field.owner[field.field_id] = self._read(field.kind, field.schema, there, bounds_of)

    def _there(self, null_at: int) -> Mask:
        """Which records have a value; a byte before it says so, when it may be missing."""
        if null_at < 0:
            return np.ones(len(self.at), np.bool_)
        byte, self.at = self._next(), self.at + 1
        if np.bitwise_or.reduce(byte) & 0xFD:
            raise NotVectorized("neither a value nor null")
        return np.asarray(byte != 2 * null_at)

    def _read(
        self, kind: str, schema: Json, there: Mask, bounds_of: Collection[int]
    ) -> Column | ListColumn | BoundsColumn:
        if kind in NUMBERS:
            return Values(schema, _nullable(self.number(), there))
        if kind in VALUES:
            numbers = self.cut(self.at, VALUES[kind].itemsize).view(VALUES[kind])[:, 0]
            self.at = self.at + VALUES[kind].itemsize
            return Values(schema, _nullable(numbers, there).cast(arrow_type(schema)))
        if kind in ("string", "bytes", "fixed"):
            lengths = np.full(len(self.at), branch(schema)["size"]) if kind == "fixed" else self._count(most=self._size)
            starts, self.at = self.at, self.at + lengths
            return Texts(self, schema, _spread(starts, there, 0), _spread(lengths, there, -1))
        if kind != "array":
            raise NotVectorized(kind)
        return self._array(branch(schema), there, bounds_of)

    def _array(self, schema: Json, there: Mask, bounds_of: Collection[int]) -> ListColumn | BoundsColumn:
        items = schema["items"]
        if isinstance(items, list):
            raise NotVectorized("items that may be missing")
        if items in NUMBERS:
            return self._lists(there, is_map=False)
        kinds = [field["type"] for field in items["fields"]] if schema.get("logicalType") == "map" else []
        if kinds == ["int", "long"]:
            return self._lists(there, is_map=True)
        if kinds == ["int", "bytes"]:
            return self.read_maps(there, bounds_of)
        raise NotVectorized(f"a list of {items}")

    def _count(self, *, most: int) -> Numbers:
        """The next number of each record, which is no less than nothing and no more than that."""
        byte = self._next()
        if not np.bitwise_or.reduce(byte) & 0x81:  # a byte each, and none of them negative
            self.at = self.at + 1
            return SHORT.take(byte)
        number = self.number()
        if number.view(np.uint64).max(initial=0) > most:  # also where it is negative
            raise NotVectorized(
                "a length that cannot be"
            )  # or a list in several blocks, of which the first has its size
        return number

    def _end(self) -> None:
        """Passes the end of a list, which is a block of no items."""
        if np.bitwise_or.reduce(self._next()):
            raise NotVectorized("a list in several blocks")
        self.at = self.at + 1

    def _lists(self, there: Mask, *, is_map: bool) -> Lists:
        counts = self._count(most=self._size)
        some, starts = counts > 0, self.at
        with self._only(some):
            self.pass_numbers(counts[some] * (2 if is_map else 1))
            self._end()
        return Lists(self, _spread(starts, there, 0), _spread(counts, there, -1), is_map=is_map)

    def read_maps(self, there: Mask, bounds_of: Collection[int]) -> Maps:
        """Maps from field ids to bytes, of the records that have one."""
        begin, counts = self.at, self._count(most=MOST_BOUNDS)
        maps = {field_id: (np.zeros_like(begin), np.full_like(begin, -1)) for field_id in bounds_of}
        for number in range(int(counts.max(initial=0))):
            some = counts > number
            with self._only(some):
                keys, lengths = self.number(), self._count(most=self._size)
                for field_id, (starts, sizes) in maps.items():
                    here = keys == field_id
                    if np.count_nonzero(here):
                        rows = np.flatnonzero(some)[here]
                        starts[rows], sizes[rows] = self.at[here], lengths[here]
                self.at = self.at + lengths
        with self._only(counts > 0):
            self._end()
        values = {
            value: Texts(self, "bytes", _spread(starts, there, 0), _spread(sizes, there, -1))
            for value, (starts, sizes) in maps.items()
        }
        return Maps(Texts(self, "bytes", _spread(begin, there, 0), _spread(self.at - begin, there, -1)), values)


def _slices(count: int) -> list[slice]:
    """
    >>> _slices(3), len(_slices(10_000)), _slices(0)
    ([slice(0, 8192, None)], 2, [slice(0, 8192, None)])
    """
    return [slice(start, start + ROWS) for start in range(0, count or 1, ROWS)]


def _decode(source: NDArray[np.uint8], first: Numbers, last: Numbers) -> Numbers:
    """The numbers between these places, each end included."""
    longer = last - first
    if longer.view(np.uint64).max(initial=0) > 9:  # also where it is negative
        raise NotVectorized(TOO_LONG)
    value = (source.take(first, mode="clip") & 127).astype(np.int64)
    for more in range(1, int(longer.max(initial=0)) + 1):
        value |= (source.take(first + more, mode="clip") & 127).astype(np.int64) * (longer >= more) << 7 * more
    return _signed(value)


def _signed(value: Numbers) -> Numbers:
    """Avro's zigzag: 0, -1, 1, -2 are written as 0, 1, 2, 3."""
    return ((value >> 1) & np.int64(2**63 - 1)) ^ -(value & 1)


SHORT = _signed(np.arange(128, dtype=np.int64))  # the numbers of one byte


def _spread(values: Numbers, some: Mask, other: int) -> Numbers:
    """The values where they are, and something else where there are none.

    >>> _spread(np.array([7, 8]), np.array([True, False, True]), -1).tolist()
    [7, -1, 8]
    """
    if len(values) == len(some):
        return values
    spread = np.full(len(some), other, np.int64)
    spread[some] = values
    return spread


def _nullable(values: NDArray[np.generic], some: Mask) -> pa.Array:
    if len(values) == len(some):
        return pa.array(values)
    filled = np.zeros(len(some), values.dtype)
    filled[some] = values
    return pa.array(filled, mask=~some)
