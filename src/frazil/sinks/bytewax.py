"""The sink in a Bytewax dataflow.

    rows = op.flat_map_batch("rows", messages, to_rows)      # ("events/0", SourceRows(arrow, "events/0", offsets)),
    keyed by the source op.output("lake", rows, IcebergSink(IcebergSinkConfig(uri, "rest", None, "lakehouse.uplink",
    num_partitions=2))) op.output("lake", rows, DeltaSink(DeltaSinkConfig("s3://lake/uplink", storage_options,
    num_partitions=2)))

Bytewax does not signal when a checkpoint is complete, so a checkpoint decides nothing here. What counts is the offset
of each source partition, kept in the table by the commit that brought the rows: what Bytewax replays after a crash and
is in already, is left out. `snapshot()` commits before Bytewax notes how far the source was read, so nothing that is
not in the table is ever skipped.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, cast
from zlib import adler32

import pyarrow as pa

from frazil.errors import MissingExtra, ProgressMismatch, SchemaMismatch, SinkError
from frazil.moved import former_fields
from frazil.names import name_parts
from frazil.sinks.iceberg import IcebergTarget
from frazil.sinks.python import Options, sink_options
from frazil.sinks.sink import ArrowSink, SinkOptions, Target
from frazil.sinks.upsert_sink import UpsertSink
from frazil.units import count
from frazil.write.commit import CommitCatalog, Parts, RetryPolicy, SingleTableCatalog, part_name, take_over_others
from frazil.write.contract import as_table, extra_fields, nested_columns, new_nested_fields
from frazil.write.upsert import UpsertRules

try:
    from bytewax.outputs import FixedPartitionedSink, StatefulSinkPartition
except ModuleNotFoundError as exc:
    raise MissingExtra("bytewax", extra="bytewax") from exc

if TYPE_CHECKING:
    from frazil.sinks.delta import DeltaTarget


@dataclass(frozen=True, kw_only=True)
class SinkConfig(ABC):
    """When the rows are committed, and how; where they go is said by `IcebergSinkConfig` and `DeltaSinkConfig`."""

    batch_size: int = 10_000
    batch_interval_seconds: float = 10.0
    # the names of the other hosts; given, they win over batch_size, batch_interval_seconds and num_partitions
    flush_rows: int | None = None
    flush_seconds: float | None = None
    parts: int | None = None
    # dictionaries are turned into exactly these types, before the table's are applied
    arrow_schema: pa.Schema | None = None
    num_partitions: int = 1
    options: Options = field(default_factory=Options)  # checks, bad_rows, extra_fields, ...: as of `frazil.sinks.open`
    retry: RetryPolicy = field(default_factory=RetryPolicy)

    name: str | None = None  # of the stream; the step's unless given
    rules: UpsertRules | None = None  # rows are changes by key

    def __post_init__(self) -> None:
        for name, alias in (
            ("flush_rows", "batch_size"),
            ("flush_seconds", "batch_interval_seconds"),
            ("parts", "num_partitions"),
        ):
            if getattr(self, name) is not None:
                object.__setattr__(self, alias, getattr(self, name))
        for name, least in (("batch_size", 1), ("batch_interval_seconds", 0), ("num_partitions", 1)):
            if getattr(self, name) < least:
                got = getattr(self, name)
                raise SinkError(f"{name} is {got}: expected at least {least}", option=name, expected=least, got=got)
        sink_options(**self.options)  # a wrong one is an error here, not in the worker that builds the part

    @property
    @abstractmethod
    def table(self) -> str:
        """What the table is called in messages."""

    @abstractmethod
    def open_target(self) -> TableTarget:
        """The table, ready for one part's commits."""


class TableTarget(Target, Parts, Protocol):
    """A table that takes batches exactly once, and knows of all parts that write to it."""


