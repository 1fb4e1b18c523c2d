"""What a manifest would say of a file's columns, compared with the values themselves."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes, to_bytes
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
    ListType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from frazil.write.files.layout import TableLayout
from frazil.write.files.parquet import FileMaker, RollingWriter, write_files
from frazil.write.files.written import WrittenFile

LayoutOf = Callable[..., TableLayout]
VALUES: dict[PrimitiveType, st.SearchStrategy[object]] = {
    BooleanType(): st.booleans(),
    IntegerType(): st.integers(-(2**31), 2**31 - 1),
    LongType(): st.integers(-(2**63), 2**63 - 1),
    FloatType(): st.floats(width=32, allow_nan=False),
    DoubleType(): st.floats(allow_nan=False),
    DecimalType(9, 2): st.decimals(-1000000, 1000000, places=2),
    DecimalType(18, 2): st.decimals(-(10**15), 10**15, places=2),
    DecimalType(38, 2): st.decimals(-(10**35), 10**35, places=2),
    DateType(): st.dates(),
    TimeType(): st.times(),
    TimestampType(): st.datetimes(),
    TimestamptzType(): st.datetimes(timezones=st.just(dt.UTC)),
    StringType(): st.text(max_size=30),
    BinaryType(): st.binary(max_size=30),
    FixedType(3): st.binary(min_size=3, max_size=3),
    UUIDType(): st.uuids(),
}


def written(layout: TableLayout, values: list[object], groups: int = 2) -> WrittenFile:
    """A file of one column, in two row groups, so that their statistics have to be joined."""
    plain = [value.bytes if isinstance(value, UUID) else value for value in values]
    rows = pa.table([pa.array(plain, layout.arrow.field(0).type)], schema=layout.arrow)
    writer = RollingWriter(FileMaker(layout))
    half = len(values) // groups
    writer.write(rows.slice(0, half))
    writer.write(rows.slice(half))
    (file,) = writer.finish()
    return file


def sortable(value: object) -> object:
    return value.bytes if isinstance(value, UUID) else value


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_full_bounds_are_the_smallest_and_the_greatest_value(layout_of: LayoutOf, kind: PrimitiveType) -> None:
    layout = layout_of(Schema(NestedField(7, "x", kind)), **{"write.metadata.metrics.default": "full"})

    @given(st.lists(st.none() | VALUES[kind], min_size=2, max_size=12))
    @settings(max_examples=40)
    def same(values: list[object]) -> None:
        file = written(layout, values)
        known = sorted((value for value in values if value is not None), key=sortable)  # type: ignore[arg-type, return-value]
        assert (file.value_counts, file.null_counts) == ({7: len(values)}, {7: values.count(None)})
        # either sign of zero may stand there
        if known and not (isinstance(kind, FloatType | DoubleType) and 0.0 in (known[0], known[-1])):
            assert file.lower_bounds == {7: to_bytes(kind, known[0])}
            assert file.upper_bounds == {7: to_bytes(kind, known[-1])}
        elif not known:
            assert (file.lower_bounds, file.upper_bounds) == ({}, {})

    same()


@given(st.lists(st.text(max_size=30), min_size=2, max_size=8))
@settings(max_examples=60)
def test_bounds_of_text_are_cut_and_still_hold(layout_of: LayoutOf, values: list[str]) -> None:
    file = written(
        layout_of(Schema(NestedField(7, "x", StringType())), **{"write.metadata.metrics.default": "truncate(4)"}),
        values,
    )  # type: ignore[arg-type]
    lower = file.lower_bounds[7].decode()
    assert len(lower) <= 4
    assert lower <= min(values)
    if 7 in file.upper_bounds:
        assert len(file.upper_bounds[7].decode()) <= 4
        assert file.upper_bounds[7].decode() >= max(values)


def test_a_row_group_without_bounds_takes_them_from_the_whole_file(layout_of: LayoutOf) -> None:
    file = written(layout_of(Schema(NestedField(7, "x", StringType()))), ["a", "b", "z" * 5_000, "c"])
    assert (file.lower_bounds, file.upper_bounds, file.null_counts) == ({}, {}, {7: 0})


def test_nan_is_counted_and_is_no_bound(layout_of: LayoutOf) -> None:
    file = written(layout_of(Schema(NestedField(7, "x", DoubleType()))), [math.nan, 1.0, 2.0, None])
    bounds = [from_bytes(DoubleType(), bound[7]) for bound in (file.lower_bounds, file.upper_bounds)]
    assert (file.nan_counts, bounds) == ({7: 1}, [1.0, 2.0])


def test_fields_of_structs_have_bounds_and_elements_of_lists_have_none(layout_of: LayoutOf) -> None:
    schema = Schema(
        NestedField(1, "s", StructType(NestedField(3, "x", DoubleType()))), NestedField(2, "l", ListType(4, LongType()))
    )
    layout = layout_of(schema)
    (file,) = write_files(
        pa.Table.from_pylist([{"s": {"x": 2.5}, "l": [1, 2]}, {"s": None, "l": []}], layout.arrow), layout
    )
    assert file.lower_bounds == {3: to_bytes(DoubleType(), 2.5)}
    assert (file.value_counts, file.null_counts, file.nan_counts) == ({3: 2, 4: 3}, {3: 1, 4: 1}, {3: 0})


@pytest.mark.parametrize(
    ("mode", "counted", "bounded"), [("none", False, False), ("counts", True, False), ("full", True, True)]
)
def test_the_mode_of_a_column_says_what_is_kept(layout_of: LayoutOf, mode: str, counted: bool, bounded: bool) -> None:
    layout = layout_of(Schema(NestedField(7, "x", LongType())), **{"write.metadata.metrics.column.x": mode})
    file = written(layout, [1, 2])
    assert (bool(file.value_counts), bool(file.lower_bounds), list(file.column_sizes)) == (counted, bounded, [7])


def test_a_very_wide_table_keeps_bounds_of_its_first_hundred_columns(layout_of: LayoutOf) -> None:
    schema = Schema(*[NestedField(number, f"c{number}", LongType()) for number in range(1, 131)])
    layout = layout_of(schema)
    (file,) = write_files(pa.table({name: [1] for name in layout.arrow.names}, schema=layout.arrow), layout)
    assert (max(file.lower_bounds), len(file.column_sizes)) == (100, 130)


def test_split_offsets_are_where_row_groups_begin(layout_of: LayoutOf) -> None:
    file = written(layout_of(Schema(NestedField(7, "x", DecimalType(9, 2)))), [Decimal("1.00"), Decimal("2.00")])
    assert file.split_offsets[0] == 4
    assert len(file.split_offsets) == 2
