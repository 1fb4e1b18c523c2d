"""Changes by key as a commit, copy-on-write: the files that hold their rows are rewritten, without the old rows and
with the new ones.

    look     which files may hold a key (partition and bounds), then their key columns alone: which do
    decide   late changes do nothing, deletes of unknown keys neither; a row that stays in its partition is replaced
    where it stands write    the files that have such rows, each one by itself, row group by row group; new rows into
    files of their own commit   the old files go and the new ones come in one snapshot, if the ref still is where it was
    looked at

If it is not, all of this is done again on the table as it is then; what has not changed since is neither read nor
written twice.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.typedef import Identifier
from pyiceberg.types import DoubleType, FloatType, IcebergType, UUIDType

from frazil.client import Change
from frazil.protocol import SUMMARY_UPSERT
from frazil.scan.planning import ScanCache
from frazil.scan.reading import FileReader
from frazil.write.commit import (
    MAIN,
    Draft,
    count_dropped,
    count_written,
    drop_files,
    merge_small,
    write_added,
)
from frazil.write.files import (
    Buffer,
    BufferLimits,
    FileMaker,
    Partition,
    RollingWriter,
    TableLayout,
    WrittenFile,
    check_written,
)
from frazil.write.upsert.changes import KEEP, PUT, Changes, Decision
from frazil.write.upsert.plan import Candidate, find_candidates

if TYPE_CHECKING:
    from pyiceberg.table import Table

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Met:
    """The changes whose rows a file holds: their numbers, and of those the late ones."""

    file: Candidate
    numbers: pa.Array
    late: pa.Array


@dataclass(frozen=True)
class Rewritten:
    """Files that are to go, with the manifests that list them, and files that are to come."""

    removed: frozenset[str] = frozenset()
    manifests: frozenset[str] = frozenset()
    files: tuple[WrittenFile, ...] = ()
    tally: Mapping[str, int] = field(default_factory=dict)

    @property
    def operation(self) -> Operation:
        if not self.removed:
            return Operation.APPEND
        return Operation.OVERWRITE if self.files else Operation.DELETE


@dataclass
class Upsert:
    """Changes for a table, ready to be published; a `snapshots.Publishable`."""

    identifier: Identifier
    changes: Changes
    cache: ScanCache
    ref: str = MAIN
    limits: BufferLimits = field(default_factory=BufferLimits)
    part: int = 0
    snapshot_id: int | None = None  # drawn once: of two attempts, the late one and its repetition, only one can come in
    # What was found and written for the table as it was at an earlier attempt; files are never deleted, for that commit
    # may come late.
    _met: dict[tuple[str, ...], Met] = field(default_factory=dict, repr=False)
    _written: dict[tuple[object, ...], list[WrittenFile]] = field(default_factory=dict, repr=False)

    def build(self, table: Table, *, attempt: int, summary: Mapping[str, str], properties: Mapping[str, str]) -> Change:
        """The change that applies the changes to the table as it is now."""
        new_id = self.snapshot_id = self.snapshot_id or table.metadata.new_snapshot_id()
        draft = Draft.after_head(table, self.ref, new_id, attempt)
        applied = self._apply(table, draft.parent)
        before = draft.manifests
        touched = [manifest for manifest in before if manifest.manifest_path in applied.manifests]
        others = [manifest for manifest in before if manifest.manifest_path not in applied.manifests]
        # Delete files stay: they are older than the new files.
        kept, dropped = drop_files(table, touched, lambda file: file.file_path in applied.removed, snapshot_id=new_id)
        added = write_added(table, applied.files, snapshot_id=new_id)
        snapshot = draft.write(
            applied.operation,
            [*added, *kept, *merge_small(table, others, snapshot_id=new_id)],
            count_written(applied.files) + count_dropped(dropped),
            {**summary, SUMMARY_UPSERT: json.dumps(applied.tally, separators=(",", ":"))},
        )
        return draft.change(self.identifier, snapshot, properties)

    def _apply(self, table: Table, parent: Snapshot | None) -> Rewritten:
        if not len(self.changes):
            return Rewritten()
        self._take_up(TableLayout.of(table))
        met: list[Met] = []
        if parent is not None:
            candidates = find_candidates(table, parent.snapshot_id, self.changes.rows, self.changes.rules, self.cache)
            met = self._run_all(lambda task: self._look(candidates.keys, task), candidates.files)
        decision = Decision.of(self.changes, [file.numbers for file in met], [file.late for file in met])
        work = [(file, self._verdicts(decision, file).take(file.numbers)) for file in met if len(file.numbers)]
        # else its rows all stay
        work = [(file, chosen) for file, chosen in work if pc.any(pc.not_equal(chosen, KEEP)).as_py()]
        written = self._run_all(lambda task: self._rewrite(candidates.rows, decision, *task), work)
        placed = [file.numbers.filter(pc.equal(chosen, PUT)) for file, chosen in work]
        return Rewritten(
            frozenset(file.file.task.path for file, _ in work),
            frozenset(file.file.manifest for file, _ in work),
            (*(file for some in written for file in some), *self._write_new(decision.new(placed))),
            decision.tally(),
        )

    def _take_up(self, layout: TableLayout) -> None:
        """Takes up what others have changed in the table; what was written before that is of no use."""
        if (layout.schema, layout.spec) != (self.changes.layout.schema, self.changes.layout.spec):
            self.changes = self.changes.relaid(layout)
            self._met, self._written = {}, {}

    # --- the files ---------------------------------------------------------------------------------------------------

    def _look(self, reader: FileReader, file: Candidate) -> Met:
        if file.state not in self._met:
            none = pa.array([], pa.int32())
            pieces = [self.changes.meet(rows) for rows in read_rows(reader, file, self.changes.layout)]
            numbers, late = (
                pa.concat_arrays([none, *some])
                for some in ([piece[0] for piece in pieces], [piece[1] for piece in pieces])
            )
            self._met[file.state] = Met(file, numbers, late)
        return Met(file, self._met[file.state].numbers, self._met[file.state].late)

    def _verdicts(self, decision: Decision, met: Met) -> pa.Array:
        """What becomes of each change's row in a file; one of an older spec lies in no partition of the current one."""
        task, layout = met.file.task, self.changes.layout
        is_current = task.spec_id == layout.spec.spec_id
        return decision.verdicts(written_partition(task.partition, layout) if is_current else (), task.spec_id)

    def _rewrite(self, reader: FileReader, decision: Decision, met: Met, chosen: pa.Array) -> list[WrittenFile]:
        known = (*met.file.state, _bytes(chosen))
        if known not in self._written:
            output, verdicts = self._output(met.file), self._verdicts(decision, met)
            try:
                for rows in read_rows(reader, met.file, self.changes.layout):
                    output.add(_exact(self.changes.apply(rows, verdicts), self.changes.layout))
                self._written[known] = output.flush()
            except BaseException:
                output.abandon()
                raise
        return self._written[known]

    def _write_new(self, chosen: pa.Array) -> list[WrittenFile]:
        known = ("", _bytes(chosen))
        if known not in self._written:
            layout = self.changes.layout
            buffer = Buffer(layout, limits=self.limits, maker=self._maker)
            try:
                buffer.add(_exact(self.changes.new_rows.filter(chosen), layout))
                self._written[known] = buffer.flush()
            except BaseException:
                buffer.abandon()
                raise
        return self._written[known]

    def _output(self, file: Candidate) -> _Output:
        """Where the rows of a file go: into one like it, unless they must be sorted, or partitioned again."""
        layout = self.changes.layout
        if layout.sort or file.task.spec_id != layout.spec.spec_id:
            return Buffer(layout, limits=self.limits, maker=self._maker)
        partition = written_partition(file.task.partition, layout)
        return _OneFile(RollingWriter(self._maker, partition), self.limits.row_group_bytes)

    @property
    def _maker(self) -> FileMaker:
        return FileMaker(self.changes.layout, part=self.part)

    def _run_all(self, work: Callable[[T], R], some: Sequence[T]) -> list[R]:
        if len(some) < 2 or self.limits.threads < 2:
            return [work(task) for task in some]
        with ThreadPoolExecutor(self.limits.threads, thread_name_prefix="frazil-upsert") as pool:
            return list(pool.map(work, some))


