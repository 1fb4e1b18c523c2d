"""For which rows a check can be true, false or NULL, as a filter that the statistics of files understand.

The filter holds for every such row, and it may hold for more: what has no counterpart among Iceberg's filters
(arithmetic, functions, two columns) becomes `true`. So a file that the filter skips certainly has no such row. Values
are compared as the check itself compares them, which is Arrow's way: a comparison with NaN is false, except `!=`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from decimal import ROUND_FLOOR, Context, Decimal
from math import isfinite
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotIn,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
)
from pyiceberg.expressions.literals import DateLiteral, TimestampLiteral, literal
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from frazil.write.contract.checks import Check, split_comparison

Outcomes = frozenset[bool | None]
HOLDS: Outcomes = frozenset([True])
FAILS: Outcomes = frozenset([False])
PASSES: Outcomes = frozenset([True, None])
NOT_TRUE: Outcomes = frozenset([False, None])

_OPPOSITE = {HOLDS: FAILS, FAILS: HOLDS, PASSES: NOT_TRUE, NOT_TRUE: PASSES}
# Predicates take a name and a value; PyIceberg's annotations do not say so.
_PREDICATES: dict[str, Any] = {
    "LT": LessThan,
    "LTE": LessThanOrEqual,
    "GT": GreaterThan,
    "GTE": GreaterThanOrEqual,
    "EQ": EqualTo,
    "NEQ": NotEqualTo,
}
_OTHERS: dict[str, Any] = {
    "is-null": IsNull,
    "not-null": NotNull,
    "is-nan": IsNaN,
    "in": In,
    "not-in": NotIn,
    "starts-with": StartsWith,
    "not-starts-with": NotStartsWith,
}
_NEGATED = {"LT": "GTE", "GTE": "LT", "GT": "LTE", "LTE": "GT", "EQ": "NEQ", "NEQ": "EQ"}
_MIRRORED = {"LT": "GT", "GT": "LT", "LTE": "GTE", "GTE": "LTE", "EQ": "EQ", "NEQ": "NEQ"}
_SMALLER = ("LT", "LTE", "NEQ")  # true for every value below the literal
_EXACT = Context(prec=200)
_LONG_DIGITS = 19


def rows_where(check: Check, schema: Schema, outcomes: Outcomes) -> BooleanExpression:
    """A filter that holds for every row for which the check has one of the outcomes, and maybe for others.

    `outcomes` is `HOLDS`, `FAILS`, or `PASSES` (true or NULL).
    """
    return _Translator(check.text, schema).visit(check.tree, outcomes)


class _Translator:
    """Turns a parsed check into filters; a method per kind of node, found by its class's name."""

    def __init__(self, text: str, schema: Schema) -> None:
        self._text, self._schema, self._arrow = text, schema, schema.as_arrow()

    def visit(self, node: Any, wanted: Outcomes) -> BooleanExpression:
        if node.args.get("negate"):  # NOT LIKE
            wanted = _OPPOSITE[wanted]
        kind = type(node).__name__
        if kind in _PREDICATES:
            return self._compare(kind, node.this, node.expression, wanted)
        method = getattr(self, f"_{kind.lower()}", None)
        return AlwaysTrue() if method is None else method(node, wanted)

    def _paren(self, node: Any, wanted: Outcomes) -> BooleanExpression:
        return self.visit(node.this, wanted)

    def _not(self, node: Any, wanted: Outcomes) -> BooleanExpression:
        return self.visit(node.this, _OPPOSITE[wanted])

    def _and(self, node: Any, wanted: Outcomes) -> BooleanExpression:
        return self._both(self.visit(node.this, wanted), self.visit(node.expression, wanted), wanted)

    def _or(self, node: Any, wanted: Outcomes) -> BooleanExpression:
        left, right = self.visit(node.this, wanted), self.visit(node.expression, wanted)
        return self._both(left, right, _OPPOSITE[wanted])

    @staticmethod
    def _both(left: BooleanExpression, right: BooleanExpression, wanted: Outcomes) -> BooleanExpression:
        """AND is true, or not false, if both sides are; it is false, or not true, if one side is."""
        return And(left, right) if True in wanted else Or(left, right)

    def _boolean(self, node: Any, wanted: Outcomes) -> BooleanExpression:
        return _constant(bool(node.this), wanted)

    def _null(self, _: Any, wanted: Outcomes) -> BooleanExpression:
        return _constant(None, wanted)

    def _column(self, node: Any, wanted: Outcomes) -> BooleanExpression:
        field = self._field(node)
        if field is None or not isinstance(field.field_type, BooleanType):
            return AlwaysTrue()
        return _either(field, wanted, _PREDICATES["EQ"](field.name, True), _PREDICATES["EQ"](field.name, False))

    def _between(self, node: Any, wanted: Outcomes) -> BooleanExpression:
        above = self._compare("GTE", node.this, node.args["low"], wanted)
        return self._both(above, self._compare("LTE", node.this, node.args["high"], wanted), wanted)

    def _is(self, node: Any, wanted: Outcomes) -> BooleanExpression:
        field = self._field(node.this)
        if field is None or type(node.expression).__name__ != "Null":
            return AlwaysTrue()
        return _of("is-null" if True in wanted else "not-null", field)

    def _in(self, node: Any, wanted: Outcomes) -> BooleanExpression:
        field = self._field(node.this)
        if field is None:
            return AlwaysTrue()
        values = [self._literal(field, node.this, choice) for choice in node.expressions]
        if any(value is None for value in values):
            return AlwaysTrue()
        exact = {value.literal for value in values if value and value.is_exact}
        if any(value.is_null for value in values if value):  # true, or NULL
            return _of("in", field, exact) if wanted == HOLDS else _constant(None, wanted)
        return _either(field, wanted, _of("in", field, exact), _or_nan(_of("not-in", field, exact), field))

    def _like(self, node: Any, wanted: Outcomes) -> BooleanExpression:
        field, pattern = self._field(node.this), str(node.expression.this)
        prefix = pattern.removesuffix("%")
        is_prefix = len(prefix) == len(pattern) - 1 and not any(sign in prefix for sign in "%_\\")
        if field is None or not isinstance(field.field_type, StringType) or not is_prefix:
            return AlwaysTrue()
        return _either(field, wanted, _of("starts-with", field, prefix), _of("not-starts-with", field, prefix))

    def _compare(self, sign: str, left: Any, right: Any, wanted: Outcomes) -> BooleanExpression:
        if self._field(left) is None:
            sign, left, right = _MIRRORED[sign], right, left
        field = self._field(left)
        if field is None:
            return self._compare_constants(sign, left, right, wanted)
        value = self._literal(field, left, right)
        if value is None:
            return AlwaysTrue()
        if value.is_null:
            return _constant(None, wanted)
        holds, fails = value.compare(sign, field.name), value.compare(_NEGATED[sign], field.name)
        if sign == "NEQ":
            return _either(field, wanted, _or_nan(holds, field), fails)
        return _either(field, wanted, holds, _or_nan(fails, field))

    def _compare_constants(self, sign: str, left: Any, right: Any, wanted: Outcomes) -> BooleanExpression:
        """Of two sides without a column that statistics know, only this is certain: with NULL on one it is NULL."""
        sides = split_comparison(self._text, left, right, self._arrow)
        is_null = any(isinstance(side, pa.Scalar) and not side.is_valid for side in sides)
        return _constant(None, wanted) if is_null else AlwaysTrue()

    def _literal(self, field: NestedField, column: Any, value: Any) -> _Value | None:
        """What a column is compared with; None if that is no constant, or has no counterpart in the column's type."""
        _, scalar = split_comparison(self._text, column, value, self._arrow)
        return _as_value(scalar, field.field_type) if isinstance(scalar, pa.Scalar) else None

    def _field(self, node: Any) -> NestedField | None:
        """The column that a node names. Writers differ in what they count as null inside structs: those have none."""
        while type(node).__name__ == "Paren":
            node = node.this
        if type(node).__name__ != "Column" or len(node.parts) != 1:
            return None
        fields = [field for field in self._schema.fields if field.name == node.name and field.field_type.is_primitive]
        return fields[0] if fields else None


