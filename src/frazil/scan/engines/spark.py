"""A scan's rows in Spark: the driver plans, each task reads some of the files with the same reader as everyone else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.errors import QueryError
from frazil.pyiceberg_compat import with_small_types
from frazil.scan.engines.frames import without_extensions
from frazil.scan.manifests import Manifest
from frazil.scan.planning import DeleteFile, Files, FileTask, Planner, ScanRequest, Source, TableState, select_fields
from frazil.scan.reading import EXTRAS, FileReader, ReadPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from frazil.scan.reading import RowScan

BATCH_ROWS = 10_000
TASKS_A_CORE = 4


@dataclass(frozen=True, slots=True)
class Part:
    """Some files of a scan, with everything that it takes to read them elsewhere."""

    state: TableState
    files: Files
    request: ScanRequest
    columns: tuple[str, ...] | None
    tasks: Sequence[FileTask]

    def batches(self) -> Iterator[pa.RecordBatch]:
        planner = Planner(self.state, Source.of(self.files.io).cache, self.request)
        sensitive = self.request.case_sensitive
        fields = select_fields(
            planner.schema, self.columns, table=self.state.name, case_sensitive=sensitive, extras=EXTRAS
        )
        reader = FileReader(ReadPlan.of(planner, self.files, fields))
        for task in self.tasks:
            yield from reader.read(task)


def to_spark(scan: RowScan, session: SparkSession) -> DataFrame:
    """The rows as a Spark frame. A limit is the driver's to keep: such a scan is read there."""
    if scan.limit is not None:
        wanted = with_small_types(without_extensions(scan.schema.empty_table()).schema)
        return session.createDataFrame(without_extensions(scan.to_arrow()).cast(wanted))
    return files_to_spark(scan, scan.plan().tasks(), session)


def files_to_spark(scan: RowScan, tasks: Iterable[FileTask], session: SparkSession) -> DataFrame:
    """The rows of some files as a Spark frame, in the shape of the scan's columns."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from frazil.spark import spread

    wanted = with_small_types(without_extensions(scan.schema.empty_table()).schema)
    parts = split(scan, tasks, session.sparkContext.defaultParallelism * TASKS_A_CORE)

    def read(number: int) -> Iterator[pa.RecordBatch]:
        for batch in parts[number].batches():
            yield from without_extensions(pa.Table.from_batches([batch])).cast(wanted).to_batches(BATCH_ROWS)

    if not parts:
        return session.createDataFrame([], from_arrow_schema(wanted))
    return spread(session, len(parts), read, from_arrow_schema(wanted))


def active_session() -> SparkSession:
    """The Spark session of this process."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        raise QueryError("there is no active Spark session", hint="pass one: to_spark(session)", option="session")
    return session


def split(scan: RowScan, tasks: Iterable[FileTask], most: int) -> list[Part]:
    """Files of a scan in parts of about the same size."""
    sizes, piles = [0] * most, [list[FileTask]() for _ in range(most)]
    for task in sorted(tasks, key=lambda task: -task.bytes):
        at = sizes.index(min(sizes))
        sizes[at] += task.bytes
        piles[at].append(replace(task, deletes=tuple(_alone(response) for response in task.deletes)))
    return [Part(scan.state, scan.source.open, scan.request, scan.columns, pile) for pile in piles if pile]


def _alone(file: DeleteFile) -> DeleteFile:
    """A delete file without the others of its manifest, which would travel along."""
    row = pa.array([file.row], pa.int64())
    return replace(
        file,
        manifest=Manifest(
            file.manifest.path, {name: column.take(row) for name, column in file.manifest.columns.items()}, {}
        ),
        row=0,
    )


def run_sql(session: SparkSession, sql: str, *, catalog: str) -> pa.Table:
    """The result of a statement; tables are named by namespace and name, as everywhere else."""
    from pyspark.errors import PySparkException

    try:
        session.catalog.setCurrentCatalog(catalog)
        table: pa.Table = session.sql(sql).toArrow()
    except PySparkException as exc:
        raise QueryError(f"Spark says: {str(exc).partition(chr(10))[0]}") from exc
    return table
