"""What makes a row a change of another: its key, the sequence that says which is newer, and the column that says
whether it is a delete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, BooleanType, DoubleType, FixedType, FloatType, PrimitiveType, UUIDType

from frazil.errors import SchemaMismatch, SinkError
from frazil.names import as_columns
from frazil.write.contract import Accepted, Contract, Extra, Rejected, as_json
from frazil.write.files import TableLayout
from frazil.write.upsert.keys import count_up

FORMATS = (1, 2, 3)  # versions of the table format that can be upserted
DELETED = "_frazil_deleted"  # of a change, in addition to the table's columns: whether it is a delete


@dataclass(frozen=True)
class Ops:
    """The column that tells deletes from other changes, and what stands there; upper and lower case are the same.

    The values are those of Debezium and of people. A value of neither kind is a bad row: a delete is never taken for an
    update.
    """

    column: str = "op"
    deletes: Sequence[str] = ("d", "delete")
    upserts: Sequence[str] = ("c", "i", "r", "u", "insert", "update", "upsert")

    def spelled(self) -> str:
        return ", ".join([*self.upserts, *self.deletes])


@dataclass(frozen=True)
class UpsertRules:
    """How changes find their rows. Without a sequence the last one to arrive wins, against the table, too."""

    key: tuple[str, ...]
    sequence: str | None = None
    op: Ops | None = None

    @classmethod
    def of(cls, key: str | Sequence[str], sequence: str | None = None, op: str | Ops | None = None) -> UpsertRules:
        """The rules as callers give them."""
        return cls(as_columns(key, argument="key"), sequence, Ops(op) if isinstance(op, str) else op)

    @property
    def judged(self) -> tuple[str, ...]:
        """The columns that a change must have, deletes too."""
        return (*self.key, self.sequence) if self.sequence and self.sequence not in self.key else self.key

    def check(self, layout: TableLayout) -> None:
        """Refuses rules that cannot hold for the table."""
        if not self.key:
            raise SinkError(
                f"{layout.name}: mode 'upsert' needs a key", hint='key=["order_id"]', table=layout.name, option="key"
            )
        names = [field.name for field in layout.schema.fields]
        for name in self.judged:
            what = "key" if name in self.key else "sequence"
            if name not in names:
                hint = f"it has {', '.join(names)}"
                raise SinkError(
                    f"{layout.name}: {what} names column '{name}', which the table does not have",
                    hint=hint,
                    table=layout.name,
                    column=name,
                    option=what,
                )
            kind = layout.schema.find_type(name)
            if not isinstance(kind, PrimitiveType) or isinstance(kind, _NO_KEY if what == "key" else _NO_ORDER):
                raise SinkError(
                    f"{layout.name}: column '{name}' is of type {kind}, which can be no {what}",
                    hint=_FIT[what],
                    table=layout.name,
                    column=name,
                    option=what,
                    got=str(kind),
                )


_NO_KEY = (FloatType, DoubleType)
_NO_ORDER = (BooleanType, BinaryType, FixedType, UUIDType)
_FIT = {
    "key": "take columns whose values are equal or not: whole numbers, text, dates, decimals, UUIDs",
    "sequence": "take a column whose values rise: a number, a date, a time, or text",
}


@dataclass(frozen=True)
class ChangeContract:
    """What the table asks of changes: of those that put a row in, all that it asks of a row, and a key; of deletes, the
    key alone.

    It gives rows in the table's types, columns that a delete does not need being NULL there, and `DELETED`.
    """

    layout: TableLayout
    rules: UpsertRules
    checks: tuple[str, ...] = ()
    extra: Extra = "error"
    kind: type[Contract] = Contract  # of rows; who reads text has one of its own

    def __post_init__(self) -> None:
        self.rules.check(self.layout)
        Contract.of(self.layout, checks=self.checks)  # a check that cannot work is refused here

    @cached_property
    def arrow(self) -> pa.Schema:
        """The types of changes."""
        columns = [field.with_nullable(True) for field in self.layout.arrow]
        return pa.schema([*columns, pa.field(DELETED, pa.bool_(), nullable=False)])

    @cached_property
    def rows(self) -> Contract:
        """What is asked of changes that put a row in."""
        return self.kind.of(_with_needed(self.layout, self.rules.judged), checks=self.checks, extra="ignore")

    @cached_property
    def deletes(self) -> Contract:
        """What is asked of deletes."""
        return self.kind.of(_only_needed(self.layout, self.rules.judged), extra="ignore")

    def new_fields(self, schema: pa.Schema) -> list[str]:
        """The fields that the table does not have; the one that tells deletes is no matter."""
        own = self.rules.op.column if self.rules.op else None
        return [name for name in self.rows.new_fields(schema) if name != own]

    def check_fields(self, schema: pa.Schema) -> None:
        """Refuses a batch whose columns do not fit."""
        if self.rules.op is not None and schema.get_field_index(self.rules.op.column) < 0:
            raise SchemaMismatch(
                self.layout.name, self.rules.op.column, expected="a column that tells deletes", got="no such field"
            )
        extra = self.new_fields(schema)
        if extra and self.extra != "ignore":
            hint = "drop it, or let the sink do so: extra_fields='ignore'; extra_fields='evolve' adds the column"
            raise SchemaMismatch(self.layout.name, extra[0], expected="no such field", got="one", hint=hint)

    def accept(self, rows: pa.Table) -> Accepted:
        """The changes in the order in which they came."""
        self.check_fields(rows.schema)
        ops = self.rules.op
        if ops is None:
            return self._join([(None, self.rows.accept(rows), False)])
        said = pc.utf8_lower(pc.cast(_one_array(rows.column(ops.column)), pa.string()))
        is_delete, is_upsert = (_is_in(said, values) for values in (ops.deletes, ops.upserts))
        neither = pc.invert(pc.or_(is_delete, is_upsert))
        parts = []
        for mask, contract, deleted in ((is_upsert, self.rows, False), (is_delete, self.deletes, True)):
            numbers = pc.indices_nonzero(mask)
            parts.append(
                (numbers, contract.accept(rows if len(numbers) == rows.num_rows else rows.take(numbers)), deleted)
            )
        return self._join(parts, self._unknown_ops(rows, said, neither, ops))

    def accept_dicts(self, rows: Sequence[Mapping[str, Any]]) -> Accepted:
        """The same for rows as dictionaries."""
        ops, names = self.rules.op, set(self.layout.arrow.names)
        if self.extra != "ignore" and (
            extra := sorted({name for row in rows for name in row} - names - {ops.column if ops else None})
        ):
            raise SchemaMismatch(self.layout.name, extra[0], expected="no such field", got="one")
        if self.extra != "ignore" and (inside := self.rows.new_nested_keys(rows)):
            raise SchemaMismatch(self.layout.name, inside[0], expected="no such field", got="one")
        if ops is None:
            return self._join([(None, self.rows.accept_dicts(rows), False)])
        said = [str(row.get(ops.column)).lower() for row in rows]
        chosen = {
            deleted: [n for n, operation in enumerate(said) if operation in _lower(values)]
            for deleted, values in _kinds(ops)
        }
        parts = [
            (pa.array(numbers, pa.uint64()), contract.accept_dicts([rows[n] for n in numbers]), deleted)
            for deleted, contract in ((False, self.rows), (True, self.deletes))
            for numbers in [chosen[deleted]]
        ]
        known = {n for numbers in chosen.values() for n in numbers}
        unknown = [_unknown(n, ops, row.get(ops.column), row) for n, row in enumerate(rows) if n not in known]
        return self._join(parts, unknown)

    def _join(
        self, parts: Sequence[tuple[pa.Array | None, Accepted, bool]], unknown: Sequence[Rejected] = ()
    ) -> Accepted:
        """What the parts have accepted, back in the order of the rows."""
        tables, numbers, rejected = [], [], list(unknown)
        for piece, accepted, deleted in parts:
            tables.append(_complete(accepted.rows, self.arrow, deleted=deleted))
            own = accepted.numbers if accepted.numbers is not None else count_up(accepted.rows.num_rows, pa.uint64())
            numbers.append((own if piece is None else piece.take(own)).cast(pa.uint64()))
            rejected += [
                rejected if piece is None else replace(rejected, number=piece[rejected.number].as_py())
                for rejected in accepted.rejected
            ]
        rows, order = pa.concat_tables(tables), pa.concat_arrays(numbers)
        if len(parts) > 1 and len(numbers[0]) and len(numbers[1]):
            places = pc.sort_indices(order)
            rows, order = rows.take(places), order.take(places)
        return Accepted(rows, tuple(sorted(rejected, key=lambda reject: reject.number)), order if rejected else None)

    def _unknown_ops(self, rows: pa.Table, said: pa.Array, neither: pa.Array, ops: Ops) -> list[Rejected]:
        numbers = pc.indices_nonzero(neither)
        if not len(numbers):
            return []
        unknown = zip(numbers.to_pylist(), said.take(numbers).to_pylist(), rows.take(numbers).to_pylist(), strict=True)
        return [_unknown(number, ops, value, row) for number, value, row in unknown]


def _unknown(number: int, ops: Ops, value: Any, row: Mapping[str, Any]) -> Rejected:
    shown = "NULL" if value is None else repr(value)[:100]
    return Rejected(number, f"field '{ops.column}': expected one of {ops.spelled()}, got {shown}", as_json(dict(row)))


def _kinds(ops: Ops) -> tuple[tuple[bool, Sequence[str]], ...]:
    return ((False, ops.upserts), (True, ops.deletes))


def _lower(values: Sequence[str]) -> list[str]:
    return [value.lower() for value in values]


def _is_in(said: pa.Array, values: Sequence[str]) -> pa.Array:
    return pc.fill_null(pc.is_in(said, value_set=pa.array(_lower(values), pa.string())), False)


def _one_array(values: pa.ChunkedArray) -> pa.Array:
    return (
        values.chunk(0)
        if values.num_chunks == 1
        else pa.concat_arrays(values.chunks)
        if values.chunks
        else pa.array([], values.type)
    )


def _complete(rows: pa.Table, wanted: pa.Schema, *, deleted: bool) -> pa.Table:
    """The rows with all columns of changes: those that they lack are NULL."""
    count, known = rows.num_rows, set(rows.schema.names)
    columns = [
        rows.column(field.name) if field.name in known else pa.nulls(count, field.type)
        for field in wanted
        if field.name != DELETED
    ]
    return pa.table([*columns, pa.repeat(pa.scalar(deleted), count)], schema=wanted)


def _with_needed(layout: TableLayout, needed: Sequence[str]) -> TableLayout:
    fields = [
        field.model_copy(update={"required": True}) if field.name in needed else field for field in layout.schema.fields
    ]
    return replace(layout, schema=Schema(*fields, schema_id=layout.schema.schema_id))


def _only_needed(layout: TableLayout, needed: Sequence[str]) -> TableLayout:
    fields = [field.model_copy(update={"required": True}) for field in layout.schema.fields if field.name in needed]
    return replace(layout, schema=Schema(*fields, schema_id=layout.schema.schema_id))
