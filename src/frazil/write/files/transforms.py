"""Iceberg's partition transforms over whole Arrow arrays.

Times are computed here, from the instant alone: PyIceberg's Rust core shifts years and months by the zone of the array
and knows no hours of nanoseconds. Buckets and numeric truncation are the core's, which is exact (murmur3) and fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import IcebergType

from frazil.errors import PartitionSpecError

# PyIceberg's transforms are generic in their value types; an array function is the same for all of them.
AnyTransform = Transform[Any, Any]
ArrayFunction = Callable[[pa.Array], pa.Array]

_HOUR = {"s": 3_600, "ms": 3_600_000, "us": 3_600_000_000, "ns": 3_600_000_000_000}


def array_transform(transform: AnyTransform, source: IcebergType, *, field: str) -> ArrayFunction:
    """A function from the source array to the array of partition values; refuses a type that the transform does not
    take.

    >>> from pyiceberg.types import DateType
    >>> array_transform(YearTransform(), DateType(), field="ts")(pa.array([-1, 0, None], pa.date32())).to_pylist()
    [-1, 0, None]
    """
    check_source(transform, source, field=field)
    if isinstance(transform, BucketTransform):
        return lambda array: _bucket(array, transform.num_buckets)
    if isinstance(transform, TruncateTransform):
        return lambda array: _truncate(array, transform.width)
    for kind, function in _PLAIN.items():
        if isinstance(transform, kind):
            return function
    raise PartitionSpecError(
        f"'{transform}' of column '{field}' is not a transform that this version knows", column=field
    )


def check_source(transform: AnyTransform, source: IcebergType, *, field: str) -> None:
    """Refuses a source type that the transform does not take."""
    if not transform.can_transform(source):
        raise PartitionSpecError(
            f"cannot partition by {transform} of column '{field}': it is {source}",
            hint=f"{transform} takes {_TAKES.get(type(transform), 'another type')}",
            column=field,
            got=str(source),
        )


def _year(array: pa.Array) -> pa.Array:
    return pc.subtract(pc.year(_instant(array)), 1970).cast(pa.int32())


def _month(array: pa.Array) -> pa.Array:
    instant = _instant(array)
    return pc.add(pc.multiply(pc.subtract(pc.year(instant), 1970), 12), pc.subtract(pc.month(instant), 1)).cast(
        pa.int32()
    )


def _day(array: pa.Array) -> pa.Array:
    return _instant(array).cast(pa.date32(), safe=False).view(pa.int32())


def _hour(array: pa.Array) -> pa.Array:
    # Arrow divides towards zero; rounded down first, hours before 1970 come out right.
    whole = pc.floor_temporal(_instant(array), unit="hour").view(pa.int64())
    return pc.divide(whole, _HOUR[array.type.unit]).cast(pa.int32())


def _instant(array: pa.Array) -> pa.Array:
    """The array without its zone: Arrow's calendar functions would answer in local time, Iceberg's are in UTC."""
    if not pa.types.is_timestamp(array.type) or array.type.tz is None:
        return array
    return array.view(pa.int64()).view(pa.timestamp(array.type.unit))


def _void(array: pa.Array) -> pa.Array:
    return pa.nulls(len(array), array.type)


def _bucket(array: pa.Array, buckets: int) -> pa.Array:
    from pyiceberg_core import transform

    if pa.types.is_timestamp(array.type) and array.type.unit == "ns":
        # The core rounds to microseconds towards zero; the spec rounds down, which differs before 1970.
        array = pc.floor_temporal(_instant(array), unit="microsecond").cast(pa.timestamp("us"))
    return transform.bucket(array, buckets)


def _truncate(array: pa.Array, width: int) -> pa.Array:
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return pc.utf8_slice_codeunits(array, 0, width)
    if pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type):
        return pc.binary_slice(array, 0, width)
    from pyiceberg_core import transform

    return transform.truncate(array, width)


_PLAIN: dict[type[AnyTransform], ArrayFunction] = {
    IdentityTransform: lambda array: array,
    VoidTransform: _void,
    YearTransform: _year,
    MonthTransform: _month,
    DayTransform: _day,
    HourTransform: _hour,
}

_TAKES: dict[type[AnyTransform], str] = {
    IdentityTransform: "any primitive type",
    YearTransform: "a date or a timestamp",
    MonthTransform: "a date or a timestamp",
    DayTransform: "a date or a timestamp",
    HourTransform: "a timestamp",
    BucketTransform: "int, long, decimal, date, time, timestamp, string, uuid, fixed or binary",
    TruncateTransform: "int, long, decimal, string or binary",
}