class _Output(Protocol):
    def add(self, rows: pa.Table) -> None: ...

    def flush(self) -> list[WrittenFile]: ...

    def abandon(self) -> None: ...


@dataclass
class _OneFile:
    """The rows of one partition in their order, gathered to row groups of a useful size."""

    writer: RollingWriter
    group_bytes: int
    waiting: list[pa.Table] = field(default_factory=list)
    waiting_bytes: int = 0
    rows: int = 0

    def add(self, rows: pa.Table) -> None:
        self.waiting.append(rows)
        self.rows += rows.num_rows
        self.waiting_bytes += rows.nbytes
        if self.waiting_bytes >= self.group_bytes:
            self._write()

    def flush(self) -> list[WrittenFile]:
        self._write()
        files = self.writer.finish()
        check_written(files, self.rows, table=self.writer.maker.layout.name)
        return files

    def abandon(self) -> None:
        self.writer.abandon()

    def _write(self) -> None:
        rows, self.waiting, self.waiting_bytes = self.waiting, [], 0
        if rows and (joined := pa.concat_tables(rows)).num_rows:
            self.writer.write(joined)


def written_partition(partition: Sequence[object], layout: TableLayout) -> Partition:
    """A file's partition as the writer has it: a scan gives NaN as a word, which can be compared, and a UUID as its
    bytes.
    """
    return tuple(_written(value, key.result) for value, key in zip(partition, layout.keys, strict=True))


def _written(value: Any, kind: IcebergType) -> Any:
    if isinstance(kind, FloatType | DoubleType):
        return math.nan if value == "NaN" else value
    return UUID(bytes=value) if isinstance(kind, UUIDType) and isinstance(value, bytes) else value


def read_rows(reader: FileReader, file: Candidate, layout: TableLayout) -> Iterator[pa.Table]:
    """The rows of a file that are not deleted, batch by batch, in the table's types."""
    wanted = pa.schema([layout.arrow.field(field.name).with_nullable(True) for field in reader.plan.fields])
    for batch in reader.read(file.task):
        yield pa.Table.from_batches([batch]).cast(wanted)


def _bytes(values: pa.Array) -> bytes:
    """Small numbers or truths, to be compared as a whole."""
    taken = pa.concat_arrays([values.cast(pa.int8())])
    return taken.buffers()[1].to_pybytes()[: len(taken)] if len(taken) else b""


def _exact(rows: pa.Table, layout: TableLayout) -> pa.Table:
    """The rows under the table's own schema, which says what may be NULL."""
    return pa.table(rows.columns, schema=layout.arrow)
