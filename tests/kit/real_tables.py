"""Small tables with real Parquet files and delete files of every kind, and what their rows are by the rules, thought
out row by row.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField
from pyroaring import BitMap64

from frazil.scan.planning.deletes import PATH_FIELD
from frazil.scan.planning.plan import Planner, ScanRequest
from frazil.scan.reading.datafile import FileReader
from frazil.scan.reading.positions import POS_FIELD
from frazil.scan.reading.read_plan import ReadPlan
from frazil.scan.reading.values import COUNTED, arrow_type, storage_type
from tests.kit.metadata_tables import MadeFile, MadeTable, Row

POSITION_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(PATH_FIELD)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(POS_FIELD)}),
    ]
)


def to_arrow(rows: Sequence[Row], fields: Sequence[NestedField]) -> pa.Table:
    """Rows with dates, times and UUIDs as they are stored, as Arrow with field ids."""
    schema = schema_to_pyarrow(Schema(*fields))
    return pa.Table.from_arrays(
        [_array([row[column.name] for row in rows], column) for column in fields], schema=schema
    )


def _array(values: Sequence[Any], nested_field: NestedField) -> pa.Array:
    wanted = arrow_type(nested_field.field_type)
    if isinstance(nested_field.field_type, COUNTED):
        return pa.array(values, pa.int64()).cast(pa.int32() if pa.types.is_date(wanted) else pa.int64()).cast(wanted)
    plain = pa.array(values, storage_type(wanted))
    return pa.ExtensionArray.from_storage(wanted, plain) if isinstance(wanted, pa.BaseExtensionType) else plain


def to_stored(table: pa.Table, fields: Sequence[NestedField]) -> list[tuple[str, ...]]:
    """Rows as they are stored, in a form that tells NaN from null and -0.0 from 0.0."""
    columns = []
    for column, item in zip(table.columns, fields, strict=True):
        plain = (
            pa.chunked_array([chunk.storage for chunk in column.chunks], storage_type(column.type))
            if is_extension(column)
            else column
        )
        if isinstance(item.field_type, COUNTED):
            plain = plain.cast(pa.int32() if pa.types.is_date(plain.type) else pa.int64())
        columns.append([repr(value) for value in plain.to_pylist()])
    return list(zip(*columns, strict=True)) if columns else []


def is_extension(column: pa.ChunkedArray) -> bool:
    return isinstance(column.type, pa.BaseExtensionType)


@dataclass(eq=False)
class RealFile(MadeFile):
    """A data file that is there, and when it came."""

    sequence: int = 0


@dataclass
class MadeDelete:
    """A delete file, and what it says."""

    kind: str  # positions, vector, equality
    spec: PartitionSpec
    partition: tuple[Any, ...]
    sequence: int
    positions: dict[str, list[int]] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    values: Sequence[Row] = ()


class _DeleteWriter(ManifestWriterV2):
    """PyIceberg writes no manifests of deletes, nor what format 3 knows about them."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        schema = self._with_partition(3)
        return AvroOutputFile(self._output_file, schema, "manifest_entry", record_schema=schema, metadata=self._meta)


