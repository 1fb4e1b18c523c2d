"""What metadata says about the values of a column, in Arrow: typed bounds, and whether there are nulls and NaNs.
Unknown is null or False.

Values are compared as they are stored: dates and times as whole numbers, text and UUIDs as bytes (UTF-8 sorts as code
points do). So a column that was widened since (int to long, float to double, date to timestamp) compares with files
written before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType

Mask: TypeAlias = pa.BooleanArray

WHOLE = (
    IntegerType,
    LongType,
    DateType,
    TimeType,
    TimestampType,
    TimestamptzType,
    TimestampNanoType,
    TimestamptzNanoType,
)
REAL = (FloatType, DoubleType)
BYTES = (StringType, BinaryType, FixedType, UUIDType)
LONG_MAX = 2**63 - 1
_MOST_DIGITS = 38
_EXACT = Context(prec=_MOST_DIGITS + 2)  # 16 bytes hold up to 39 digits
DAY_UNITS: dict[type, int] = {
    TimestampType: 86_400_000_000,
    TimestamptzType: 86_400_000_000,
    TimestampNanoType: 86_400_000_000_000,
}
DAY_UNITS[TimestamptzNanoType] = DAY_UNITS[TimestampNanoType]


@dataclass(frozen=True)
class Range:
    """Of each file (or manifest, or partition): between what its values lie, and what is certain about nulls
    and NaNs.
    """

    lower: pa.Array
    upper: pa.Array
    all_null: Mask | None  # None: it is certain of none
    no_null: Mask | None
    all_nan: Mask | None
    no_nan: Mask | None

    @property
    def nbytes(self) -> int:
        """What is in memory now."""
        return int(sum(array.nbytes for array in list(vars(self).values()) if isinstance(array, pa.Array)))


class CountedRange(Range):
    """The range of a column in data files. Its counts are looked at when they are asked for: comparisons with known
    bounds do not.
    """

    def __init__(self, lower: pa.Array, upper: pa.Array, count: Callable[[str], pa.Array], *, may_be_nan: bool) -> None:
        vars(self).update(lower=lower, upper=upper, count=count, may_be_nan=may_be_nan)  # the base is frozen

    count: Callable[[str], pa.Array]  # of values, nulls or NaNs in each file
    may_be_nan: bool

    @cached_property
    def all_null(self) -> Mask | None:
        return certain(pc.equal(self.count("null_counts"), self.count("value_counts")))

    @cached_property
    def no_null(self) -> Mask | None:
        return certain(pc.equal(self.count("null_counts"), 0))

    @cached_property
    def all_nan(self) -> Mask | None:
        return certain(pc.equal(self.count("nan_counts"), self.count("value_counts"))) if self.may_be_nan else None

    @cached_property
    def no_nan(self) -> Mask | None:
        return certain(pc.equal(self.count("nan_counts"), 0)) if self.may_be_nan else None


def stored_type(kind: IcebergType) -> pa.DataType | None:
    """The Arrow type in which values of an Iceberg type are compared; None for types that have no order here.

    >>> stored_type(DateType()), stored_type(StringType())
    (DataType(int64), DataType(binary))
    """
    if isinstance(kind, WHOLE):
        return pa.int64()
    if isinstance(kind, REAL):
        return pa.float64()
    if isinstance(kind, BYTES):
        return pa.binary()
    if isinstance(kind, BooleanType):
        return pa.bool_()
    return pa.decimal128(38, kind.scale) if isinstance(kind, DecimalType) else None


def decode(raw: pa.BinaryArray, kind: IcebergType) -> pa.Array:
    """Bounds as they are in metadata (the specification's single-value binary form) as values; null where they make no
    sense.
    """
    wanted = stored_type(kind)
    assert wanted is not None
    if isinstance(kind, BYTES):
        return raw
    if isinstance(kind, WHOLE):
        return _whole(raw, kind)
    if isinstance(kind, REAL):
        return without_nan(_real(raw))
    return pa.array([_one(value, kind) for value in raw.to_pylist()], wanted)


def _whole(raw: pa.BinaryArray, kind: IcebergType) -> pa.Array:
    wide = _fixed(raw, 8, pa.int64())
    if not wide.null_count:
        return wide
    narrow = _fixed(raw, 4, pa.int32()).cast(pa.int64())
    if (unit := DAY_UNITS.get(type(kind))) and narrow.null_count < len(narrow):  # written as a date
        narrow = pc.multiply_checked(pc.if_else(pc.less(pc.abs(narrow), LONG_MAX // unit), narrow, None), unit)
    return pc.coalesce(wide, narrow) if narrow.null_count < len(narrow) else wide


def _real(raw: pa.BinaryArray) -> pa.Array:
    wide = _fixed(raw, 8, pa.float64())
    if not wide.null_count:
        return wide
    narrow = _fixed(raw, 4, pa.float32()).cast(pa.float64())
    return pc.coalesce(wide, narrow) if narrow.null_count < len(narrow) else wide


def _fixed(raw: pa.BinaryArray, width: int, kind: pa.DataType) -> pa.Array:
    """The values that have this many bytes, little-endian; null for the others. No copy when all have."""
    fits = pc.equal(pc.binary_length(raw), width).fill_null(False)
    chosen = raw.filter(fits)
    if len(chosen) == 0:
        return pa.nulls(len(raw), kind)
    typed = pa.Array.from_buffers(kind, len(chosen), [None, chosen.buffers()[2]])
    return typed if len(chosen) == len(raw) else pc.replace_with_mask(pa.nulls(len(raw), kind), fits, typed)


def without_nan(values: pa.Array) -> pa.Array:
    """NaN says nothing about where values lie."""
    return pc.if_else(pc.is_nan(values), None, values)


def _one(value: bytes | None, kind: IcebergType) -> bool | Decimal | None:
    if not value:
        return None
    if isinstance(kind, DecimalType) and len(value) <= 16:
        # Python's own context rounds to 28 digits: a file whose bounds are rounded inwards would be skipped wrongly.
        number = Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-kind.scale, _EXACT)
        return number if len(number.as_tuple().digits) <= _MOST_DIGITS else None
    return value != b"\x00" if isinstance(kind, BooleanType) else None


def exact(values: pa.Array) -> Range:
    """The range of values that are known themselves: those of a partition."""
    null, no_null = certain(pc.is_null(values)), certain(pc.is_valid(values))
    if not pa.types.is_floating(values.type):
        return Range(values, values, null, no_null, None, None)
    known, nan = without_nan(values), pc.is_nan(values)
    return Range(known, known, null, no_null, certain(nan), certain(pc.invert(nan)))


def certain(mask: pa.Array) -> Mask | None:
    """Where something is known to be so; None when it is nowhere.

    >>> certain(pa.array([True, None])).to_pylist(), certain(pa.array([False, None]))
    ([True, False], None)
    """
    return mask.fill_null(False) if mask.true_count else None
