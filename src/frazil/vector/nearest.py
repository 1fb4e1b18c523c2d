"""The rows of a scan that are nearest to a vector: covered files by the index, others exactly.

An index is valid by the data files that it covers, which never change. A file of the scanned snapshot that the index
covers is searched in the index, with the rows that are deleted or do not match the filter left out; any other file of
the snapshot is compared row by row; what the index covers beyond the snapshot is skipped. So the answer fits every
snapshot, branch and tag, whatever happened to the table since the index was built.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, SupportsIndex, cast

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.types import DoubleType, FloatType, ListType

from frazil.errors import DataFileUnreadable, IndexDamaged, VectorError
from frazil.scan.planning import EQUALITY, default_workers, read_ahead
from frazil.scan.reading import EXTRAS
from frazil.units import count
from frazil.vector.columns import find_dimension, to_matrix, to_queries
from frazil.vector.decoded import DecodedFiles, Vectors
from frazil.vector.exact import Scored, merge, nothing_scored, score
from frazil.vector.live import LiveRows
from frazil.vector.metric import METRICS, Matrix, Metric, Numbers, row_squares
from frazil.vector.pinned import pinned
from frazil.vector.report import NearestReport, repair_command
from frazil.vector.rows import AnswerRows
from frazil.vector.search import Index, SearchReport

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]
    import polars
    from pyiceberg.io import FileIO
    from pyiceberg.types import NestedField

    from frazil.scan.planning import FileTask
    from frazil.scan.reading import FileReader, RowScan
    from frazil.vector.opened import OpenIndexes
    from frazil.vector.record import IndexRecord

DISTANCE, QUERY = "_distance", "_query"
POSITION = EXTRAS["_pos"]
MOST_K, MOST_QUERIES = 10_000, 10_000
FIRST_ROWS = 1024  # that are decoded at a time to see how long the vectors are
CHUNK, QUERIES = 8192, 512  # rows that are compared at once, with how many queries

Damaged = Callable[[DataFileUnreadable], None]

log = logging.getLogger("frazil.vector")


@dataclass(frozen=True)
class Search:
    """A search of a scan: which column, for which vectors, how many rows each."""

    scan: RowScan
    field: NestedField
    queries: Matrix
    single: bool
    metric: Metric
    k: int
    decoded: DecodedFiles

    @classmethod
    def of(
        cls,
        scan: RowScan,
        column: str,
        vectors: object,
        *,
        k: int,
        metric: str,
        dimension: int | None,
        decoded: DecodedFiles | None = None,
    ) -> Search:
        """Checks what was asked for. Without an index the dimension is that of the column's vectors."""
        table = scan.state.name
        k, metric = check_k(table, k), check_metric(table, metric)
        wanted = _find_field(scan, column)
        check_scan(scan)
        queries, single = to_queries(vectors, dimension or find_vectors(scan, wanted), metric, table=table)
        if len(queries) > MOST_QUERIES:
            raise VectorError(f"{table}: {len(queries):,} vectors in one search: at most {MOST_QUERIES:,}", table=table)
        return cls(scan, wanted, queries, single, metric, k, decoded or DecodedFiles())

    def run(
        self, index: Index | None, *, probes: int = 1, name: str | None = None, damaged: Damaged | None = None
    ) -> tuple[pa.Table, NearestReport]:
        """The rows, those of the first query first and the nearest first, and what was done to find them. `name` is
        that of the index; `damaged` is called with what is wrong with it.
        """
        name = name or self.field.name
        report = NearestReport(len(self.queries))
        kept = pinned(self.scan)
        tasks, numbers = kept.tasks, kept.numbers
        covered = {} if index is None else {file.path: file.rows for file in index.files}
        inside = [task for task in tasks if covered.get(task.path) == task.rows]
        inside_paths = {task.path for task in inside}
        scored = [[nothing_scored()] for _ in self.queries]
        if index is not None and inside:
            try:
                if len(covered) < len(index.files):
                    raise IndexDamaged(index.locations[-1], "its segments cover a file twice")
                self._indexed(index, inside, numbers, scored, probes, report)
            except DataFileUnreadable as exc:
                table = self.scan.state.name
                repair = repair_command(table, name)
                log.warning("%s: index %s is not used: %s; `%s` repairs it", table, name, exc.message, repair)
                report.index = SearchReport()
                if damaged is not None:
                    damaged(exc)
                report.problem, inside_paths, scored = exc.message, set(), [[nothing_scored()] for _ in self.queries]
        outside = [task for task in tasks if task.path not in inside_paths]
        if index is not None and outside and not inside:
            self._check_dimension(name)
        report.files_indexed, report.files_exact = len(inside_paths), len(outside)
        report.rows_indexed = sum(task.rows for task in tasks if task.path in inside_paths)
        report.bytes_exact = sum(task.bytes for task in outside)
        self._exact(outside, numbers, scored, report)
        best = [merge(parts, self.k) for parts in scored]
        return self._fetch(tasks, best), report

    def _check_dimension(self, name: str) -> None:
        """Passes unless all of the table was replaced by vectors of another dimension than that of the index."""
        dimension, asked = find_vectors(self.scan, self.field), self.queries.shape[1]
        if dimension not in (None, asked):
            table, column = self.scan.state.name, self.field.name
            raise VectorError(
                f"{table}: vectors of '{column}' have {dimension} numbers, its index and the search {asked}",
                hint=f"build the index again: {repair_command(table, name)}",
                table=table,
                problem="dimension",
            )

    # --- covered files -----------------------------------------------------------------------------------------------

    def _indexed(
        self,
        index: Index,
        tasks: Sequence[FileTask],
        numbers: dict[str, int],
        scored: list[list[Scored]],
        probes: int,
        report: NearestReport,
    ) -> None:
        kept, key = pinned(self.scan), index.locations
        if key not in kept.live:
            kept.live[key] = self._live(index, tasks)
        live = kept.live[key]
        known = np.array([numbers.get(file.path, -1) for file in index.files], np.int64)
        answers = index.nearest_each(self.queries, self.k, live, probes=probes, report=report.index)
        for parts, hits in zip(scored, answers, strict=True):
            parts.append(Scored(hits.distances, known[hits.files], hits.positions))

    def _live(self, index: Index, tasks: Sequence[FileTask]) -> LiveRows:
        """Which rows of covered files are in the scan: all of a file that has neither deletes nor a filter left."""
        if all(isinstance(task.residual, AlwaysTrue) and not task.deletes for task in tasks):
            return LiveRows(index.files, {task.path for task in tasks}, {})
        positions_of = self.scan.reader(self.scan.planner(), [POSITION])
        whole, some, unsure = set[str](), dict[str, Numbers](), []
        for task in tasks:
            if not isinstance(task.residual, AlwaysTrue) or any(file.content == EQUALITY for file in task.deletes):
                unsure.append(task)
            elif task.deletes:
                deleted = positions_of.removals.positions(task)
                some[task.path] = np.setdiff1d(np.arange(task.rows), deleted, assume_unique=True)
            else:
                whole.add(task.path)
        reads = read_ahead(
            unsure,
            lambda task: iter([(task.path, _positions(positions_of, task))]),
            workers=self._workers,
            ordered=False,
        )
        some |= dict(reads)
        return LiveRows(index.files, whole, some)

    # --- other files -------------------------------------------------------------------------------------------------

    def _exact(
        self, tasks: Sequence[FileTask], numbers: dict[str, int], scored: list[list[Scored]], report: NearestReport
    ) -> None:
        if not tasks:
            return
        kept = pinned(self.scan)
        if self.field.field_id not in kept.readers:
            kept.readers[self.field.field_id] = self.scan.reader(self.scan.planner(), [self.field, POSITION])
        reader = kept.readers[self.field.field_id]

        sizes = {task.path: task.rows * (self.queries.shape[1] * 4 + 8) for task in tasks}
        # Files that do not all fit would push each other out.
        decoded = self.decoded if self.decoded.fits(sum(sizes.values())) else DecodedFiles(max_bytes=0)

        def compare(task: FileTask) -> Iterator[tuple[int, list[Scored]]]:
            for part in decoded.read(self._key(task), sizes[task.path], lambda: self._decode(reader, task)):
                yield len(part.vectors), self._score(part, numbers[task.path])

        ready = all(decoded.holds(self._key(task)) for task in tasks)
        for compared, answers in read_ahead(tasks, compare, workers=1 if ready else self._workers, ordered=False):
            report.rows_exact += compared
            for number, answer in enumerate(answers):
                scored[number] = [merge([*scored[number], answer], self.k)]

    def _key(self, task: FileTask) -> Hashable:
        """What the vectors of a file that are compared depend on."""
        schema = self.scan.state.schema(self.scan.request.schema_id).schema_id
        deletes = tuple(file.path for file in task.deletes)
        return (
            task.path,
            deletes,
            repr(task.residual),
            schema,
            self.field.field_id,
            *self.queries.shape[1:],
            self.metric,
        )

    def _decode(self, reader: FileReader, task: FileTask) -> Iterator[Vectors]:
        for batch in reader.read(task):
            vectors, rows = to_matrix(batch.column(0), self.queries.shape[1], self.metric)
            positions = batch.column(1).to_numpy()[rows]
            for start in range(0, len(vectors), CHUNK):
                part = vectors[start : start + CHUNK]
                yield Vectors(part, positions[start : start + CHUNK], row_squares(part))

    def _score(self, part: Vectors, source: int) -> list[Scored]:
        """The nearest of some vectors of a file for each query; the products of all queries may not fit in memory."""
        answers: list[Scored] = []
        for start in range(0, len(self.queries), QUERIES):
            some = self.queries[start : start + QUERIES]
            answers += score(
                part.vectors,
                some,
                self.metric,
                k=self.k,
                source=source,
                positions=part.positions,
                squares=part.squares,
            )
        return answers

    # --- the rows ----------------------------------------------------------------------------------------------------

    def _fetch(self, tasks: Sequence[FileTask], best: Sequence[Scored]) -> pa.Table:
        """The columns of the scan for the rows that were found, in the order of the answer."""
        kept = pinned(self.scan)
        kept.searches += 1
        if kept.rows is None:
            kept.rows = AnswerRows(self.scan.reader(self.scan.planner(), [*self.scan.fields, POSITION]))
        rows, keep = kept.rows, kept.searches > 1
        sources = np.concatenate([answer.sources for answer in best])
        positions = np.concatenate([answer.positions for answer in best])
        needed = [(int(source), np.unique(positions[sources == source])) for source in np.unique(sources)]

        def take(item: tuple[int, Numbers]) -> Iterator[pa.Table]:
            yield rows.take(tasks[item[0]], item[1], keep=keep)

        workers = (
            self._workers if len(needed) > 1 and not keep else 1
        )  # a thread costs more than the few rows of a file
        parts = list(read_ahead(needed, take, workers=workers, ordered=True))
        taken = pa.concat_tables([rows.schema.empty_table(), *parts])
        order, start = np.empty(len(sources), np.int64), 0
        for source, chosen in needed:
            own = np.flatnonzero(sources == source)
            order[own] = start + np.searchsorted(chosen, positions[own])
            start += len(chosen)
        assert start == taken.num_rows
        distances = pa.array(np.concatenate([answer.distances for answer in best]).astype(np.float32))
        # The positions give way to the distances: a table without columns would have no rows, either.
        answer = taken.take(pa.array(order)).set_column(taken.num_columns - 1, DISTANCE, distances)
        if self.single:
            return answer
        numbers = np.repeat(np.arange(len(best)), [len(answer.sources) for answer in best])
        return answer.append_column(QUERY, pa.array(numbers, pa.int64()))

    @property
    def _workers(self) -> int:
        return self.scan.workers or default_workers()


