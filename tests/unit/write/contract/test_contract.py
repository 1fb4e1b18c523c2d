"""What the table asks of a row, and what is said of one that does not keep it."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema, assign_fresh_schema_ids
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
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from frazil.errors import SchemaMismatch
from frazil.write.contract.contract import Contract, Extra, Rejected, as_table
from frazil.write.contract.conversion import convert
from frazil.write.contract.raw import parse_row
from frazil.write.files.layout import TableLayout
from frazil.write.files.parquet import write_files
from tests.kit.raising import raises

LayoutOf = Callable[..., TableLayout]
SALES = Schema(
    NestedField(1, "order_id", StringType(), required=True),
    NestedField(2, "amount", DecimalType(12, 2), required=True),
    NestedField(3, "quantity", IntegerType()),
    NestedField(4, "at", TimestampType()),
)
MOMENT = dt.datetime(2024, 5, 1, 12)
GOOD = {"order_id": "a", "amount": Decimal("1.50"), "quantity": 3, "at": MOMENT}


def sales(layout_of: LayoutOf, *checks: str, extra: Extra = "error") -> Contract:
    return Contract.of(layout_of(SALES), checks=checks, extra=extra)


def table(*rows: dict[str, Any]) -> pa.Table:
    kinds = [
        ("order_id", pa.string()),
        ("amount", pa.decimal128(20, 3)),
        ("quantity", pa.int64()),
        ("at", pa.timestamp("ns")),
    ]
    return pa.Table.from_pylist(list(rows), pa.schema(kinds))


def faults(rejected: tuple[Rejected, ...]) -> list[tuple[int, str]]:
    return [(item.number, item.reason) for item in rejected]


@pytest.mark.requirement("sink.schema")
def test_rows_come_out_in_the_tables_types_with_its_field_ids(layout_of: LayoutOf) -> None:
    rows = sales(layout_of).accept(table(GOOD)).rows
    assert rows.schema.equals(layout_of(SALES).arrow, check_metadata=True)
    assert rows.to_pylist() == [GOOD]


def test_columns_that_fit_are_not_copied(layout_of: LayoutOf) -> None:
    rows = pa.Table.from_pylist([GOOD] * 10, layout_of(SALES).arrow)
    result = sales(layout_of, "amount > 0").accept(rows).rows
    for name in rows.column_names:
        assert result[name].chunk(0).buffers()[-1].address == rows[name].chunk(0).buffers()[-1].address


@pytest.mark.requirement("sink.schema")
@pytest.mark.parametrize(
    ("column", "values", "expected", "got"),
    [
        ("amount", None, "decimal(12, 2), required", "no such field"),
        ("amount", pa.array([1.5]), "decimal(12, 2)", "double"),
        ("amount", pa.array(["1.5"]), "decimal(12, 2)", "string"),
        ("quantity", pa.array(["1"]), "int", "string"),
        ("quantity", pa.array([1.5]), "int", "double"),
        ("at", pa.array([MOMENT], pa.timestamp("us", "UTC")), "timestamp", "timestamp[us, tz=UTC]"),
        ("at", pa.array([MOMENT.date()]), "timestamp", "date32[day]"),
        ("order_id", pa.array([7]), "string", "int64"),
        ("order_id", pa.array([[7]]), "string", "list<item: int64>"),
    ],
)
def test_a_field_that_is_missing_or_of_another_type_is_named(
    layout_of: LayoutOf, column: str, values: Any, expected: str, got: str
) -> None:
    rows = table(GOOD).drop_columns([column])
    if values is not None:
        rows = rows.append_column(column, values)
    with pytest.raises(SchemaMismatch) as raised:
        sales(layout_of).accept(rows)
    assert (raised.value.column, raised.value.expected, raised.value.got) == (column, expected, got)
    assert str(raised.value).startswith(f"lake.t: {column}: expected {expected}, got {got}")


def test_an_optional_field_may_be_missing(layout_of: LayoutOf) -> None:
    rows = table(GOOD).drop_columns(["quantity", "at"])
    assert sales(layout_of).accept(rows).rows.to_pylist() == [{**GOOD, "quantity": None, "at": None}]


@pytest.mark.requirement("sink.schema")
def test_an_extra_field_is_an_error_unless_it_is_to_be_ignored(layout_of: LayoutOf) -> None:
    rows = table(GOOD).append_column("color", pa.array(["red"]))
    for extra in ("error", "evolve"):
        with raises(SchemaMismatch, column="color", expected="no such field", hint=re.compile("extra_fields='ignore'")):
            sales(layout_of, extra=extra).accept(rows)
    assert sales(layout_of, extra="ignore").accept(rows).rows.to_pylist() == [GOOD]
    assert sales(layout_of).new_fields(rows.schema) == ["color"]


def test_rows_that_fail_a_type_a_null_or_a_check_are_named_and_the_others_go_on(layout_of: LayoutOf) -> None:
    rows = table(
        GOOD,
        {**GOOD, "amount": Decimal("12345678901.00")},
        {**GOOD, "order_id": None},
        {**GOOD, "amount": Decimal("-1.00")},
        {**GOOD, "quantity": 2**40, "amount": Decimal("-2.00")},
        {**GOOD, "amount": Decimal("1.005")},
        {**GOOD, "quantity": None},
    )
    result = sales(layout_of, "amount >= 0", "quantity < 10").accept(rows)
    assert faults(result.rejected) == [
        (1, "field 'amount': expected decimal(12, 2), got 12345678901.000"),
        (2, "field 'order_id': expected a value, got NULL"),
        (3, "check 'amount >= 0' failed"),
        (4, "field 'quantity': expected int, got 1099511627776"),
        (5, "field 'amount': expected decimal(12, 2), got 1.005"),
    ]
    assert result.rows.to_pylist() == [GOOD, {**GOOD, "quantity": None}]
    assert result.numbers.to_pylist() == [0, 6]
    assert json.loads(result.rejected[0].raw) == {
        "order_id": "a",
        "amount": "12345678901.000",
        "quantity": 3,
        "at": "2024-05-01T12:00:00",
    }


def test_dictionaries_are_judged_in_the_same_way(layout_of: LayoutOf) -> None:
    rows: list[dict[str, Any]] = [
        {**GOOD, "amount": "a lot"},
        GOOD,
        {"order_id": "b", "amount": 2},
        {**GOOD, "quantity": 1.5},
        {"order_id": "c"},
        {**GOOD, "at": dt.datetime(2024, 5, 1, 14, tzinfo=dt.timezone(dt.timedelta(hours=2)))},
        {**GOOD, "amount": Decimal("-3")},
    ]
    accepted = sales(layout_of, "amount >= 0").accept_dicts(rows)
    assert faults(accepted.rejected) == [
        (0, "field 'amount': expected decimal(12, 2), got 'a lot'"),
        (3, "field 'quantity': expected int, got 1.5"),
        (4, "field 'amount': expected a value, got NULL"),
        (5, "field 'at': expected timestamp, got 2024-05-01T14:00:00+02:00, with a zone"),
        (6, "check 'amount >= 0' failed"),
    ]
    assert accepted.rows.to_pylist() == [
        GOOD,
        {"order_id": "b", "amount": Decimal("2.00"), "quantity": None, "at": None},
    ]
    assert accepted.numbers.to_pylist() == [1, 2]


ZONED = MOMENT.replace(tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (TimestampType(), MOMENT, ZONED),
        (TimestamptzType(), ZONED, MOMENT),
        (DateType(), dt.datetime(2024, 5, 1), MOMENT),
        (DateType(), MOMENT.date(), dt.datetime(2024, 5, 1, tzinfo=dt.UTC)),
        (TimeType(), MOMENT.time(), MOMENT.time().replace(tzinfo=dt.UTC)),
    ],
    ids=str,
)
def test_a_zone_is_not_guessed_and_no_time_is_cut_also_inside_nested_values(
    layout_of: LayoutOf, kind: PrimitiveType, good: Any, bad: Any
) -> None:
    nested = StructType(NestedField(5, "t", kind))
    fields = [
        ("plain", kind),
        ("list", ListType(3, kind, False)),
        ("struct", nested),
        ("map", MapType(6, StringType(), 7, nested)),
    ]
    schema = Schema(*(NestedField(10 + number, name, type_) for number, (name, type_) in enumerate(fields)))
    shapes = [lambda t: t, lambda t: [None, t], lambda t: {"t": t}, lambda t: {"a": {"t": t}}]
    contract = Contract.of(layout_of(schema))
    for (name, _), shape in zip(fields, shapes, strict=True):
        accepted = contract.accept_dicts([{name: shape(good)}, {name: shape(bad)}, {name: shape(None)}])
        assert accepted.numbers.to_pylist() == [0, 2]
        assert accepted.rejected[0].reason.startswith(f"field '{name}': expected {schema.find_type(name)}, got ")


@pytest.mark.parametrize("kind", [TimestampType(), TimestamptzType(), DateType(), TimeType()], ids=str)
@pytest.mark.parametrize("number", [5, 5.0, Decimal(5), 10**18], ids=repr)
def test_a_number_is_no_time_also_inside_nested_values(layout_of: LayoutOf, kind: PrimitiveType, number: Any) -> None:
    fields = [("plain", kind), ("list", ListType(3, kind, False)), ("map", MapType(6, StringType(), 7, kind))]
    schema = Schema(*(NestedField(10 + at, name, type_) for at, (name, type_) in enumerate(fields)))
    contract = Contract.of(layout_of(schema))
    rows = [{"plain": number}, {"list": [number]}, {"map": {"a": number}}]
    accepted = contract.accept_dicts(rows)
    assert (accepted.rows.num_rows, [row.number for row in accepted.rejected]) == (0, [0, 1, 2])
    again = contract.accept_dicts([parse_row(row.raw, contract.layout.arrow) for row in accepted.rejected])
    assert [row.number for row in again.rejected] == [0, 1, 2]  # nor is it one after its time in quarantine


NUMBERS_LIST, WORDS = ListType(9, LongType(), False), ListType(9, StringType(), False)
WORD_MAP, POINT = MapType(8, StringType(), 9, LongType(), False), StructType(NestedField(9, "x", LongType()))
SOME_ID = UUID(int=5)
CHANGED_BY_ARROW: list[tuple[IcebergType, Any, Any]] = [
    (FloatType(), 1e300, 1e30),
    (FloatType(), -3.5e38, float("-inf")),
    (FloatType(), np.float64(1e300), np.float64(0.5)),
    (FloatType(), True, 1),
    (DoubleType(), True, 1.0),
    (DoubleType(), np.bool_(False), 1e300),
    (LongType(), True, 1),
    (LongType(), np.bool_(True), np.int64(1)),
    (LongType(), 1.5, 2.0),
    (LongType(), SOME_ID, None),
    (IntegerType(), SOME_ID, 5),
    (TimestampType(), SOME_ID, MOMENT),
    (TimestamptzType(), SOME_ID, ZONED),
    (DateType(), SOME_ID, MOMENT.date()),
    (DateType(), np.bool_(True), MOMENT.date()),
    (TimeType(), SOME_ID, MOMENT.time()),
    *((NUMBERS_LIST, bad, [1, 2]) for bad in (b"ab", bytearray(b"ab"), memoryview(b"ab"), "")),
    *((WORDS, bad, ["ab"]) for bad in ("ab", "")),
    *((WORD_MAP, bad, {"a": 1}) for bad in ("ab", "", b"")),
    *((POINT, bad, {"x": 1}) for bad in ("", b"")),
]


@pytest.mark.parametrize(
    ("kind", "bad", "good"),
    CHANGED_BY_ARROW,
    ids=lambda value: str(value) if isinstance(value, IcebergType) else type(value).__name__,
)
def test_a_value_that_arrow_would_change_is_a_bad_row_also_inside_nested_values(
    layout_of: LayoutOf, kind: IcebergType, bad: Any, good: Any
) -> None:
    struct = StructType(NestedField(5, "v", kind))
    fields = [
        ("plain", kind),
        ("list", ListType(3, kind, False)),
        ("struct", struct),
        ("map", MapType(6, StringType(), 7, struct)),
    ]
    schema = assign_fresh_schema_ids(
        Schema(*(NestedField(10 + number, name, type_) for number, (name, type_) in enumerate(fields)))
    )
    shapes = [lambda v: v, lambda v: [None, v], lambda v: {"v": v}, lambda v: {"a": {"v": v}}]
    contract = Contract.of(layout_of(schema))
    for (name, _), shape in zip(fields, shapes, strict=True):
        accepted = contract.accept_dicts([{name: shape(good)}, {name: shape(bad)}, {name: shape(None)}, {name: None}])
        assert accepted.numbers.to_pylist() == [0, 2, 3]
        assert accepted.rejected[0].reason.startswith(f"field '{name}': expected {schema.find_type(name)}, got ")
        again = contract.accept_dicts([parse_row(accepted.rejected[0].raw, contract.layout.arrow)])
        assert len(again.rejected) == 1, "the row passes when it is replayed"


def test_infinity_and_the_greatest_float_are_values(layout_of: LayoutOf) -> None:
    contract = Contract.of(layout_of(Schema(NestedField(1, "v", FloatType()))))
    values = [float("inf"), float("-inf"), 3.4028234663852886e38, 2**10, None]
    assert contract.accept_dicts([{"v": value} for value in values]).rows["v"].to_pylist() == values


LIST, TEXTS = ListType(9, LongType(), False), ListType(9, StringType(), False)
VIEWS = {
    "list_view": (LIST, pa.array([[1, 2], None, [], [3]], pa.list_view(pa.int64()))),
    "large_list_view": (LIST, pa.array([[1, 2], None, [], [3]], pa.large_list_view(pa.int64()))),
    "slice": (LIST, pa.array([[1, 2], None, [], [3]], pa.large_list_view(pa.int64())).slice(1, 2)),
    "out of order": (
        LIST,
        pa.LargeListViewArray.from_arrays(
            pa.array([4, 0, 1]), pa.array([2, 2, 3]), pa.array(range(6)), mask=pa.array([False, True, False])
        ),
    ),
    "of texts": (TEXTS, pa.array([["a", None], None, ["b" * 40]], pa.list_view(pa.string_view()))),
    "inside a list": (
        ListType(8, LIST, False),
        pa.array([[[1], None], None, [[]]], pa.list_(pa.list_view(pa.int64()))),
    ),
    "inside a struct": (
        StructType(NestedField(8, "x", LIST)),
        pa.array([{"x": [1]}, None], pa.struct([("x", pa.list_view(pa.int64()))])),
    ),
    "inside a map": (
        MapType(7, StringType(), 8, LIST),
        pa.array([[("a", [1])], None, []], pa.map_(pa.string_view(), pa.large_list_view(pa.int64()))),
    ),
    "string_view": (StringType(), pa.array(["a", None, "b" * 40], pa.string_view())),
    "binary_view": (BinaryType(), pa.array([b"a", None, b"b" * 40], pa.binary_view())),
    "binary_view for fixed": (FixedType(2), pa.array([b"ab", None], pa.binary_view())),
    "dictionary of views": (
        StringType(),
        pa.DictionaryArray.from_arrays(pa.array([0, None, 1]), pa.array(["a", "b"], pa.string_view())),
    ),
    "run-end encoded": (
        LongType(),
        pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5], pa.int32()), pa.array([1, None, 2])),
    ),
    "slice of runs": (
        StringType(),
        pa.RunEndEncodedArray.from_arrays(
            pa.array([2, 3, 5], pa.int16()), pa.array(["a", None, "b"], pa.string_view())
        ).slice(1, 3),
    ),
}


@pytest.mark.parametrize(("kind", "arrow"), VIEWS.values(), ids=VIEWS)
def test_views_and_runs_come_out_as_the_values_that_they_are(layout_of: LayoutOf, kind: Any, arrow: pa.Array) -> None:
    """Arrow's own casts of list views end the process."""
    result = Contract.of(layout_of(Schema(NestedField(1, "x", kind)))).accept(pa.table({"x": arrow}))
    result.rows.validate(full=True)
    (file,) = write_files(result.rows, layout_of(Schema(NestedField(1, "x", kind))))
    assert (pq.ParquetFile(file.path).read()["x"].to_pylist(), result.rejected) == (arrow.to_pylist(), ())


