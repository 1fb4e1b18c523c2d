"""Delete files that name rows by their place: position deletes in Parquet for format 2, deletion vectors in Puffin for
format 3.

Format 2 gets one file per partition and commit, in the order of paths and positions, with whole paths as its bounds:
readers skip it for data files outside of them. In partitions of floating point, it is one per data file. Format 3 gets
one vector per data file, all of a commit in one Puffin file. A vector stands for every position that is deleted in its
data file, so it takes the place of older ones.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record
from pyroaring import BitMap64

from frazil.puffin import Blob, PuffinWriter
from frazil.scan.reading import EXTRAS, VECTOR_MAGIC, Positions
from frazil.write.files import TableLayout, writing

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

PATH_ID, POS_ID = 2147483546, 2147483545
POSITION_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(POS_ID)}),
    ]
)
MOST_ROWS = 8_000_000  # of a position delete file: some 64 MB, Iceberg's own target for delete files
VECTOR_TYPE = "deletion-vector-v1"
INHERITED = -1  # a vector's snapshot and sequence number are those of the commit that adds it


@dataclass(frozen=True, eq=False)
class DeletedRows:
    """Rows of one data file that are deleted, by their positions in order, and the partition that the file is in."""

    path: str
    positions: Positions
    spec_id: int
    partition: Record

    @property
    def place(self) -> tuple[int, str, str | None]:
        """Rows of one place share a delete file: those of a partition, where 0.0 and -0.0 are different."""
        return self.spec_id, repr(self._values), self.path if self.needs_path else None

    @property
    def needs_path(self) -> bool:
        """Whether readers must find the deletes by the path of their data file, which is both of their bounds.

        In partitions of floating point they may not find them by the partition: PyIceberg looks it up, and NaN is not
        equal to itself; and a manifest may say 0.1 today that said 0.10000000149011612 yesterday (see `entries`).
        """
        return any(isinstance(value, float) for value in self._values)

    @property
    def _values(self) -> list[object]:
        return [self.partition[at] for at in range(len(self.partition))]


@dataclass(frozen=True)
class PositionFile:
    """A position delete file that is written and not committed yet."""

    path: str
    rows: int
    bytes: int
    spec_id: int
    paths: tuple[str, str]  # the first and the last data file that it names
    positions: tuple[int, int]

    def to_data_file(self, partition: Record) -> DataFile:
        """The file as a manifest describes it. Its bounds are whole paths: cut ones would not tell that it is about one
        file alone.
        """
        file = DataFile.from_args(
            content=DataFileContent.POSITION_DELETES,
            file_path=self.path,
            file_format=FileFormat.PARQUET,
            partition=partition,
            record_count=self.rows,
            file_size_in_bytes=self.bytes,
            value_counts={PATH_ID: self.rows, POS_ID: self.rows},
            null_value_counts={PATH_ID: 0, POS_ID: 0},
            lower_bounds={PATH_ID: self.paths[0].encode(), POS_ID: _long(self.positions[0])},
            upper_bounds={PATH_ID: self.paths[1].encode(), POS_ID: _long(self.positions[1])},
        )
        file.spec_id = self.spec_id
        return file


def write_position_file(io: FileIO, path: str, rows: pa.Table, *, spec_id: int) -> PositionFile:
    """A position delete file with these rows, which are in order and at least one."""
    with writing(path), io.new_output(path).create() as stream:
        pq.write_table(rows, stream, compression="zstd", use_dictionary=["file_path"], store_schema=False)
        size = stream.tell()
    paths, ends = rows.column("file_path"), pc.min_max(rows.column("pos")).as_py()
    return PositionFile(
        path, rows.num_rows, size, spec_id, (paths[0].as_py(), paths[-1].as_py()), (ends["min"], ends["max"])
    )


def write_position_deletes(
    io: FileIO, layout: TableLayout, deleted: Sequence[DeletedRows], *, most_rows: int = MOST_ROWS
) -> list[DataFile]:
    """One position delete file for each partition that has deleted rows; more, if there are too many for one."""
    places: dict[tuple[int, str, str | None], list[DeletedRows]] = defaultdict(list)
    for rows in deleted:
        places[rows.place].append(rows)
    files: list[DataFile] = []
    for some in places.values():
        table, partition, spec_id = _as_table(some), some[0].partition, some[0].spec_id
        for start in range(0, table.num_rows, most_rows):
            path = _location(layout, spec_id, partition)
            written = write_position_file(io, path, table.slice(start, most_rows), spec_id=spec_id)
            files.append(written.to_data_file(partition))
    return files


def _as_table(deleted: Sequence[DeletedRows]) -> pa.Table:
    """The rows by path, then position. Paths repeat, so they are numbers into a dictionary until they are written."""
    by_path = sorted(deleted, key=lambda rows: rows.path.encode())
    counts = [len(rows.positions) for rows in by_path]
    numbers = pa.array(np.repeat(np.arange(len(by_path), dtype=np.int32), counts))
    paths = pa.DictionaryArray.from_arrays(numbers, pa.array([rows.path for rows in by_path], pa.string()))
    positions = pa.array(np.concatenate([rows.positions for rows in by_path]), pa.int64())
    path_field = POSITION_SCHEMA.field("file_path").with_type(paths.type)
    return pa.table([paths, positions], schema=pa.schema([path_field, POSITION_SCHEMA.field("pos")]))


def _location(layout: TableLayout, spec_id: int, partition: Record) -> str:
    """In the folder of the partition; files of an older spec have none there."""
    values = tuple(partition[at] for at in range(len(partition))) if spec_id == layout.spec.spec_id else None
    return layout.data_location(values, f"{uuid.uuid4()}-deletes.parquet")


def write_vectors(io: FileIO, layout: TableLayout, deleted: Sequence[DeletedRows]) -> list[DataFile]:
    """A deletion vector for each of the data files, all in one Puffin file."""
    if not deleted:
        return []
    path = layout.data_location(None, f"{uuid.uuid4()}-deletes.puffin")
    with writing(path), PuffinWriter(io.new_output(path)) as writer:
        blobs = [
            writer.add(_blob(rows), snapshot_id=INHERITED, sequence_number=INHERITED)
            for rows in sorted(deleted, key=lambda rows: rows.path)
        ]
    assert writer.written is not None
    by_path = {rows.path: rows for rows in deleted}
    files: list[DataFile] = []
    for blob in blobs:
        rows = by_path[blob.properties["referenced-data-file"]]
        file = DataFile.from_args(
            _table_format_version=3,
            content=DataFileContent.POSITION_DELETES,
            file_path=path,
            file_format=FileFormat.PUFFIN,
            partition=rows.partition,
            record_count=len(rows.positions),
            file_size_in_bytes=writer.written.size,
            referenced_data_file=rows.path,
            content_offset=blob.offset,
            content_size_in_bytes=blob.length,
            **_path_bounds(rows),
        )
        file.spec_id = rows.spec_id
        files.append(file)
    return files


def _path_bounds(rows: DeletedRows) -> dict[str, dict[int, bytes]]:
    """The bounds of a vector: none, as others write it, but where PyIceberg would not find it."""
    bounds = {PATH_ID: rows.path.encode()}
    return {"lower_bounds": bounds, "upper_bounds": bounds} if rows.needs_path else {}


def _blob(rows: DeletedRows) -> Blob:
    """The specification's blob: length, magic, bitmap, checksum."""
    bitmap = BitMap64(rows.positions.astype(np.uint64))
    bitmap.run_optimize()
    body = VECTOR_MAGIC + bitmap.serialize()
    payload = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    facts = {"referenced-data-file": rows.path, "cardinality": str(len(rows.positions))}
    return Blob(VECTOR_TYPE, (EXTRAS["_pos"].field_id,), payload, facts, codec=None)


def _long(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)