@former_fields(patience="retry")
@dataclass(frozen=True)
class IcebergSinkConfig(SinkConfig):
    """Where the rows go, and when. The table must be there; keys of the object store come from the settings or
    `catalog_properties`.
    """

    catalog_uri: str
    catalog_type: str
    warehouse_path: str | None
    table_name: str
    catalog_properties: Mapping[str, str] = field(default_factory=dict, repr=False, kw_only=True)  # may hold keys

    def __post_init__(self) -> None:
        if len(name_parts(self.table_name) or ()) < 2:
            raise SinkError(
                f"table_name is {self.table_name!r}: expected a namespace and a name, such as lakehouse.uplink",
                option="table_name",
                got=self.table_name,
            )
        super().__post_init__()

    @property
    def table(self) -> str:
        return self.table_name

    def open_target(self) -> IcebergTarget:
        return IcebergTarget(self.connect(), tuple(self.table_name.split(".")), retry=self.retry)

    def connect(self) -> CommitCatalog:
        """The catalog: Frazil's client for REST, PyIceberg's for every other type (which commits one table at
        a time).
        """
        from frazil.client import catalog_properties, connect
        from frazil.config import load_settings

        properties = {
            "uri": self.catalog_uri,
            **({"warehouse": self.warehouse_path} if self.warehouse_path else {}),
            **self.catalog_properties,
        }
        settings = load_settings()
        if self.catalog_type == "rest":
            return connect(settings, **properties)
        from pyiceberg.catalog import load_catalog

        known = {key: value for key, value in catalog_properties(settings).items() if key.startswith("s3.")}
        return SingleTableCatalog(
            load_catalog(settings.catalog.name, **{"type": self.catalog_type, **known, **properties})
        )


@former_fields(patience="retry")
@dataclass(frozen=True)
class DeltaSinkConfig(SinkConfig):
    """The same for a Delta table in a folder or a bucket, which must be there
    (`frazil.sinks.delta.target.create_delta_table`).
    """

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold keys

    @property
    def table(self) -> str:
        return self.uri

    def open_target(self) -> DeltaTarget:
        try:
            from frazil.sinks.delta import DeltaTarget
        except ModuleNotFoundError as exc:
            raise MissingExtra("deltalake", extra="delta") from exc
        return DeltaTarget(self.uri, dict(self.storage_options), self.retry)


@former_fields(patience="retry")
@dataclass(frozen=True)
class TargetConfig(SinkConfig):
    """The same for any target; `frazil.sinks.open(..., host="bytewax")` makes one."""

    target: Callable[[], TableTarget]
    label: str

    @property
    def table(self) -> str:
        return self.label

    def open_target(self) -> TableTarget:
        return self.target()


@dataclass(frozen=True)
class SourceRows:
    """Rows of one source partition (`events/0`) with the offset of each, which rises. All rows of an offset come in one
    of these.
    """

    rows: Any  # Arrow of any library, or a list of dictionaries
    source: str
    offsets: Sequence[int] | pa.Array

    @property
    def first(self) -> int:
        return int(_plain(self.offsets[0]))

    @property
    def last(self) -> int:
        return int(_plain(self.offsets[-1]))


class SinkState(TypedDict):
    """What a part tells Bytewax at a checkpoint: the offsets that the table has reached. It serves to notice a table
    that went back.
    """

    position: dict[str, int]


