"""Joins of a Spark frame with the rows of a table whose vectors are nearest: each task searches for the vectors of its
rows.

The driver fixes the snapshot and the records of the indexes; tasks open both by themselves. A row of the frame gets the
rows that `scan.nearest(...)` gives for its vector.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, cast
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import VectorError
from frazil.pyiceberg_compat import with_small_types
from frazil.scan import Scan
from frazil.scan.engines import without_extensions
from frazil.scan.planning import Files, ScanRequest, Source, TableState
from frazil.scan.reading import RowScan
from frazil.vector.columns import to_matrix
from frazil.vector.metric import Mask, Metric
from frazil.vector.nearest import (
    DISTANCE,
    QUERY,
    check_k,
    check_metric,
    check_scan,
    choose_index,
    find_vectors,
    open_nearest,
)
from frazil.vector.opened import OpenIndexes
from frazil.vector.record import IndexRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.vector.indexes import Indexes

AT_ONCE = 4096  # vectors of one search; files that no index covers are read once per search
KEPT = 4  # joins that a worker process keeps open, for its next tasks


class IndexedTable(Protocol):
    """A table of a lake that has scans and indexes."""

    def scan(self) -> Scan: ...

    @property
    def indexes(self) -> Indexes: ...


def nearest_join(
    frame: DataFrame,
    table: IndexedTable | Scan,
    column: str,
    *,
    vectors: str | None = None,
    k: int = 10,
    metric: str | None = None,
    exact: bool = False,
    prefix: str = "",
    skip_bad: bool = False,
) -> DataFrame:
    """Each row of a frame with the k rows of a table whose vectors are nearest to its own, and their `_distance`.

    `table` is a table of a lake, or a scan of one: then its filter, columns and snapshot hold. `column` is the table's
    column of vectors, `vectors` that of the frame (an array of float or double), by default of the same name. `prefix`
    goes before the names of the table's columns. `metric` and `exact` are those of `scan.nearest`.

    Rows of the frame without a vector are left out. A vector that cannot be compared (another dimension, a number that
    is not finite, zero for the cosine) fails the job; with `skip_bad` its row is left out.
    """
    scan = table if isinstance(table, Scan) else table.scan()
    asked = _check_frame(frame, vectors or column, scan.state.name)
    join = _plan(scan, column, asked, k=k, metric=metric, exact=exact, prefix=prefix, skip_bad=skip_bad)
    if twice := sorted({field.name for field in frame.schema} & set(join.added.names)):
        raise VectorError(
            f"both the frame and {scan.state.name} have a column '{twice[0]}'",
            hint="pass prefix='nearest_', or choose columns: table.scan(columns=[...])",
            table=scan.state.name,
            column=twice[0],
            problem="column-twice",
        )
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    schema = StructType([*frame.schema.fields, *from_arrow_schema(join.added).fields])
    return frame.mapInArrow(join.run, schema)


def _check_frame(frame: DataFrame, name: str, table: str) -> str:
    from pyspark.sql.types import ArrayType, DoubleType, FloatType

    kinds = {field.name: field.dataType for field in frame.schema}
    if name not in kinds:
        raise VectorError(
            f"the frame has no column '{name}'",
            hint=f"vectors='...' names it; there are: {', '.join(kinds)}",
            column=name,
            table=table,
        )
    kind = kinds[name]
    if not (isinstance(kind, ArrayType) and isinstance(kind.elementType, FloatType | DoubleType)):
        raise VectorError(
            f"column '{name}' of the frame is {kind.simpleString()}: expected array<float> or array<double>",
            hint="cast it: CAST(column AS ARRAY<FLOAT>)",
            column=name,
            table=table,
            got=kind.simpleString(),
        )
    return name


def _plan(
    scan: Scan,
    column: str,
    vectors: str,
    *,
    k: int,
    metric: str | None,
    exact: bool,
    prefix: str,
    skip_bad: bool,
) -> Join:
    """What the tasks need, checked."""
    home = cast("IndexedTable | None", scan.home)
    if home is None or scan.request.is_incremental:
        raise VectorError(
            f"{scan.state.name}: vectors are searched in a table at a snapshot, not in what came between two",
            table=scan.state.name,
            problem="incremental",
        )
    table, records = scan.state.name, () if exact else tuple(home.indexes.records_for(scan, column))
    field, chosen, record = choose_index(scan, column, metric, records)
    k, checked = check_k(table, k), check_metric(table, chosen)
    check_scan(scan)
    if record is not None:
        OpenIndexes().open(record, scan.source.open.io, table=table)  # warns of damage here, not in a task
    plain = with_small_types(without_extensions(scan.schema.empty_table()).schema)
    added = [each.with_name(prefix + each.name) for each in plain]
    return Join(
        uuid4().hex,
        scan.state,
        scan.source.open,
        scan.request,
        scan.columns,
        column,
        vectors,
        k,
        checked,
        find_vectors(scan, field) if record is None else record.dimension,
        () if record is None else (record,),
        skip_bad,
        pa.schema([*added, pa.field(DISTANCE, pa.float32())]),
    )


@dataclass(frozen=True)
class Join:
    """A join with everything that a task needs for its part of it."""

    name: str  # unlike those of all other joins
    state: TableState
    files: Files
    request: ScanRequest
    columns: tuple[str, ...] | None
    column: str
    vectors: str
    k: int
    metric: Metric
    dimension: int | None  # None: the scan has no vectors
    records: tuple[IndexRecord, ...]
    skip_bad: bool
    added: pa.Schema

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The joined rows of a task."""
        opened = _opened(self)
        for batch in batches:
            for start in range(0, batch.num_rows, AT_ONCE):
                yield from opened.join(batch.slice(start, AT_ONCE))


