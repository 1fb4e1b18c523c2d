"""What a live table is to become: the declaration laid over it, field by field, every id kept; and what is refused, and
why. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, IcebergType, ListType, MapType, NestedField, PrimitiveType, StructType

from frazil.tables.declare import Table
from frazil.tables.evolve_spec import evolve_spec
from frazil.tables.iceberg import (
    default_json,
    initial_of,
    make_field,
    new_field,
    new_type,
    primitive,
    to_order,
    type_of,
    with_key,
)
from frazil.tables.shape import Record, Shape, nodes
from frazil.tables.types import Column, ListOf, MapOf, Struct, Type

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata


@dataclass(frozen=True)
class Evolution:
    """The live table, what it is to become, and why it may not."""

    live: Shape
    target: Shape
    refusals: tuple[str, ...]


def evolve(declared: Table, metadata: TableMetadata) -> Evolution:
    """The declaration laid over the live table."""
    record = Record.of(metadata.properties)
    live = Shape.of(metadata, keys={*declared.properties, *(record.properties if record else ())})
    merge = _Merge(declared, metadata)
    fields = merge.struct(declared.columns, live.schema.as_struct(), "")
    schema = with_key(Schema(*fields, schema_id=live.schema.schema_id), declared.key)
    spec = evolve_spec(declared.partition_terms, schema, metadata)
    version = declared.format_version or live.format_version
    refusals = [*merge.refusals, *_taken_names(live.schema, schema, [*metadata.partition_specs, spec])]
    if version < live.format_version:
        refusals.append(
            f"format version {live.format_version} cannot become {version}: a table is never brought back to an older "
            f"format"
        )
    if declared.location and declared.location != metadata.location.rstrip("/"):
        refusals.append(
            f"location {metadata.location} cannot become {declared.location}: apply moves no files; declare where it is"
        )
    target = Shape(schema, spec, to_order(declared.sort_terms, schema), dict(declared.properties), version)
    return Evolution(live, target, tuple(refusals))


class _Merge:
    """Lays declared columns over live fields; gathers what is refused on the way."""

    def __init__(self, declared: Table, metadata: TableMetadata) -> None:
        self.refusals: list[str] = []
        self._table = declared
        self._guards = _guards(metadata)
        numbers = count(metadata.last_column_id + 1)
        self._next_id: Callable[[], int] = lambda: next(numbers)

    def struct(self, columns: tuple[Column, ...], live: StructType, prefix: str) -> list[NestedField]:
        """The fields that a struct is to have, in the declared order."""
        matched = match_fields(columns, live.fields)
        self._check_claims(columns, matched, prefix)
        added = [column for column in columns if column.name not in matched]
        ids = {column.name: self._next_id() for column in added}
        kept = {field.field_id for field in matched.values()}
        for gone in (field for field in live.fields if field.field_id not in kept):
            self._drop(prefix + gone.name, gone, added)
        return [
            self._add(column, ids[column.name], prefix)
            if column.name in ids
            else self._keep(column, matched[column.name], prefix)
            for column in columns
        ]

    def _check_claims(self, columns: tuple[Column, ...], claimed: dict[str, NestedField], prefix: str) -> None:
        """Two columns that are both to be the one live column of their former name cannot both be right."""
        claims = {
            column.name: field
            for column in columns
            if (field := claimed.get(column.name)) and field.name != column.name
        }
        for column in columns:
            rival = next((name for name, field in claims.items() if field.name == column.renamed_from), None)
            if rival is not None and column.name not in claimed:
                self._refuse(
                    prefix + column.name,
                    f"is renamed from '{column.renamed_from}', and so is '{rival}'",
                    "keep one renamed_from",
                )

    def _add(self, column: Column, field_id: int, prefix: str) -> NestedField:
        if column.required and column.default is None:
            self._refuse(
                prefix + column.name,
                "is new and required, and rows that are there have no value for it",
                "declare it optional, or with a default (format version 3)",
            )
        return new_field(column, field_id, self._next_id, table=self._table.name)

    def _keep(self, column: Column, live: NestedField, prefix: str) -> NestedField:
        path = prefix + column.name
        if column.required and not live.required:
            self._refuse(
                path,
                "is optional and cannot become required: NULLs may be there",
                "declare it optional, and add a check",
            )
        kind = self._type(column.type, live.field_type, path)
        default = default_json(column, kind, table=self._table.name)
        return make_field(
            live.field_id,
            column.name,
            kind,
            required=column.required,
            doc=column.doc,
            initial=initial_of(live),
            write=default,
        )

    def _drop(self, path: str, live: NestedField, added: list[Column]) -> None:
        inside = {node.field.field_id for node in nodes(Schema(live)).values()}
        for guard, ids in self._guards.items():
            if ids & inside:
                self._refuse(path, f"cannot be dropped: it is {guard}", _GUARD_HINTS[guard])
                return
        if path not in self._table.dropped:
            alike = [column.name for column in added if str(column.type) == str(type_of(live.field_type))]
            renamed = f"; if it is '{alike[0]}' now, declare that with renamed_from=\"{live.name}\"" if alike else ""
            hint = f'declare it, or allow that with dropped=["{path}"]{renamed}'
            self._refuse(path, "is not declared, and dropping it would hide its values", hint)

    def _type(self, kind: Type, live: IcebergType, path: str) -> IcebergType:
        if isinstance(kind, Struct) and isinstance(live, StructType):
            return StructType(*self.struct(kind.fields, live, f"{path}."))
        if isinstance(kind, ListOf) and isinstance(live, ListType):
            element = self._keep(Column("element", kind.element, kind.required), live.element_field, f"{path}.")
            return ListType(live.element_id, element.field_type, element_required=kind.required)
        if isinstance(kind, MapOf) and isinstance(live, MapType):
            if str(kind.key) != str(type_of(live.key_type)):
                self._refuse(
                    f"{path}.key", f"cannot become {kind.key}: the keys of a map never change", "declare a new column"
                )
            value = self._keep(Column("value", kind.value, kind.required), live.value_field, f"{path}.")
            return MapType(live.key_id, live.key_type, live.value_id, value.field_type, value_required=kind.required)
        if isinstance(kind, str) and can_widen(live, primitive(kind)):
            return primitive(kind)
        self._refuse(
            path,
            f"is {type_of(live)} and cannot become {kind}: old files would not read as that",
            "types only widen (int to long, float to double, a decimal's precision); declare a new column and fill it",
        )
        return new_type(kind, self._next_id, table=self._table.name)

    def _refuse(self, path: str, why: str, hint: str) -> None:
        self.refusals.append(f"column '{path}' {why}\n    {hint}")


def match_fields(columns: tuple[Column, ...], live: tuple[NestedField, ...]) -> dict[str, NestedField]:
    """The live field of each declared column that has one: the one of its name, else the one of its former name.

    A rename that was done before says nothing, even if another column has taken the former name and is renamed in its
    turn.
    """
    names = {field.name: field for field in live}
    claimed: dict[str, str] = {}  # live name -> declared name
    for column in columns:
        if column.name not in names and column.renamed_from in names:
            claimed.setdefault(names[column.renamed_from].name, column.name)
    renamed = {new: names[old] for old, new in claimed.items()}
    return {**{c.name: names[c.name] for c in columns if c.name in names and c.name not in claimed}, **renamed}


def can_widen(old: IcebergType, new: PrimitiveType) -> bool:
    """Whether every value of the old type is one of the new type, and readers take it as such.

    >>> can_widen(primitive("int"), primitive("long")), can_widen(primitive("long"), primitive("int"))
    (True, False)
    >>> can_widen(primitive("decimal(9, 2)"), primitive("decimal(12, 2)")), can_widen(primitive("string"), primitive("binary"))
    (True, False)
    """  # noqa: E501
    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return old.scale == new.scale and old.precision <= new.precision
    return old == new or (str(old), str(new)) in (("int", "long"), ("float", "double"))


_SPEC, _ORDER, _KEY = "a source of a partition", "in the sort order", "part of the key"
_GUARD_HINTS = {
    _SPEC: "files are partitioned by it, also under older specs, and readers need it; keep it",
    _ORDER: "change sort_by first and apply that, then drop it",
    _KEY: "change key first and apply that, then drop it",
}


def _guards(metadata: TableMetadata) -> dict[str, set[int]]:
    """The columns that other parts of the table rest on, by what they are."""
    specs = {
        field.source_id for spec in metadata.partition_specs for field in spec.fields if str(field.transform) != "void"
    }
    order = metadata.sort_order_by_id(metadata.default_sort_order_id)
    return {
        _SPEC: specs,
        _ORDER: {f.source_id for f in order.fields} if order else set(),
        _KEY: set(metadata.schema().identifier_field_ids),
    }


def _taken_names(old: Schema, new: Schema, specs: list[PartitionSpec]) -> list[str]:
    """New names that are a partition field's already: Java readers refuse such a table."""
    before = {(node.path, field_id) for field_id, node in nodes(old).items()}
    fresh = {node.path: field_id for field_id, node in nodes(new).items() if (node.path, field_id) not in before}
    taken = {
        field.name
        for spec in specs
        for field in spec.fields
        if field.name in fresh and not (str(field.transform) == "identity" and field.source_id == fresh[field.name])
    }
    return [
        f"column '{name}' cannot have this name: a partition field has it, also in older files\n    take another name"
        for name in sorted(taken)
    ]