class TableSink(FixedPartitionedSink[SourceRows, SinkState]):
    """A Bytewax sink of `num_partitions` parts, each of which commits by itself; key the rows by their source
    partition.
    """

    def __init__(self, config: SinkConfig) -> None:
        self.config = config

    def __repr__(self) -> str:
        """The table and the number of parts."""
        return f"<{type(self).__name__} of {self.config.table}: {count(self.config.num_partitions, 'part')}>"

    def list_parts(self) -> list[str]:
        """`part-0`, `part-1`, ..."""
        return [f"part-{number}" for number in range(self.config.num_partitions)]

    def part_fn(self, item_key: str) -> int:
        """The same part for the same key, in every process and every run."""
        return adler32(item_key.encode())

    def part_of(self, source: str) -> str:
        """The part that Bytewax sends the rows of a source partition to: it counts through the names in order of the
        alphabet.
        """
        parts = sorted(self.list_parts())
        return parts[self.part_fn(source) % len(parts)]

    def build_part(self, step_id: str, for_part: str, resume_state: SinkState | None) -> TableSinkPartition:
        """The one writer of a part from now on; it goes on where the table stands, whatever `resume_state` says."""
        config, number = self.config, int(for_part.removeprefix("part-"))
        target = config.open_target()
        name = part_name(config.name or step_id, number, config.num_partitions)
        floors = take_over_others(target, name)
        options: Options = {
            "flush_rows": config.batch_size,
            "flush_seconds": config.batch_interval_seconds,
            **config.options,
        }
        sink = _open_sink(config, target, name, sink_options(**options), number)
        _check_not_behind(config.table, {**sink.position, **floors}, resume_state)
        return TableSinkPartition(self, for_part, sink, floors)


class IcebergSink(TableSink):
    """The sink of a dataflow into an Iceberg table."""

    def __init__(self, config: IcebergSinkConfig) -> None:
        super().__init__(config)


class DeltaSink(TableSink):
    """The sink of a dataflow into a Delta table."""

    def __init__(self, config: DeltaSinkConfig) -> None:
        super().__init__(config)


class TableSinkPartition(StatefulSinkPartition[SourceRows, SinkState]):
    """One part: rows wait here until there are `batch_size`, `batch_interval_seconds` have passed, or Bytewax makes a
    checkpoint.
    """

    def __init__(self, host: TableSink, part: str, sink: ArrowSink, floors: Mapping[str, int]) -> None:
        self._host, self._part, self._sink, self._floors = host, part, sink, floors
        self._known = set(sink.position)
        self._next: dict[str, int] = {}  # by source: the least offset that may come in this run

    def write_batch(self, values: list[SourceRows]) -> None:
        """Takes rows; commits when it is time to, all table partitions of the batch at once."""
        for rows in _joined(values):
            self._check_order(rows)
            fresh = self._above_floor(rows)
            if len(fresh.offsets):
                self._sink.write_with_offsets(self._typed(fresh), source=fresh.source, offsets=fresh.offsets)

    def snapshot(self) -> SinkState:
        """Everything written so far is in the table when this returns."""
        return {"position": dict(self._sink.commit())}

    def close(self) -> None:
        """Ends the part. Rows that no checkpoint has covered are dropped: they come again.

        Bytewax calls this at the end of the input, after a last snapshot, but also when any step has failed; if it
        raised then, the process would abort and hide the error.
        """
        with contextlib.suppress(Exception):
            self._sink.abandon()

    def _check_order(self, rows: SourceRows) -> None:
        if (right := self._host.part_of(rows.source)) != self._part:
            raise SinkError(
                f"{self._table}: rows of source partition '{rows.source}' came to {self._part}, not to {right}",
                hint="key the stream by the source partition: all its rows belong in one part, or a replay could not "
                "be distinguished from new rows",
                table=self._table,
                source=rows.source,
                expected=right,
                got=self._part,
            )
        if rows.first < self._next.get(rows.source, rows.first):
            raise ProgressMismatch(
                f"{self._table}: offset {rows.first} of source partition '{rows.source}' came after "
                f"{self._next[rows.source] - 1}",
                hint="let the rows of a source partition reach the sink in order, those of one offset together",
                table=self._table,
                source=rows.source,
                expected=self._next[rows.source],
                got=rows.first,
            )
        self._next[rows.source] = rows.last + 1

    def _above_floor(self, rows: SourceRows) -> SourceRows:
        """The rows that no other number of parts has brought in; see `take_over_others`."""
        floor = self._floors.get(rows.source)
        if floor is None or rows.first >= floor:
            return rows
        if rows.source not in self._known:
            raise ProgressMismatch(
                f"{self._table}: num_partitions is {self._host.config.num_partitions} now, and source partition "
                f"'{rows.source}' "
                f"repeats offset {rows.first}, though the table has it up to {floor}",
                hint="drain the stream first: run it with the old num_partitions until all that was read is in, then "
                "change the number",
                table=self._table,
                source=rows.source,
                option="num_partitions",
                expected=floor,
                got=rows.first,
            )
        kept = sum(1 for offset in rows.offsets if int(_plain(offset)) < floor)
        cut = rows.rows[kept:] if _is_list(rows.rows) else as_table(rows.rows).slice(kept)
        return SourceRows(cut, rows.source, rows.offsets[kept:])

    def _typed(self, rows: SourceRows) -> Any:
        schema = self._host.config.arrow_schema
        if schema is None or not _is_list(rows.rows):
            return rows.rows
        if extra := {name for row in rows.rows for name in row} - set(schema.names):
            raise SchemaMismatch(self._table, min(extra), expected="no such field in arrow_schema", got="one")
        if new := new_nested_fields(rows.rows, nested_columns(schema)):
            path = next(extra_fields(pa.struct(new), pa.struct(list(schema))))
            raise SchemaMismatch(self._table, path, expected="no such field in arrow_schema", got="one")
        columns = [_strict(self._table, field, [row.get(field.name) for row in rows.rows]) for field in schema]
        return pa.table(columns, schema=schema)

    @property
    def _table(self) -> str:
        return self._host.config.table


