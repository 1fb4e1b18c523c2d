"""Indexes of a table: created, refreshed, listed and dropped. Files first, then the record that names them."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from frazil.errors import AlreadyExists, CommitConflict, DataFileUnreadable, VectorError
from frazil.names import index_name
from frazil.protocol import INDEX_NAME, PROPERTY_INDEX_PREFIX
from frazil.scan.planning import ScanCache, TableState
from frazil.scan.reading import scan_rows
from frazil.vector.build import MOST_LISTS, order_tasks
from frazil.vector.builder import MOST_DEAD, Builder, Built
from frazil.vector.codebook import Codebook, read_codebook
from frazil.vector.columns import is_vector
from frazil.vector.metric import METRICS, Metric
from frazil.vector.moved import MovedRows, bytes_of_row
from frazil.vector.nearest import find_vectors
from frazil.vector.portable import forget_copy, has_copy, with_copies, write_copy
from frazil.vector.record import IndexRecord, SegmentInfo
from frazil.vector.report import repair_command
from frazil.vector.search import USUAL_K
from frazil.vector.segment import Segment, open_segment

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier

    from frazil.scan.reading import RowScan

SEED = 1
ATTEMPTS = 5  # of a refresh, when others change the index meanwhile

WORTH = 4  # rows of files that are gone, for each new one, that are looked through for rows that only moved
MOVED_BYTES = 512 * 1024 * 1024  # of the codes of such rows, at most: each process that writes segments holds them

log = logging.getLogger("frazil.vector")


class IndexCatalog(Protocol):
    """A catalog that keeps records of indexes."""

    def load_table(self, identifier: str | Identifier) -> Table: ...

    def list_indexes(self, identifier: str | Identifier) -> list[dict[str, Any]] | None: ...

    def create_index(self, identifier: str | Identifier, name: str, record: dict[str, Any]) -> dict[str, Any]: ...

    def replace_index(
        self, identifier: str | Identifier, name: str, record: dict[str, Any], *, version: int
    ) -> dict[str, Any]: ...

    def drop_index(self, identifier: str | Identifier, name: str) -> None: ...


@dataclass(frozen=True)
class IndexCheck:
    """What is wrong with an index: damaged or missing files, and files of the table that it does not cover."""

    name: str
    files: int
    uncovered: int
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Coverage:
    """How much of the newest snapshot an index covers: data files, those that it does not cover, and what of it
    cannot be read.
    """

    record: IndexRecord
    files: int
    uncovered: int
    problems: tuple[str, ...]
    rows: int = 0  # of all covered files
    gone: Mapping[str, int] = field(default_factory=dict)  # covered files that the newest snapshot has not, with rows
    copied: bool = True  # the record, into the statistics of the newest snapshots

    def expired_rows(self, expired: Collection[str]) -> int:
        """The number of rows of files that no snapshot has; 0 while it is too small to be worth a rewrite."""
        rows = sum(count for path, count in self.gone.items() if path in expired)
        return rows if rows > MOST_DEAD * self.rows else 0


@dataclass(frozen=True)
class Declared:
    """An index that the table's properties ask for."""

    name: str
    column: str
    metric: Metric
    lists: int | None


