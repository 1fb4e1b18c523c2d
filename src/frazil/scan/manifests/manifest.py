"""Manifest lists and manifests as Arrow columns, decoded once and kept by their path: the files behind them never
change.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import DecimalType, NestedField, StringType

from frazil.scan.manifests.avro import pick_bounds
from frazil.scan.manifests.avro_schema import Json, branch
from frazil.scan.manifests.bounds import BYTES, DAY_UNITS, REAL, WHOLE, CountedRange, Range, decode, exact, stored_type
from frazil.scan.manifests.columns import NotVectorized, pick_vectorized
from frazil.scan.manifests.counting import decoded_files
from frazil.scan.manifests.entries import EntryColumns, read_entries
from frazil.scan.manifests.manifest_list import ManifestList, decode_list

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType

Read = Callable[[str], bytes]

RECOUNT = 128


class Sized(Protocol):
    """What the cache holds: something that knows how large it is now."""

    @property
    def nbytes(self) -> int: ...


class ManifestCache:
    """Decoded manifests and manifest lists by path, the least used forgotten first."""

    def __init__(self, read: Read, *, max_bytes: int = 512 * 1024 * 1024) -> None:
        self._read, self._max_bytes = read, max_bytes
        self._kept: OrderedDict[str, Sized] = OrderedDict()
        self._lock = threading.Lock()
        self._newest: Manifest | None = None
        self._about, self._added = 0, 0  # bytes kept, as far as they were counted; and how many came so far

    def read_with(self, read: Read) -> None:
        """Reads files in another way from now on."""
        self._read = read

    def manifest_list(self, path: str) -> ManifestList:
        """The manifests of a snapshot."""
        decoded = self._get(path, decode_list)
        assert isinstance(decoded, ManifestList)
        return decoded

    def manifest(self, path: str, *, bounds_of: Collection[int] = (), content: bytes | None = None) -> Manifest:
        """The live files of a manifest. Bounds of the columns that are named come with it; others are there when they
        are asked for.

        `content` is that of the file, if it has been fetched already.
        """
        decoded = self._get(path, lambda path, content: self._decode(path, content, bounds_of), content)
        assert isinstance(decoded, Manifest)
        return decoded

    def _decode(self, path: str, content: bytes, bounds_of: Collection[int]) -> Manifest:
        # The newest stays unpacked until the next one comes: the caller often wants more of it at once.
        manifest = decode_manifest(path, content, bounds_of=bounds_of)
        decoded_files.add(len(manifest))
        before, self._newest = self._newest, manifest
        if before is not None:
            before.forget()
        return manifest

    def has(self, path: str) -> bool:
        return path in self._kept

    def fetch(self, path: str) -> bytes | None:
        """The content of a file that is not known yet; None when it is."""
        return None if self.has(path) else self._read(path)

    @property
    def nbytes(self) -> int:
        with self._lock:
            return sum(array.nbytes for array in self._kept.values())

    def _get(self, path: str, make: Callable[[str, bytes], Sized], content: bytes | None = None) -> Sized:
        with self._lock:
            if path in self._kept:
                self._kept.move_to_end(path)
                return self._kept[path]
        array = make(path, self._read(path) if content is None else content)
        with self._lock:
            if path not in self._kept:
                self._kept[path] = array
                self._about += array.nbytes
                self._added += 1
                if self._about > self._max_bytes or self._added % RECOUNT == 0:
                    self._shrink()
            return self._kept.get(path, array)

    def _shrink(self) -> None:
        # Bounds are typed on first use, so what is kept has grown since it came: its size is measured again, now and
        # then.
        self._about = sum(array.nbytes for array in self._kept.values())
        while self._about > self._max_bytes and len(self._kept) > 1:
            _, gone = self._kept.popitem(last=False)
            self._about -= gone.nbytes


# --- manifests -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Manifest:
    """The live files of a manifest: a column for each property, and typed columns for the bounds that predicates have
    asked for.
    """

    path: str
    columns: Mapping[str, pa.Array]  # by the names of entries.py; bounds as they are in the file
    partition: dict[int, tuple[pa.Array, Json]]  # by the id of the partition field, with its Avro type
    # bounds that were asked for when it was decoded
    fresh: dict[tuple[str, int], pa.Array] = field(default_factory=dict)
    _ranges: dict[tuple[str, int, str], Range | None] = field(default_factory=dict)
    total_rows: int = field(init=False)
    total_bytes: int = field(init=False)
    has_empty: bool = field(init=False)

    def __post_init__(self) -> None:
        self.total_rows, self.total_bytes = (pc.sum(self.columns[name]).as_py() or 0 for name in ("records", "bytes"))
        self.has_empty = pc.any(pc.equal(self.columns["records"], 0)).as_py() is True

    def __len__(self) -> int:
        return len(self.columns["status"])

    @property
    def nbytes(self) -> int:
        columns = (
            self.columns.nbytes
            if isinstance(self.columns, EntryColumns)
            else sum(column.nbytes for column in self.columns.values())
        )
        plain = columns + sum(array.nbytes for array, _ in self.partition.values())
        return int(plain + sum(known.nbytes for known in list(self._ranges.values()) if known is not None))

    def forget(self) -> None:
        """Lets go of what can be had again from what is kept."""
        if isinstance(self.columns, EntryColumns):
            self.columns.forget()

    def column_range(self, wanted: NestedField) -> Range:
        """What is known about a column of each file."""
        key = ("column", wanted.field_id, str(wanted.field_type))
        known = self._ranges.get(key)
        if known is None:
            known = self._ranges[key] = self._column_range(wanted)
        return known

    def partition_range(self, wanted: NestedField) -> Range | None:
        """The values of a partition field; None when they are of another kind than the spec says now."""
        key = ("partition", wanted.field_id, str(wanted.field_type))
        if key not in self._ranges:
            values = self.partition_values(wanted)
            self._ranges[key] = None if values is None else exact(values)
        return self._ranges[key]

    def partition_values(self, wanted: NestedField) -> pa.Array | None:
        """The values of a partition field as they are compared; None when they are of another kind than the spec says
        now.
        """
        if wanted.field_id not in self.partition:
            return pa.nulls(len(self), stored_type(wanted.field_type))  # the field was added later
        return _stored(*self.partition[wanted.field_id], wanted.field_type)

    def _column_range(self, wanted: NestedField) -> Range:
        lower, upper = (decode(self.bounds(name, wanted.field_id), wanted.field_type) for name in ("lower", "upper"))
        count = partial(_pick_count, self.columns, wanted.field_id)
        return CountedRange(lower, upper, count, may_be_nan=isinstance(wanted.field_type, REAL))

    def bounds(self, name: str, field_id: int) -> pa.Array:
        """A column's lower or upper bound in each file, in binary form."""
        decoded = self.fresh.pop((name, field_id), None)
        return _pick_bounds(self.columns[name], field_id) if decoded is None else decoded


