"""The entries of a manifest, decoded column by column: one field of all entries at a time, by numpy. Long fields are
decoded when they are asked for.

In Avro a record starts where the one before it ends, so records can only be read one by one. But every entry has the
path of its file, and the paths of a table start alike: they are searched for, and all entries are read at once from
their paths to their ends. Where one ends the next starts, and must lead to the path that was found, with the length
that was read. If all do, the positions are right, by induction from the first entry; if one does not, nothing is used,
and the entries are read one by one (avro.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa

from frazil.scan.manifests.avro import AvroFile, Columns, open_avro
from frazil.scan.manifests.avro_schema import Json, branch, kind_of, null_index
from frazil.scan.manifests.lanes import MARK, Field, Lanes, NotVectorized, Numbers, Texts

PATH = 100  # its field id
ALIKE = 16  # bytes that the paths start with
LEAST = 32  # entries; fewer are faster one by one
MOST_BYTES = 2**30
# times smaller is the file, or its records are kept unpacked; PyIceberg packs each entry by itself, for little
WORTH_PACKING = 3

__all__ = ["NotVectorized", "pick_vectorized", "read_vectorized"]


def read_vectorized(file: AvroFile, *, bounds_of: Collection[int] = ()) -> Columns:
    """All entries of a manifest as columns; `NotVectorized` when they have to be read one by one."""
    if not LEAST <= file.count <= len(file.records) <= MOST_BYTES:
        raise NotVectorized("too few entries, or too much of them")
    columns = Columns()
    fields = list(_flatten(file.schema, columns))
    at = next((at for at, field in enumerate(fields) if field.field_id == PATH and field.null_at < 0), None)
    if at is None:
        raise NotVectorized("no path")
    head, path, rest = fields[:at], fields[at], fields[at + 1 :]
    is_packed = len(file.content) < len(file.records) // WORTH_PACKING
    content = file.content if is_packed else b""
    lanes = Lanes(file.records, (lambda: open_avro(content).records) if is_packed else None)
    starts = _find_paths(lanes, head, file.count)
    lengths = lanes.number_before(starts)

    lanes.at = starts + lengths
    lanes.read_all(rest, bounds_of)
    if lanes.at[-1] != len(file.records):
        raise NotVectorized("the last entry does not end where the records do")
    lanes.at = np.concatenate([np.zeros(1, np.int64), lanes.at[:-1]])
    lanes.read_all(head, bounds_of)
    if not (np.array_equal(lanes.number(), lengths) and np.array_equal(lanes.at, starts)):
        raise NotVectorized("an entry does not start where the one before it ends")
    path.owner[PATH] = Texts(lanes, path.schema, starts, lengths)
    columns.forget = lanes.forget
    # where they lie: a start and a length
    columns.held_bytes = (len(content) or len(file.records)) + len(fields) * 8 * file.count
    return columns


def pick_vectorized(maps: pa.BinaryArray, field_id: int) -> pa.Array:
    """One field's bytes out of maps in their Avro form; `NotVectorized` when they have to be read one by one."""
    if len(maps) < LEAST:
        raise NotVectorized("too few")
    offsets = np.frombuffer(maps.buffers()[1], np.int32)[maps.offset : maps.offset + len(maps) + 1].astype(np.int64)
    there = maps.is_valid().to_numpy(zero_copy_only=False)
    lanes = Lanes(maps.buffers()[2].to_pybytes())
    lanes.at = offsets[:-1][there]
    maps_ = lanes.read_maps(there, (field_id,))
    if not np.array_equal(lanes.at, offsets[1:][there]):
        raise NotVectorized("a map does not end where its bytes do")
    return maps_.picked()[field_id]


def _flatten(schema: Json, columns: Columns) -> Iterator[Field]:
    """The fields of a record and of the records in it, in the order of their bytes."""
    for field in schema["fields"]:
        field_id, kind = field["field-id"], field["type"]
        null_at = null_index(kind)
        if kind_of(kind) != "record":
            yield Field(columns, field_id, kind, kind_of(kind), null_at)
        else:
            if null_at >= 0:
                yield Field(columns, field_id, kind, MARK, null_at)
            inner = columns[field_id] = Columns()
            yield from _flatten(branch(kind), inner)


def _find_paths(lanes: Lanes, head: Sequence[Field], count: int) -> Numbers:
    """Where the paths lie: what starts as the path of the first entry does."""
    lanes.at = np.zeros(1, np.int64)
    lanes.read_all(head)
    size, at = int(lanes.number()[0]), int(lanes.at[0])
    alike = lanes.records[at : at + min(size, ALIKE)]
    between = lanes.records.split(alike) if alike else []
    if len(between) != count + 1:
        raise NotVectorized("the paths do not start alike, or something else starts as they do")
    lengths = np.fromiter(map(len, between), np.int64, count) + len(alike)
    return np.asarray(np.cumsum(lengths) - len(alike))