@dataclass(frozen=True)
class Indexes:
    """The indexes of one table."""

    catalog: IndexCatalog
    table: str
    builder: Builder = field(default_factory=Builder)

    # --- records -----------------------------------------------------------------------------------------------------

    def records(self) -> list[IndexRecord]:
        """All indexes: those that the catalog has a record of, and others by their copy in the table's statistics."""
        stored, table = self._stored(), self.catalog.load_table(self.table)
        return with_copies(stored, TableState.of(self.table, table.metadata), table.io)

    def records_for(self, scan: RowScan, column: str) -> list[IndexRecord]:
        """The same of one column, for a scan: the table is not loaded again."""
        schema = scan.state.schema(scan.request.schema_id)
        wanted = next((field.field_id for field in schema.fields if field.name == column), None)
        stored = self._stored()
        return stored if wanted is None else with_copies(stored, scan.state, scan.source.open.io, field_id=wanted)

    def lost(self, records: Sequence[IndexRecord]) -> list[IndexRecord]:
        """Of some records, those that the catalog should have and has not: their copy is all that is left."""
        unknown = [record for record in records if not record.version]
        return [] if not unknown or self.catalog.list_indexes(self.table) is None else unknown

    def restore(self, record: IndexRecord) -> IndexRecord:
        """The record is in the catalog again, as its copy says. The index itself is not read."""
        return self._store(record)

    def _stored(self) -> list[IndexRecord]:
        """The records that the catalog has."""
        return [IndexRecord.of(each, table=self.table) for each in self.catalog.list_indexes(self.table) or ()]

    def declared(self) -> list[Declared]:
        """The indexes that were declared with the table; a property that says none is logged."""
        declared = []
        for key, value in self.catalog.load_table(self.table).metadata.properties.items():
            if key.startswith(PROPERTY_INDEX_PREFIX):
                try:
                    facts = json.loads(value)
                    name = key.removeprefix(PROPERTY_INDEX_PREFIX)
                    declared.append(Declared(name, str(facts["column"]), facts["metric"], facts.get("lists")))
                except (ValueError, KeyError, TypeError) as exc:
                    log.warning("%s: the property %s says no index: %s", self.table, key, exc)
        return declared

    def find(self, name: str) -> IndexRecord:
        """The index of this name, or the only one of this column."""
        records, table = self.records(), self.catalog.load_table(self.table)
        column = next((field.field_id for field in table.schema().fields if field.name == name), None)
        chosen = [record for record in records if record.name == name] or [
            record for record in records if record.field_id == column
        ]
        if len(chosen) != 1:
            hint = f"there are: {', '.join(record.name for record in records)}" if records else "create one first"
            problem = "ambiguous" if chosen else "no-index"
            message = f"several indexes of column '{name}'" if chosen else f"no index '{name}'"
            raise VectorError(f"{self.table} has {message}", hint=hint, table=self.table, name=name, problem=problem)
        return chosen[0]

    # --- changes -----------------------------------------------------------------------------------------------------

    def create(
        self,
        column: str,
        *,
        metric: Metric = "cosine",
        name: str | None = None,
        lists: int | None = None,
        seed: int = SEED,
    ) -> IndexRecord:
        """Builds an index of a column over the newest snapshot, in this process."""
        table = self.catalog.load_table(self.table)
        name = name or index_name(column, metric)
        self._check_new(name, metric, lists)
        scan = self._scan(table, column)
        built = self.builder.build(table, scan, metric, seed=seed, lists=lists)
        try:
            return self._store(_as_record(name, scan.fields[0].field_id, seed, built))
        except AlreadyExists as exc:
            raise self._exists(name) from exc

    def refresh(self, name: str, *, verify: bool = True, expired: Collection[str] = ()) -> IndexRecord:
        """Indexes the files of the newest snapshot that the index does not cover, and replaces segments that are
        damaged or missing. All of the index is read for that, unless `verify` is false. Rows of `expired` data
        files, which no snapshot has any more, may be left out.

        If another refresh stores its record first, this one begins again with that record, several times at most.
        """
        for _ in range(ATTEMPTS):
            try:
                return self._refresh(name, verify=verify, expired=expired)
            except (CommitConflict, AlreadyExists) as exc:
                log.info("%s: index %s has changed meanwhile: %s", self.table, name, exc)
        raise CommitConflict(
            f"index {name} of {self.table} was changed {ATTEMPTS} times while it was refreshed",
            hint=f"when no other refresh is running: {repair_command(self.table, name)}",
            table=self.table,
        )

    def _refresh(self, name: str, *, verify: bool, expired: Collection[str]) -> IndexRecord:
        record, table = self.find(name), self.catalog.load_table(self.table)
        scan = self._scan(table, _column(table, record))
        built = self._refreshed(record, table, scan, verify=verify)
        built = self.builder.prune(built, expired, scan) if expired else built
        changed = _as_record(record.name, record.field_id, record.seed, built)
        return self._store(replace(changed, version=record.version), before=record)

    def _store(self, record: IndexRecord, *, before: IndexRecord | None = None) -> IndexRecord:
        """The record is in the catalog, if it keeps records and has it not yet, and its copy in the newest snapshot."""
        if record != before or not record.version:
            record = self._record(record)
        self.copy(record)
        return record

    def copy(self, record: IndexRecord) -> None:
        """The copy of the record is in the table's statistics. The index itself is not read."""
        write_copy(self.catalog.load_table(self.table), [*self._others(record), record], record.field_id)
        if record.version and all(known.name != record.name for known in self._stored()):
            forget_copy(self.catalog.load_table(self.table), record)  # it was dropped meanwhile

    def _record(self, record: IndexRecord) -> IndexRecord:
        if self.catalog.list_indexes(self.table) is None:
            return record  # another catalog than Frazil's: the copy is all that there is
        if record.version:
            stored = self.catalog.replace_index(self.table, record.name, record.to_json(), version=record.version)
        else:
            stored = self.catalog.create_index(self.table, record.name, record.to_json())
        return IndexRecord.of(stored, table=self.table)

    def _others(self, record: IndexRecord) -> list[IndexRecord]:
        return [other for other in self.records() if other.name != record.name]

    def _refreshed(self, record: IndexRecord, table: Table, scan: RowScan, *, verify: bool) -> Built:
        """The files of the index for the newest snapshot. Without its codebook, an index is built from scratch; so is
        that of a table that has moved, whose files would lie outside of it.
        """
        if not record.codebook.startswith(f"{table.location()}/"):
            log.info("%s: index %s is built again at the table's new location", self.table, record.name)
            return self.builder.build(table, scan, record.metric, seed=record.seed, lists=None)
        try:
            codebook = read_codebook(table.io, record)
        except DataFileUnreadable as exc:
            log.warning("%s: index %s is built again: %s", self.table, record.name, exc.message)
            return self.builder.build(table, scan, record.metric, seed=record.seed, lists=None)
        opened = dict[SegmentInfo, Segment]()
        for info, segment in _open_segments(table.io, record, codebook, verify=verify):
            if isinstance(segment, Segment):
                opened[info] = segment
            else:
                log.warning("%s: a segment is built again: %s", self.table, segment.message)
        segments = list(opened.values())
        live, covered = order_tasks(scan.plan().tasks()), {file.path for each in segments for file in each.files}
        tasks = [task for task in live if task.path not in covered]
        if len(tasks) == len(live) and find_vectors(scan, scan.fields[0]) not in (None, codebook.dimension):
            log.warning("%s: index %s is built again: its vectors have another dimension", self.table, record.name)
            return self.builder.build(table, scan, record.metric, seed=record.seed, lists=None)
        built = Built(codebook, record.codebook, tuple(opened))
        if not tasks:
            return built
        moved = self._moved(segments, {task.path for task in live}, sum(task.rows for task in tasks))
        return self.builder.extend(built, tasks, scan, seed=record.seed, moved=moved)

    def _moved(self, segments: Sequence[Segment], live: set[str], rows: int) -> MovedRows | None:
        """Rows of files that are gone, if the new files may hold many of them: reading them takes time, too."""
        gone = {file.path: file.rows for segment in segments for file in segment.files if file.path not in live}
        if not gone or rows * WORTH < sum(gone.values()):
            return None
        if sum(gone.values()) * bytes_of_row(segments[0].shape.dimension) > MOVED_BYTES:
            log.info("%s: %d rows of rewritten files are too many to be remembered", self.table, sum(gone.values()))
            return None
        moved = MovedRows.of(part for segment in segments for part in segment.rows_of(gone))
        if moved is not None:
            log.info("%s: %d rows of rewritten files keep their codes if they only moved", self.table, len(moved.lists))
        return moved

    def coverage(self, record: IndexRecord, manifests: ScanCache | None = None) -> Coverage:
        """What an index covers of the newest snapshot, by what its segments say; their blocks are not read. Manifests
        are read by the cache, if one is given.
        """
        table = self.catalog.load_table(self.table)
        scan = self._scan(table, _column(table, record))
        if manifests is not None:
            scan = replace(scan, source=replace(scan.source, cache=manifests))
        live = {task.path for task in scan.plan().tasks()}
        covered, problems = dict[str, int](), list[str]()
        try:
            for _, segment in _open_segments(table.io, record, read_codebook(table.io, record)):
                if isinstance(segment, Segment):
                    covered |= dict(segment.files)
                else:
                    problems.append(segment.message)
        except DataFileUnreadable as exc:
            problems.append(exc.message)
        gone = {path: rows for path, rows in covered.items() if path not in live}
        copied = has_copy(table, [*self._others(record), record], record.field_id)
        uncovered = len(live - covered.keys())
        return Coverage(record, len(live), uncovered, tuple(problems), sum(covered.values()), gone, copied)

    def check(self, name: str) -> IndexCheck:
        """Reads all of an index, and compares what it covers with the newest snapshot."""
        record, table = self.find(name), self.catalog.load_table(self.table)
        scan = self._scan(table, _column(table, record))
        live, covered, problems = {task.path for task in scan.plan().tasks()}, set[str](), list[str]()
        try:
            codebook = read_codebook(table.io, record)
        except DataFileUnreadable as exc:
            return IndexCheck(record.name, len(live), len(live), (exc.message,))
        self.builder.progress("check", 0, len(record.segments))
        for number, (_, segment) in enumerate(_open_segments(table.io, record, codebook, verify=True)):
            self.builder.progress("check", number + 1, len(record.segments))
            if isinstance(segment, Segment):
                covered |= {file.path for file in segment.files}
            else:
                problems.append(segment.message)
        return IndexCheck(record.name, len(live), len(live - covered), tuple(problems))

    def drop(self, name: str) -> IndexRecord:
        """Removes an index from the catalog, and from what is declared with the table. Its files are removed with the
        orphans of the table. The copies go first: without a record, they would bring the index back.
        """
        record = self.find(name)
        table = self.catalog.load_table(self.table)
        forget_copy(table, record)
        if record.version:
            self._drop_record(record)
        if (key := f"{PROPERTY_INDEX_PREFIX}{record.name}") in table.metadata.properties:
            with table.transaction() as change:
                change.remove_properties(key)
        return record

    def _drop_record(self, record: IndexRecord) -> None:
        try:
            self.catalog.drop_index(self.table, record.name)
        except VectorError:
            self.copy(record)  # the catalog refused: the index stays, with its copy
            raise

    # --- steps -------------------------------------------------------------------------------------------------------

    def _check_new(self, name: str, metric: Metric, lists: int | None) -> None:
        if metric not in METRICS:
            raise self._wrong("metric", metric, f"one of {', '.join(METRICS)}")
        if not re.fullmatch(INDEX_NAME, name):
            raise self._wrong("name", name, "letters, digits, '_', '.' and '-'")
        if lists is not None and (not isinstance(lists, int) or not 1 <= lists <= MOST_LISTS):
            raise self._wrong("lists", lists, f"1 to {MOST_LISTS:,}")
        if any(record.name == name for record in self.records()):
            raise self._exists(name)

    def _wrong(self, option: str, value: object, expected: str) -> VectorError:
        message = f"{self.table}: the {option} of an index is {value!r:.80}: expected {expected}"
        return VectorError(message, table=self.table, option=option)

    def _exists(self, name: str) -> VectorError:
        return VectorError(
            f"{self.table} has an index '{name}' already",
            hint="refresh it, drop it, or give the new one another name",
            table=self.table,
            name=name,
            problem="exists",
        )

    def _scan(self, table: Table, column: str) -> RowScan:
        wanted = next((each for each in table.schema().fields if each.name == column), None)
        if wanted is None:
            names = ", ".join(each.name for each in table.schema().fields)
            raise VectorError(
                f"{self.table} has no column '{column}'", hint=f"there are: {names}", table=self.table, column=column
            )
        scan = scan_rows(table, [column])
        if not is_vector(scan.schema.field(0).type):
            raise VectorError(
                f"column '{column}' of {self.table} is {wanted.field_type}: expected a list of float or double",
                table=self.table,
                column=column,
            )
        return scan


