"""Tables that are metadata alone: manifests written for rows that are in memory, with statistics as careful or as
careless as asked for.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, FloatType, IntegerType, LongType, StringType

from frazil.scan.planning.compiled import ScanCache
from frazil.scan.planning.table import TableState

Row = Mapping[str, Any]


@dataclass
class Stats:
    """What a writer says about the columns of a file."""

    bounds: bool = True
    counts: bool = True
    cut_to: int | None = None  # text bounds are cut to this many characters
    narrow: bool = False  # numbers as they were before the column was widened


@dataclass
class MadeFile:
    """A data file that is not there: its rows, its partition, its statistics."""

    path: str
    rows: Sequence[Row]
    spec: PartitionSpec
    partition: tuple[Any, ...]
    stats: Stats = field(default_factory=Stats)
    format: FileFormat = FileFormat.PARQUET


def split_by_partition(rows: Iterable[Row], spec: PartitionSpec, schema: Schema) -> dict[tuple[Any, ...], list[Row]]:
    """The rows of each partition."""
    result: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        values = []
        for item in spec.fields:
            source = schema.find_field(item.source_id)
            values.append(item.transform.transform(source.field_type)(row[source.name]))
        result.setdefault(tuple("NaN" if isinstance(v, float) and math.isnan(v) else v for v in values), []).append(row)
    return {tuple(math.nan if v == "NaN" and len(key) else v for v in key): rows for key, rows in result.items()}


def describe(file: MadeFile, schema: Schema) -> DataFile:
    """The file's entry in a manifest."""
    maps: dict[str, dict[int, Any]] = {
        name: {} for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower", "upper")
    }
    for item in schema.fields:
        values = [row.get(item.name) for row in file.rows]
        present = [value for value in values if value is not None]
        nans = [value for value in present if isinstance(value, float) and math.isnan(value)]
        solid = [value for value in present if not (isinstance(value, float) and math.isnan(value))]
        if file.stats.counts:
            maps["value_counts"][item.field_id] = len(values)
            maps["null_value_counts"][item.field_id] = len(values) - len(present)
            if isinstance(item.field_type, FloatType | DoubleType):
                maps["nan_value_counts"][item.field_id] = len(nans)
        if file.stats.bounds and solid:
            low, high = _bounds(item.field_type, min(solid), max(solid), file.stats)
            maps["lower"][item.field_id] = low
            if high is not None:
                maps["upper"][item.field_id] = high
    arguments = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file.path,
        file_format=file.format,
        partition=Record(*file.partition),
        record_count=len(file.rows),
        file_size_in_bytes=1000 + len(file.rows),
        value_counts=maps["value_counts"] or None,
        null_value_counts=maps["null_value_counts"] or None,
        nan_value_counts=maps["nan_value_counts"] or None,
        lower_bounds=maps["lower"] or None,
        upper_bounds=maps["upper"] or None,
    )
    arguments.spec_id = file.spec.spec_id
    return arguments


def _bounds(kind: Any, low: Any, high: Any, stats: Stats) -> tuple[bytes, bytes | None]:
    if isinstance(kind, StringType) and stats.cut_to is not None:
        cut = high[: stats.cut_to]
        rounded = cut if cut == high else cut[:-1] + chr(ord(cut[-1]) + 1) if cut else None
        return low[: stats.cut_to].encode(), None if rounded is None else rounded.encode()
    if isinstance(kind, LongType) and stats.narrow and low >= -(2**31) and high < 2**31:
        return to_bytes(IntegerType(), low), to_bytes(IntegerType(), high)
    if isinstance(kind, DoubleType) and stats.narrow and all(_is_single(value) for value in (low, high)):
        return struct.pack("<f", low), struct.pack("<f", high)
    return to_bytes(kind, low), to_bytes(kind, high)


def _is_single(value: float) -> bool:
    return struct.unpack("<f", struct.pack("<f", value))[0] == value


class MadeTable:
    """The metadata of a table on disk, for our planner and for PyIceberg's."""

    def __init__(
        self, folder: Path, schema: Schema, specs: Sequence[PartitionSpec], *, format_version: int = 2
    ) -> None:
        self.folder, self.schema, self.specs, self.format_version = folder, schema, specs, format_version
        self.io = PyArrowFileIO()
        self.files: list[MadeFile] = []
        self.snapshots: list[dict[str, Any]] = []
        self._manifests: list[ManifestFile] = []
        self._numbers = itertools.count(1)
        self.properties: dict[str, str] = {}

    def append(self, files: Sequence[MadeFile], *, per_manifest: int = 4) -> None:
        """A snapshot with these files added."""
        number = len(self.snapshots) + 1
        self.files += files
        for spec in self.specs:
            own = [describe(file, self.schema) for file in files if file.spec is spec]
            for start in range(0, len(own), per_manifest):
                self._manifests.append(self._write_manifest(spec, own[start : start + per_manifest], number))
        self.commit(number)

    def _write_manifest(self, spec: PartitionSpec, files: Sequence[DataFile], number: int) -> ManifestFile:
        place = str(self.folder / f"m{next(self._numbers)}.avro")
        with write_manifest(
            self.format_version, spec, self.schema, self.io.new_output(place), number, avro_compression="deflate"
        ) as writer:
            for file in files:
                writer.add(
                    ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=number, data_file=file)
                )
        return writer.to_manifest_file()

    def commit(self, number: int) -> None:
        place = str(self.folder / f"snap-{number}.avro")
        parent = number - 1 or None
        output = self.io.new_output(place)
        with write_manifest_list(
            self.format_version, output, number, parent, number, avro_compression="deflate"
        ) as writer:
            writer.add_manifests(self._manifests)
        snapshot = {
            "snapshot-id": number,
            "sequence-number": number,
            "timestamp-ms": number,
            "manifest-list": place,
            "schema-id": 0,
        }
        snapshot["summary"] = {"operation": "append"}
        self.snapshots.append(snapshot | ({"parent-snapshot-id": parent} if parent else {}))

    @property
    def metadata(self) -> dict[str, Any]:
        return {
            "format-version": self.format_version,
            "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
            "location": str(self.folder),
            "last-sequence-number": len(self.snapshots),
            "last-updated-ms": 1,
            "last-column-id": max(self.schema.field_ids),
            "schemas": [self.schema.model_dump(mode="json", by_alias=True)],
            "current-schema-id": 0,
            "partition-specs": [spec.model_dump(mode="json", by_alias=True) for spec in self.specs],
            "default-spec-id": 0,
            "last-partition-id": 1999,
            "properties": self.properties,
            "snapshots": self.snapshots,
            "current-snapshot-id": len(self.snapshots) or None,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "refs": {"main": {"snapshot-id": len(self.snapshots), "type": "branch"}} if self.snapshots else {},
        }

    @property
    def state(self) -> TableState:
        return TableState("lake.made", self.metadata)

    def cache(self) -> ScanCache:
        return ScanCache(lambda path: Path(path).read_bytes())

    def pyiceberg(self) -> Table:
        metadata = TableMetadataUtil.parse_obj(self.metadata)
        return Table(("lake", "made"), metadata, str(self.folder / "m.json"), self.io, NoopCatalog("none"))
