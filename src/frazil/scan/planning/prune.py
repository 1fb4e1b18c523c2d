"""Which files, manifests or partitions cannot have a row that a predicate wants: one mask for all of them at a time.

The same rules serve every layer: a partition value is a range whose two ends are the value. A mask is True where
something may be skipped; where metadata says nothing, nothing is skipped.
"""

from __future__ import annotations

import struct
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
    BoundIn,
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
from pyiceberg.types import FloatType, IcebergType, NestedField

from frazil.scan.manifests import REAL, Mask, Range, stored_type

Ranges: TypeAlias = Callable[[NestedField], Range | None]  # None: nothing is known about the field
Skip: TypeAlias = Mask | bool  # False: none can be skipped; True: all can

MOST_IN = 200  # of longer lists only the smallest and the largest value are looked at, as Java does


def skip_mask(expr: BooleanExpression, ranges: Ranges) -> Skip:
    """Where no row can match a bound expression without `not`."""
    match expr:
        case AlwaysTrue():
            return False
        case AlwaysFalse():
            return True
        case And():
            return either(skip_mask(expr.left, ranges), lambda: skip_mask(expr.right, ranges))
        case Or():
            return both(skip_mask(expr.left, ranges), lambda: skip_mask(expr.right, ranges))
        case BoundPredicate():
            field = expr.term.ref().field
            bounds = ranges(field) if stored_type(field.field_type) is not None else None
            return False if bounds is None else _predicate(expr, field, bounds)
    return False


def either(left: Skip, right: Callable[[], Skip]) -> Skip:
    """Skipped by one of them."""
    if left is True:
        return True
    other = right()
    if left is False or other is True:
        return other
    return left if other is False else pc.or_(left, other)


def both(left: Skip, right: Callable[[], Skip]) -> Skip:
    """Skipped by both of them."""
    if left is False:
        return False
    other = right()
    if left is True or other is False:
        return other
    return left if other is True else pc.and_(left, other)


def _predicate(expr: BoundPredicate, field: NestedField, known: Range) -> Skip:
    match expr:
        case BoundIsNull():
            return _skip(known.no_null)
        case BoundNotNull():
            return _skip(known.all_null)
        case BoundIsNaN():
            return either(_skip(known.no_nan), lambda: _skip(known.all_null))
        case BoundNotNaN():
            return _skip(known.all_nan)
        case BoundSetPredicate():
            return _set(expr, field.field_type, known)
        case BoundLiteralPredicate():
            return _literal(expr, field.field_type, known)
    return False


def _literal(expr: BoundLiteralPredicate, kind: IcebergType, known: Range) -> Skip:
    low, high = _scalars(expr.literal.value, kind)
    match expr:
        case BoundNotEqualTo():
            return _only(known, low, high, kind)
        case BoundNotStartsWith():
            # Everything between two values with one prefix has it, too. Nulls may match: engines differ.
            prefix = _as_bytes(expr.literal.value)
            if known.no_null is None:
                return False
            within = pc.and_(_starts(known.lower, prefix), _starts(known.upper, prefix))
            return pc.and_(within, known.no_null).fill_null(False)
    match expr:
        case BoundEqualTo():
            outside = pc.or_kleene(pc.greater(known.lower, high), pc.less(known.upper, low))
        case BoundLessThan():
            outside = pc.greater_equal(known.lower, high)
        case BoundLessThanOrEqual():
            outside = pc.greater(known.lower, high)
        case BoundGreaterThan():
            outside = pc.less_equal(known.upper, low)
        case BoundGreaterThanOrEqual():
            outside = pc.less(known.upper, low)
        case BoundStartsWith():
            above = pc.and_not_kleene(pc.greater(known.lower, low), _starts(known.lower, _as_bytes(expr.literal.value)))
            outside = pc.or_kleene(above, pc.less(known.upper, low))
        case _:
            return False
    return _no_value(known, outside)


def _no_value(known: Range, outside: pa.Array) -> Skip:
    """A comparison is never true for null or NaN. Where the bounds are known there is something else, too."""
    if not outside.null_count:
        return outside
    mask: Skip = outside.fill_null(False)
    for nothing in (known.all_null, known.all_nan):
        if nothing is not None:
            mask = pc.or_(mask, nothing)
    return mask


def _skip(mask: Mask | None) -> Skip:
    return False if mask is None else mask


def _set(expr: BoundSetPredicate, kind: IcebergType, known: Range) -> Skip:
    values = [literal.value for literal in expr.literals if not isinstance(literal, AboveMax | BelowMin)]
    if isinstance(expr, BoundNotIn):
        masks = [_only(known, *_scalars(value, kind), kind) for value in values[:MOST_IN]]
        skipped: Skip = False
        for mask in masks:
            skipped = either(skipped, lambda mask=mask: mask)  # type: ignore[misc]
        return skipped
    assert isinstance(expr, BoundIn)
    if not values:
        return True
    return _no_value(known, _outside_all(sorted(values), kind, known))


def _outside_all(values: list[Any], kind: IcebergType, known: Range) -> pa.Array:
    """No value of the list lies in the range."""
    if len(values) > MOST_IN:
        low, high = _scalars(values[0], kind)[0], _scalars(values[-1], kind)[1]
        return pc.or_kleene(pc.greater(known.lower, high), pc.less(known.upper, low))
    outside: pa.Array | None = None
    for value in values:
        low, high = _scalars(value, kind)
        or_kleene = pc.or_kleene(pc.greater(known.lower, high), pc.less(known.upper, low))
        outside = or_kleene if outside is None else pc.and_kleene(outside, or_kleene)
    return outside


def _only(known: Range, low: pa.Scalar, high: pa.Scalar, kind: IcebergType) -> Skip:
    """All rows have just this value: none differs from it."""
    if known.no_null is None or (isinstance(kind, REAL) and known.no_nan is None):
        return False
    same = pc.and_(pc.and_(pc.equal(known.lower, low), pc.equal(known.upper, high)), known.no_null)
    return (pc.and_(same, known.no_nan) if isinstance(kind, REAL) else same).fill_null(False)


def _scalars(value: Any, kind: IcebergType) -> tuple[pa.Scalar, pa.Scalar]:
    """The literal as it is stored. 0.1 as a float is not 0.1: engines compare with the one or the other, so both are
    allowed for.
    """
    wanted = stored_type(kind)
    if isinstance(kind, FloatType):
        try:
            (single,) = struct.unpack("<f", struct.pack("<f", value))
        except OverflowError:
            single = value
        return pa.scalar(min(value, single), wanted), pa.scalar(max(value, single), wanted)
    scalar = pa.scalar(_as_bytes(value) if wanted == pa.binary() else value, wanted)
    return scalar, scalar


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return value if isinstance(value, bytes) else bytes(value.bytes)  # else a UUID


def _starts(values: pa.Array, prefix: bytes) -> pa.Array:
    """Whether bytes start with others; Arrow's own wants valid text."""
    return pc.equal(pc.binary_slice(values, 0, len(prefix)), prefix) if prefix else pc.is_valid(values)
