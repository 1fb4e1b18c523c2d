"""Manifest lists and manifests as Arrow columns, decoded once and kept by their path: the files behind them never change."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import DecimalType, NestedField, StringType

from frazil.errors import ManifestUnreadable
from frazil.scan.avro import AvroError, Column, Columns, Json, RecordsColumn, branch, pick_bounds, read_avro
from frazil.scan.bounds import BYTES, DAY_UNITS, REAL, WHOLE, Range, certain, decode, exact, stored_type

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType

Read = Callable[[str], bytes]

# Field ids of the specification: manifest lists, manifest entries, data files.
LIST = {"path": 500, "length": 501, "spec_id": 502, "content": 517, "sequence": 515, "min_sequence": 516, "snapshot_id": 503}
LIST |= {"added": 504, "existing": 505, "deleted": 506, "added_rows": 512, "existing_rows": 513, "first_row_id": 520}
SUMMARIES, CONTAINS_NULL, CONTAINS_NAN, SUMMARY_LOWER, SUMMARY_UPPER = 507, 509, 518, 510, 511
ENTRY = {"status": 0, "snapshot_id": 1, "sequence": 3, "file_sequence": 4}
FILE = {"content": 134, "path": 100, "format": 101, "records": 103, "bytes": 104, "key_metadata": 131, "sort_order_id": 140}
FILE |= {"first_row_id": 142, "referenced": 143, "content_offset": 144, "content_bytes": 145}
FILE_LISTS = {"value_counts": 109, "null_counts": 110, "nan_counts": 137, "splits": 132, "equality_ids": 135}
FILE_BOUNDS = {"lower": 125, "upper": 128}
DATA_FILE, PARTITION, COLUMN_SIZES = 2, 102, 108
DELETED = 2
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
        self._about, self._added = 0, 0  # bytes kept, as far as they were counted; and how many came so far

    def read_with(self, read: Read) -> None:
        """Reads files in another way from now on."""
        self._read = read

    def manifest_list(self, path: str) -> ManifestList:
        """The manifests of a snapshot."""
        found = self._get(path, decode_list)
        assert isinstance(found, ManifestList)
        return found

    def manifest(self, path: str, *, bounds_of: Collection[int] = (), content: bytes | None = None) -> Manifest:
        """The live files of a manifest. Bounds of the columns that are named come with it; others are there when they are asked for.

        `content` is that of the file, if it has been fetched already.
        """
        found = self._get(path, lambda path, content: decode_manifest(path, content, bounds_of=bounds_of), content)
        assert isinstance(found, Manifest)
        return found

    def has(self, path: str) -> bool:
        return path in self._kept

    def fetch(self, path: str) -> bytes | None:
        """The content of a file that is not known yet; None when it is."""
        return None if self.has(path) else self._read(path)

    @property
    def nbytes(self) -> int:
        with self._lock:
            return sum(one.nbytes for one in self._kept.values())

    def _get(self, path: str, make: Callable[[str, bytes], Sized], content: bytes | None = None) -> Sized:
        with self._lock:
            if path in self._kept:
                self._kept.move_to_end(path)
                return self._kept[path]
        made = make(path, self._read(path) if content is None else content)
        with self._lock:
            if path not in self._kept:
                self._kept[path] = made
                self._about += made.nbytes
                self._added += 1
                if self._about > self._max_bytes or self._added % RECOUNT == 0:
                    self._shrink()
            return self._kept.get(path, made)

    def _shrink(self) -> None:
        # Bounds are typed on first use, so what is kept has grown since it came: its size is taken anew, now and then.
        self._about = sum(one.nbytes for one in self._kept.values())
        while self._about > self._max_bytes and len(self._kept) > 1:
            _, gone = self._kept.popitem(last=False)
            self._about -= gone.nbytes


def _decode(path: str, content: bytes, bounds_of: Collection[int] = ()) -> Columns:
    try:
        return read_avro(content, unwanted=(COLUMN_SIZES,), bounds_of=bounds_of)
    except AvroError as exc:
        raise ManifestUnreadable(path, str(exc)) from exc


# --- manifest lists --------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ManifestList:
    """The manifests of a snapshot, and what each says about its partitions."""

    path: str
    columns: dict[str, list[Any]]
    _starts: list[int]
    _lengths: list[int]
    _summaries: dict[int, pa.Array]
    _ranges: dict[tuple[int, int, str], Range] = field(default_factory=dict)
    _of_spec: dict[int, list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self._of_spec = {}
        for at, spec_id in enumerate(self.columns["spec_id"]):
            self._of_spec.setdefault(spec_id, []).append(at)

    def __len__(self) -> int:
        return len(self.columns["path"])

    @property
    def spec_ids(self) -> list[int]:
        """The partition specs that its manifests were written with."""
        return list(self._of_spec)

    @property
    def nbytes(self) -> int:
        rough = len(self) * len(self.columns) * 16 + sum(len(path) for path in self.columns["path"])
        summaries = sum(array.nbytes for array in self._summaries.values())
        return int(rough + summaries + sum(known.nbytes for known in list(self._ranges.values())))

    def live(self, at: int) -> int | None:
        """How many files a manifest has that are not deleted; old writers do not say."""
        added, existing = self.columns["added"][at], self.columns["existing"][at]
        return None if added is None or existing is None else added + existing

    def partition_range(self, spec_id: int, position: int, kind: IcebergType) -> Range:
        """What the manifests of one spec say about its partition field at a position; in the order of `of_spec`."""
        key = (spec_id, position, str(kind))
        if key not in self._ranges:
            self._ranges[key] = self._partition_range(self.of_spec(spec_id), position, kind)
        return self._ranges[key]

    def of_spec(self, spec_id: int) -> list[int]:
        """Which manifests were written with a partition spec."""
        return self._of_spec[spec_id]

    def _partition_range(self, rows: list[int], position: int, kind: IcebergType) -> Range:
        at = pa.array([self._starts[row] + position if position < self._lengths[row] else None for row in rows], pa.int64())
        has_null, has_nan = (self._summaries[one].take(at) for one in (CONTAINS_NULL, CONTAINS_NAN))
        lower, upper = (decode(self._summaries[one].take(at), kind) for one in (SUMMARY_LOWER, SUMMARY_UPPER))
        no_bound = pc.is_null(self._summaries[SUMMARY_LOWER].take(at))
        no_nan, no_null = pc.invert(has_nan), pc.invert(has_null)
        all_null = pc.and_kleene(has_null, no_bound)
        if isinstance(kind, REAL):
            all_null = pc.and_kleene(all_null, no_nan)
        all_nan = pc.and_kleene(pc.and_kleene(has_nan, no_null), no_bound)
        return Range(lower, upper, certain(all_null), certain(no_null), certain(all_nan), certain(no_nan))


def decode_list(path: str, content: bytes) -> ManifestList:
    """A manifest list from the bytes of its file."""
    found = _decode(path, content)
    count = len(_values(found, LIST["path"]) or [])
    columns = {name: _values(found, field_id) or [None] * count for name, field_id in LIST.items()}
    for name in ("content", "sequence", "min_sequence", "spec_id"):  # format 1 does not have them
        columns[name] = [value or 0 for value in columns[name]]
    summaries = found.get(SUMMARIES)
    lengths = [0] * count
    inner = Columns()
    if isinstance(summaries, RecordsColumn):
        lengths, inner = [length or 0 for length in summaries.lengths], summaries.inner
    starts = [0, *_running(lengths)][:count]
    total = sum(lengths)
    kinds = {CONTAINS_NULL: pa.bool_(), CONTAINS_NAN: pa.bool_(), SUMMARY_LOWER: pa.binary(), SUMMARY_UPPER: pa.binary()}
    arrays = {one: inner.plain(one) if one in inner else pa.nulls(total, kind) for one, kind in kinds.items()}
    return ManifestList(path, columns, starts, lengths, arrays)


def _values(columns: Columns, field_id: int) -> list[Any] | None:
    found = columns.get(field_id)
    return found.values if isinstance(found, Column) else None


def _running(lengths: list[int]) -> list[int]:
    """
    >>> _running([2, 0, 3])
    [2, 2, 5]
    """
    total, sums = 0, []
    for length in lengths:
        total += length
        sums.append(total)
    return sums


# --- manifests -------------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Manifest:
    """The live files of a manifest: a column for each property, and typed columns for the bounds that predicates have asked for."""

    path: str
    columns: dict[str, pa.Array]  # ENTRY, FILE, FILE_LISTS and FILE_BOUNDS by name; bounds as they are in the file
    partition: dict[int, tuple[pa.Array, Json]]  # by the id of the partition field, with its Avro type
    fresh: dict[tuple[str, int], pa.Array] = field(default_factory=dict)  # bounds that were asked for when it was decoded
    _ranges: dict[tuple[str, int, str], Range | None] = field(default_factory=dict)
    total_rows: int = field(init=False)
    total_bytes: int = field(init=False)
    has_empty: bool = field(init=False)

    def __post_init__(self) -> None:
        self.total_rows, self.total_bytes = (pc.sum(self.columns[name]).as_py() or 0 for name in ("records", "bytes"))
        self.has_empty = pc.any(pc.equal(self.columns["records"], 0)).as_py() is True

    def __len__(self) -> int:
        return len(self.columns["path"])

    @property
    def nbytes(self) -> int:
        plain = sum(array.nbytes for array in self.columns.values()) + sum(array.nbytes for array, _ in self.partition.values())
        return int(plain + sum(known.nbytes for known in list(self._ranges.values()) if known is not None))

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
        """The values of a partition field as they are compared; None when they are of another kind than the spec says now."""
        if wanted.field_id not in self.partition:
            return pa.nulls(len(self), stored_type(wanted.field_type))  # the field was added later
        return _stored(*self.partition[wanted.field_id], wanted.field_type)

    def _column_range(self, wanted: NestedField) -> Range:
        field_id = wanted.field_id
        values, nulls, nans = (self.pick(name, field_id) for name in ("value_counts", "null_counts", "nan_counts"))
        lower, upper = (decode(self.bounds(name, field_id), wanted.field_type) for name in ("lower", "upper"))
        all_null, no_null = certain(pc.equal(nulls, values)), certain(pc.equal(nulls, 0))
        if not isinstance(wanted.field_type, REAL):
            return Range(lower, upper, all_null, no_null, None, None)
        return Range(lower, upper, all_null, no_null, certain(pc.equal(nans, values)), certain(pc.equal(nans, 0)))

    def bounds(self, name: str, field_id: int) -> pa.Array:
        """A column's lower or upper bound in each file, in binary form."""
        found = self.fresh.pop((name, field_id), None)
        return pick_bounds(self.columns[name], field_id) if found is None else found

    def pick(self, name: str, field_id: int) -> pa.Array:
        """A column's entry in a map of each file; null where it has none."""
        column = self.columns[name]
        flat = column.flatten()
        chosen = pc.equal(flat.field(0), field_id)
        found, rows = flat.field(1).filter(chosen), pc.list_parent_indices(column).filter(chosen)
        places = pa.array(range(len(self)), rows.type)
        return found if rows.equals(places) else found.take(pc.index_in(places, value_set=rows))


