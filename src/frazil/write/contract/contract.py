"""What the table asks of a row: its fields, their types, NOT NULL and the checks. Rows that keep it go on; the others
are named.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.transforms import TruncateTransform

from frazil.errors import SchemaMismatch
from frazil.write.contract.checks import Check, compile_checks
from frazil.write.contract.conversion import convert, extra_fields, fits, null_violations
from frazil.write.contract.dict_fields import nested_columns, new_nested_fields
from frazil.write.contract.raw import REFUSALS, arrow_array, as_column, as_json, faithful, python_value
from frazil.write.contract.views import plain_table
from frazil.write.files import Key, TableLayout, partition_keys, truncated_too_far

Extra = Literal["error", "ignore", "evolve"]
NO_ZONE_IS_GUESSED = "no zone is guessed: cast the column to the table's type where it is known which one is meant"
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Rejected:
    """A row that the table does not take: its number in what was written, why not, and the row itself as JSON."""

    number: int
    reason: str
    raw: str


@dataclass(frozen=True)
class Accepted:
    """Rows in the table's types, and those that were not accepted; `numbers` says which ones the former were, None if
    all.
    """

    rows: pa.Table
    rejected: tuple[Rejected, ...] = ()
    numbers: pa.Array | None = None


@dataclass(frozen=True)
class Contract:
    """The contract of one table. `extra` says what happens to fields that it does not have; to evolve is the caller's
    work.
    """

    layout: TableLayout
    checks: tuple[Check, ...] = ()
    extra: Extra = "error"

    @classmethod
    def of(cls, layout: TableLayout, *, checks: Sequence[str] = (), extra: Extra = "error") -> Contract:
        """The contract of a table with these checks; refuses a check that cannot work."""
        return cls(layout, compile_checks(checks, layout.arrow), extra)

    def accept(self, rows: pa.Table) -> Accepted:
        """The rows in the table's types. No row is looked at by Python unless one is rejected; no column is copied that
        fits.
        """
        rows = plain_table(rows)
        self.check_fields(rows.schema)
        verdicts = [self._judge(batch) for batch in rows.to_batches()]
        if not verdicts:
            return Accepted(self.layout.arrow.empty_table())
        good = pa.Table.from_batches([verdict.rows for verdict in verdicts])
        if all(verdict.faults is None for verdict in verdicts):
            return Accepted(good)
        faults = pa.concat_arrays([verdict.all_faults for verdict in verdicts])
        numbers = pc.indices_nonzero(faults.is_null())
        return Accepted(good, tuple(_rejections(rows, faults, self.layout.arrow)), numbers)

    def accept_dicts(self, rows: Sequence[Row]) -> Accepted:
        """The same for rows as dictionaries; a field that a row does not have is NULL."""
        self._check_extra(sorted({name for row in rows for name in row} - set(self.layout.arrow.names)))
        self._check_extra(self.new_nested_keys(rows) if self.extra != "ignore" else ())
        faults: dict[int, str] = {}
        columns = [_column(rows, field, self._spell(field.name), faults) for field in self.layout.arrow]
        numbers = [number for number in range(len(rows)) if number not in faults]
        table = pa.table(columns, schema=_nullable(self.layout.arrow))
        accepted = self.accept(table.take(pa.array(numbers, pa.int64())) if faults else table)
        # What Python could not turn into a value was rejected before: put the numbers back to what the caller counts.
        kept = numbers if accepted.numbers is None else [numbers[n] for n in accepted.numbers.to_pylist()]
        rejected = [
            Rejected(numbers[row.number], row.reason, self._raw(rows[numbers[row.number]])) for row in accepted.rejected
        ]
        rejected += [Rejected(number, reason, self._raw(rows[number])) for number, reason in faults.items()]
        if not rejected:
            return accepted
        return Accepted(
            accepted.rows, tuple(sorted(rejected, key=lambda reject: reject.number)), pa.array(kept, pa.int64())
        )

    def check_fields(self, schema: pa.Schema) -> None:
        """Refuses a batch that lacks a required field, has one of another type, or one too many where that is
        an error.
        """
        for wanted in self.layout.arrow:
            position = schema.get_field_index(wanted.name)
            if position < 0:
                if schema.get_all_field_indices(wanted.name):
                    raise self._mismatch(wanted.name, "one such field", "several")
                if not wanted.nullable:
                    raise self._mismatch(wanted.name, f"{self._spell(wanted.name)}, required", "no such field")
            elif not fits(schema.field(position).type, wanted.type):
                kind = schema.field(position).type
                both = pa.types.is_timestamp(kind) and pa.types.is_timestamp(wanted.type)
                raise self._mismatch(
                    wanted.name, self._spell(wanted.name), str(kind), hint=NO_ZONE_IS_GUESSED if both else None
                )
        self._check_extra(self.new_fields(schema))

    def new_fields(self, schema: pa.Schema) -> list[str]:
        """The fields, nested ones too, that the table does not have."""
        return list(extra_fields(pa.struct(list(schema)), pa.struct(list(self.layout.arrow))))

    def new_nested_keys(self, rows: Sequence[Row]) -> list[str]:
        """The paths of keys inside nested values of the rows that the table has no field for; no row is read if it has
        no structs.
        """
        return self.new_fields(pa.schema(new_nested_fields(rows, self._with_structs))) if self._with_structs else []

    def _check_extra(self, names: Sequence[str]) -> None:
        if names and self.extra != "ignore":
            hint = "set extra_fields='ignore' to drop it, or 'evolve' to add the column"
            raise self._mismatch(names[0], "no such field", "one", hint=hint)

    def _judge(self, batch: pa.RecordBatch) -> _Verdict:
        """The good rows of a batch, and the fault of each other one."""
        faults = _Faults(batch.num_rows)
        columns = [self._convert(batch, wanted, faults) for wanted in self.layout.arrow]
        for values, wanted in zip(columns, self.layout.arrow, strict=True):
            faults.add(null_violations(values, wanted), f"field '{wanted.name}': expected a value, got NULL")
        rows = _assemble(columns, self.layout.arrow)
        for key in self._truncated:
            mask = truncated_too_far(rows, key)
            reason = f"field '{'.'.join(key.path)}': its partition, {key.transform}, does not fit {key.source}"
            faults.add(mask.fill_null(False) if mask is not None and pc.any(mask).as_py() else None, reason)
        for check in self.checks:
            faults.add(_one_chunk(check.fails(pa.Table.from_batches([rows]))), f"check '{check.text}' failed")
        for rule in self.layout.value_rules:
            faults.add(rule.fails(rows), rule.reason)
        if faults.reasons is None:
            return _Verdict(_assemble(columns, self.layout.arrow), None, batch.num_rows)
        kept = faults.reasons.is_null()
        return _Verdict(
            _assemble([values.filter(kept) for values in columns], self.layout.arrow), faults.reasons, batch.num_rows
        )

    def _convert(self, batch: pa.RecordBatch, wanted: pa.Field, faults: _Faults) -> pa.Array:
        position = batch.schema.get_field_index(wanted.name)
        if position < 0:
            return pa.nulls(batch.num_rows, wanted.type)
        converted = convert(batch.column(position), wanted.type)
        if converted.misfits is not None:
            texts = _texts(batch.column(position), converted.misfits)
            faults.add_each(
                converted.misfits, f"field '{wanted.name}': expected {self._spell(wanted.name)}, got ", texts
            )
        return converted.values

    def _raw(self, row: Row) -> str:
        kinds = {value_.name: value_.type for value_ in self.layout.arrow}
        known = {
            name: faithful(value_, as_column(value_, kinds[name]), kinds[name])
            for name, value_ in row.items()
            if name in kinds
        }
        return as_json({**row, **known})

    @cached_property
    def _truncated(self) -> tuple[Key, ...]:
        """The partition fields whose values may not fit; a delete has the columns of its key alone."""
        known = self.layout.schema.field_ids
        fields = [
            field
            for field in self.layout.spec.fields
            if isinstance(field.transform, TruncateTransform) and field.source_id in known
        ]
        return partition_keys(self.layout.schema, PartitionSpec(*fields))

    @cached_property
    def _with_structs(self) -> tuple[pa.Field, ...]:
        return nested_columns(self.layout.arrow)

    @cached_property
    def _types(self) -> dict[str, str]:
        return {field.name: str(field.field_type) for field in self.layout.schema.fields}

    def _spell(self, name: str) -> str:
        """The type of a field, in Iceberg's words."""
        return self._types[name]

    def _mismatch(self, name: str, expected: str, got: str, *, hint: str | None = None) -> SchemaMismatch:
        return SchemaMismatch(self.layout.name, name, expected=expected, got=got, hint=hint)


