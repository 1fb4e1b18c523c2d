"""Every transform, value by value, against PyIceberg's own."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.transforms import Transform, parse_transform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from frazil.errors import PartitionSpecError
from frazil.write.files.transforms import array_transform
from tests.kit.changes import example_count
from tests.kit.raising import raises

# Python's own datetime reaches from year 1 to 9999; nanoseconds since 1970 in 64 bits from 1678 to 2261.
MICROS = st.integers(-62135596800_000000, 253402300799_999999)
NANOS = st.integers(-(2**63) + 3_600_000_000_000, 2**63 - 1)
VALUES: dict[PrimitiveType, st.SearchStrategy[object]] = {
    IntegerType(): st.integers(-(2**31), 2**31 - 1),
    LongType(): st.integers(-(2**63), 2**63 - 1),
    DecimalType(9, 2): st.decimals(min_value=-9999999, max_value=9999999, places=2),
    DecimalType(38, 10): st.decimals(min_value=-(10**27), max_value=10**27, places=10),
    DateType(): st.integers(-719162, 2932896),
    TimeType(): st.integers(0, 86_399_999_999),
    TimestampType(): MICROS,
    TimestamptzType(): MICROS,
    TimestampNanoType(): NANOS,
    TimestamptzNanoType(): NANOS,
    StringType(): st.text(max_size=12),
    BinaryType(): st.binary(max_size=12),
    FixedType(5): st.binary(min_size=5, max_size=5),
    UUIDType(): st.uuids(),
    BooleanType(): st.booleans(),
    FloatType(): st.floats(width=32, allow_nan=False),
    DoubleType(): st.floats(allow_nan=False),
}
TRANSFORMS = [
    "identity",
    "void",
    "year",
    "month",
    "day",
    "hour",
    "bucket[1]",
    "bucket[16]",
    "bucket[1000]",
    "truncate[1]",
    "truncate[7]",
]


def arrow_array(source: IcebergType, values: list[object]) -> pa.Array:
    if isinstance(source, UUIDType):
        values = [value.bytes if isinstance(value, uuid.UUID) else value for value in values]
    return pa.array(values, schema_to_pyarrow(source))


def plain(array: pa.Array) -> list[object]:
    """The values as PyIceberg's transforms speak of them: whole numbers for times."""
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if pa.types.is_date32(array.type) else pa.int64())
    return array.to_pylist()


def expected(transform: Transform[object, object], source: IcebergType, values: list[object]) -> list[object]:
    return [transform.transform(source)(value) for value in values]


@pytest.mark.requirement("sink.transforms")
@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("source", VALUES, ids=str)
def test_a_transform_gives_what_pyiceberg_gives_or_refuses_the_type(name: str, source: PrimitiveType) -> None:
    transform = parse_transform(name)
    if not transform.can_transform(source):
        with raises(PartitionSpecError, column="x", got=str(source)):
            array_transform(transform, source, field="x")
        return

    @given(st.lists(st.none() | VALUES[source], max_size=20))
    @settings(max_examples=example_count(short=30, full=300))
    def same(values: list[object]) -> None:
        if name.startswith("truncate") and isinstance(source, (IntegerType, LongType)):
            bits = 31 if isinstance(source, IntegerType) else 63
            # below, the result has no room: see the next test
            values = [None if v is None else max(v, -(2**bits) + 7) for v in values]
        result = plain(array_transform(transform, source, field="x")(arrow_array(source, values)))
        assert result == expected(transform, source, values)

    same()


def test_truncation_below_the_smallest_number_wraps_as_java_does() -> None:
    truncate = array_transform(parse_transform("truncate[10]"), IntegerType(), field="x")
    assert truncate(pa.array([-(2**31)], pa.int32())).to_pylist() == [2**31 - 2]


@pytest.mark.parametrize("name", ["year", "month", "day", "hour"])
@pytest.mark.parametrize("unit", ["us", "ns"])
def test_a_zone_moves_no_row_to_another_partition(name: str, unit: str) -> None:
    source = TimestamptzType() if unit == "us" else TimestamptzNanoType()
    transform = array_transform(parse_transform(name), source, field="ts")
    late = dt.datetime(2019, 12, 31, 23, 30, tzinfo=dt.UTC)
    in_utc, in_berlin = (pa.array([late, None], pa.timestamp(unit, zone)) for zone in ("UTC", "Europe/Berlin"))
    assert transform(in_berlin) == transform(in_utc)


@pytest.mark.parametrize(
    ("name", "source", "value", "bucket_hash"),
    [
        # The hashes of the spec's appendix B.
        ("int", IntegerType(), 34, 2017239379),
        ("long", LongType(), 34, 2017239379),
        ("decimal", DecimalType(9, 2), decimal.Decimal("14.20"), -500754589),
        ("date", DateType(), dt.date(2017, 11, 16), -653330422),
        ("time", TimeType(), dt.time(22, 31, 8), -662762989),
        ("timestamp", TimestampType(), dt.datetime(2017, 11, 16, 22, 31, 8), -2047944441),
        ("string", StringType(), "iceberg", 1210000089),
        ("uuid", UUIDType(), uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), 1488055340),
        ("binary", BinaryType(), b"\x00\x01\x02\x03", -188683207),
    ],
)
def test_buckets_use_the_hashes_of_the_specification(
    name: str, source: IcebergType, value: object, bucket_hash: int
) -> None:
    bucket = array_transform(parse_transform("bucket[1000]"), source, field=name)
    assert bucket(arrow_array(source, [value])).to_pylist() == [(bucket_hash & 0x7FFFFFFF) % 1000]


def test_a_list_cannot_be_a_partition() -> None:
    with raises(PartitionSpecError, column="tags"):
        array_transform(parse_transform("identity"), ListType(1, StringType()), field="tags")


def test_a_transform_of_a_later_version_is_refused_by_name() -> None:
    with raises(PartitionSpecError, column="x"):
        array_transform(parse_transform("zorder"), LongType(), field="x")
