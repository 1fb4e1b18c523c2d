"""Rows that match a filter are deleted, and new rows come in, in one snapshot; copy-on-write.

A data file of which every row matches is dropped without being read. Of the others, those with a matching row are
written again without these rows. A comparison with null is not true, so such a row is never deleted, as in SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.typedef import Identifier

from frazil.client import Change
from frazil.protocol import SUMMARY_OVERWRITE
from frazil.scan.planning import FileTask, Planner, ScanRequest, Source, TableState
from frazil.scan.reading import EXTRAS, FileReader, ReadPlan
from frazil.write.commit import MAIN, Append, Rewrite, head
from frazil.write.files import Buffer, BufferLimits, FileMaker, TableLayout, WrittenFile

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

POSITION = EXTRAS["_pos"]


@dataclass
class ReplaceRows:
    """The end of all rows that match a filter, and new files; a `snapshots.Publishable`.

    Which rows match is decided again at each attempt, on the table as it is then.
    """

    identifier: Identifier
    filter: BooleanExpression
    files: Sequence[WrittenFile] = ()
    ref: str = MAIN
    limits: BufferLimits = field(default_factory=BufferLimits)
    removed_rows: int = 0  # by the change that was built last

    def build(self, table: Table, *, attempt: int, summary: Mapping[str, str], properties: Mapping[str, str]) -> Change:
        """The change of the table as it is now."""
        parent = head(table.metadata, self.ref)
        if parent is None:
            append = Append(self.identifier, self.files, self.ref)
            # With the mark it is no mere append: rows that come in before it must be looked at.
            marked = {**summary, SUMMARY_OVERWRITE: "0"}
            return append.build(table, attempt=attempt, summary=marked, properties=properties)
        removed, survivors = self._split(table, parent)
        rewrite = Rewrite(self.identifier, removed, [*survivors, *self.files], self.ref)
        return rewrite.build(table, attempt=attempt, summary=summary)

    def _split(self, table: Table, parent: Snapshot) -> tuple[list[str], list[WrittenFile]]:
        """The files that lose rows, and files with the rows of these that stay."""
        readers = _Readers.of(table, parent, self.filter)
        layout = TableLayout.of(table)
        buffer = Buffer(layout, limits=self.limits, maker=FileMaker(layout))
        matches: dict[str, int] = {}
        try:
            for task in readers.tasks:
                is_whole = isinstance(task.residual, AlwaysTrue)
                matches[task.path] = readers.live_count(task) if is_whole else _keep_others(readers, task, buffer)
            self.removed_rows = sum(matches.values())
            whole = {task.path for task in readers.tasks if isinstance(task.residual, AlwaysTrue)}
            return [path for path, count in matches.items() if count or path in whole], buffer.flush()
        except BaseException:
            buffer.abandon()
            raise


@dataclass(frozen=True)
class _Readers:
    """Reads the files that may hold matching rows: which rows match, and all live rows."""

    tasks: Sequence[FileTask]
    matches: FileReader
    rows: FileReader

    @classmethod
    def of(cls, table: Table, parent: Snapshot, filter: BooleanExpression) -> _Readers:
        state, source = TableState.of(".".join(table.name()), table.metadata), Source.of(table.io)
        schema_id = table.metadata.current_schema_id
        chosen = Planner(state, source.cache, ScanRequest(filter, snapshot_id=parent.snapshot_id, schema_id=schema_id))
        every = Planner(state, source.cache, ScanRequest(snapshot_id=parent.snapshot_id, schema_id=schema_id))
        return cls(
            list(chosen.plan().tasks()),
            FileReader(ReadPlan.of(chosen, source.open, [POSITION])),
            FileReader(ReadPlan.of(every, source.open, [*table.schema().fields, POSITION])),
        )

    def matching(self, task: FileTask) -> pa.Array:
        """The positions of the file's rows that match."""
        none = pa.array([], pa.int64())
        return pa.concat_arrays([none, *(batch.column(0).cast(pa.int64()) for batch in self.matches.read(task))])

    def live_count(self, task: FileTask) -> int:
        """The number of rows of a file of which every row matches."""
        return len(self.matching(task)) if task.deletes else task.rows

    def live_rows(self, task: FileTask) -> Iterator[pa.Table]:
        """The rows of a file that are not deleted, with their positions."""
        for batch in self.rows.read(replace(task, residual=AlwaysTrue())):
            yield pa.Table.from_batches([batch])


def _keep_others(readers: _Readers, task: FileTask, buffer: Buffer) -> int:
    """Adds the rows of a file that do not match to the buffer, if any row matches; the number of those that do."""
    matching = readers.matching(task)
    for rows in readers.live_rows(task) if len(matching) else ():
        stays = pc.invert(pc.is_in(rows.column(POSITION.name), value_set=matching))
        # Cast, then filter: maps that were filtered cannot be cast (see `arrow_compat`).
        buffer.add(_in_types(rows, buffer.layout).filter(stays))
    return len(matching)


def _in_types(rows: pa.Table, layout: TableLayout) -> pa.Table:
    """The rows under the table's own schema."""
    nullable = pa.schema([field.with_nullable(True) for field in layout.arrow])
    return pa.table(rows.select(layout.arrow.names).cast(nullable).columns, schema=layout.arrow)