class Nearest:
    """The rows that a search gives, found when they are first asked for."""

    def __init__(
        self,
        search: Search,
        index: Index | None = None,
        *,
        probes: int = 1,
        problems: Sequence[str] = (),
        name: str | None = None,
        damaged: Damaged | None = None,
    ) -> None:
        self._damaged = damaged
        self._search, self._index, self._probes, self._problems, self._name = search, index, probes, problems, name

    @cached_property
    def _found(self) -> tuple[pa.Table, NearestReport]:
        rows, report = self._search.run(self._index, probes=self._probes, name=self._name, damaged=self._damaged)
        report.problem = report.problem or "; ".join(self._problems) or None
        report.what = self._describe()
        if report.problem is not None:
            report.repair = repair_command(self._search.scan.state.name, self._name or self._search.field.name)
        if self._index is not None:
            report.index_name, report.lists = self._name, self._index.codebook.lists
        return rows, report

    def __repr__(self) -> str:
        """What is searched, and for what."""
        return f"<Nearest: {self._describe()}>"

    def _describe(self) -> str:
        search = self._search
        vectors = "a vector" if search.single else f"each of {count(len(search.queries), 'vector')}"
        place = f"{search.field.name} of {search.scan.state.name}"
        return f"{count(search.k, 'row')} for {vectors} in {place}, {search.metric}"

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows, known before the search runs."""
        schema = self._search.scan.schema.append(pa.field(DISTANCE, pa.float32()))
        return schema if self._search.single else schema.append(pa.field(QUERY, pa.int64()))

    def select(self, columns: Sequence[str]) -> Nearest:
        """The same search with some of its columns, which are all that is read of the rows."""
        own = tuple(name for name in columns if name not in (DISTANCE, QUERY))
        search = replace(self._search, scan=replace(self._search.scan, columns=own))
        return Nearest(
            search, self._index, probes=self._probes, problems=self._problems, name=self._name, damaged=self._damaged
        )

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self._found[0]

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas DataFrame."""
        from frazil.scan.engines import as_pandas

        return as_pandas(self.to_arrow())

    def to_polars(self) -> polars.DataFrame:
        """The rows as a Polars DataFrame."""
        from frazil.scan.engines import as_polars

        return as_polars(self.to_arrow())

    def explain(self) -> NearestReport:
        """What the search did: lists probed, bytes read, rows scored, what was compared exactly."""
        return self._found[1]


