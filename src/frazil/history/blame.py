"""Where rows came from: the file and snapshot of each, the run or sink that wrote it, and what that had read.

A row is followed back to the snapshot in which it got its present values (`row_steps`), and from there to what the
snapshot was made from (`origins`): landing files, offsets, or other tables, whose snapshots are followed in turn. Where
history has expired, the answer says so, and what is still known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Protocol

from frazil.errors import ArgumentError
from frazil.history.log import LogEntry, describe
from frazil.history.origins import InputTable, OriginReader, Origins
from frazil.history.row_checks import FoundRow, RowSearch
from frazil.history.row_steps import RowTracer, Trace
from frazil.scan.planning import MAIN, Named, Source, ancestors, find_point, schema_at, select_fields
from frazil.scan.reading import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from frazil.client import FrazilCatalog

MOST_SNAPSHOTS = 10  # of an input table that are listed
DEEPEST = 20  # tables that are made from each other


class FindLines(Protocol):
    """Finds the lines of landing files that have a row's values."""

    def find(self, pipeline: str, files: Mapping[str, int], row: Mapping[str, pa.Scalar]) -> dict[str, tuple[int, ...]]:
        """The lines by path, of a run's files by path and size."""


@dataclass(frozen=True)
class RowSource:
    """A snapshot that brought a row, and what it was made from. `entry` is None if it has expired; `snapshot_id`, too,
    if only its sequence number is known. `doubt` says why it is not certain.
    """

    snapshot_id: int | None
    sequence: int
    entry: LogEntry | None
    doubt: str
    origins: Origins
    upstream: tuple[Upstream, ...] = ()


@dataclass(frozen=True)
class Upstream:
    """A table that rows were made from: the snapshots that were new to the commit, newest first, at most ten."""

    input: InputTable
    snapshots: tuple[RowSource, ...]
    more: int = 0  # snapshots that are not listed
    problem: str = ""  # why there is nothing, or not all


@dataclass(frozen=True)
class RowBlame:
    """A row, where it is, which snapshots rewrote it (newest first), and which one brought it.

    Several `sources` mean that the table had identical rows: any of them may be the one.
    """

    values: dict[str, Any]
    file: str
    position: int
    row_id: int | None
    rewritten_by: tuple[LogEntry, ...]
    sources: tuple[RowSource, ...]


@dataclass(frozen=True, repr=False)
class Blame:
    """The rows that a condition selects, and where each came from; `more` if there are others."""

    table: str
    where: str
    snapshot_id: int
    rows: tuple[RowBlame, ...]
    more: bool

    def __repr__(self) -> str:
        """The rows, and the snapshots that brought each."""
        rows = [
            f"{row.values} from {' or '.join(str(source.snapshot_id) for source in row.sources)}" for row in self.rows
        ]
        return "\n".join([f"<Blame of {self.table} where {self.where}>", *rows, *(["..."] if self.more else [])])


@dataclass(frozen=True)
class BlameRequest:
    """Which rows of which snapshot, and what of them is shown."""

    where: str
    at: Named = MAIN
    columns: tuple[str, ...] | None = None
    limit: int = 20

    def __post_init__(self) -> None:
        if not isinstance(self.where, str):
            raise ArgumentError("where", self.where, expected="a condition such as 'amount >= 1e6'")
        if not isinstance(self.limit, int) or self.limit < 1:
            raise ArgumentError("limit", self.limit, expected="a whole number from 1")


def blame_rows(
    catalog: FrazilCatalog, table: Table, source: Source, request: BlameRequest, *, lines: FindLines | None = None
) -> Blame:
    """Where the rows that a condition selects came from; `lines` finds them in landing files."""
    name = ".".join(table.name())
    point = find_point(table.metadata, request.at, table=name)
    schema, snapshot_id = schema_at(table.metadata, point), point.snapshot.snapshot_id
    shown = [field.name for field in select_fields(schema, request.columns, table=name)]
    rows = _find(RowSearch.matching(table, source, schema, request.where), snapshot_id, request.limit + 1)
    kept = rows[: request.limit]
    traces = RowTracer(table, source, schema).trace(kept, snapshot_id)
    describer = _Describer(catalog, table, _RowLines(arrow_schema(schema), lines))
    blamed = [describer.describe(row, trace, shown) for row, trace in zip(kept, traces, strict=True)]
    return Blame(name, request.where, snapshot_id, tuple(blamed), more=len(rows) > len(kept))


def _find(search: RowSearch, snapshot_id: int, limit: int) -> list[FoundRow]:
    rows: list[FoundRow] = []
    for file in search.find_files(snapshot_id):
        rows += search.read_rows(file, limit - len(rows))
        if len(rows) == limit:
            break
    return rows