def index_files(catalog: object, identifier: str | Identifier) -> list[str]:
    """The files of all indexes of a table; none where the catalog is no client of Frazil's."""
    if not hasattr(catalog, "list_indexes"):
        return []
    table = identifier if isinstance(identifier, str) else ".".join(identifier)
    records = Indexes(cast("IndexCatalog", catalog), table).records()
    return [path for record in records for path in (record.codebook, *(info.path for info in record.segments))]


def _as_record(name: str, field_id: int, seed: int, built: Built) -> IndexRecord:
    codebook = built.codebook
    probes = codebook.probes_for(USUAL_K)
    return IndexRecord(name, field_id, codebook.metric, codebook.dimension, probes, seed, built.path, built.segments)


def _open_segments(
    io: FileIO, record: IndexRecord, codebook: Codebook, *, verify: bool = False
) -> Iterator[tuple[SegmentInfo, Segment | DataFileUnreadable]]:
    """Each segment of an index, or what is wrong with it. No file of the table is covered twice."""
    covered = set[str]()
    for info in record.segments:
        try:
            segment = open_segment(io.new_input(info.path), codebook)
            if verify:
                segment.verify()
            paths = {file.path for file in segment.files}
            if not covered.isdisjoint(paths) or len(paths) < len(segment.files):
                raise segment.damaged("it covers a file that is covered already")
            covered |= paths
            yield info, segment
        except DataFileUnreadable as exc:
            yield info, exc


def _column(table: Table, record: IndexRecord) -> str:
    """The name of the indexed column now."""
    column = next((field.name for field in table.schema().fields if field.field_id == record.field_id), None)
    if column is None:
        name = ".".join(table.name())
        raise VectorError(
            f"{name} has no longer the column that index {record.name} is of",
            hint=f"drop the index: frazil index drop {name} {record.name}",
            table=name,
            name=record.name,
            problem="no-column",
        )
    return column
