"""The rows of one data file: its row groups pruned, its deletes applied, filtered by what its partition left of the filter, in the table's
columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import extract_field_ids
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from frazil.scan.batches import BatchReader, find_fields, identity_values, leaves
from frazil.scan.compiled import Term
from frazil.scan.equality import EqualitySet
from frazil.scan.explain import ROW_GROUPS, Layer
from frazil.scan.filters import bind_filter
from frazil.scan.positions import Open, Positions, among, kept_rows
from frazil.scan.project import file_columns
from frazil.scan.removals import Removals, check_format, reading
from frazil.scan.rowfilter import wanted_rows
from frazil.scan.rowgroups import DELETED_ROWS, GroupRanges, RowGroup, all_groups, drop, keep_groups
from frazil.scan.table import TableState
from frazil.scan.values import arrow_schema

if TYPE_CHECKING:
    from frazil.scan.plan import FileTask, Planner

BATCH_ROWS = 131_072
RUN_BYTES = 64 * 1024 * 1024  # of a file that are fetched at once


@dataclass(frozen=True)
class ReadPlan:
    """What is read of every file: the columns that are given out, the filter, and where to find what it takes."""

    table: TableState
    schema: Schema  # that the filter is bound to
    fields: tuple[NestedField, ...]  # that are given out
    terms: Sequence[Term]
    filter: BooleanExpression
    bound: BooleanExpression
    open: Open
    case_sensitive: bool = True
    batch_rows: int = BATCH_ROWS
    arrow: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrow", arrow_schema(Schema(*self.fields)))

    @classmethod
    def of(cls, planner: Planner, open_file: Open, fields: Sequence[NestedField], **more: Any) -> ReadPlan:
        """The plan for the files of a planner."""
        request = planner.request
        return cls(
            table=planner.table,
            schema=planner.schema,
            fields=tuple(fields),
            terms=planner.terms,
            filter=request.filter,
            bound=planner.bound,
            open=open_file,
            case_sensitive=request.case_sensitive,
            **more,
        )


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
            yield from file.batches(groups, _Rows(residual, positions, sets))

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
            gone = {one.number for one in kept if len(among(positions, one.start, one.rows)) == one.rows}
            kept = drop(kept, gone, DELETED_ROWS, sizes=file.sizes, layer=layer)
        with self._lock:
            self.layer.add(layer)
        return kept


# --- an open file ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Rows:
    """Which rows are left out."""

    residual: BooleanExpression
    positions: Positions
    sets: Sequence[EqualitySet]

    @property
    def field_ids(self) -> set[int]:
        """The columns that it takes to tell."""
        return set(extract_field_ids(self.residual)).union(*(one.ids for one in self.sets))

    def mask(self, start: int, count: int, columns: Callable[[int], pa.Array]) -> pa.BooleanArray | bool:
        """The rows of a batch that are given out."""
        keep: pa.BooleanArray | bool = wanted_rows(self.residual, columns)
        masks = [] if isinstance(keep, bool) else [keep]
        if keep is False:
            return False
        if (alive := kept_rows(self.positions, start, count)) is not None:
            masks.append(alive)
        masks += [pc.invert(one.deleted(columns)) for one in self.sets]
        if not masks:
            return True
        found = masks[0]
        for mask in masks[1:]:
            found = pc.and_kleene(found, mask)
        return found


class OpenFile:
    """A Parquet file that is being read."""

    def __init__(self, task: FileTask, source: Any, plan: ReadPlan) -> None:
        self._plan, self._task = plan, task
        self._parquet = pq.ParquetFile(source, pre_buffer=True, coerce_int96_timestamp_unit="us")
        self._columns = file_columns(self._parquet.schema_arrow, plan.table.name_mapping)
        metadata = self._parquet.metadata
        self.groups = all_groups(metadata)
        self.sizes = [metadata.row_group(one.number).total_byte_size for one in self.groups]
        self.ranges = GroupRanges(metadata, leaves(self._columns))

    def batches(self, groups: Sequence[RowGroup], rows: _Rows) -> Iterator[pa.RecordBatch]:
        """The rows of some row groups that are given out."""
        plan = self._plan
        tested = find_fields(plan.table, plan.schema, sorted(rows.field_ids))
        partition = identity_values(plan.table.specs[self._task.spec_id], self._task.partition, plan.schema)
        test = BatchReader(tested, self._columns, partition)
        # A column that is given out may be only a part of one that is tested: they are made apart.
        give = BatchReader(plan.fields, self._columns, partition)
        names = sorted(test.names | give.names)
        for run in self._runs(groups):
            start = run[0].start
            for batch in self._parquet.iter_batches(plan.batch_rows, row_groups=[one.number for one in run], columns=names):
                keep = rows.mask(start, batch.num_rows, test.bind(batch))
                start += batch.num_rows
                if (made := give.take(batch, keep, plan.arrow)) is not None:
                    yield made

    def _runs(self, groups: Sequence[RowGroup]) -> Iterator[list[RowGroup]]:
        """Row groups that follow each other, as many as are fetched at once."""
        run: list[RowGroup] = []
        for group in groups:
            follows = run and group.number == run[-1].number + 1 and sum(self.sizes[one.number] for one in run) < RUN_BYTES
            if run and not follows:
                yield run
                run = []
            run.append(group)
        if run:
            yield run
