"""Partition values of every type with their edge values, for tests of every target: each case is a column and how it is
partitioned.
"""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
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
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

ODD_TEXTS = [
    "",
    " ",
    ".",
    "..",
    "a/b",
    "/",
    "%",
    "%2F",
    "a%20b",
    "a b",
    "a+b",
    "a:b",
    "a,b",
    "a=b",
    "a&b;c",
    "?#",
    "'\"`\\",
    "{}[]<>|*^~$@!",
    "line\nbreak\ttab",
    "\x01",
    "ä",
    "a\u0308",
    "日本",
    "🧊",
    "null",
    "NULL",
    "None",
    "__HIVE_DEFAULT_PARTITION__",
    "true",
    "1",
    "NaN",
    "CON",
    "A",
    "a",
    "trailing ",
]
LONG_TEXTS = ["x" * 300, "x" * 299 + "y", "ä" * 300]
DOUBLES = [
    0.0,
    -0.0,
    math.nan,
    math.inf,
    -math.inf,
    0.1,
    -0.1,
    1 / 3,
    5e-324,
    2.2250738585072014e-308,
    1.7976931348623157e308,
    1e16,
    1e300,
]
FLOATS = [
    0.0,
    -0.0,
    math.nan,
    math.inf,
    -math.inf,
    0.1,
    -0.1,
    1.401298464324817e-45,
    3.4028234663852886e38,
    16777216.0,
    1e10,
]
DATES = [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(9999, 12, 31)]
MOMENTS = [
    dt.datetime(1, 1, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    dt.datetime(1970, 1, 1),
    dt.datetime(1970, 1, 1, 0, 0, 0, 1),
    dt.datetime(2024, 2, 29, 23, 59, 59, 123_456),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
]
TIMES = [dt.time(0), dt.time(0, 0, 0, 1), dt.time(12, 30), dt.time(23, 59, 59, 999_999)]
UUIDS = [uuid.UUID(int=0), uuid.UUID(int=2**128 - 1), uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")]
BYTES = [b"", b"\x00", b"\xff", b"/", b"text", bytes(range(256))]


@dataclass(frozen=True)
class PartitionCase:
    """A column of one type, how the table is partitioned by it, and its values; NULL is always among them."""

    name: str
    type: PrimitiveType
    values: tuple[Any, ...]
    partition_by: str = "v"

    @property
    def schema(self) -> Schema:
        return Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "v", self.type))

    @property
    def is_identity(self) -> bool:
        return self.partition_by == "v"

    def rows(self, copies: int = 2) -> list[dict[str, Any]]:
        """Each value several times, not next to each other; ids count up."""
        return [{"id": number, "v": value} for number, value in enumerate(self.values * copies)]

    def arrow(self, schema: pa.Schema, copies: int = 2) -> pa.Table:
        """The same rows as Arrow, in the types of a table."""
        rows = self.rows(copies)
        values = [_storage(row["v"]) for row in rows]
        kind = schema.field("v").type
        storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
        column = pa.array(values, storage)
        ids = pa.array([row["id"] for row in rows], pa.int64())
        return pa.table(
            [ids, pa.ExtensionArray.from_storage(kind, column) if storage is not kind else column], schema=schema
        )


def _storage(value: Any) -> Any:
    return value.bytes if isinstance(value, uuid.UUID) else value


def same_value(left: Any, right: Any) -> bool:
    """Whether two values are the same: NaN is itself, and the sign of zero counts.

    >>> same_value(float("nan"), float("nan")), same_value(0.0, -0.0), same_value(1, 1)
    (True, False, True)
    """
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) and math.isnan(right)
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return bool(left == right)


def _case(name: str, kind: PrimitiveType, values: Sequence[Any], partition_by: str = "v") -> PartitionCase:
    return PartitionCase(name, kind, (*values, None), partition_by)


def _decimals(precision: int, scale: int) -> list[Decimal]:
    most = Decimal((0, (9,) * precision, -scale))
    return [
        most,
        most.copy_negate(),
        Decimal((0, (1,), -scale)),
        Decimal((1, (1,), -scale)),
        Decimal((0, (0,), -scale)),
    ]


_UTC = [moment.replace(tzinfo=dt.UTC) for moment in MOMENTS]

CASES: tuple[PartitionCase, ...] = (
    _case("boolean", BooleanType(), [True, False]),
    _case("int", IntegerType(), [0, 1, -1, 2**31 - 1, -(2**31)]),
    _case("long", LongType(), [0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1]),
    _case("float", FloatType(), FLOATS),
    _case("double", DoubleType(), DOUBLES),
    _case("decimal(9,2)", DecimalType(9, 2), _decimals(9, 2)),
    _case("decimal(18,18)", DecimalType(18, 18), _decimals(18, 18)),
    _case("decimal(38,0)", DecimalType(38, 0), _decimals(38, 0)),
    _case("decimal(38,10)", DecimalType(38, 10), _decimals(38, 10)),
    _case("date", DateType(), DATES),
    _case("time", TimeType(), TIMES),
    _case("timestamp", TimestampType(), MOMENTS),
    _case("timestamptz", TimestamptzType(), _UTC),
    _case("string", StringType(), ODD_TEXTS),
    _case("long string", StringType(), LONG_TEXTS),
    _case("uuid", UUIDType(), UUIDS),
    _case("fixed", FixedType(3), [b"\x00\x00\x00", b"\xff\xff\xff", b"a/b"]),
    _case("binary", BinaryType(), BYTES),
    *(_case(f"{unit} of date", DateType(), DATES, f"{unit}(v)") for unit in ("year", "month", "day")),
    *(
        _case(f"{unit} of timestamp", TimestampType(), MOMENTS, f"{unit}(v)")
        for unit in ("year", "month", "day", "hour")
    ),
    *(
        _case(f"{unit} of timestamptz", TimestamptzType(), _UTC, f"{unit}(v)")
        for unit in ("year", "month", "day", "hour")
    ),
    _case("truncate of int", IntegerType(), [0, 9, -1, 2**31 - 1, -(2**31) + 8], "truncate(10, v)"),
    _case("truncate of long", LongType(), [0, 9, -1, 2**63 - 1, -(2**63) + 8], "truncate(10, v)"),
    _case(
        "truncate of decimal",
        DecimalType(9, 2),
        [Decimal("10.65"), Decimal("-0.05"), Decimal("9999999.99")],
        "truncate(50, v)",
    ),
    _case("truncate of string", StringType(), [*ODD_TEXTS, "🧊🧊🧊🧊", "ä" * 300], "truncate(3, v)"),
    _case("truncate of long string", StringType(), LONG_TEXTS, "truncate(299, v)"),
    _case("truncate of binary", BinaryType(), BYTES, "truncate(2, v)"),
    _case("bucket of long", LongType(), [0, -1, 2**63 - 1, -(2**63)], "bucket(4, v)"),
    _case("bucket of string", StringType(), ODD_TEXTS, "bucket(4, v)"),
    _case("bucket of decimal", DecimalType(38, 10), _decimals(38, 10), "bucket(4, v)"),
    _case("bucket of uuid", UUIDType(), UUIDS, "bucket(4, v)"),
    _case("bucket of timestamptz", TimestamptzType(), _UTC, "bucket(4, v)"),
)