@dataclass
class _Faults:
    """The first fault of each row of a batch; None as long as there is none at all."""

    count: int
    reasons: pa.Array | None = None

    def add(self, rows: pa.Array | None, reason: str) -> None:
        if rows is not None:
            self._join(pc.if_else(rows, reason, pa.scalar(None, pa.string())))

    def add_each(self, rows: pa.Array, reason: str, texts: list[str]) -> None:
        """The same, where each row has a text of its own at the end."""
        iter_ = iter(texts)
        self._join(pa.array([reason + next(iter_) if failed else None for failed in rows.to_pylist()], pa.string()))

    def _join(self, more: pa.Array) -> None:
        self.reasons = more if self.reasons is None else pc.coalesce(self.reasons, more)


@dataclass
class _Verdict:
    rows: pa.RecordBatch
    faults: pa.Array | None
    count: int

    @property
    def all_faults(self) -> pa.Array:
        return self.faults if self.faults is not None else pa.nulls(self.count, pa.string())


def as_table(rows: Any) -> pa.Table:
    """Arrow rows of any kind as a table: pyarrow's own, or of any library that speaks the Arrow C interface (polars,
    DuckDB, ...).
    """
    if isinstance(rows, pa.Table):
        return plain_table(rows)
    if isinstance(rows, pa.RecordBatch):
        return plain_table(pa.Table.from_batches([rows]))
    if hasattr(rows, "__arrow_c_stream__"):
        return plain_table(pa.RecordBatchReader.from_stream(rows).read_all())
    if hasattr(rows, "__arrow_c_array__"):
        return plain_table(pa.Table.from_batches([pa.record_batch(rows)]))
    raise TypeError(
        f"expected rows as Arrow, a DataFrame, dictionaries, models or dataclasses, got {type(rows).__name__}"
    )


