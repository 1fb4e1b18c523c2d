"""A bound filter as SQL that engines understand: DuckDB, Daft, Spark."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

from pyiceberg.conversions import to_json
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundLiteralPredicate,
    BoundPredicate,
    BoundSetPredicate,
    Or,
)
from pyiceberg.expressions.literals import AboveMax, BelowMin
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    FixedType,
    IcebergType,
    PrimitiveType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from frazil.scan.planning import SIGNS

WORDS: dict[type[IcebergType], str] = {
    DateType: "DATE",
    TimeType: "TIME",
    TimestampType: "TIMESTAMP",
    TimestampNanoType: "TIMESTAMP",
}
UNARY = {"IsNull": "{0} IS NULL", "NotNull": "{0} IS NOT NULL", "IsNaN": "isnan({0})", "NotNaN": "NOT isnan({0})"}


def to_sql(expr: BooleanExpression, schema: Schema, *, dialect: str = "duckdb") -> str:
    """The filter as SQL.

    >>> from pyiceberg.expressions import EqualTo, GreaterThan
    >>> from pyiceberg.expressions.visitors import bind
    >>> from pyiceberg.types import LongType, NestedField
    >>> schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "day", DateType()))
    >>> to_sql(bind(schema, And(GreaterThan("id", 5), EqualTo("day", "2024-01-18")), True), schema)
    '("id" > 5 AND "day" = DATE \\'2024-01-18\\')'
    """
    match expr:
        case AlwaysTrue():
            return "true"
        case AlwaysFalse():
            return "false"
        case And():
            return f"({to_sql(expr.left, schema, dialect=dialect)} AND {to_sql(expr.right, schema, dialect=dialect)})"
        case Or():
            return f"({to_sql(expr.left, schema, dialect=dialect)} OR {to_sql(expr.right, schema, dialect=dialect)})"
    assert isinstance(expr, BoundPredicate)
    return _predicate(expr, schema, dialect)


def _predicate(expr: BoundPredicate, schema: Schema, dialect: str) -> str:
    field, kind = expr.term.ref().field, type(expr).__name__.removeprefix("Bound")
    column = quoted(str(schema.find_column_name(field.field_id)), dialect)
    if kind in UNARY:
        return UNARY[kind].format(column)
    if isinstance(expr, BoundSetPredicate):
        predicate = [
            value(literal.value, field.field_type, dialect)
            for literal in expr.literals
            if not isinstance(literal, AboveMax | BelowMin)
        ]
        return f"{column} {'IN' if kind == 'In' else 'NOT IN'} ({', '.join(sorted(predicate)) or 'NULL'})"
    assert isinstance(expr, BoundLiteralPredicate)
    if kind in ("StartsWith", "NotStartsWith"):
        prefix = str(expr.literal.value)
        if any(sign in prefix for sign in "%_\\"):
            called = (
                f"startswith({column}, {text(prefix)})"
                if dialect == "spark"
                else f"starts_with({column}, {text(prefix)})"
            )
            return called if kind == "StartsWith" else f"NOT {called}"
        return f"{column} {'' if kind == 'StartsWith' else 'NOT '}LIKE {text(prefix + '%')}"
    return f"{column} {SIGNS[kind]} {value(expr.literal.value, field.field_type, dialect)}"


def value(literal: Any, kind: IcebergType, dialect: str) -> str:
    """A value as SQL writes it."""
    if isinstance(kind, UUIDType):
        plain = str(UUID(bytes=literal) if isinstance(literal, bytes) else literal)
        return text(plain) if dialect == "spark" else f"CAST({text(plain)} AS UUID)"
    if isinstance(kind, BinaryType | FixedType):
        return f"X'{literal.hex()}'" if dialect == "spark" else f"unhex('{literal.hex()}')"
    assert isinstance(kind, PrimitiveType)
    if isinstance(kind, TimestamptzType | TimestamptzNanoType):
        return f"{'TIMESTAMP' if dialect == 'spark' else 'TIMESTAMPTZ'} {text(str(to_json(kind, literal)))}"
    if type(kind) in WORDS:
        return f"{WORDS[type(kind)]} {text(str(to_json(kind, literal)))}"
    if isinstance(literal, str):
        return text(literal)
    return (
        str(literal).lower()
        if isinstance(literal, bool)
        else str(literal)
        if isinstance(literal, Decimal)
        else repr(literal)
    )


def text(plain: str) -> str:
    """
    >>> text("it's")
    "'it''s'"
    """
    return "'" + plain.replace("'", "''") + "'"


def quoted(column: str, dialect: str) -> str:
    """A column's name as the engine reads it. Daft takes quotes for a part of the name.

    >>> quoted("person.name", "duckdb"), quoted("id", "spark"), quoted("id", "daft")
    ('"person"."name"', '`id`', 'id')
    """
    if dialect == "daft":
        return column
    mark = "`" if dialect == "spark" else '"'
    return ".".join(f"{mark}{part.replace(mark, mark * 2)}{mark}" for part in column.split("."))
