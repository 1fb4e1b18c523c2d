"""The sink: rows with their source positions in, committed batches out. The same for every target and every host."""

from __future__ import annotations

import datetime as dt
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.typedef import Identifier

from frazil.errors import ProgressMismatch, RowRefused, SinkError
from frazil.sinks.arguments import as_names, as_offsets, as_position, check_word
from frazil.units import count
from frazil.write.commit import (
    Claim,
    Committed,
    OpenQuarantine,
    PartProgress,
    PlannedTakeover,
    Progress,
    Publishable,
    QuarantinedRow,
    QuarantinedRows,
    exact_position,
    position_in_batch,
)
from frazil.write.contract import (
    Accepted,
    Contract,
    Extra,
    Rejected,
    as_dicts,
    as_table,
    columns_as_json,
    nested_as_json,
    nested_columns,
    new_nested_fields,
)
from frazil.write.files import Buffer, BufferLimits, FileMaker, TableLayout, WrittenFile, delete_quietly

log = logging.getLogger("frazil.sinks")
BadRows = Literal["quarantine", "stop"]
ONLY_SOURCE = "0"  # the source partition of positions that are plain numbers


class Target(Protocol):
    """A table that takes batches exactly once: `iceberg.IcebergTarget` and `delta.DeltaTarget`."""

    @property
    def layout(self) -> TableLayout:
        """The table as it was seen last."""

    def progress(self) -> Progress:
        """The progress of every part that writes to the table."""

    def take_over(self, part: str, writer: str) -> PartProgress:
        """Fences every other writer of the part; gives the progress to go on from."""

    def plan_takeover(self, part: str, writer: str) -> PlannedTakeover:
        """For a writer of one commit: that commit is to be the takeover. A target that cannot do so takes over now."""

    def commit(
        self,
        files: Sequence[WrittenFile],
        claim: Claim,
        *,
        quarantined: Sequence[QuarantinedRow] = (),
        also: Mapping[Identifier, pa.Table] | None = None,
    ) -> PartProgress:
        """Commits files and progress, or finds that they are in."""

    def publish(
        self,
        files: Sequence[WrittenFile],
        claim: Claim,
        *,
        quarantine_files: Sequence[WrittenFile] = (),
        also: Mapping[Identifier, pa.Table] | None = None,
        change: Publishable | None = None,
    ) -> Committed:
        """The same where the quarantined rows are in files, too; `change` is committed in place of an append of
        `files`.
        """

    def open_quarantine(self, part: str) -> OpenQuarantine:
        """The table for bad rows, made if it is not there; where it has progress of its own, that is taken over if the
        part was.
        """

    def evolve(self, schema: pa.Schema, *, names: Sequence[str]) -> None:
        """Adds columns for the fields that the table does not have."""


@dataclass(frozen=True)
class FlushPolicy:
    """When waiting rows are committed by themselves: at a number of rows, bytes of Arrow, or seconds since the first of
    them.
    """

    rows: int | None = 10_000
    bytes: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class SinkOptions:
    """How a sink treats rows."""

    flush: FlushPolicy = field(default_factory=FlushPolicy)
    limits: BufferLimits = field(default_factory=BufferLimits)
    checks: tuple[str, ...] = ()
    extra_fields: Extra = "error"
    bad_rows: BadRows = "stop"
    nested_as_json: bool = False  # nested values for text columns become JSON text

    def __post_init__(self) -> None:
        check_word("extra_fields", self.extra_fields, get_args(Extra))
        check_word("bad_rows", self.bad_rows, get_args(BadRows))