def test_rows_with_views_are_rejected_one_by_one_as_others_are(layout_of: LayoutOf) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True), NestedField(2, "x", LIST), NestedField(4, "t", StringType())
    )
    rows = pa.table(
        {
            "id": [1, None, 3],
            "x": pa.array([[1], [2], None], pa.large_list_view(pa.int64())),
            "t": pa.array(["a", "b", "c"], pa.string_view()),
        }
    )
    result = Contract.of(layout_of(schema)).accept(rows)
    assert result.rows.to_pylist() == [{"id": 1, "x": [1], "t": "a"}, {"id": 3, "x": None, "t": "c"}]
    assert [json.loads(row.raw) for row in result.rejected] == [{"id": None, "x": [2], "t": "b"}]


@pytest.mark.parametrize(
    ("kind", "width", "fits", "too_far"),
    [
        (DecimalType(4, 2), 100_000, Decimal("99.99"), Decimal("-0.01")),
        (DecimalType(9, 2), 50, Decimal("-9999999.50"), Decimal("-9999999.99")),
        (DecimalType(38, 0), 50, Decimal("-" + "9" * 36 + "50"), Decimal("-" + "9" * 38)),
        (IntegerType(), 10, -(2**31) + 8, -(2**31)),
        (LongType(), 10, -(2**63) + 8, -(2**63)),
    ],
    ids=str,
)
def test_a_value_whose_truncated_value_does_not_fit_its_type_is_a_bad_row(
    layout_of: LayoutOf, kind: PrimitiveType, width: int, fits: Any, too_far: Any
) -> None:
    layout = layout_of(Schema(NestedField(1, "v", kind)), f"truncate({width}, v)")
    accepted = Contract.of(layout).accept_dicts([{"v": fits}, {"v": too_far}, {"v": None}])
    assert accepted.rows["v"].to_pylist() == [fits, None]
    assert faults(accepted.rejected) == [(1, f"field 'v': its partition, truncate[{width}], does not fit {kind}")]


