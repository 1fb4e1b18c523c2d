"""Scans that the server itself reads, for vector searches and the console: by its own access to files, within limits,
and no longer than the client waits. Needs pyarrow; imported when the first one comes.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, cast

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile

from frazil.catalog.files import MOST_BYTES
from frazil.catalog.names import Name
from frazil.catalog.operations.scans import ANSWER_BYTES
from frazil.errors import BadRequest, DataFileUnreadable
from frazil.scan.reading import FileReader, ReadPlan, RowScan

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField

    from frazil.catalog.context import Context
    from frazil.catalog.http import Request
    from frazil.catalog.names import Name
    from frazil.catalog.owned import OwnPlaces
    from frazil.catalog.warehouse import MetadataFiles, Warehouse, Warehouses
    from frazil.config import Limits
    from frazil.scan.planning import FileTask, Planner
    from frazil.scan.reading import Positions

BATCH_ROWS = 8192  # decoded at a time: a vector may have thousands of numbers


class ServedFiles(FileIO):
    """Files read by the server's own access, inside the warehouse and the allowed locations only, and for a caller only
    those in the places of its table. Nothing can be written or deleted.
    """

    def __init__(
        self, warehouses: Warehouses, warehouse: Warehouse, files: MetadataFiles, own: OwnPlaces | None = None
    ) -> None:
        super().__init__()
        self._warehouses, self._warehouse, self._files, self._own = warehouses, warehouse, files, own

    def open(self, location: str) -> IO[bytes]:
        if self._own is not None:
            self._own.check(location)
        place = self._warehouses.check(self._warehouse, location)
        return self._files.store(place).open(place)

    def new_input(self, location: str) -> InputFile:
        return _ServedFile(location, self.open)

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError(f"{location}: searches write nothing")

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise NotImplementedError(f"{location}: searches delete nothing")


class _ServedFile(InputFile):
    def __init__(self, location: str, opened: Callable[[str], IO[bytes]]) -> None:
        super().__init__(location)
        self._open = opened

    def __len__(self) -> int:
        with self._open(self.location) as file:
            return file.seek(0, 2)

    def exists(self) -> bool:
        try:
            self._open(self.location).close()
        except FileNotFoundError:
            return False
        return True

    def open(self, seekable: bool = True) -> InputStream:
        return cast(InputStream, _Bounded(self.location, self._open(self.location)))


class _Bounded(io.RawIOBase):
    """A file of which no more is read at once than fits in memory: what is in it is a client's."""

    def __init__(self, location: str, file: IO[bytes]) -> None:
        super().__init__()
        self._location, self._file = location, file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def read(self, size: int = -1) -> Any:
        size = self._left() if size < 0 else size
        if size > MOST_BYTES:
            raise DataFileUnreadable(self._location, f"{size:,} bytes in one read; at most {MOST_BYTES:,} are read")
        return self._file.read(size)

    def _left(self) -> int:
        """The bytes from here to the end."""
        at = self._file.tell()
        end = self._file.seek(0, io.SEEK_END)
        self._file.seek(at)
        return end - at

    def close(self) -> None:
        self._file.close()
        super().close()


@dataclass
class Allowance:
    """What one search may still read, and whether its client waits for it."""

    limits: Limits
    check: Callable[[], None]  # raises when the client has left
    column: str  # of the vectors
    _compared: dict[str, tuple[int, int]] = field(default_factory=dict)  # rows and bytes of files, by their paths
    _given: int = 0

    def compare(self, task: FileTask) -> None:
        """Refuses a search that compares too much: an index would have to be built or refreshed first."""
        self._compared[task.path] = (task.rows, task.bytes)
        rows, size = (sum(counts) for counts in zip(*self._compared.values(), strict=True))
        if rows > self.limits.search_rows or size > self.limits.search_bytes:
            raise BadRequest(
                f"The search would compare more than {self.limits.search_rows:,} rows or {self.limits.search_bytes:,} "
                f"bytes of files one by one",
                hint="index the column, refresh its index, narrow the filter, or search in the client",
                option="search_rows",
                problem="too-many-rows",
            )

    def give(self, batch: pa.RecordBatch) -> None:
        """Refuses an answer that is too long."""
        self._given += batch.nbytes
        if self._given > ANSWER_BYTES:
            raise answer_too_long()


