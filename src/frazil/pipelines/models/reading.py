"""Rows of input tables as Spark frames: all of a snapshot, what was appended between two, what changed between two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.pipelines.models.inputs import Arrived, News
from frazil.scan.engines import files_to_spark
from frazil.scan.planning import ScanRequest, Source, TableState
from frazil.scan.reading import RowScan, differing_files, plan_snapshot
from frazil.spark import quoted

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

CHANGE = "_change_type"
INSERT, DELETE = "INSERT", "DELETE"


@dataclass(frozen=True)
class InputReader:
    """Reads one input table with the session's catalog; `table` is the table as the run has loaded it."""

    spark: SparkSession
    catalog: str
    table: Table
    arrived: Arrived

    def all(self) -> DataFrame:
        """All rows of the snapshot that the run has fixed."""
        snapshot_id = self.arrived.now.snapshot_id
        if snapshot_id is None:  # the table has no snapshot: Spark would read one that comes in this moment
            return files_to_spark(self._scan(), [], self.spark)
        return self.spark.sql(f"SELECT * FROM {self._name} VERSION AS OF {snapshot_id}")  # noqa: S608  # a number

    def appended(self) -> DataFrame:
        """The rows that were appended since the last run."""
        since, now = self.arrived.since, self.arrived.now
        if since is None or since.snapshot_id is None:
            return self.all()
        ends = {"start-snapshot-id": str(since.snapshot_id), "end-snapshot-id": str(now.snapshot_id)}
        return self.spark.read.options(**ends).table(self._name)

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


def _has_map(kind: DataType) -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    return isinstance(kind, MapType) or (isinstance(kind, ArrayType) and _has_map(kind.elementType))
