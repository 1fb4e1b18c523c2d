"""Declared columns and terms as PyIceberg's schema, spec and sort order, and PyIceberg's fields as declared columns."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pyiceberg.conversions import from_json, to_json
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import parse_transform
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, PrimitiveType, StructType

from frazil.errors import DeclarationError
from frazil.tables.terms import PartitionTerm, SortTerm, Term
from frazil.tables.types import Column, ListOf, MapOf, Struct, Type

if TYPE_CHECKING:
    from frazil.tables.fields import TableFields

NextId = Callable[[], int]


def to_schema(table: TableFields) -> Schema:
    """The schema of a new table. Ids are given level by level, as catalogs do."""
    numbers = count(1)
    schema = Schema(*new_fields(table.columns, lambda: next(numbers), table=table.name))
    return with_key(schema, table.key)


def with_key(schema: Schema, key: Sequence[str]) -> Schema:
    """The schema with these identifier fields."""
    ids = [schema.find_field(name).field_id for name in key]
    return Schema(*schema.fields, schema_id=schema.schema_id, identifier_field_ids=ids)


def new_fields(columns: Sequence[Column], next_id: NextId, *, table: str) -> list[NestedField]:
    """Fields that are not in the table yet, with new ids."""
    ids = [next_id() for _ in columns]
    return [new_field(column, field_id, next_id, table=table) for column, field_id in zip(columns, ids, strict=True)]


def new_field(column: Column, field_id: int, next_id: NextId, *, table: str) -> NestedField:
    kind = new_type(column.type, next_id, table=table)
    default = default_json(column, kind, table=table)
    return make_field(
        field_id, column.name, kind, required=column.required, doc=column.doc, initial=default, write=default
    )


def make_field(
    field_id: int,
    name: str,
    kind: IcebergType,
    *,
    required: bool,
    doc: str | None,
    initial: Any = None,
    write: Any = None,
) -> NestedField:
    """A field; its defaults are given in the form of Iceberg's JSON."""
    return NestedField(
        field_id, name, kind, required=required, doc=doc or None, initial_default=initial, write_default=write
    )


def new_type(kind: Type, next_id: NextId, *, table: str) -> IcebergType:
    if isinstance(kind, Struct):
        return StructType(*new_fields(kind.fields, next_id, table=table))
    if isinstance(kind, ListOf):
        return ListType(next_id(), new_type(kind.element, next_id, table=table), element_required=kind.required)
    if isinstance(kind, MapOf):
        key_id, value_id = next_id(), next_id()
        key, value = new_type(kind.key, next_id, table=table), new_type(kind.value, next_id, table=table)
        return MapType(key_id, key, value_id, value, value_required=kind.required)
    return primitive(kind)


def primitive(text: str) -> PrimitiveType:
    field_type = NestedField(0, "x", text).field_type
    assert isinstance(field_type, PrimitiveType)
    return field_type


# --- defaults --------------------------------------------------------------------------------------------------------


def default_json(column: Column, kind: IcebergType, *, table: str) -> Any:
    """The default in the form of Iceberg's JSON, None where there is none."""
    if column.default is None:
        return None
    try:
        assert isinstance(kind, PrimitiveType)
        return canonical_default(kind, _plain(column.default))
    except (TypeError, ValueError, ArithmeticError, ValidationError, AssertionError) as exc:
        raise DeclarationError(
            f"column '{column.name}' of table '{table}': default {column.default!r} is no {column.type}",
            hint="write a Python value of that type, or the text that Iceberg uses for it",
            column=column.name,
            table=table,
        ) from exc


def canonical_default(kind: PrimitiveType, value: object) -> Any:
    """The one JSON form of a default, whichever of its forms was given."""
    if str(kind) == "boolean" and not isinstance(value, bool):
        raise TypeError("not true or false")
    if str(kind) in ("int", "long") and type(value) is not int:
        raise TypeError("not a whole number")
    if str(kind) == "string" and not isinstance(value, str):
        raise TypeError("not text")
    return to_json(kind, from_json(kind, value))


def default_of(field: NestedField) -> Any:
    """What a live column's default for new rows is, in JSON's form."""
    return _shown(field, field.write_default)


def initial_of(field: NestedField) -> Any:
    return _shown(field, field.initial_default)


def _shown(field: NestedField, value: Any) -> Any:
    return (
        to_json(field.field_type, value) if value is not None and isinstance(field.field_type, PrimitiveType) else None
    )


def _plain(value: object) -> object:
    if isinstance(value, dt.date | dt.time | dt.datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, Decimal | uuid.UUID) else value


# --- specs and orders ------------------------------------------------------------------------------------------------


def to_spec(table: TableFields, schema: Schema) -> PartitionSpec:
    """The partition spec of a new table."""
    return PartitionSpec(
        *[partition_field(term, schema, PARTITION_FIELD_ID_START + n) for n, term in enumerate(table.partition_terms)]
    )


def partition_field(term: PartitionTerm, schema: Schema, field_id: int) -> PartitionField:
    source = schema.find_field(term.term.source).field_id
    return PartitionField(source, field_id, parse_transform(term.term.transform), term.name or term.term.field_name())


def to_order(terms: Sequence[SortTerm], schema: Schema, order_id: int = 1) -> SortOrder:
    """The sort order that terms mean in a schema."""
    if not terms:
        return UNSORTED_SORT_ORDER
    fields = [
        SortField(
            schema.find_field(term.term.source).field_id,
            parse_transform(term.term.transform),
            SortDirection.DESC if term.descending else SortDirection.ASC,
            NullOrder.NULLS_FIRST if term.nulls_first else NullOrder.NULLS_LAST,
        )
        for term in terms
    ]
    return SortOrder(*fields, order_id=order_id)


def term_of(source_id: int, transform: object, schema: Schema) -> Term:
    """A live partition or sort field's term, by the name that its column has now."""
    name = schema.find_column_name(source_id)
    return Term(str(transform), name if name is not None else f"column {source_id} (dropped)")


def partition_term_of(field: PartitionField, schema: Schema) -> PartitionTerm:
    term = term_of(field.source_id, field.transform, schema)
    return PartitionTerm(term, None if field.name == term.field_name() else field.name)


def sort_term_of(field: SortField, schema: Schema) -> SortTerm:
    term = term_of(field.source_id, field.transform, schema)
    return SortTerm(term, field.direction == SortDirection.DESC, field.null_order == NullOrder.NULLS_FIRST)


# --- back to columns -------------------------------------------------------------------------------------------------


def column_of(field: NestedField) -> Column:
    """A live field as a declaration."""
    return Column(field.name, type_of(field.field_type), field.required, field.doc or None, default_of(field))


def type_of(kind: IcebergType) -> Type:
    if isinstance(kind, StructType):
        return Struct(tuple(map(column_of, kind.fields)))
    if isinstance(kind, ListType):
        return ListOf(type_of(kind.element_type), kind.element_required)
    if isinstance(kind, MapType):
        return MapOf(type_of(kind.key_type), type_of(kind.value_type), kind.value_required)
    return str(kind)