def served_files(ctx: Context, warehouse: str, table: Table) -> ServedFiles:
    """The files of a table of PyIceberg, by the server's own access; with authentication, only those in its places."""
    return ServedFiles(
        ctx.warehouses,
        ctx.warehouses.named(warehouse),
        ctx.files,
        _places(ctx, warehouse, table) if ctx.gate.on else None,
    )


def writable_files(ctx: Context, warehouse: str, table: Table) -> FileIO:
    """The same for work that writes files: they go where the table says, and the catalog checks the commit."""
    from frazil.catalog.upkeep.worker import location_of
    from frazil.upkeep import own_file_io

    if not ctx.gate.on:
        return table.io
    own = _places(ctx, warehouse, table)
    return own_file_io(dict(table.io.properties), map(location_of, own.keys))


def _places(ctx: Context, warehouse: str, table: Table) -> OwnPlaces:
    from frazil.catalog.owned import places_of

    *levels, name = table.name()
    return places_of(ctx, warehouse, Name(tuple(levels), name), table.location(), table.metadata.properties)


def answer_too_long() -> BadRequest:
    return BadRequest(
        f"The rows of the answer have more than {ANSWER_BYTES:,} bytes",
        hint="select fewer columns, or ask for fewer rows",
        problem="answer-too-long",
    )


class ServedReader(FileReader):
    """Reads files within an allowance."""

    def __init__(self, plan: ReadPlan, allowance: Allowance, *, compares: bool) -> None:
        super().__init__(plan)
        self._allowance, self._compares = allowance, compares

    def read(self, task: FileTask) -> Iterator[pa.RecordBatch]:
        self._allowance.check()
        if self._compares:
            self._allowance.compare(task)
        for batch in super().read(task):
            self._allowance.check()
            if not self._compares:
                self._allowance.give(batch)
            yield batch

    def take(self, task: FileTask, positions: Positions) -> Iterator[pa.RecordBatch]:
        self._allowance.check()
        for batch in super().take(task, positions):
            self._allowance.check()
            self._allowance.give(batch)
            yield batch


@dataclass(frozen=True, kw_only=True)
class ServedScan(RowScan):
    """A scan within an allowance, read by one thread."""

    allowance: Allowance
    workers: int | None = 1

    def planner(self) -> Planner:
        planner = super().planner()
        planner.check = self.allowance.check
        return planner

    def reader(self, planner: Planner, fields: Sequence[NestedField] | None = None, **how: Any) -> FileReader:
        how.setdefault("batch_rows", min(BATCH_ROWS, self.limit or BATCH_ROWS))
        plan = ReadPlan.of(planner, self.source.open, self.fields if fields is None else fields, **how)
        # Columns that are given out are taken; what is read with the vectors is compared.
        return ServedReader(
            plan, self.allowance, compares=any(field.name == self.allowance.column for field in plan.fields)
        )


def open_served(
    ctx: Context,
    request: Request,
    *,
    snapshot_id: int | None,
    limit: int,
    most_columns: int | None = None,
    check: Callable[[], None] | None = None,
    name: Name | None = None,
) -> ServedScan:
    """A scan of the first rows and columns of the request's table, as of a snapshot with its columns, or as it is now;
    with `name`, of another table that the caller may read.

    `check` is called between batches and files, and stops the scan when it raises; by default when the client has left.
    """
    from frazil.catalog.operations.scans import as_bad_request, open_table
    from frazil.catalog.owned import manifests_of
    from frazil.scan.planning import Files, ScanRequest, Source

    state, own = open_table(ctx, request, name)
    schema_id = state.current_schema_id
    if snapshot_id is not None:
        snapshot = as_bad_request(lambda: state.snapshot(snapshot_id))
        schema_id = snapshot.schema_id if snapshot.schema_id is not None else schema_id
    else:
        snapshot_id = state.current_snapshot_id
    fields = state.schema(schema_id).fields
    files = ServedFiles(ctx.warehouses, ctx.warehouse(request), ctx.files, own)
    return ServedScan(
        state,
        Source(Files(files), manifests_of(ctx, request, own, files=True)),
        ScanRequest(snapshot_id=snapshot_id, schema_id=schema_id),
        None if most_columns is None or len(fields) <= most_columns else tuple(f.name for f in fields[:most_columns]),
        limit=limit,
        ordered=True,
        allowance=Allowance(ctx.limits, check or request.check_client, ""),
    )