class ArrowSink:
    """Writes rows of one part of a stream to a table, each exactly once. A context manager: leaving it commits what
    waits.

    After an error the sink is closed: what it had committed stays, nothing else is in. Open it again and go on from
    `position`.
    """

    def __init__(
        self,
        target: Target,
        part: str,
        *,
        options: SinkOptions | None = None,
        part_number: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target, self._part, self._part_number = target, part, part_number
        self._options = options or SinkOptions()
        self._clock = clock
        self._writer = uuid.uuid4().hex[:16]
        self._quarantined = QuarantinedRows(part)
        self._end: dict[str, int] = {}
        self._done: set[str] = set()
        self._files: list[WrittenFile] = []
        self._also: dict[Identifier, list[pa.Table]] = {}
        self._first_at: float | None = None
        self._closed = False
        self._contract = self._new_contract()  # a check that cannot work is refused before another writer is fenced
        self._progress = target.take_over(part, self._writer)
        self._buffer = self._new_buffer()
        facts = {"table": target.layout.name, "part": part, "position": dict(self._progress.offsets)}
        log.info("%s: sink part '%s' opened", target.layout.name, part, extra={"fields": facts})

    def __repr__(self) -> str:
        """The table, the part, and where the source is to go on."""
        waiting = f", {count(self._waiting_rows(), 'row')} waiting"
        state = ", closed" if self._closed else waiting
        position = self.offset if list(self.position) == [ONLY_SOURCE] else self.position or "the beginning"
        return f"<{type(self).__name__} of {self._target.layout.name}, part '{self._part}': at {position}{state}>"

    # --- what a host calls -------------------------------------------------------------------------------------------

    @property
    def position(self) -> Mapping[str, int]:
        """Where the source is to go on, by source partition: everything before is in the table."""
        return dict(self._progress.offsets)

    @property
    def offset(self) -> int | None:
        """The same for a source without partitions, whose positions are plain numbers; None at the beginning."""
        return self._progress.offsets.get(ONLY_SOURCE)

    def write(self, rows: Any, *, position: int | Mapping[str, int] | None = None, done: Iterable[str] = ()) -> None:
        """Takes rows: Arrow of any library, or a dictionary, Pydantic model or dataclass, or a list of them.

        `position` is where the source stands after these rows: rows at a position that was reached before are refused,
        for they are in. Rows of one position belong in one call. `done` names source partitions that are finished for
        good, such as a file that was read to its end. Rows wait in bounded memory until they are committed, see
        `FlushPolicy`.
        """
        with self._closing_on_error():
            end, done = as_position(position, only_source=ONLY_SOURCE), as_names(done)
            self._check_forward(end)
            before = 0
            for piece in _pieces(as_dicts(rows)):
                accepted = self._accept(piece)
                if accepted.rows.num_rows or accepted.rejected:
                    self._check_moves(end)
                self._reject([(row, position_in_batch(before + row.number, end), end) for row in accepted.rejected])
                self._buffer.add(accepted.rows)
                before += accepted.rows.num_rows + len(accepted.rejected)
            self._reach(end, done)

    def write_with_offsets(self, rows: Any, *, source: str, offsets: pa.Array | Sequence[int]) -> None:
        """Takes rows of one source partition with the offset of each. Those that are in already are left out: a source
        may repeat.

        Offsets rise; rows of the same offset (several of one message) must come in the same call.
        """
        with self._closing_on_error():
            numbers = as_offsets(offsets, source=source)
            rows = as_dicts(rows)
            rows = [rows] if isinstance(rows, Mapping) else rows if _are_dicts(rows) else as_table(rows)
            if len(rows) != len(numbers) or numbers.null_count:
                what = (
                    f"{len(rows)} rows with {len(numbers)} offsets"
                    if len(rows) != len(numbers)
                    else "a row without an offset"
                )
                raise ProgressMismatch(
                    f"{self._target.layout.name}: source partition '{source}': {what}",
                    hint="give each row its offset",
                    expected=len(rows),
                    got=len(numbers) - numbers.null_count,
                    source=source,
                    table=self._target.layout.name,
                )
            if not pc.all(pc.greater_equal(numbers[1:], numbers[:-1]), min_count=0).as_py():
                raise ProgressMismatch(
                    f"{self._target.layout.name}: offsets of source partition '{source}' do not rise",
                    source=source,
                    table=self._target.layout.name,
                    problem="unordered",
                )
            reached = self._end.get(source, self._progress.offsets.get(source))
            rows, numbers = _without_seen(rows, numbers, reached)
            if not len(numbers):
                return
            accepted = self._accept(rows)
            at = [numbers[row.number].as_py() for row in accepted.rejected]
            rejected = zip(accepted.rejected, at, strict=True)
            self._reject([(row, exact_position(source, offset), {source: offset + 1}) for row, offset in rejected])
            self._buffer.add(accepted.rows)
            self._reach({source: numbers[-1].as_py() + 1}, ())

    def also(self, table: str | Identifier, rows: pa.Table) -> None:
        """Rows for another table, such as a ledger of files, that are to come in with this sink's next commit."""
        self._check_open()
        self._also.setdefault(tuple(table.split(".")) if isinstance(table, str) else table, []).append(rows)

    def poll(self) -> None:
        """Commits if it is time to; a host calls it while its source is silent, so that rows do not wait longer than
        they may.
        """
        self._check_open()
        if self._is_due():
            self.commit()

    def flush(self) -> None:
        """Writes what waits to data files. Readers see them after the next commit."""
        with self._closing_on_error():
            self._files += self._buffer.flush()

    def commit(self) -> Mapping[str, int]:
        """Everything written so far is in the table, exactly once, when this returns; gives the position reached."""
        with self._closing_on_error():
            self.flush()
            quarantined = self._quarantined.take()
            if not (self._files or quarantined or self._also or self._end or self._done or self._buffer.rows):
                return self.position
            claim = self._claim()
            files, self._files = self._files, []  # from here on they must not be deleted: the commit may happen late
            also = {identifier: pa.concat_tables(tables) for identifier, tables in self._also.items()}
            self._progress = self._send(files, claim, quarantined=quarantined, also=also)
            self._end, self._done, self._also, self._first_at = {}, set(), {}, None
            self._renew()
        return self.position

    def close(self) -> None:
        """Commits what waits and ends the sink."""
        if not self._closed:
            self.commit()
            self._closed = True

    def abandon(self) -> None:
        """Ends the sink and drops what was not committed."""
        self._closed = True
        self._buffer.abandon()
        for file in self._files:
            delete_quietly(self._target.layout, file.path)
        paths, name = [file.path for file in self._files], self._target.layout.name
        facts = {"table": name, "part": self._part, "files": paths}
        log.info(
            "%s: sink part '%s' abandoned, %d files deleted", *(name, self._part, len(paths)), extra={"fields": facts}
        )
        self._files = []

    def __enter__(self) -> ArrowSink:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            self.close()
        elif not self._closed:
            self.abandon()

    # --- what it does ------------------------------------------------------------------------------------------------

    def _send(
        self,
        files: Sequence[WrittenFile],
        claim: Claim,
        *,
        quarantined: Sequence[QuarantinedRow],
        also: Mapping[Identifier, pa.Table],
    ) -> PartProgress:
        return self._target.commit(files, claim, quarantined=quarantined, also=also)

    def _accept(self, rows: Any) -> Accepted:
        table = None if _are_dicts(rows) else as_table(rows)
        if self._options.nested_as_json:
            schema = self._contract.layout.arrow
            rows = nested_as_json(rows, schema) if table is None else rows
            table = None if table is None else columns_as_json(table, schema)
        if self._options.extra_fields == "evolve":
            self._evolve(_guess_schema(rows, self._contract.layout.arrow) if table is None else table.schema)
        return self._contract.accept_dicts(rows) if table is None else self._contract.accept(table)

    def _evolve(self, schema: pa.Schema) -> None:
        names = self._contract.new_fields(schema)
        if names:
            self._files += self._buffer.flush()  # they have the old schema, and stay right
            self._target.evolve(schema, names=names)
            self._renew()

    def _reject(self, rejected: Sequence[tuple[Rejected, str, Mapping[str, int]]]) -> None:
        now = dt.datetime.now(dt.UTC)
        for row, position, end in rejected:
            if self._options.bad_rows == "stop":
                raise RowRefused(self._target.layout.name, row.reason, position=position, row=row.raw)
            self._quarantined.add(row, position=position, end=end, now=now)

    def _reach(self, end: Mapping[str, int], done: Iterable[str]) -> None:
        """All rows of a call are taken: now their position counts, and they may be committed."""
        self._end.update(end)
        self._done.update(done)
        if self._first_at is None:
            self._first_at = self._clock()
        if self._is_due():
            self.commit()

    def _is_due(self) -> bool:
        policy, waited = self._options.flush, 0.0 if self._first_at is None else self._clock() - self._first_at
        return bool(
            (policy.rows is not None and self._waiting_rows() >= policy.rows)
            or (policy.bytes is not None and self._buffer.bytes >= policy.bytes)
            or (policy.seconds is not None and self._first_at is not None and waited >= policy.seconds)
        )

    def _waiting_rows(self) -> int:
        return self._buffer.rows + len(self._quarantined.rows) + sum(file.rows for file in self._files)

    def _claim(self) -> Claim:
        known = self._progress.offsets
        return Claim(
            part=self._part,
            writer=self._writer,
            generation=self._progress.generation,
            commit=self._progress.commits + 1,
            start={name: known[name] for name in self._end if name in known},
            end=dict(self._end),
            done=frozenset(self._done),
        )

    def _check_forward(self, end: Mapping[str, int]) -> None:
        for name, offset in end.items():
            reached = self._end.get(name, self._progress.offsets.get(name))
            if reached is not None and offset < reached:
                raise ProgressMismatch(
                    f"{self._target.layout.name}: rows up to {offset} of source partition '{name}' were offered, but "
                    f"{reached} is reached",
                    hint="let the source go on from sink.position, or use write_with_offsets, which leaves out what "
                    "is in",
                    source=name,
                    table=self._target.layout.name,
                )

    def _check_moves(self, end: Mapping[str, int]) -> None:
        """Refuses rows at a position where the source stood before them: it has sent the batch again, or rows of one
        position apart.
        """
        if end and all(offset == self._end.get(name, self._progress.offsets.get(name)) for name, offset in end.items()):
            at = ", ".join(f"{offset} of source partition '{name}'" for name, offset in end.items())
            raise ProgressMismatch(
                f"{self._target.layout.name}: rows up to {at} were offered, but that is reached: the rows before it "
                f"are in",
                hint="let the source go on from sink.position, and give all rows of one position in one call",
                table=self._target.layout.name,
                problem="already-committed",
            )

    def _renew(self) -> None:
        """Takes up what others have changed in the table: columns, partitioning, properties."""
        if self._buffer.layout is not self._target.layout:
            self._contract, self._buffer = self._new_contract(), self._new_buffer()

    def _new_contract(self) -> Contract:
        return Contract.of(self._target.layout, checks=self._options.checks, extra=self._options.extra_fields)

    def _new_buffer(self) -> Buffer:
        maker = FileMaker(self._target.layout, part=self._part_number)
        return Buffer(self._target.layout, limits=self._options.limits, maker=maker)

    def _check_open(self) -> None:
        if self._closed:
            raise SinkError(
                f"the sink for part '{self._part}' is closed",
                hint="open it again and go on from its position",
                part=self._part,
                problem="closed",
            )

    def _closing_on_error(self) -> _ClosingOnError:
        self._check_open()
        return _ClosingOnError(self)


@dataclass(frozen=True)
class _ClosingOnError:
    """Whatever goes wrong inside, the sink does not go on: rows that it forgot would look like rows that it wrote."""

    sink: ArrowSink

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is not None:
            self.sink.abandon()


def _pieces(rows: Any) -> Iterator[Any]:
    """The rows in pieces that may be taken one after the other: a stream is not read into memory as a whole."""
    if isinstance(rows, Mapping):
        yield [rows]
    elif type(rows).__module__.startswith("daft.") and hasattr(rows, "to_arrow_iter"):
        from frazil.sinks.daft import stream_frame

        yield from stream_frame(rows)
    elif hasattr(rows, "__arrow_c_stream__") and not isinstance(rows, pa.Table | pa.RecordBatch):
        yield from pa.RecordBatchReader.from_stream(rows)
    else:
        yield rows


def _are_dicts(rows: Any) -> bool:
    return isinstance(rows, Sequence) and not hasattr(rows, "__arrow_c_array__")


def _guess_schema(rows: Sequence[Mapping[str, Any]], known: pa.Schema) -> pa.Schema:
    """The types that the values of dictionaries suggest for fields, nested ones too, that the table does not know."""
    columns = set(known.names)
    names = dict.fromkeys(name for row in rows for name in row if name not in columns)
    fields = [pa.field(name, _guess_type([row.get(name) for row in rows])) for name in names]
    return pa.schema([*fields, *new_nested_fields(rows, nested_columns(known), _guess_type)])


def _guess_type(values: list[Any]) -> pa.DataType:
    return pa.array(values).type


def _without_seen(rows: Any, offsets: pa.Array, reached: int | None) -> tuple[Any, pa.Array]:
    if reached is None or not len(offsets) or offsets[0].as_py() >= reached:
        return rows, offsets
    fresh = pc.index(pc.greater_equal(offsets, reached), True).as_py()
    if fresh < 0:
        return rows, offsets.slice(0, 0)
    kept = rows[fresh:] if _are_dicts(rows) else as_table(rows).slice(fresh)
    return kept, offsets.slice(fresh)