class _Value:
    """A constant as a literal of the column's type: it itself, or the largest value of the type that is smaller."""

    def __init__(self, value: Any, *, is_exact: bool = True, beyond: int = 0, is_null: bool = False) -> None:
        self.literal, self.is_exact, self.is_null = value, is_exact and not is_null and not beyond, is_null
        self._beyond = beyond  # 1: larger than every value of the type; -1: smaller

    def compare(self, sign: str, name: str) -> BooleanExpression:
        """The comparison of a column that has neither NULL nor NaN with the constant."""
        if self._beyond:
            holds = sign in (_SMALLER if self._beyond > 0 else ("GT", "GTE", "NEQ"))
            return AlwaysTrue() if holds else AlwaysFalse()
        if not self.is_exact:  # it lies between two neighbours of the type
            if sign in ("EQ", "NEQ"):
                return AlwaysTrue() if sign == "NEQ" else AlwaysFalse()
            sign = "LTE" if sign in _SMALLER else "GT"
        predicate: BooleanExpression = _PREDICATES[sign](name, self.literal)
        return predicate


def _as_value(scalar: pa.Scalar, kind: IcebergType) -> _Value | None:
    if not scalar.is_valid:
        return _Value(None, is_null=True)
    if isinstance(kind, IntegerType | LongType | DecimalType):
        return _as_number(scalar, kind)
    if isinstance(kind, FloatType | DoubleType):
        return _as_real(scalar, kind)
    for values in _as_same(scalar, kind):
        return _Value(values)
    return None