def _pick_bounds(maps: pa.Array, field_id: int) -> pa.Array:
    try:
        return pick_vectorized(maps, field_id)
    except NotVectorized:
        return pick_bounds(maps, field_id)


def _pick_count(columns: Mapping[str, pa.Array], field_id: int, name: str) -> pa.Array:
    """A column's entry in a map of each file; null where it has none."""
    column = columns[name]
    flat = column.flatten()
    chosen = pc.equal(flat.field(0), field_id)
    counts, rows = flat.field(1).filter(chosen), pc.list_parent_indices(column).filter(chosen)
    places = pa.array(range(len(column)), rows.type)
    return counts if rows.equals(places) else counts.take(pc.index_in(places, value_set=rows))


def decode_manifest(path: str, content: bytes, *, bounds_of: Collection[int] = ()) -> Manifest:
    """A manifest from the bytes of its file, without what was deleted."""
    columns = EntryColumns(path, read_entries(path, content, bounds_of=bounds_of))
    return Manifest(path, columns, columns.partition, columns.picked)


def _stored(values: pa.Array, schema: Json, kind: IcebergType) -> pa.Array | None:
    """Partition values as they are compared; None when the Avro type is not one in which the Iceberg type
    is written.
    """
    wanted, plain = stored_type(kind), branch(schema)
    logical = plain.get("logicalType") if isinstance(plain, dict) else None
    if isinstance(kind, DecimalType):
        return _decimals(values, plain, kind) if logical == "decimal" else None
    if isinstance(kind, WHOLE):
        # Days are no moments: a date column that became a timestamp has partitions of both.
        return values if values.type == pa.int64() and (logical != "date" or type(kind) not in DAY_UNITS) else None
    if isinstance(kind, StringType):
        return values.cast(pa.binary()) if values.type == pa.string() else None
    if isinstance(kind, BYTES):
        return values if values.type == pa.binary() else None
    return values if values.type == wanted else None


def _decimals(values: pa.Array, schema: Json, kind: DecimalType) -> pa.Array | None:
    return decode(values, kind) if schema.get("scale", 0) == kind.scale else None
