"""The rows of one data file: its row groups pruned, its deletes applied, filtered by what its partition left of the
filter, in the table's columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression

from frazil.scan.planning import ROW_GROUPS, Layer, bind_filter
from frazil.scan.reading.openfile import OpenFile, Rows
from frazil.scan.reading.positions import Positions, among
from frazil.scan.reading.read_plan import ReadPlan
from frazil.scan.reading.removals import Removals, check_format, reading
from frazil.scan.reading.rowgroups import DELETED_ROWS, RowGroup, drop, keep_groups

if TYPE_CHECKING:
    from frazil.scan.planning import FileTask


class FileReader:
    """Reads the files of a scan; any number of threads at a time."""

    def __init__(self, plan: ReadPlan) -> None:
        self.plan = plan
        self.layer, self._lock = Layer(ROW_GROUPS), Lock()
        self.removals = Removals(plan.table, plan.schema, plan.open)
        self._bound: dict[str, BooleanExpression] = {}

    def read(self, task: FileTask) -> Iterator[pa.RecordBatch]:
        """The rows of a file, a batch at a time, in their order."""
        check_format(task.path, task.format)
        residual = self.residual(task)
        positions, sets = self.removals.positions(task), self.removals.equality_sets(task)
        with reading(task.path), self.plan.open(task.path) as source:
            file = OpenFile(task, source, self.plan)
            groups = self._keep(file, positions)
            yield from file.batches(groups, Rows(residual, positions, sets))

    def take(self, task: FileTask, positions: Positions) -> Iterator[pa.RecordBatch]:
        """The rows at some positions of a file, in their order, whatever the filter and the deletes say of them. Row
        groups without such a row are not read.
        """
        with self.opened(task) as file:
            groups = [group for group in file.groups if len(among(positions, group.start, group.rows))]
            yield from file.chosen(groups, positions)

    @contextmanager
    def opened(self, task: FileTask) -> Iterator[OpenFile]:
        """A file, to read row groups of it."""
        check_format(task.path, task.format)
        with reading(task.path), self.plan.open(task.path) as source:
            yield OpenFile(task, source, self.plan)

    def explain(self, task: FileTask) -> list[RowGroup]:
        """The row groups of a file that would be read; nothing but its footer and its deletes is."""
        check_format(task.path, task.format)
        positions = self.removals.positions(task)
        with reading(task.path), self.plan.open(task.path) as source:
            return self._keep(OpenFile(task, source, self.plan), positions)

    def residual(self, task: FileTask) -> BooleanExpression:
        """What is left of the filter for a file, bound."""
        if task.residual is self.plan.filter or isinstance(self.plan.bound, AlwaysTrue):
            return self.plan.bound
        key = repr(task.residual)
        if key not in self._bound:
            self._bound[key] = bind_filter(
                task.residual, self.plan.schema, table=self.plan.table.name, case_sensitive=self.plan.case_sensitive
            )
        return self._bound[key]

    def _keep(self, file: OpenFile, positions: Positions) -> list[RowGroup]:
        layer = Layer(ROW_GROUPS)
        kept = keep_groups(file.groups, self.plan.terms, file.ranges, sizes=file.sizes, layer=layer)
        if len(positions):
            gone = {
                rejected.number
                for rejected in kept
                if len(among(positions, rejected.start, rejected.rows)) == rejected.rows
            }
            kept = drop(kept, gone, DELETED_ROWS, sizes=file.sizes, layer=layer)
        with self._lock:
            self.layer.add(layer)
        return kept