_joins: dict[str, _Opened] = {}  # of this worker process


def _opened(join: Join) -> _Opened:
    if join.name not in _joins:
        while len(_joins) >= KEPT:
            _joins.pop(next(iter(_joins)))
        _joins[join.name] = _Opened(join)
    return _joins[join.name]


class _Opened:
    """A join in a worker process: the manifests and the index are read once."""

    def __init__(self, join: Join) -> None:
        self._join, self._indexes = join, OpenIndexes()

    @cached_property
    def _scan(self) -> RowScan:
        join = self._join
        return RowScan(join.state, Source.of(join.files.io), join.request, join.columns)

    def join(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows of the frame, each as often as it has nearest rows, with these."""
        join = self._join
        if join.dimension is None:
            return
        vectors = rows.column(rows.schema.get_field_index(join.vectors))
        queries, usable = to_matrix(vectors, join.dimension, join.metric)
        if not join.skip_bad:
            _check_rows(vectors, usable, join)
        if not len(queries):
            return
        nearest = open_nearest(
            self._scan,
            join.column,
            queries,
            k=join.k,
            metric=join.metric,
            records=join.records,
            opened=self._indexes,
            io=join.files.io,
        ).to_arrow()
        numbers = np.flatnonzero(usable)[nearest.column(QUERY).to_numpy()]
        theirs = without_extensions(nearest.drop_columns([QUERY])).rename_columns(join.added.names).cast(join.added)
        ours = pa.Table.from_batches([rows]).take(pa.array(numbers))
        joined = pa.Table.from_arrays([*ours.columns, *theirs.columns], names=[*ours.column_names, *join.added.names])
        yield from joined.combine_chunks().to_batches(max_chunksize=AT_ONCE)


def _check_rows(vectors: pa.Array, usable: Mask, join: Join) -> None:
    """Passes when every vector can be compared; a row without one has nothing that could be wrong."""
    bad = np.asarray(pc.is_valid(vectors)) & ~usable
    if not bad.any():
        return
    shown = f"{vectors[int(np.argmax(bad))].as_py()!r:.80}"
    raise VectorError(
        f"column '{join.vectors}' of the frame has a vector that cannot be compared: expected {join.dimension} finite "
        f"numbers{', not all zero' if join.metric == 'cosine' else ''}, got {shown}",
        hint="skip_bad=True leaves such rows out",
        column=join.vectors,
        table=join.state.name,
        problem="bad-vector",
    )