def test_a_dictionary_with_an_extra_field_follows_the_same_policy(layout_of: LayoutOf) -> None:
    with raises(SchemaMismatch, column="color", expected="no such field"):
        sales(layout_of).accept_dicts([GOOD, {**GOOD, "color": "red"}])
    assert sales(layout_of, extra="ignore").accept_dicts([{**GOOD, "color": "red"}]).rows.to_pylist() == [GOOD]


@pytest.mark.parametrize(
    ("kind", "arrow"),
    [
        (LongType(), pa.array([1, None], pa.uint8())),
        (LongType(), pa.array([1, None], pa.int32())),
        (IntegerType(), pa.array([1, None], pa.int64())),
        (DoubleType(), pa.array([0.5, None], pa.float32())),
        (DoubleType(), pa.array([1, None], pa.int64())),
        (DecimalType(12, 2), pa.array([1, None], pa.int64())),
        (DecimalType(12, 2), pa.array([Decimal("1.5"), None], pa.decimal128(30, 1))),
        (StringType(), pa.array(["a", None], pa.large_string())),
        (StringType(), pa.array(["a", None], pa.string_view())),
        (StringType(), pa.array(["a", None]).dictionary_encode()),
        (BinaryType(), pa.array([b"a", None], pa.large_binary())),
        (FixedType(2), pa.array([b"ab", None], pa.binary())),
        (UUIDType(), pa.array([UUID(int=1).bytes, None], pa.binary(16))),
        (DateType(), pa.array([dt.date(2024, 1, 1), None], pa.date64())),
        (TimeType(), pa.array([dt.time(1), None], pa.time32("s"))),
        (TimestampType(), pa.array([MOMENT, None], pa.timestamp("ms"))),
        (TimestampType(), pa.array([MOMENT, None], pa.timestamp("ns"))),
        (TimestamptzType(), pa.array([MOMENT, None], pa.timestamp("s", "Europe/Berlin"))),
        (BooleanType(), pa.nulls(2)),
        (ListType(9, FloatType()), pa.array([[1.0], None], pa.list_(pa.float32(), 1))),
        (ListType(9, LongType()), pa.array([[1], None], pa.large_list(pa.int32()))),
        (StructType(NestedField(9, "x", LongType()), NestedField(10, "y", StringType())), pa.array([{"x": 1}, None])),
        (
            MapType(9, StringType(), 10, LongType()),
            pa.array([[("a", 1)], None], pa.map_(pa.large_string(), pa.int32())),
        ),
    ],
    ids=str,
)
def test_types_that_lose_nothing_are_taken(layout_of: LayoutOf, kind: Any, arrow: pa.Array) -> None:
    contract = Contract.of(layout_of(Schema(NestedField(1, "x", kind))))
    result = contract.accept(pa.table({"x": arrow}))
    assert (result.rejected, result.rows["x"].null_count) == ((), arrow.null_count)
    assert result.rows["x"].type == contract.layout.arrow.field("x").type