def open_nearest(
    scan: RowScan,
    column: str,
    vectors: object,
    *,
    k: int,
    metric: str | None,
    records: Sequence[IndexRecord],
    opened: OpenIndexes,
    io: FileIO,
) -> Nearest:
    """A search of a scan, by the index of the column for the metric if there is one. Without a metric it is that of the
    column's only index, or the cosine.
    """
    _, metric, record = choose_index(scan, column, metric, records)
    if record is None:
        return Nearest(Search.of(scan, column, vectors, k=k, metric=metric, dimension=None, decoded=opened.decoded))
    decoded = opened.decoded
    try:
        search = Search.of(scan, column, vectors, k=k, metric=metric, dimension=record.dimension, decoded=decoded)
    except VectorError as exc:
        if exc.problem != "dimension":
            raise
        search = Search.of(scan, column, vectors, k=k, metric=metric, dimension=None, decoded=decoded)
        problem = f"index {record.name} is for vectors of {record.dimension} numbers"
        repair = repair_command(scan.state.name, record.name)
        log.warning("%s: %s, and is not used; `%s` builds it again", scan.state.name, problem, repair)
        return Nearest(search, problems=[problem], name=record.name)
    index, problems = opened.open(record, io, table=scan.state.name)
    return Nearest(search, index, probes=record.probes, problems=problems, name=record.name, damaged=opened.forget)


