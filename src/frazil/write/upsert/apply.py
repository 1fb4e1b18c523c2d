"""Changes by key as a commit.

    look     which files may hold a key (partition and bounds), then their key columns alone: which rows do
    decide   late changes do nothing, deletes of unknown keys neither
    write    copy-on-write: the files that have changed rows are written again, each one by itself, row group by row
             group; a row that stays in its partition is replaced where it stands. Merge-on-read: delete files that
             name the old rows. Both: the other new rows, into files of their own
    commit   what goes and what comes in one snapshot, if the ref still is where it was looked at

If it is not, all of this is done again on the table as it is then; what has not changed since is neither read nor
written twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFile
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Identifier

from frazil.client import Change
from frazil.protocol import SUMMARY_UPSERT
from frazil.scan.planning import ScanCache
from frazil.scan.reading import FileReader
from frazil.write.commit import MAIN, Draft
from frazil.write.files import Buffer, BufferLimits, FileMaker, RollingWriter, TableLayout, WrittenFile, check_written
from frazil.write.upsert.changes import KEEP, PUT, Changes, Decision
from frazil.write.upsert.edit import Edit
from frazil.write.upsert.lookup import Lookup, Met
from frazil.write.upsert.mark_rows import Marking, mark, merges_on_read
from frazil.write.upsert.plan import Candidate, Candidates, find_candidates, written_partition
from frazil.write.upsert.rules import FORMATS

if TYPE_CHECKING:
    from pyiceberg.table import Table

T = TypeVar("T")
R = TypeVar("R")


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
    _met: dict[tuple[object, ...], Met] = field(default_factory=dict, repr=False)
    _written: dict[tuple[object, ...], list[WrittenFile]] = field(default_factory=dict, repr=False)
    _deletes: dict[tuple[object, ...], tuple[DataFile, ...]] = field(default_factory=dict, repr=False)

    def build(self, table: Table, *, attempt: int, summary: Mapping[str, str], properties: Mapping[str, str]) -> Change:
        """The change that applies the changes to the table as it is now."""
        new_id = self.snapshot_id = self.snapshot_id or table.metadata.new_snapshot_id()
        draft = Draft.after_head(table, self.ref, new_id, attempt)
        edit = self._apply(table, draft.parent)
        manifests, counts = edit.write(table, draft.manifests, snapshot_id=new_id)
        tally = {SUMMARY_UPSERT: json.dumps(edit.tally, separators=(",", ":"))}
        snapshot = draft.write(edit.operation, manifests, counts, {**summary, **tally})
        return draft.change(self.identifier, snapshot, properties)

    def _apply(self, table: Table, parent: Snapshot | None) -> Edit:
        if not len(self.changes):
            return Edit()
        layout = TableLayout.of(table, formats=FORMATS)
        self._take_up(layout)
        marks = merges_on_read(layout, table.metadata.format_version)
        if parent is None:
            decision = Decision.of(self.changes, [], [])
            return Edit(files=tuple(self._write_new(decision.new([]))), tally=decision.tally())
        rows, rules = self.changes.rows, self.changes.rules
        candidates = find_candidates(table, parent.snapshot_id, rows, rules, self.cache, with_positions=marks)
        lookup = Lookup.of(self.changes, candidates)
        met = self._run_all(lambda file: self._look(lookup, file), candidates.files)
        decision = Decision.of(self.changes, [file.numbers for file in met], [file.late for file in met])
        if marks:
            return self._mark(Marking(table, parent, self.changes.layout, mark(met, decision, lookup)), decision)
        return self._rewrite_all(candidates, decision, met)

    def _mark(self, marking: Marking, decision: Decision) -> Edit:
        """Merge-on-read: the old rows are marked, all new ones go to new files."""
        if marking.key not in self._deletes:
            self._deletes[marking.key] = marking.write()
        edit = marking.edit(self._deletes[marking.key])
        return replace(edit, files=tuple(self._write_new(decision.new([]))), tally=decision.tally())

    def _rewrite_all(self, candidates: Candidates, decision: Decision, met: Sequence[Met]) -> Edit:
        """Copy-on-write: the files with changed rows are written again. Delete files stay: they are older than the new
        files.
        """
        work = [(file, self._verdicts(decision, file).take(file.numbers)) for file in met if len(file.numbers)]
        # else its rows all stay
        work = [(file, chosen) for file, chosen in work if pc.any(pc.not_equal(chosen, KEEP)).as_py()]
        written = self._run_all(lambda task: self._rewrite(candidates.rows, decision, *task), work)
        placed = [file.numbers.filter(pc.equal(chosen, PUT)) for file, chosen in work]
        return Edit(
            removed=frozenset(file.file.task.path for file, _ in work),
            manifests=frozenset(file.file.manifest for file, _ in work),
            files=(*(file for some in written for file in some), *self._write_new(decision.new(placed))),
            tally=decision.tally(),
        )

    def _take_up(self, layout: TableLayout) -> None:
        """Takes up what others have changed in the table; what was written before that is of no use."""
        if (layout.schema, layout.spec) != (self.changes.layout.schema, self.changes.layout.spec):
            self.changes = self.changes.relaid(layout)
            self._met, self._written, self._deletes = {}, {}, {}

    # --- the files ---------------------------------------------------------------------------------------------------

    def _look(self, lookup: Lookup, file: Candidate) -> Met:
        key = (lookup.has_positions, *file.state)
        if key not in self._met:
            self._met[key] = lookup.look(file)
        return replace(self._met[key], file=file)  # its manifest may be another one by now

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
