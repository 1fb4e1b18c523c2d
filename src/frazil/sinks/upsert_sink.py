"""The sink for changes: it takes them as every sink takes rows, and applies them to the table by key in one commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from frazil.scan.planning import ScanCache
from frazil.sinks.sink import ArrowSink, SinkOptions
from frazil.write.commit import Claim, PartProgress
from frazil.write.files import TableLayout, WrittenFile
from frazil.write.upsert import ChangeContract, Changes, Upsert, UpsertRules, merges_on_read, relay_columns

if TYPE_CHECKING:
    from pyiceberg.typedef import Identifier

    from frazil.sinks.iceberg import IcebergTarget
    from frazil.write.commit import QuarantinedRow

CACHE_BYTES = 64 << 20


class ChangeBuffer:
    """Changes that wait. They stay in memory: which of them count is known when all are there."""

    def __init__(self, layout: TableLayout, waiting: Sequence[pa.Table] = ()) -> None:
        self.layout = layout
        self.waiting = list(waiting)
        self.rows = sum(item.num_rows for item in self.waiting)
        self.bytes = sum(array.nbytes for array in self.waiting)

    def add(self, rows: pa.Table) -> None:
        """Takes changes in the order of their arrival."""
        self.waiting.append(rows)
        self.rows += rows.num_rows
        self.bytes += rows.nbytes

    def take(self) -> list[pa.Table]:
        """All changes; the buffer is empty then."""
        taken, self.waiting, self.rows, self.bytes = self.waiting, [], 0, 0
        return taken

    def flush(self) -> list[WrittenFile]:
        """No files: they are written when it is known what the table holds."""
        return []

    def abandon(self) -> None:
        self.take()


class UpsertSink(ArrowSink):
    """Writes changes of one part of a stream to a table, each exactly once, by key."""

    def __init__(
        self,
        target: IcebergTarget,
        part: str,
        rules: UpsertRules,
        *,
        options: SinkOptions | None = None,
        part_number: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        merges_on_read(target.layout, target.format_version)  # refuses a table before another writer is fenced
        self._rules, self._iceberg = rules, target
        self._cache = ScanCache(self._read, max_bytes=CACHE_BYTES)
        super().__init__(target, part, options=options, part_number=part_number, clock=clock)

    def _read(self, path: str) -> bytes:
        with self._iceberg.layout.io.new_input(path).open() as stream:
            return bytes(stream.read())

    @property
    def _changes(self) -> ChangeBuffer:
        return cast(ChangeBuffer, self._buffer)

    def _is_due(self) -> bool:
        # Half of the budget: the other half is room for what is made of the changes.
        return super()._is_due() or self._buffer.bytes >= self._options.limits.run_bytes

    def _send(
        self,
        files: Sequence[WrittenFile],
        claim: Claim,
        *,
        quarantined: Sequence[QuarantinedRow],
        also: Mapping[Identifier, pa.Table],
    ) -> PartProgress:
        waiting, layout = self._changes.take(), self._iceberg.layout
        contract = cast(ChangeContract, self._contract)
        rows = pa.concat_tables(waiting) if waiting else contract.arrow.empty_table()
        changes = Changes.of(rows, self._rules, layout)
        upsert = Upsert(
            self._iceberg.identifier,
            changes,
            self._cache,
            self._iceberg.ref,
            limits=self._options.limits,
            part=self._part_number,
        )
        return self._iceberg.commit(files, claim, quarantined=quarantined, also=also, change=upsert)

    def _new_contract(self) -> Any:
        return ChangeContract(self._target.layout, self._rules, self._options.checks, self._options.extra_fields)

    def _new_buffer(self) -> Any:
        layout = self._target.layout
        old = getattr(self, "_buffer", None)
        waiting = (
            [relay_columns(change, old.layout, layout) for change in old.waiting]
            if isinstance(old, ChangeBuffer)
            else []
        )
        return ChangeBuffer(layout, waiting)
