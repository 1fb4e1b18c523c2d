"""The Delta target: the same sink, the same files, another log.

A `day(ts)` partition becomes a column of its own (`ts_day`), which the sink fills; the table's configuration says from
what. Quarantined rows are in a companion table, written first, exactly once on its own: Delta commits one table at a
time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, TableFeatures
from deltalake import Schema as DeltaSchema
from deltalake.transaction import AddAction
from pyiceberg.conversions import from_bytes
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.typedef import Identifier
from pyiceberg.types import (
    BinaryType,
    FixedType,
    PrimitiveType,
    TimestampNanoType,
    TimestamptzNanoType,
    TimeType,
    UUIDType,
)

from frazil.errors import PartitionSpecError, SchemaMismatch, SinkError
from frazil.moved import former_fields
from frazil.protocol import QUARANTINE_SUFFIX
from frazil.pyiceberg_compat import schema_without_ids
from frazil.sinks.delta.log import DeltaLog, create_empty, now_ms
from frazil.write.commit import SCHEMA as QUARANTINE_SCHEMA
from frazil.write.commit import (
    Claim,
    Committed,
    OpenQuarantine,
    PartProgress,
    PlannedTakeover,
    Progress,
    Publishable,
    QuarantinedRow,
    RetryPolicy,
    as_arrow,
    highest_offsets,
)
from frazil.write.contract import check_new_names, roots_of
from frazil.write.files import (
    Key,
    TableLayout,
    WrittenFile,
    arrow_schema,
    check_present,
    json_bound,
    partition_keys,
    partition_spec,
    partition_text,
    write_files,
)

DERIVED = "frazil.derived."  # in the table's configuration: column -> the transform that fills it
LISTS_FEATURES = 7  # from this writer version on, a table's protocol lists what it needs
_NO_DELTA_TYPE = (TimeType, UUIDType, TimestampNanoType, TimestamptzNanoType)
_S3 = {
    "AWS_ACCESS_KEY_ID": "s3.access-key-id",
    "AWS_SECRET_ACCESS_KEY": "s3.secret-access-key",
    "AWS_ENDPOINT_URL": "s3.endpoint",
    "AWS_REGION": "s3.region",
}


def create_delta_table(
    uri: str,
    schema: Schema,
    *,
    partition_by: Sequence[str | int] = (),
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """A Delta table for rows of an Iceberg schema; a partition with a transform gets a column that holds its values."""
    spec = partition_spec(schema, partition_by)
    keys = partition_keys(schema, spec)
    _refuse_types(schema, keys)
    derived = [(key, text) for key, text in zip(keys, partition_by, strict=True) if key.path != (key.name,)]
    columns = list(arrow_schema(schema)) + [pa.field(key.name, schema_to_pyarrow(key.result)) for key, _ in derived]
    table = DeltaTable.create(
        uri,
        pa.schema([column.remove_metadata() for column in columns]),
        partition_by=[key.name for key in keys] or None,
        configuration={DERIVED + key.name: str(text) for key, text in derived},
        storage_options=dict(storage_options or {}) or None,
        raise_if_key_not_exists=False,
    )
    if table.protocol().min_writer_version >= LISTS_FEATURES and any(
        schema.find_field(field_id).required for field_id in schema.field_ids
    ):
        # delta-rs does not list what NOT NULL needs, and Delta on Spark then refuses the table.
        table.alter.add_feature(TableFeatures.Invariants)


def _refuse_types(schema: Schema, keys: Sequence[Key]) -> None:
    """Raises for a column that Delta has no type for, and for a partition whose values it cannot spell."""
    columns = {schema.find_column_name(field_id): schema.find_type(field_id) for field_id in schema.field_ids}
    for name, kind in columns.items():
        if isinstance(kind, _NO_DELTA_TYPE):
            raise SinkError(
                f"column '{name}': Delta has no type for {kind}",
                hint="declare it as string, binary, long or timestamp",
                column=name,
            )
    for key in keys:
        if isinstance(key.result, BinaryType | FixedType):
            hint = "partition by a column of another type, or by bucket(n, ...)"
            raise PartitionSpecError(
                f"partition field '{key.name}': Delta cannot hold values of {key.result}", hint=hint, column=key.name
            )


@former_fields(patience="retry")
@dataclass
class DeltaTarget:
    """A Delta table and its quarantine table."""

    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict)
    retry: RetryPolicy = field(default_factory=RetryPolicy)

    def __post_init__(self) -> None:
        self._log = self._log_of(self.uri)
        self._layout = delta_layout(self.uri, self._log.load(), self._io_properties)
        self._quarantine: _Quarantine | None = None
        self._writer = ""
        self._owned: list[str] = []

    @property
    def layout(self) -> TableLayout:
        return self._layout

    def progress(self) -> Progress:
        """The progress of every part that writes to the table."""
        return self._log.all_progress()

    def take_over(self, part: str, writer: str) -> PartProgress:
        """Makes this writer the only one of the part, and tells where to go on."""
        self._writer = writer
        self._owned.append(part)
        return self._log.take_over(part, writer)

    def plan_takeover(self, part: str, writer: str) -> PlannedTakeover:
        """Takes over at once: a takeover is a version of the table, and Delta has no commit that could carry both."""
        return PlannedTakeover(None, self.take_over(part, writer))

    def commit(
        self,
        files: Sequence[WrittenFile],
        claim: Claim,
        *,
        quarantined: Sequence[QuarantinedRow] = (),
        also: Mapping[Identifier, pa.Table] | None = None,
    ) -> PartProgress:
        """Quarantined rows first, then the rows; each with progress of its own, so that a crash in between repeats
        nothing.
        """
        quarantine_files: Sequence[WrittenFile] = ()
        if quarantined:
            quarantine = self._open_quarantine(claim.part)
            new = [row for row in quarantined if not quarantine.has(row)]
            quarantine_files = write_files(as_arrow(new, quarantine.layout.arrow), quarantine.layout) if new else ()
        return self.publish(files, claim, quarantine_files=quarantine_files, also=also).progress

    def publish(
        self,
        files: Sequence[WrittenFile],
        claim: Claim,
        *,
        quarantine_files: Sequence[WrittenFile] = (),
        also: Mapping[Identifier, pa.Table] | None = None,
        change: Publishable | None = None,
    ) -> Committed:
        """The same for files that are all written; what the quarantine has already is not in them."""
        if also or change:
            names = ", ".join(".".join(name) for name in (also or {})) or "a change of another kind"
            raise SinkError(
                f"{self.uri}: Delta has no commit of several tables, and the sink only appends; got {names}",
                got=names,
                table=self.uri,
            )
        self.retry.on_step("files written")
        check_present(files, self._layout)
        if quarantine_files:
            self._commit_quarantined(quarantine_files, claim)
        actions = [add_action(file, self._layout) for file in files]
        seen: list[TableLayout] = []  # what the last look at the table showed; the files were written before it

        def check(table: DeltaTable) -> None:
            seen[:] = [delta_layout(self.uri, table, self._io_properties)]
            self._check_takes(seen[0], files)

        progress = self._log.commit(actions, claim, check=check)
        if seen and seen[0] != self._layout:
            self._layout = seen[0]
        return Committed(progress)

    def _check_takes(self, now: TableLayout, files: Sequence[WrittenFile]) -> None:
        """Refuses files that the table cannot take any more: another tool has changed it since they were written."""
        known = self._layout
        if now == known or not files:
            return
        hint = "open the sink again and continue from its position: these rows are checked again"
        if [(key.name, str(key.transform)) for key in now.keys] != [
            (key.name, str(key.transform)) for key in known.keys
        ]:
            raise SinkError(
                f"{self.uri}: the table is partitioned in another way since its rows were written",
                hint=hint,
                table=self.uri,
            )
        written = {column.name: column for column in known.schema.fields}
        for column in now.schema.fields:
            before = written.get(column.name)
            nulls = any(file.null_counts.get(before.field_id) != 0 for file in files) if before else True
            if column.required and not (before and before.required) and nulls:
                raise SchemaMismatch(
                    self.uri, column.name, expected="a value: the column was made required", got="NULLs", hint=hint
                )
            # ids do not matter
            if before is not None and known.arrow.field(column.name).type != now.arrow.field(column.name).type:
                got = f"rows that were taken as {before.field_type}"
                raise SchemaMismatch(self.uri, column.name, expected=str(column.field_type), got=got, hint=hint)

    def open_quarantine(self, part: str) -> OpenQuarantine:
        """The quarantine table, created if it does not exist, and its own progress; taken over, if the part
        was.
        """
        if part not in self._owned:
            log, layout = self._quarantine_log()
            return OpenQuarantine(layout, log.progress(log.load(), part).offsets)
        quarantine = self._open_quarantine(part)
        return OpenQuarantine(quarantine.layout, quarantine.reached)

    def evolve(self, schema: pa.Schema, *, names: Sequence[str]) -> None:
        """Adds the fields of the rows that the table does not have, as optional columns."""
        wanted = pa.schema([field.with_nullable(True) for field in roots_of(schema, names)])
        if inside := [name for name in wanted.names if name in self._layout.arrow.names]:
            raise SinkError(
                f"{self.uri}: a field inside a struct cannot be added to a Delta table: {', '.join(inside)}",
                table=self.uri,
            )
        check_new_names(self._layout.arrow, wanted, table=self.uri)
        # The types that the sink writes: no 32-bit or view variants, times in microseconds.
        plain = arrow_schema(assign_fresh_schema_ids(schema_without_ids(wanted)))
        table = self._log.load()
        table.alter.add_columns(
            list(DeltaSchema.from_arrow(pa.schema([field.remove_metadata() for field in plain])).fields)
        )
        self._layout = delta_layout(self.uri, self._log.load(), self._io_properties)

    def _commit_quarantined(self, files: Sequence[WrittenFile], claim: Claim) -> None:
        quarantine = self._open_quarantine(claim.part)
        reached = quarantine.progress.offsets
        end = {name: offset for name, offset in claim.end.items() if offset >= reached.get(name, -1)}
        own = replace(
            claim,
            generation=quarantine.progress.generation,
            commit=quarantine.progress.commits + 1,
            start={name: reached[name] for name in end if name in reached},
            end=end,
            done=frozenset(),
        )
        quarantine.progress = quarantine.log.commit([add_action(file, quarantine.layout) for file in files], own)

    def _open_quarantine(self, part: str) -> _Quarantine:
        if self._quarantine is None:
            log, layout = self._quarantine_log()
            # Parts of another number of parts were taken over in the table: here, too, they must stop before their word
            # is heard.
            owned = Progress({name: log.take_over(name, self._writer) for name in self._owned})
            floors = highest_offsets(owned, [name for name in owned.parts if name != part])
            self._quarantine = _Quarantine(log, layout, owned.part(part), floors)
        return self._quarantine

    def _quarantine_log(self) -> tuple[DeltaLog, TableLayout]:
        uri = f"{self.uri.rstrip('/')}{QUARANTINE_SUFFIX}"
        create_empty(
            uri,
            pa.schema([field.remove_metadata() for field in arrow_schema(QUARANTINE_SCHEMA)]),
            dict(self.storage_options),
        )
        log = self._log_of(uri)
        return log, delta_layout(uri, log.load(), self._io_properties)

    def _log_of(self, uri: str) -> DeltaLog:
        return open_log(uri, self.storage_options, self.retry)

    @property
    def _io_properties(self) -> dict[str, str]:
        return _io_properties(self.storage_options)


def open_log(uri: str, storage_options: Mapping[str, str], retry: RetryPolicy | None = None) -> DeltaLog:
    """The log of a Delta table, for reading progress and for commits that carry it."""
    return DeltaLog(
        uri, dict(storage_options), load_file_io(_io_properties(storage_options), uri), retry or RetryPolicy()
    )


def _io_properties(storage_options: Mapping[str, str]) -> dict[str, str]:
    return {_S3[key.upper()]: value for key, value in storage_options.items() if key.upper() in _S3}


@dataclass
class _Quarantine:
    """The quarantine table, and how far this part, and those that it follows (`floors`), have come in it."""

    log: DeltaLog
    layout: TableLayout
    progress: PartProgress
    floors: Mapping[str, int]

    def has(self, row: QuarantinedRow) -> bool:
        """Whether an earlier run quarantined the row, before it was killed and its rows came again."""
        return bool(row.end) and all(self._at(name) >= end for name, end in row.end.items())

    @property
    def reached(self) -> dict[str, int]:
        """Bad rows before these offsets are in."""
        return {name: self._at(name) for name in {**self.progress.offsets, **self.floors}}

    def _at(self, name: str) -> int:
        return max(self.progress.offsets.get(name, -1), self.floors.get(name, -1))


def delta_layout(uri: str, table: DeltaTable, io_properties: Mapping[str, str]) -> TableLayout:
    """The table as the sink's writer sees it: without the columns that it fills itself, and with their transforms as
    partition fields.
    """
    configuration = table.metadata().configuration
    derived = {key.removeprefix(DERIVED): text for key, text in configuration.items() if key.startswith(DERIVED)}
    arrow = pa.schema([field for field in pa.schema(table.schema().to_arrow()) if field.name not in derived])
    schema = assign_fresh_schema_ids(schema_without_ids(arrow))
    spec = partition_spec(schema, [derived.get(name, name) for name in table.metadata().partition_columns])
    named = zip(spec.fields, table.metadata().partition_columns, strict=True)
    spec = PartitionSpec(*[field.model_copy(update={"name": name}) for field, name in named])
    properties = {
        "write.data.path": uri.rstrip("/"),
        **{key: value for key, value in configuration.items() if key.startswith("write.")},
    }
    return TableLayout(uri, schema, spec, UNSORTED_SORT_ORDER, uri, properties, dict(io_properties), delta=True)


def add_action(file: WrittenFile, layout: TableLayout) -> AddAction:
    """What the log says of a new file; delta-rs encodes the path."""
    path = file.path.removeprefix(layout.location.rstrip("/") + "/")
    values = {
        key.name: partition_text(value, key.result) for key, value in zip(layout.keys, file.partition, strict=True)
    }
    return AddAction(path, file.size_bytes, values, now_ms(), True, json.dumps(_statistics(file, layout)))


def _statistics(file: WrittenFile, layout: TableLayout) -> dict[str, Any]:
    """What Delta's readers prune by; only columns at the top, and only bounds that lose nothing in JSON."""
    names = {
        field.field_id: (field.name, field.field_type)
        for field in layout.schema.fields
        if isinstance(field.field_type, PrimitiveType)
    }
    statistics: dict[str, Any] = {"numRecords": file.rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    for field_id, (name, kind) in names.items():
        if field_id in file.null_counts:
            statistics["nullCount"][name] = file.null_counts[field_id]
        for key, bounds, up in (("minValues", file.lower_bounds, False), ("maxValues", file.upper_bounds, True)):
            if (
                field_id in bounds
                and (value := json_bound(from_bytes(kind, bounds[field_id]), kind, up=up)) is not None
            ):
                statistics[key][name] = value
    return statistics
