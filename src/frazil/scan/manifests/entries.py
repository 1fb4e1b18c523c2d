"""The entries of a manifest as Arrow columns by name, each made when it is asked for: most plans need few of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import ManifestUnreadable
from frazil.scan.manifests.avro import Column, Columns, open_avro, read_records
from frazil.scan.manifests.avro_schema import AvroError, Json
from frazil.scan.manifests.columns import NotVectorized, read_vectorized

# Field ids of the specification: entries, and the data files in them.
ENTRY = {"status": 0, "snapshot_id": 1, "sequence": 3, "file_sequence": 4}
FILE = {
    "content": 134,
    "path": 100,
    "format": 101,
    "records": 103,
    "bytes": 104,
    "key_metadata": 131,
    "sort_order_id": 140,
}
FILE |= {"first_row_id": 142, "referenced": 143, "content_offset": 144, "content_bytes": 145}
FILE_LISTS = {"value_counts": 109, "null_counts": 110, "nan_counts": 137, "splits": 132, "equality_ids": 135}
FILE_BOUNDS = {"lower": 125, "upper": 128}
# who asks for the one will ask for the other
TOGETHER = {"path": ("path", "format"), "splits": ("splits", "key_metadata")}
NAMES = (*ENTRY, *FILE, *FILE_LISTS, *FILE_BOUNDS)
DATA_FILE, PARTITION, COLUMN_SIZES = 2, 102, 108
DELETED = 2

NUMBERS = pa.list_(pa.int64())
COUNTS = pa.list_(pa.struct([("key", pa.int32()), ("value", pa.int64())]))
KINDS = {"path": pa.string(), "format": pa.string(), "referenced": pa.string(), "key_metadata": pa.binary()}
KINDS |= {
    "splits": NUMBERS,
    "equality_ids": NUMBERS,
    "value_counts": COUNTS,
    "null_counts": COUNTS,
    "nan_counts": COUNTS,
}
KINDS |= {"lower": pa.binary(), "upper": pa.binary()}  # others are whole numbers


class EntryColumns(Mapping[str, pa.Array]):
    """The live entries of a manifest: a column for each of `NAMES`, null where the file does not have it."""

    def __init__(self, path: str, entries: Columns) -> None:
        status = entries.plain(ENTRY["status"])
        if status is None or FILE["path"] not in entries.record(DATA_FILE):
            raise ManifestUnreadable(path, "it has no entries with a status and a file")
        self._path, self._entries, self._count = path, entries, len(status)
        live = pc.not_equal(status, DELETED)
        self._live = None if pc.all(live).as_py() is not False else live
        self._made: dict[str, pa.Array] = {}
        self.partition, self.picked = self._find_partition(), self._find_picked()
        if not entries.held_bytes:  # nothing is spared by waiting
            for name in NAMES:
                self[name]
            self._entries = Columns()

    def __getitem__(self, name: str) -> pa.Array:
        column = self._made.get(name)
        if column is None:
            self._made |= {column_name: self._make(column_name) for column_name in TOGETHER.get(name, (name,))}
            column = self._made[name]
            if name in KINDS:  # numbers were decoded at once
                self.forget()
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)

    def forget(self) -> None:
        """Lets go of the unpacked file."""
        self._entries.forget()

    @property
    def nbytes(self) -> int:
        """What stays in memory."""
        return self._entries.held_bytes + int(sum(array.nbytes for array in list(self._made.values())))

    def _find_partition(self) -> dict[int, tuple[pa.Array, Json]]:
        """The partition fields by their ids, with their Avro types."""
        fields = self._entries.record(DATA_FILE).record(PARTITION)
        return {
            field: (self._keep(column.array()), column.schema)
            for field, column in fields.items()
            if isinstance(column, Column)
        }

    def _find_picked(self) -> dict[tuple[str, int], pa.Array]:
        """The bounds that were asked for when the file was read: of the lower or the upper ones, of a column."""
        maps = {name: self._entries.record(DATA_FILE).bounds(field_id) for name, field_id in FILE_BOUNDS.items()}
        return {
            (name, value): self._keep(array)
            for name, picks in maps.items()
            if picks is not None
            for value, array in picks.picked().items()
        }

    def _make(self, name: str) -> pa.Array:
        try:
            array = self._find(name)
        except (NotVectorized, pa.ArrowInvalid, OverflowError, MemoryError) as exc:
            raise ManifestUnreadable(self._path, f"it is damaged ({name}: {exc})") from exc
        array = pa.nulls(self._count, KINDS.get(name, pa.int64())) if array is None else array
        return self._keep(array.fill_null(0) if name == "content" else array)

    def _find(self, name: str) -> pa.Array | None:
        files = self._entries.record(DATA_FILE)
        if name in FILE_LISTS:
            return files.lists(FILE_LISTS[name])
        if name in FILE_BOUNDS:
            bounds = files.bounds(FILE_BOUNDS[name])
            return None if bounds is None else bounds.array()
        return self._entries.plain(ENTRY[name]) if name in ENTRY else files.plain(FILE[name])

    def _keep(self, column: pa.Array) -> pa.Array:
        return column if self._live is None else column.filter(self._live)


def read_entries(path: str, content: bytes, *, bounds_of: Collection[int] = ()) -> Columns:
    """The entries in a manifest's bytes: vectorized if possible, else one by one."""
    try:
        file = open_avro(content)
        try:
            return read_vectorized(file, bounds_of=bounds_of)
        except (NotVectorized, LookupError, TypeError, ValueError, OverflowError, MemoryError):
            return read_records(file, unwanted=(COLUMN_SIZES,), bounds_of=bounds_of)
    except AvroError as exc:
        raise ManifestUnreadable(path, str(exc)) from exc