def test_a_null_where_a_nested_field_is_required_is_found(layout_of: LayoutOf) -> None:
    point = StructType(NestedField(5, "x", LongType(), required=True))
    schema = Schema(
        NestedField(1, "at", point),
        NestedField(2, "all", ListType(6, point, element_required=True)),
        NestedField(3, "by", MapType(7, StringType(), 8, LongType(), value_required=True)),
    )
    fine = {"at": {"x": 1}, "all": [{"x": 1}], "by": [("a", 1)]}
    none = {"at": None, "all": None, "by": None}
    loose = pa.schema(
        [
            ("at", pa.struct([("x", pa.int64())])),
            ("all", pa.list_(pa.struct([("x", pa.int64())]))),
            ("by", pa.map_(pa.string(), pa.int64())),
        ]
    )
    rows = [
        fine,
        none,
        {**fine, "at": {"x": None}},
        {**fine, "all": [{"x": 1}, {"x": None}]},
        {**fine, "all": [None]},
        {**fine, "by": [("a", None)]},
    ]
    result = Contract.of(layout_of(schema)).accept(pa.Table.from_pylist(rows, loose))
    assert [rejected.number for rejected in result.rejected] == [2, 3, 4, 5]
    assert {rejected.reason.split(":")[0] for rejected in result.rejected} == {
        "field 'at'",
        "field 'all'",
        "field 'by'",
    }
    assert result.rows.to_pylist() == [fine, none]


