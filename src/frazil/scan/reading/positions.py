"""Deleted positions of a data file: from position delete files, and from deletion vectors (roaring bitmaps in Puffin
files).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import IO, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from frazil.errors import DataFileUnreadable
from frazil.scan.planning import PATH_FIELD, DeleteFile
from frazil.scan.reading.project import FIELD_ID

Open: TypeAlias = Callable[[str], IO[bytes]]
Positions: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

POS_FIELD = 2147483545
VECTOR_MAGIC = b"\xd1\xd3\x39\x64"
NONE = np.empty(0, np.int64)


def read_vector(file: DeleteFile, open_file: Open) -> Positions:
    """The positions in a deletion vector, in order."""
    offset, length = file.fact("content_offset"), file.fact("content_bytes")
    if offset is None or length is None or length < 12:
        raise DataFileUnreadable(file.path, "the manifest does not say where its deletion vector is")
    with open_file(file.path) as source:
        source.seek(offset)
        blob = source.read(length)
    vector = _decode_vector(file.path, blob)
    if len(vector) != file.fact("records"):
        raise DataFileUnreadable(
            file.path, f"the deletion vector has {len(vector):,} positions, the manifest says {file.fact('records'):,}"
        )
    return vector


def _decode_vector(path: str, blob: bytes) -> Positions:
    """The specification's blob `deletion-vector-v1`: length, magic, bitmap, checksum."""
    body, checksum = blob[4:-4], blob[-4:]
    if struct.unpack(">I", blob[:4])[0] != len(body) or body[:4] != VECTOR_MAGIC:
        raise DataFileUnreadable(path, "there is no deletion vector where the manifest says")
    if struct.unpack(">I", checksum)[0] != zlib.crc32(body):
        raise DataFileUnreadable(path, "the checksum of its deletion vector is wrong")
    try:
        return np.frombuffer(BitMap64.deserialize(body[4:]).to_array(), np.uint64).astype(np.int64)
    except ValueError as exc:
        raise DataFileUnreadable(path, f"its deletion vector cannot be decoded ({exc})") from exc


def read_position_file(source: IO[bytes]) -> dict[str, Positions]:
    """The positions that a position delete file names, in order, by data file."""
    parquet = pq.ParquetFile(source, pre_buffer=True)
    ids = {int((field.metadata or {}).get(FIELD_ID, -1)): field.name for field in parquet.schema_arrow}
    path, pos = ids.get(PATH_FIELD, "file_path"), ids.get(POS_FIELD, "pos")
    table = parquet.read(columns=[path, pos]).combine_chunks()
    if not len(table):
        return {}
    names = table[path].combine_chunks().dictionary_encode()
    codes, positions = names.indices.to_numpy(zero_copy_only=False), table[pos].cast(pa.int64()).to_numpy()
    order = np.lexsort((positions, codes))
    starts = np.searchsorted(codes[order], np.arange(len(names.dictionary) + 1))
    parts = (positions[order[first:last]] for first, last in pairwise(starts))
    return dict(zip(names.dictionary.to_pylist(), parts, strict=True))


def merge(positionss: Sequence[Positions]) -> Positions:
    """Positions from several files in order, each once."""
    parts = [positions_ for positions_ in positionss if len(positions_)]
    if not parts:
        return NONE
    return np.unique(np.concatenate(parts))


def among(positions: Positions, start: int, count: int) -> Positions:
    """Which rows are deleted of `count` that begin at a position, counted from there.

    >>> among(np.array([1, 5, 6, 9]), 5, 4).tolist()
    [0, 1]
    """
    first, last = np.searchsorted(positions, (start, start + count))
    return positions[first:last] - start


def kept_rows(positions: Positions, start: int, count: int) -> pa.BooleanArray | None:
    """A mask of the rows that are not deleted; None when none is."""
    if not len(positions):
        return None
    gone = among(positions, start, count)
    if not len(gone):
        return None
    mask = np.ones(count, bool)
    mask[gone] = False
    return pa.array(mask)
