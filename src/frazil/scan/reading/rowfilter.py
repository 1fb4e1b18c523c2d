"""Which rows a filter wants: a mask for a batch. A comparison with null is not true, and neither is its opposite, as in
SQL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundEqualTo,
    BoundGreaterThan,
    BoundGreaterThanOrEqual,
    BoundIsNaN,
    BoundIsNull,
    BoundLessThan,
    BoundLessThanOrEqual,
    BoundLiteralPredicate,
    BoundNotEqualTo,
    BoundNotIn,
    BoundNotNaN,
    BoundNotNull,
    BoundNotStartsWith,
    BoundPredicate,
    BoundSetPredicate,
    BoundStartsWith,
    Or,
)
from pyiceberg.expressions.literals import AboveMax, BelowMin
from pyiceberg.types import IcebergType

from frazil.scan.manifests import REAL
from frazil.scan.reading.values import arrow_type, scalar, storage, storage_type

Columns: TypeAlias = Callable[[int], pa.Array]  # a column of the batch by its field id
Wanted: TypeAlias = pa.BooleanArray | bool  # null is not wanted; True: all rows, False: none

COMPARE: dict[type, Callable[..., pa.Array]] = {
    BoundEqualTo: pc.equal,
    BoundNotEqualTo: pc.not_equal,
    BoundLessThan: pc.less,
    BoundLessThanOrEqual: pc.less_equal,
    BoundGreaterThan: pc.greater,
    BoundGreaterThanOrEqual: pc.greater_equal,
}


def wanted_rows(expr: BooleanExpression, columns: Columns) -> Wanted:
    """The rows for which a bound expression without `not` is true."""
    match expr:
        case AlwaysTrue():
            return True
        case AlwaysFalse():
            return False
        case And():
            left = wanted_rows(expr.left, columns)
            return (
                False
                if left is False
                else _combine(pc.and_kleene, left, wanted_rows(expr.right, columns), neutral=True)
            )
        case Or():
            left = wanted_rows(expr.left, columns)
            return (
                True if left is True else _combine(pc.or_kleene, left, wanted_rows(expr.right, columns), neutral=False)
            )
        case BoundPredicate():
            field = expr.term.ref().field
            return _predicate(expr, field.field_type, storage(columns(field.field_id)))
    raise AssertionError(f"an expression that is not bound: {expr}")


def _combine(combine: Callable[..., pa.Array], left: Wanted, right: Wanted, *, neutral: bool) -> Wanted:
    if left is neutral:
        return right
    if isinstance(right, bool):
        return left if right is neutral else right
    return combine(left, right)


def _predicate(expr: BoundPredicate, kind: IcebergType, values: pa.Array) -> Wanted:
    match expr:
        case BoundIsNull():
            return values.is_null()
        case BoundNotNull():
            return values.is_valid()
        case BoundIsNaN():
            return pc.is_nan(values)
        case BoundNotNaN():
            return pc.invert(pc.is_nan(values)).fill_null(True)
        case BoundSetPredicate():
            return _set(expr, kind, values)
        case BoundLiteralPredicate():
            return _literal(expr, kind, values)
    raise AssertionError(f"an expression that is not known: {expr}")


def _literal(expr: BoundLiteralPredicate, kind: IcebergType, values: pa.Array) -> pa.Array:
    value: Any = expr.literal.value
    if isinstance(expr, BoundStartsWith):
        return pc.starts_with(values, value)
    if isinstance(expr, BoundNotStartsWith):
        return pc.invert(pc.starts_with(values, value))
    return COMPARE[type(expr)](values, scalar(value, kind))


def _set(expr: BoundSetPredicate, kind: IcebergType, values: pa.Array) -> Wanted:
    literals = [literal.value for literal in expr.literals if not isinstance(literal, AboveMax | BelowMin)]
    if isinstance(kind, REAL) and 0.0 in literals:
        literals += [0.0, -0.0]  # they are equal, and Arrow looks them up apart
    known = pa.array([scalar(value, kind) for value in literals], storage_type(arrow_type(kind)))
    among = pc.is_in(values, value_set=known, skip_nulls=True)
    return pc.and_(pc.invert(among), values.is_valid()) if isinstance(expr, BoundNotIn) else among