class RealTable(MadeTable):
    """A table whose files are there."""

    def __init__(self, folder: Path, schema: Schema, specs: Sequence[PartitionSpec], **more: Any) -> None:
        super().__init__(folder, schema, specs, **more)
        self.deletes: list[MadeDelete] = []

    def write(self, files: Sequence[RealFile], *, group_rows: int = 2, per_manifest: int = 4) -> None:
        """A snapshot with these files added."""
        for file in files:
            file.sequence = len(self.snapshots) + 1
            pq.write_table(to_arrow(file.rows, self.schema.fields), file.path, row_group_size=group_rows)
        self.append(files, per_manifest=per_manifest)

    def delete(self, deletes: Sequence[MadeDelete]) -> None:
        """A snapshot with these delete files added."""
        number = len(self.snapshots) + 1
        for response in deletes:
            response.sequence = number
            self._manifests.append(self._write_deletes(response, number))
        self.deletes += deletes
        self.commit(number)

    def _write_deletes(self, response: MadeDelete, number: int) -> Any:
        writer = _DeleteWriter(
            response.spec,
            self.schema,
            self.io.new_output(str(self.folder / f"d{next(self._numbers)}.avro")),
            number,
            "null",
        )
        with writer:
            entry = ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED, snapshot_id=number, data_file=self._describe_delete(response)
            )
            writer.add_entry(entry)
        return writer.to_manifest_file()

    def _describe_delete(self, response: MadeDelete) -> DataFile:
        path = str(self.folder / f"delete-{next(self._numbers)}.{'puffin' if response.kind == 'vector' else 'parquet'}")
        facts: dict[str, Any] = {
            "file_path": path,
            "file_format": FileFormat.PARQUET,
            "content": DataFileContent.POSITION_DELETES,
        }
        if response.kind == "vector":
            ((target, positions),) = response.positions.items()
            blob = vector_blob(positions)
            Path(path).write_bytes(b"PFA1" + blob)
            facts |= {
                "file_format": FileFormat.PUFFIN,
                "referenced_data_file": target,
                "content_offset": 4,
                "record_count": len(set(positions)),
            }
            facts |= {"content_size_in_bytes": len(blob)}
        elif response.kind == "positions":
            result = sorted((path, pos) for path, some in response.positions.items() for pos in some)
            pq.write_table(
                pa.table({"file_path": [p for p, _ in result], "pos": [n for _, n in result]}, schema=POSITION_SCHEMA),
                path,
            )
            facts |= {"record_count": len(result)}
        else:
            fields = [self.schema.find_field(name) for name in response.columns]
            pq.write_table(to_arrow(response.values, fields), path)
            facts |= {"content": DataFileContent.EQUALITY_DELETES, "equality_ids": [item.field_id for item in fields]}
            facts |= {"record_count": len(response.values)}
        facts |= {"partition": Record(*response.partition), "file_size_in_bytes": Path(path).stat().st_size}
        return DataFile.from_args(_table_format_version=3, **facts)

    # --- the rules, row by row ---------------------------------------------------------------------------------------

    def live(self) -> list[Row]:
        """The rows that are not deleted."""
        return [row for file in self.files for at, row in enumerate(file.rows) if not self._is_deleted(file, at, row)]

    def _is_deleted(self, file: Any, at: int, row: Row) -> bool:
        vectors = [
            response
            for response in self.deletes
            if response.kind == "vector" and file.path in response.positions and response.sequence >= file.sequence
        ]
        if vectors:
            by_position = at in vectors[-1].positions[file.path]
        else:
            later = (
                response
                for response in self.deletes
                if response.kind == "positions"
                and response.sequence >= file.sequence
                and self._concerns(response, file)
            )
            by_position = any(at in item.positions.get(file.path, ()) for item in later)
        younger = (
            response for response in self.deletes if response.kind == "equality" and response.sequence > file.sequence
        )
        return by_position or any(
            (not item.spec.fields or self._concerns(item, file))
            and any(_same(value, row, item.columns) for value in item.values)
            for item in younger
        )

    def _concerns(self, response: MadeDelete, file: Any) -> bool:
        return response.spec is file.spec and repr(response.partition) == repr(file.partition)

    # --- read --------------------------------------------------------------------------------------------------------

    def reader(
        self, expr: BooleanExpression | None = None, columns: Sequence[str] | None = None, **more: Any
    ) -> tuple[Planner, FileReader]:
        planner = Planner(self.state, self.cache(), ScanRequest(filter=AlwaysTrue() if expr is None else expr))
        fields = [self.schema.find_field(name) for name in columns or [column.name for column in self.schema.fields]]
        return planner, FileReader(ReadPlan.of(planner, lambda path: self.io.new_input(path).open(), fields, **more))  # type: ignore[return-value]

    def read(
        self, expr: BooleanExpression | None = None, columns: Sequence[str] | None = None, **more: Any
    ) -> pa.Table:
        """What the scan gives."""
        planner, reader = self.reader(expr, columns, **more)
        batches = [batch for task in planner.plan().tasks() for batch in reader.read(task)]
        return pa.Table.from_batches(batches, schema=reader.plan.arrow)


def vector_blob(positions: Iterable[int]) -> bytes:
    """A deletion vector as it lies in a Puffin file."""
    body = b"\xd1\xd3\x39\x64" + BitMap64(positions).serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def _same(row: Row, other: Row, columns: Iterable[str]) -> bool:
    """Null is null, NaN is NaN, and -0.0 is not 0.0."""
    return all(repr(row[name]) == repr(other[name]) for name in columns)