def _rejections(rows: pa.Table, faults: pa.Array, schema: pa.Schema) -> Iterable[Rejected]:
    numbers = pc.indices_nonzero(faults.is_valid())
    combine_chunks = rows.take(numbers).combine_chunks()
    columns = [
        _cells(_one_chunk(combine_chunks.column(position)), field, schema)
        for position, field in enumerate(combine_chunks.schema)
    ]
    for number, reason, *cells in zip(numbers.to_pylist(), faults.take(numbers).to_pylist(), *columns, strict=True):
        yield Rejected(number, reason, as_json(dict(zip(combine_chunks.schema.names, cells, strict=True))))


def _cells(values: pa.Array, field: pa.Field, schema: pa.Schema) -> list[Any]:
    """The values of a column for JSON. One by one where Python may have no room for them: nanoseconds, and years after
    9999.
    """
    if "[ns" not in str(field.type):
        try:
            return values.to_pylist()  # type: ignore[no-any-return]
        except (ValueError, OverflowError):
            pass
    wanted = schema.field(field.name).type if field.name in schema.names else field.type
    return [_cell(values.slice(number, 1), wanted) for number in range(len(values))]


def _cell(values: pa.Array, wanted: pa.DataType) -> Any:
    taken = convert(values, wanted)
    return faithful(python_value(values), None if taken.misfits is not None else taken.values, wanted)


def _column(rows: Sequence[Row], wanted: pa.Field, spelled: str, faults: dict[int, str]) -> pa.Array:
    """One field of all rows as Arrow; values that cannot be are noted as faults, and NULL."""
    values = [row.get(wanted.name) for row in rows]
    try:
        return arrow_array(values, wanted.type)
    except REFUSALS:
        pass
    for number, value in enumerate(values):
        if as_column(value, wanted.type) is None:
            faults.setdefault(number, f"field '{wanted.name}': expected {spelled}, got {_show(value, wanted.type)}")
            values[number] = None
    return arrow_array(values, wanted.type)


def _show(value: Any, wanted: pa.DataType) -> str:
    if isinstance(value, dt.datetime) and pa.types.is_timestamp(wanted):
        return f"{value.isoformat()}, with{'out' if value.tzinfo is None else ''} a zone"
    return f"{value!r:.100}"


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


def _assemble(columns: list[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _one_chunk(values: pa.ChunkedArray | pa.Array | None) -> pa.Array | None:
    if isinstance(values, pa.ChunkedArray):
        return values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays(values.chunks)
    return values


def _texts(values: pa.Array, wanted: pa.Array) -> list[str]:
    picked = values.filter(wanted)
    texts = [python_value(picked.slice(number, 1)) for number in range(len(picked))]
    return [f"{value!r:.100}" if isinstance(value, bytes | str) else f"{value!s:.100}" for value in texts]


def roots_of(schema: pa.Schema, names: Sequence[str]) -> list[pa.Field]:
    """The columns that new fields are, or lie in, given their paths; a column's own name may have dots.

    >>> [field.name for field in roots_of(pa.schema([("a.b", pa.int64()), ("s", pa.struct([("x", pa.int8())]))]), ["a.b", "s.x"])]
    ['a.b', 's']
    """  # noqa: E501
    return [field for field in schema if any(name == field.name or name.startswith(f"{field.name}.") for name in names)]


def check_new_names(known: Iterable[pa.Field], wanted: Iterable[pa.Field], *, table: str, path: str = "") -> None:
    """Refuses new fields whose name differs from another one's by case alone: Spark and Trino could read neither."""
    names = {field.name: field for field in known}
    spelled = {name.lower(): name for name in names}
    for field in wanted:
        if field.name not in names and (other := spelled.setdefault(field.name.lower(), field.name)) != field.name:
            raise SchemaMismatch(
                table,
                path + field.name,
                expected=f"'{path}{other}', which differs by case alone",
                got="another name",
                hint="name the field as the table does: engines that do not tell cases apart could read neither",
            )
        inside = names[field.name].type if field.name in names else pa.struct([])
        kind, inside, inner = _innermost(field.type, inside, f"{path}{field.name}.")
        if pa.types.is_struct(kind):
            check_new_names(inside if pa.types.is_struct(inside) else [], kind, table=table, path=inner)


def _innermost(kind: pa.DataType, known: pa.DataType, path: str) -> tuple[pa.DataType, pa.DataType, str]:
    """The types of the values inside lists and maps, and their path."""
    if pa.types.is_map(kind):
        return _innermost(kind.item_type, known.item_type if pa.types.is_map(known) else pa.struct([]), f"{path}value.")
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _innermost(
            kind.value_type, known.value_type if pa.types.is_list(known) else pa.struct([]), f"{path}element."
        )
    return kind, known, path
