"""The rows of a table that a scan asks for, as Arrow: planned from the manifests, read from the files. `Scan` adds
other libraries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression

from frazil.errors import ArgumentError, ScanError
from frazil.notebook import Bar, showing_progress
from frazil.scan.planning import (
    Planner,
    ScanPlan,
    ScanReport,
    ScanRequest,
    Source,
    TableState,
    default_workers,
    parse_filter,
    read_ahead,
    select_fields,
)
from frazil.scan.reading.count import count_rows
from frazil.scan.reading.datafile import FileReader
from frazil.scan.reading.extras import EXTRAS, LINEAGE
from frazil.scan.reading.read_plan import ReadPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.types import NestedField

    from frazil.scan.planning import FileTask


@dataclass(frozen=True)
class RowScan:
    """Rows of a table. Every call that reads plans again from cached manifests and reads the files of the
    same snapshot.
    """

    state: TableState
    source: Source
    request: ScanRequest
    columns: tuple[str, ...] | None = None
    limit: int | None = None
    ordered: bool = False
    workers: int | None = None

    def __post_init__(self) -> None:
        self.planner()  # a filter or a column that is wrong is an error here, where it was written
        _check_number("limit", self.limit, least=0, table=self.state.name)
        _check_number("workers", self.workers, least=0, table=self.state.name)

    # --- what it is --------------------------------------------------------------------------------------------------

    @cached_property
    def fields(self) -> tuple[NestedField, ...]:
        """The columns that are given out."""
        schema = self.state.schema(self.request.schema_id)
        return select_fields(
            schema, self.columns, table=self.state.name, case_sensitive=self.request.case_sensitive, extras=EXTRAS
        )

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self.reader(self.planner()).plan.arrow

    def plan(self) -> ScanPlan:
        """The files to read, each with its deletes and what is left of the filter for it."""
        return self.planner().plan()

    def count(self) -> int:
        """How many rows there are: from metadata where that is certain, else from the files that it is not
        certain of.
        """
        planner = self.planner()
        counted = count_rows(planner, self.reader(planner, []), workers=self.workers or default_workers())
        return counted if self.limit is None else min(counted, self.limit)

    def explain_files(self, *, row_groups: bool = True) -> ScanReport:
        """What is skipped, layer by layer, and by which term. For row groups the footers of the files that are left are
        read.
        """
        planner = self.planner()
        plan, reader = planner.plan(), self.reader(planner)
        tasks = list(plan.tasks())
        if row_groups:
            for _ in read_ahead(
                tasks,
                lambda task: iter([reader.explain(task)]),
                workers=self.workers or default_workers(),
                ordered=False,
            ):
                pass
            planner.report.layers[reader.layer.name] = reader.layer
        return planner.report

    # --- Arrow -------------------------------------------------------------------------------------------------------

    def _read(self, *, whole: bool, bar: Bar | None = None) -> Iterator[pa.RecordBatch]:
        planner, left = self.planner(), self.limit
        if left == 0:
            return
        plan = planner.plan()
        reader = self.reader(planner, whole=whole, spare=len(plan) < pa.cpu_count())
        read = reader.read if bar is None else _counting(reader.read, bar, files=len(plan))
        batches = read_ahead(plan.tasks(), read, workers=self.workers or default_workers(), ordered=self.ordered)
        for batch in batches:
            if left is not None and batch.num_rows >= left:
                yield batch.slice(0, left)
                return
            left = None if left is None else left - batch.num_rows
            yield batch

    def iter_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as a generator of batches; closing it ends the threads that read ahead."""
        return self._read(whole=False)

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as an Arrow stream, batch by batch, in bounded memory."""
        return pa.RecordBatchReader.from_batches(self.schema, self.iter_batches())

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        with showing_progress(f"reading {self.state.name}", "files") as bar:
            return pa.Table.from_batches(self._read(whole=self.limit is None, bar=bar), schema=self.schema)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Lets every library that takes Arrow streams read the scan itself."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    # -----------------------------------------------------------------------------------------------------------------

    def planner(self) -> Planner:
        """What plans the scan."""
        lineage = any(field.field_id in LINEAGE for field in self.fields)
        return Planner(self.state, self.source.cache, self.request, lineage=lineage)

    def reader(self, planner: Planner, fields: Sequence[NestedField] | None = None, **how: Any) -> FileReader:
        """What reads the files of a plan: the columns of the scan, or others."""
        return FileReader(ReadPlan.of(planner, self.source.open, self.fields if fields is None else fields, **how))


def _counting(
    read: Callable[[FileTask], Iterator[pa.RecordBatch]], bar: Bar, *, files: int
) -> Callable[[FileTask], Iterator[pa.RecordBatch]]:
    """`read`, which counts files and rows for a bar."""
    bar.total, lock = files, Lock()  # files are read in several threads

    def counted(task: FileTask) -> Iterator[pa.RecordBatch]:
        for batch in read(task):
            with lock:
                bar.rows += batch.num_rows
            yield batch
        with lock:
            bar.done += 1

    return counted


def as_filter(row_filter: str | BooleanExpression | None, *, table: str) -> BooleanExpression:
    """A filter from SQL's text or as an expression."""
    if row_filter is None:
        return AlwaysTrue()
    if isinstance(row_filter, str):
        return parse_filter(row_filter, table=table)
    if not isinstance(row_filter, BooleanExpression):
        raise ArgumentError("filter", row_filter, expected="a SQL condition, or an expression of PyIceberg")
    return row_filter


def _check_number(option: str, value: Any, *, least: int, table: str) -> None:
    """Passes for a whole number from `least` on, and for None."""
    if value is None or (isinstance(value, int) and value >= least):
        return
    raise ScanError(
        f"{table}: {option} is {value!r}: expected a whole number from {least}, or None", table=table, option=option
    )