def decode_manifest(path: str, content: bytes, *, bounds_of: Collection[int] = ()) -> Manifest:
    """A manifest from the bytes of its file, without what was deleted."""
    entries = _decode(path, content, bounds_of)
    files = entries.record(DATA_FILE)
    status = entries.plain(ENTRY["status"])
    if status is None or FILE["path"] not in files:
        raise ManifestUnreadable(path, "it has no entries with a status and a file")
    live = pc.not_equal(status, DELETED)
    columns = {name: _plain(entries, field_id, len(status)) for name, field_id in ENTRY.items()}
    columns |= {name: _plain(files, field_id, len(status)) for name, field_id in FILE.items()}
    columns |= {name: _lists(files, name, field_id, len(status)) for name, field_id in FILE_LISTS.items()}
    columns["content"] = columns["content"].fill_null(0)
    fresh: dict[tuple[str, int], pa.Array] = {}
    for name, field_id in FILE_BOUNDS.items():
        bounds = files.bounds(field_id)
        columns[name] = pa.nulls(len(status), pa.binary()) if bounds is None else bounds.array()
        if bounds is not None:
            fresh |= {(name, one): pa.array(values, pa.binary()) for one, values in bounds.values.items()}
    partition = {one: (column.array(), column.schema) for one, column in files.record(PARTITION).items() if isinstance(column, Column)}
    if pc.all(live).as_py() is not False:
        return Manifest(path, columns, partition, fresh)
    kept = {name: array.filter(live) for name, array in columns.items()}
    kept_partition = {one: (array.filter(live), schema) for one, (array, schema) in partition.items()}
    return Manifest(path, kept, kept_partition, {key: array.filter(live) for key, array in fresh.items()})


KINDS = {"path": pa.string(), "format": pa.string(), "referenced": pa.string(), "key_metadata": pa.binary()}


def _plain(columns: Columns, field_id: int, count: int) -> pa.Array:
    name = next(name for name, found in {**ENTRY, **FILE}.items() if found == field_id)
    found = columns.plain(field_id)
    return pa.nulls(count, KINDS.get(name, pa.int64())) if found is None else found


def _lists(columns: Columns, name: str, field_id: int, count: int) -> pa.ListArray:
    found = columns.lists(field_id)
    if found is not None:
        return found
    if name in ("splits", "equality_ids"):
        return pa.nulls(count, pa.list_(pa.int64()))
    return pa.nulls(count, pa.list_(pa.struct([("key", pa.int32()), ("value", pa.int64())])))


def _stored(values: pa.Array, schema: Json, kind: IcebergType) -> pa.Array | None:
    """Partition values as they are compared; None when the Avro type is not one in which the Iceberg type is written."""
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