def choose_index(
    scan: RowScan, column: str, metric: str | None, records: Sequence[IndexRecord]
) -> tuple[NestedField, str, IndexRecord | None]:
    """The column that is searched, by which metric, and the index that has both."""
    wanted = _find_field(scan, column)
    own = [record for record in records if record.field_id == wanted.field_id]
    metric = metric or (own[0].metric if len(own) == 1 else "cosine")
    return wanted, metric, next((record for record in own if record.metric == metric), None)


def check_k(table: str, k: object) -> int:
    """How many rows are asked for, by a whole number of Python or numpy."""
    try:
        count = 0 if isinstance(k, bool) else operator.index(cast("SupportsIndex", k))
    except TypeError:
        count = 0
    if not 1 <= count <= MOST_K:
        raise VectorError(f"{table}: k is {k!r}: expected a whole number from 1 to {MOST_K:,}", table=table, option="k")
    return count


def check_metric(table: str, metric: object) -> Metric:
    """The metric, if there is one of this name."""
    for known in METRICS:
        if metric == known:
            return known
    raise VectorError(
        f"{table}: metric is {metric!r}: expected one of {', '.join(METRICS)}", table=table, option="metric"
    )


def _positions(reader: FileReader, task: FileTask) -> Numbers:
    """Where the rows of a file are that the scan gives."""
    batches = [batch.column(0).to_numpy() for batch in reader.read(task)]
    return np.concatenate(batches) if batches else np.empty(0, np.int64)


def _find_field(scan: RowScan, column: str) -> NestedField:
    """The column of vectors that is searched."""
    table, schema = scan.state.name, scan.state.schema(scan.request.schema_id)
    field = next((field for field in schema.fields if field.name == column), None)
    if field is None:
        vectors = [field.name for field in schema.fields if _has_vectors(field)]
        hint = (
            f"columns of vectors: {', '.join(vectors)}"
            if vectors
            else "the table has no column of vectors (a list of float or double)"
        )
        raise VectorError(f"{table} has no column '{column}'", hint=hint, table=table, column=column)
    if not _has_vectors(field):
        raise VectorError(
            f"column '{column}' of {table} is {field.field_type}: expected a list of float or double",
            table=table,
            column=column,
        )
    return field


def check_scan(scan: RowScan) -> None:
    """Passes when the scan has no limit, and no column with the name of one that a search adds."""
    if scan.limit is not None:
        raise VectorError(
            f"{scan.state.name}: a scan with a limit ({scan.limit:,}) cannot be searched",
            hint="leave the limit out: k says how many rows there are",
            table=scan.state.name,
            option="limit",
        )
    taken = next((field.name for field in scan.fields if field.name in (DISTANCE, QUERY, POSITION.name)), None)
    if taken is not None:
        raise VectorError(
            f"{scan.state.name} has a column '{taken}', which is what a search calls its own",
            hint="choose the others: scan(columns=[...])",
            table=scan.state.name,
            column=taken,
            problem="column-twice",
        )


def _has_vectors(field: NestedField) -> bool:
    kind = field.field_type
    return isinstance(kind, ListType) and isinstance(kind.element_type, (FloatType, DoubleType))


def find_vectors(scan: RowScan, field: NestedField) -> int | None:
    """The dimension of the first vectors of the scan; None if it has none."""
    reader = scan.reader(scan.planner(), [field], batch_rows=FIRST_ROWS)
    for task in scan.plan().tasks():
        for batch in reader.read(task):
            if dimension := find_dimension(batch.column(0)):
                return dimension
    return None