def _open_sink(config: SinkConfig, target: TableTarget, part: str, options: SinkOptions, number: int) -> ArrowSink:
    if config.rules is None:
        return ArrowSink(target, part, options=options, part_number=number)
    assert isinstance(target, IcebergTarget)
    return UpsertSink(target, part, config.rules, options=options, part_number=number)


def _check_not_behind(table: str, position: Mapping[str, int], state: SinkState | None) -> None:
    for source, offset in (state or {"position": {}})["position"].items():
        if position.get(source, -1) < offset:
            raise ProgressMismatch(
                f"{table}: Bytewax's recovery store says that offset {offset} of source partition '{source}' was "
                f"reached, "
                f"but the table stands at {position.get(source, 'its beginning')}",
                hint="the table was rolled back or recreated: start with a new recovery store, and what the table "
                "lacks is read again",
                table=table,
                source=source,
            )


def _joined(values: Iterable[SourceRows]) -> Iterator[SourceRows]:
    """The same rows in fewer pieces: dictionaries of one source partition that follow each other become one list."""
    waiting: list[SourceRows] = []
    for value in values:
        if not len(value.offsets):
            continue
        if waiting and not (_is_list(value.rows) and _is_list(waiting[-1].rows) and value.source == waiting[-1].source):
            yield _join(waiting)
            waiting = []
        waiting.append(value)
    if waiting:
        yield _join(waiting)


def _join(values: list[SourceRows]) -> SourceRows:
    if len(values) == 1:
        return values[0]
    rows = [row for value in values for row in value.rows]
    offsets = [_plain(offset) for value in values for offset in value.offsets]
    if any(
        later <= earlier
        for earlier, later in zip([v.last for v in values], [v.first for v in values[1:]], strict=False)
    ):
        raise ProgressMismatch(
            f"offsets of source partition '{values[0].source}' do not rise from one item to the next",
            hint="let the rows of a source partition reach the sink in order, those of one offset together",
            source=values[0].source,
            problem="unordered",
        )
    return SourceRows(rows, values[0].source, offsets)


def _strict(table: str, wanted: pa.Field, values: list[Any]) -> pa.Array:
    try:
        return pa.array(values, wanted.type)
    except (pa.ArrowException, ValueError, OverflowError) as exc:
        raise SchemaMismatch(table, wanted.name, expected=str(wanted.type), got=str(exc)) from exc


def _is_list(rows: Any) -> bool:
    return isinstance(rows, list | tuple)


def _plain(offset: Any) -> int:
    return cast(int, offset.as_py() if isinstance(offset, pa.Scalar) else offset)
