"""How Delta spells partition values and statistics, and which values it cannot hold.

A partition value is text in the log (Delta protocol, "Partition Value Serialization"), where an empty string means
NULL. The folders of data files repeat that text as Hive does: Polars takes the values from there.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import (
    BinaryType,
    DateType,
    FixedType,
    IcebergType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from frazil.write.files.partitioning import Key, column_at

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
LONGEST_NAME = 255  # bytes of a file name on common file systems
_EPOCH = dt.datetime(1970, 1, 1)
_FIRST, _LAST = dt.datetime.min, dt.datetime.max
_MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True)
class ValueRule:
    """Rows whose partition value Delta cannot hold: `broken_by` is true for them."""

    path: tuple[str, ...]
    broken_by: Callable[[pa.Array], pa.Array]
    reason: str

    def fails(self, rows: pa.RecordBatch) -> pa.Array | None:
        """True where a row breaks the rule; None when none does."""
        broken = pc.fill_null(self.broken_by(column_at(rows, self.path)), False)
        return broken if pc.any(broken).as_py() else None


def value_rules(keys: Sequence[Key]) -> tuple[ValueRule, ...]:
    """What rows of a Delta table with these partition keys must keep, beyond their types."""
    return tuple(rule for key in keys if (rule := _rule(key)) is not None)


def _rule(key: Key) -> ValueRule | None:
    where = f"partition field '{key.name}'"
    is_column = key.path == (key.name,)  # the value is in the folder and the log alone, no column of a file keeps it
    if isinstance(key.result, StringType) and is_column:
        return ValueRule(key.path, lambda values: pc.equal(values, ""), f"{where}: Delta reads an empty string as NULL")
    if isinstance(key.result, BinaryType | FixedType) and is_column:
        return ValueRule(
            key.path, _unspeakable, f"{where}: Delta holds only binary values that are UTF-8 text, and not empty"
        )
    if isinstance(key.result, DateType | TimestampType | TimestamptzType):
        return ValueRule(key.path, _outside_calendar, f"{where}: expected a year from 1 to 9999")
    return None


def _unspeakable(values: pa.Array) -> pa.Array:
    return pa.array([value is not None and _utf8(value) in (None, "") for value in values.to_pylist()], pa.bool_())


def _utf8(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _outside_calendar(values: pa.Array) -> pa.Array:
    if pa.types.is_date(values.type):
        numbers, unit = values.view(pa.int32()), dt.timedelta(days=1)
    else:
        numbers, unit = values.view(pa.int64()), _MICROSECOND
    return pc.or_(pc.less(numbers, (_FIRST - _EPOCH) // unit), pc.greater(numbers, (_LAST - _EPOCH) // unit))


def partition_text(value: Any, kind: IcebergType) -> str | None:
    """A partition value, as manifests hold it, in the words of Delta's protocol; None for NULL.

    >>> from pyiceberg.types import BooleanType, DecimalType
    >>> partition_text(19782, DateType()), partition_text(Decimal("1E-18"), DecimalType(18, 18)), partition_text(True, BooleanType())
    ('2024-02-29', '0.000000000000000001', 'true')
    >>> partition_text(-1, TimestamptzType())
    '1969-12-31T23:59:59.999999Z'
    """  # noqa: E501
    if value is None:
        return None
    if isinstance(kind, DateType):
        return (_EPOCH + dt.timedelta(days=value)).date().isoformat()
    if isinstance(kind, TimestamptzType):
        # With its zone: Spark reads a text without one as a time of its session's zone.
        return (_EPOCH + dt.timedelta(microseconds=value)).isoformat(timespec="microseconds") + "Z"
    if isinstance(kind, TimestampType):
        return (_EPOCH + dt.timedelta(microseconds=value)).isoformat(sep=" ", timespec="microseconds")
    return _plain_text(value)


def _plain_text(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
        case Decimal():
            return f"{value:f}"
        case bytes():
            return value.decode()
        case _:
            return str(value)


def hive_folder(name: str, value: Any, kind: IcebergType) -> str:
    """The folder of a partition value; values that no folder can spell share one, and are in the log alone.

    >>> hive_folder("v", "a b/ä", StringType()), hive_folder("v", None, StringType()), hive_folder("v", "x" * 300, StringType())
    ('v=a%20b%2F%C3%A4', 'v=__HIVE_DEFAULT_PARTITION__', 'values-of-v')
    """  # noqa: E501
    text, column = partition_text(value, kind), quote(name, safe="")
    folder = f"{column}={HIVE_NULL if text is None else quote(text, safe='')}"
    return f"values-of-{column[:100]}" if len(folder) > LONGEST_NAME or text == HIVE_NULL else folder


def json_bound(value: Any, kind: PrimitiveType, *, up: bool) -> Any:
    """A column's bound in a file's statistics; None where JSON or Delta cannot hold it.

    >>> json_bound(253402300799999999, TimestampType(), up=True)
    >>> json_bound(253402300799999999, TimestampType(), up=False)
    '9999-12-31T23:59:59.999'
    """
    if isinstance(kind, DateType):
        return _calendar(dt.timedelta(days=value), lambda moment: moment.date().isoformat())
    if isinstance(kind, TimestampType | TimestamptzType):
        # Delta keeps milliseconds: round away from the values, or the reader would skip a file that holds one.
        since = dt.timedelta(milliseconds=-(-value // 1000) if up else value // 1000)
        zone = "Z" if isinstance(kind, TimestamptzType) else ""
        return _calendar(since, lambda moment: moment.isoformat(timespec="milliseconds") + zone)
    if isinstance(value, Decimal):
        return float(value) if abs(value) < 10**15 and Decimal(float(value)) == value else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return (
        value
        if isinstance(value, int | str) and (not isinstance(value, bool) or isinstance(kind, StringType))
        else None
    )


def _calendar(since: dt.timedelta, spell: Callable[[dt.datetime], str]) -> str | None:
    """A time in words; None outside the years 1 to 9999."""
    try:
        return spell(_EPOCH + since)
    except OverflowError:
        return None
