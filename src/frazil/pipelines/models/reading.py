"""Rows of input tables as Spark frames: all of a snapshot, what was appended between two, what changed between two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, IntegerType, LongType, StringType

from frazil.pipelines.models.inputs import Arrived, News
from frazil.pipelines.sources import CHANGE
from frazil.scan.engines import files_to_spark
from frazil.scan.planning import FileTask, Planner, ScanRequest, Source, TableState
from frazil.scan.reading import RowScan, differing_files, plan_snapshot
from frazil.spark import quoted

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

INSERT, DELETE = "INSERT", "DELETE"
# How manifests hold the values of partitions.
_STORED: dict[type, pa.DataType] = {
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    DateType: pa.int32(),
    StringType: pa.string(),
}


@dataclass(frozen=True)
class InputReader:
    """Reads one input table with the session's catalog; `table` is the table as the run has loaded it."""

    spark: SparkSession
    catalog: str
    table: Table
    arrived: Arrived

    def all(self) -> DataFrame:
        """All rows of the snapshot that the run has fixed, in today's columns."""
        snapshot_id = self.arrived.now.snapshot_id
        if snapshot_id is None:  # the table has no snapshot: Spark would read one that comes in this moment
            return files_to_spark(self._scan(), [], self.spark)
        if not self._has_todays_columns(snapshot_id):  # Spark would read those that the table had then
            return files_to_spark(self._scan(), plan_snapshot(self.table, snapshot_id), self.spark)
        return self.spark.sql(f"SELECT * FROM {self._name} VERSION AS OF {snapshot_id}")  # noqa: S608  # a number

    def _has_todays_columns(self, snapshot_id: int) -> bool:
        snapshot = self.table.metadata.snapshot_by_id(snapshot_id)
        return snapshot is None or snapshot.schema_id in (None, self.table.metadata.current_schema_id)

    def appended(self) -> DataFrame:
        """The rows that were appended since the last run."""
        since, now = self.arrived.since, self.arrived.now
        if since is None or since.snapshot_id is None:
            return self.all()
        ends = {"start-snapshot-id": str(since.snapshot_id), "end-snapshot-id": str(now.snapshot_id)}
        return self.spark.read.options(**ends).table(self._name)

    def appended_values(self, columns: Mapping[str, str]) -> pa.Table | None:
        """The values that columns of the table have in what was appended, under other names, if the table is
        partitioned by them: then manifests tell. None if they do not.
        """
        since, now = self.arrived.since, self.arrived.now
        if self.arrived.news is not News.APPENDED or since is None or since.snapshot_id is None:
            return None
        request = ScanRequest(start_snapshot_id=since.snapshot_id, end_snapshot_id=now.snapshot_id)
        state = TableState.of(".".join(self.table.name()), self.table.metadata)
        planner = Planner(state, Source.of(self.table.io).cache, request)
        return partition_values(self.table.metadata, list(planner.plan().tasks()), columns)

    def changed(self) -> DataFrame:
        """The rows that came and went since the last run, with `INSERT` or `DELETE` in `_change_type`. A row that is
        the same before and after is not among them, unless it has a map: Spark does not compare maps, so that all rows
        of the files that were replaced are among them.
        """
        from pyspark.sql import functions as F

        if self.arrived.news in (News.FIRST, News.APPENDED):
            rows = self.all() if self.arrived.news is News.FIRST else self.appended()
            return rows.withColumn(CHANGE, F.lit(INSERT))
        before, after = self._differing()
        came, went = after, before
        if not any(_has_map(field.dataType) for field in after.schema.fields):
            came, went = after.exceptAll(before), before.exceptAll(after)
        return came.withColumn(CHANGE, F.lit(INSERT)).unionByName(went.withColumn(CHANGE, F.lit(DELETE)))

    def all_as_changes(self, *, gone: bool) -> DataFrame:
        """All rows as inserted ones, and if asked for those that are `gone` since the last run as deleted ones."""
        from pyspark.sql import functions as F

        rows = self.all().withColumn(CHANGE, F.lit(INSERT))
        if not gone or self.arrived.news is not News.CHANGED:
            return rows
        return rows.unionByName(self.changed().where(F.col(CHANGE) == DELETE))

    def _differing(self) -> tuple[DataFrame, DataFrame]:
        """The rows of files that only one of the two snapshots has in this way, both in today's columns."""
        since, now = self.arrived.since, self.arrived.now
        assert since is not None
        assert now.snapshot_id is not None
        files = (
            ([], plan_snapshot(self.table, now.snapshot_id))
            if since.snapshot_id is None
            else differing_files(self.table, since.snapshot_id, now.snapshot_id)
        )
        before, after = (files_to_spark(self._scan(), tasks, self.spark) for tasks in files)
        return before, after

    def _scan(self) -> RowScan:
        state = TableState.of(".".join(self.table.name()), self.table.metadata)
        return RowScan(state, Source.of(self.table.io), ScanRequest(snapshot_id=self.arrived.now.snapshot_id))

    @property
    def _name(self) -> str:
        return ".".join(quoted(part) for part in (self.catalog, *self.table.name()))


def partition_values(metadata: TableMetadata, files: Sequence[FileTask], columns: Mapping[str, str]) -> pa.Table | None:
    """The values of columns in some files, each combination once; None unless every file lies in a partition of plain
    values of all of them.
    """
    fields = [fields_by_name(metadata.schema()).get(source) for source in columns.values()]
    kinds = [_STORED.get(type(field.field_type)) if field else None for field in fields]
    rows: dict[tuple[Any, ...], None] = {}
    for file in files:
        places = {
            part.source_id: place
            for place, part in enumerate(metadata.specs()[file.spec_id].fields)
            if isinstance(part.transform, IdentityTransform)
        }
        if None in kinds or any(field is None or field.field_id not in places for field in fields):
            return None
        rows[tuple(file.partition[places[field.field_id]] for field in fields if field)] = None
    stored = [pa.array(list(values), kind) for values, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
    return pa.table(stored, names=list(columns)) if rows else None


def fields_by_name(schema: Schema) -> dict[str, NestedField]:
    """The columns by their names in lower case, as Spark finds them."""
    return {field.name.lower(): field for field in schema.fields}


def _has_map(kind: DataType) -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    return isinstance(kind, MapType) or (isinstance(kind, ArrayType) and _has_map(kind.elementType))