@dataclass
class _RowLines:
    """Completes the landing files of a snapshot by the lines that have the values of `row`."""

    schema: pa.Schema
    finder: FindLines | None
    row: Mapping[str, Any] = field(default_factory=dict)

    def complete(self, origins: Origins) -> Origins:
        import pyarrow as pa

        if self.finder is None or origins.run is None or not origins.files:
            return origins
        row = {column.name: pa.scalar(self.row[column.name], column.type) for column in self.schema}
        lines = self.finder.find(origins.run.pipeline, {file.path: file.size for file in origins.files}, row)
        return replace(origins, files=tuple(replace(file, lines=lines.get(file.path, ())) for file in origins.files))


class _Describer:
    """Says who made snapshots, and from what."""

    def __init__(self, catalog: FrazilCatalog, table: Table, lines: _RowLines) -> None:
        self._catalog, self._table, self._lines = catalog, table, lines
        self._readers = {".".join(table.name()): (table, OriginReader(catalog, table))}

    def describe(self, row: FoundRow, trace: Trace, columns: Sequence[str]) -> RowBlame:
        name = ".".join(self._table.name())
        ends = sorted(trace.ends, key=lambda end: -end.sequence)
        entries = [self._entry(name, number) for number in trace.rewritten_by]
        self._lines.row = row.values
        return RowBlame(
            values={column: row.values[column] for column in columns},
            file=str(row.file),
            position=int(row.position or 0),
            row_id=trace.row_id,
            rewritten_by=tuple(entry for entry in entries if entry is not None),
            sources=tuple(self._source(name, end.snapshot_id, end.sequence, end.doubt, DEEPEST) for end in ends),
        )

    def _source(self, name: str, snapshot_id: int | None, sequence: int, doubt: str, depth: int) -> RowSource:
        if snapshot_id is None:
            return RowSource(None, sequence, None, doubt, Origins())
        origins = self._lines.complete(self._readers[name][1].of(snapshot_id))
        upstream = tuple(self._follow(table, depth - 1) for table in origins.inputs)
        return RowSource(snapshot_id, sequence, self._entry(name, snapshot_id), doubt, origins, upstream)

    def _entry(self, name: str, snapshot_id: int) -> LogEntry | None:
        table, reader = self._readers[name]
        snapshot, run = table.metadata.snapshot_by_id(snapshot_id), reader.runs.get(snapshot_id)
        text = f"{run.pipeline} run {run.run_id}" if run else ""
        return None if snapshot is None else describe(snapshot, run=text)

    def _follow(self, table: InputTable, depth: int) -> Upstream:
        """The snapshots of an input table that were new to a commit."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        if depth < 0:
            return Upstream(table, (), problem=f"more than {DEEPEST} tables are made from each other")
        try:
            live = self._load(table.table)
        except (NoSuchTableError, NoSuchNamespaceError):
            return Upstream(table, (), problem="the table does not exist any more")
        if table.snapshot_id is None:
            return Upstream(table, (), problem="the table had no snapshot yet")
        if live.metadata.snapshot_by_id(table.snapshot_id) is None:
            source = self._source(table.table, table.snapshot_id, 0, "", depth)
            problem = "the snapshot has expired: what was new in it is no longer known"
            return Upstream(table, (source,) if source.origins.is_known else (), problem=problem)
        new, problem = _new_snapshots(live.metadata, table)
        sources = [self._source(table.table, number, sequence, "", depth) for number, sequence in new[:MOST_SNAPSHOTS]]
        return Upstream(table, tuple(sources), more=max(len(new) - MOST_SNAPSHOTS, 0), problem=problem)

    def _load(self, name: str) -> Table:
        if name not in self._readers:
            table = self._catalog.load_table(name)
            self._readers[name] = (table, OriginReader(self._catalog, table))
        return self._readers[name][0]


def _new_snapshots(metadata: TableMetadata, table: InputTable) -> tuple[list[tuple[int, int]], str]:
    """The snapshots of an input that changed rows after the one that was read before, newest first; and why some are
    missing, if they are.
    """
    assert table.snapshot_id is not None
    line = list(ancestors(metadata, metadata.snapshot_by_id(table.snapshot_id)))
    new = list(takewhile(lambda snapshot: snapshot.snapshot_id != table.since_id, line))
    is_short = len(new) == len(line) and line[-1].parent_snapshot_id is not None
    changed = [
        (snapshot.snapshot_id, snapshot.sequence_number or 0)
        for snapshot, entry in ((snapshot, describe(snapshot)) for snapshot in new)
        if entry.operation not in ("replace", "rollback") and (entry.added_rows or entry.removed_rows)
    ]
    return changed, "older snapshots have expired" if is_short else ""