def test_a_nested_extra_field_is_named_by_its_path(layout_of: LayoutOf) -> None:
    contract = Contract.of(layout_of(Schema(NestedField(1, "s", StructType(NestedField(2, "x", LongType()))))))
    with raises(SchemaMismatch, column="s.y", expected="no such field"):
        contract.accept(pa.table({"s": [{"x": 1, "y": 2}]}))


@given(st.lists(st.none() | st.integers(-(2**40), 2**40), max_size=50))
def test_exactly_the_values_that_do_not_fit_are_found(values: list[int | None]) -> None:
    result = convert(pa.array(values, pa.int64()), pa.int32())
    misfits = [value is not None and not -(2**31) <= value < 2**31 for value in values]
    assert (result.misfits.to_pylist() if result.misfits is not None else [False] * len(values)) == misfits
    assert result.values.to_pylist() == [
        None if misfit else value for value, misfit in zip(values, misfits, strict=True)
    ]


def test_rows_of_other_arrow_libraries_are_taken() -> None:
    rows = {"order_id": ["a"], "quantity": [1]}
    expected = pa.table(rows)
    for item in (pl.DataFrame(rows), expected.to_batches()[0], expected.to_reader()):
        assert as_table(item).to_pylist() == expected.to_pylist()
    with pytest.raises(TypeError, match="got int"):
        as_table(7)