def _as_number(scalar: pa.Scalar, kind: IntegerType | LongType | DecimalType) -> _Value | None:
    if not (pa.types.is_integer(scalar.type) or pa.types.is_decimal(scalar.type)):
        return None  # Arrow compares floats with whole numbers as floats
    value, scale = Decimal(scalar.as_py()), kind.scale if isinstance(kind, DecimalType) else 0
    digits = kind.precision if isinstance(kind, DecimalType) else _LONG_DIGITS
    floor = value.quantize(Decimal(1).scaleb(-scale), ROUND_FLOOR, _EXACT)
    if abs(floor.scaleb(scale, _EXACT)) >= 10**digits:
        return _Value(None, beyond=1 if value > 0 else -1)
    number = floor if isinstance(kind, DecimalType) else int(floor)
    return _Value(literal(number), is_exact=floor == value)


def _as_real(scalar: pa.Scalar, kind: FloatType | DoubleType) -> _Value | None:
    """The constant as a float that Arrow compares with all values of the column exactly."""
    if not (pa.types.is_integer(scalar.type) or pa.types.is_floating(scalar.type)):
        return None
    value = scalar.as_py()
    if not isfinite(value) or float(value) != value:
        return None
    if isinstance(kind, FloatType):
        try:
            (single,) = struct.unpack("<f", struct.pack("<f", value))
        except OverflowError:
            return None
        return _Value(literal(single)) if single == value else None
    return _Value(literal(float(value)))


def _as_same(scalar: pa.Scalar, kind: IcebergType) -> Iterator[Any]:
    """A literal of the same type as the column; none if the types differ."""
    match kind:
        case StringType() if pa.types.is_string(scalar.type):
            yield literal(scalar.as_py())
        case BooleanType() if pa.types.is_boolean(scalar.type):
            yield literal(scalar.as_py())
        case DateType() if scalar.type == pa.date32():
            yield DateLiteral(scalar.cast(pa.int32()).as_py())
        case TimestampType() if scalar.type == pa.timestamp("us"):
            yield TimestampLiteral(scalar.cast(pa.int64()).as_py())
        case TimestamptzType() if scalar.type == pa.timestamp("us", "UTC"):
            yield TimestampLiteral(scalar.cast(pa.int64()).as_py())


def _of(kind: str, field: NestedField, *values: object) -> BooleanExpression:
    predicate: BooleanExpression = _OTHERS[kind](field.name, *values)
    return predicate


def _constant(value: bool | None, wanted: Outcomes) -> BooleanExpression:
    return AlwaysTrue() if value in wanted else AlwaysFalse()


def _either(
    field: NestedField, wanted: Outcomes, holds: BooleanExpression, fails: BooleanExpression
) -> BooleanExpression:
    """What holds for the rows where a comparison of one column has a wanted outcome: with NULL it is NULL."""
    chosen = holds if True in wanted else fails
    return Or(chosen, _of("is-null", field)) if None in wanted else chosen


def _or_nan(expr: BooleanExpression, field: NestedField) -> BooleanExpression:
    is_real = isinstance(field.field_type, FloatType | DoubleType)
    return Or(expr, _of("is-nan", field)) if is_real else expr
