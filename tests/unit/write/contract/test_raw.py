"""A quarantined row as JSON, and back: what the table would make of it stays the same."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from frazil.write.contract.contract import Contract
from frazil.write.contract.raw import as_json, parse_row
from frazil.write.files.layout import TableLayout
from frazil.write.files.partitioning import partition_spec
from tests.kit.changes import example_count

PLAIN = {
    "b": BooleanType(),
    "i": IntegerType(),
    "l": LongType(),
    "f": FloatType(),
    "d": DoubleType(),
    "dec": DecimalType(12, 2),
    "s": StringType(),
    "bin": BinaryType(),
    "fix": FixedType(4),
    "uid": UUIDType(),
    "day": DateType(),
    "time": TimeType(),
    "ts": TimestampType(),
    "tz": TimestamptzType(),
}
NESTED = {
    "list": ListType(100, TimestampType(), element_required=False),
    "map": MapType(101, LongType(), 102, DecimalType(12, 2), value_required=False),
    "names": MapType(103, StringType(), 104, BinaryType(), value_required=False),
    "struct": StructType(
        NestedField(105, "x", DateType()), NestedField(106, "y", ListType(107, BinaryType(), element_required=False))
    ),
}
SCHEMA = Schema(
    NestedField(1, "never", LongType(), required=True),
    *[NestedField(number, name, kind) for number, (name, kind) in enumerate({**PLAIN, **NESTED}.items(), start=2)],
)

moments = st.datetimes(min_value=dt.datetime(1700, 1, 1), max_value=dt.datetime(2900, 1, 1))
zones = st.sampled_from([dt.UTC, dt.timezone(dt.timedelta(hours=5, minutes=30)), dt.timezone(-dt.timedelta(hours=3))])
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.floats(),
    st.floats(width=32),
    st.decimals(allow_nan=True, allow_infinity=True),
    st.decimals(-(10**9), 10**9, places=2),
    st.text(st.characters(), max_size=6),
    st.sampled_from(["12.50", "2024-01-01", "2024-01-01T10:00:00", "YWJj", "1", "10:00", "\ud800", "NaN", "true"]),
    st.binary(max_size=6),
    st.binary(min_size=4, max_size=4),
    st.uuids(),
    st.uuids().map(str),
    st.dates(),
    st.times(),
    moments,
    st.builds(lambda moment, zone: moment.replace(tzinfo=zone), moments, zones),
    st.sampled_from(
        [np.int64(3), np.float32(0.1), np.bool_(True), np.datetime64("2024-01-01T00:00:00.123456"), np.array([1, 2])]
    ),
)
nested = st.one_of(
    st.lists(values, max_size=2),
    st.dictionaries(st.one_of(st.integers(), st.text(max_size=3), st.dates()), values, max_size=2),
    st.lists(st.tuples(values, values), max_size=2),
    st.fixed_dictionaries({}, optional={"x": values, "y": st.lists(values, max_size=2), "z": values}),
    st.sets(st.integers(0, 9), max_size=2),
)


def contract(schema: Schema = SCHEMA) -> Contract:
    layout = TableLayout("lake.t", schema, partition_spec(schema, []), None, "file:///t", {}, {})  # type: ignore[arg-type]
    return Contract.of(layout, extra="ignore")


def verdict(row: dict[str, Any]) -> dict[str, str]:
    """What the table takes of each field by itself, and which it refuses."""
    result = {}
    for name, value in row.items():
        alone = Schema(SCHEMA.find_field(name))
        accepted = contract(alone).accept_dicts([{name: value}])
        result[name] = shown(accepted.rows) if not accepted.rejected else "refused"
    return result


def shown(rows: pa.Table) -> str:
    """The rows as text in which NaN equals NaN."""
    try:
        return repr(rows.to_pylist())
    except (ValueError, OverflowError):
        return str(rows)


@settings(max_examples=example_count(short=60, full=600))
@given(
    st.fixed_dictionaries(
        {}, optional={**dict.fromkeys(PLAIN, values), **dict.fromkeys(NESTED, st.one_of(values, nested))}
    )
)
def test_a_row_of_dictionaries_is_judged_the_same_after_its_time_in_quarantine(row: dict[str, Any]) -> None:
    (rejected,) = contract().accept_dicts([row]).rejected
    rejected.raw.encode()
    assert verdict(parse_row(rejected.raw, contract().layout.arrow)) == verdict(row)


ARROW = {
    "b": pa.bool_(),
    "i": pa.int64(),
    "l": pa.uint64(),
    "f": pa.float16(),
    "d": pa.float32(),
    "dec": pa.decimal128(20, 4),
    "s": pa.large_string(),
    "bin": pa.large_binary(),
    "fix": pa.binary(4),
    "uid": pa.binary(16),
    "day": pa.date32(),
    "time": pa.time64("ns"),
    "ts": pa.timestamp("ns"),
    "tz": pa.timestamp("s", "Asia/Tokyo"),
    "list": pa.large_list(pa.timestamp("ns")),
    "map": pa.map_(pa.int32(), pa.decimal128(20, 4)),
    "struct": pa.struct([("x", pa.date32()), ("y", pa.list_(pa.binary()))]),
}


def arrow_values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Numbers as Arrow keeps them, so that every value of the type can come."""
    if pa.types.is_large_list(kind):
        return st.lists(arrow_values(kind.value_type), max_size=2)
    if pa.types.is_map(kind):
        return st.lists(st.tuples(st.integers(0, 9), st.decimals(-(10**9), 10**9, places=3)), max_size=2)
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({"x": st.dates(), "y": st.lists(st.binary(max_size=3), max_size=2)})
    if pa.types.is_timestamp(kind) and kind.unit == "s":
        return st.integers(-(10**11), 10**11)  # also years that Python does not know
    by_name = {
        "bool": st.booleans(),
        "int64": st.integers(-(2**63), 2**63 - 1),
        "uint64": st.integers(0, 2**64 - 1),
        "halffloat": st.sampled_from([0.5, float("nan"), float("inf")]),
        "float": st.floats(width=32),
        "decimal128(20, 4)": st.decimals(-(10**15), 10**15, places=4),
        "large_string": st.text(max_size=4),
        "large_binary": st.binary(max_size=4),
        "fixed_size_binary[4]": st.binary(min_size=4, max_size=4),
        "fixed_size_binary[16]": st.binary(min_size=16, max_size=16),
        "date32[day]": st.integers(-700_000, 10**7),
        "time64[ns]": st.integers(0, 86_400 * 10**9 - 1),
        "timestamp[ns]": st.integers(-(2**62), 2**62),
    }
    return by_name[str(kind)]


@settings(max_examples=example_count(short=50, full=500))
@given(st.fixed_dictionaries({name: st.one_of(st.none(), arrow_values(kind)) for name, kind in ARROW.items()}))
def test_an_arrow_row_is_judged_the_same_after_its_time_in_quarantine(row: dict[str, Any]) -> None:
    columns = {"never": pa.nulls(1), **{name: pa.array([row[name]], kind) for name, kind in ARROW.items()}}
    (rejected,) = contract().accept(pa.table(columns)).rejected
    again = parse_row(rejected.raw, contract().layout.arrow)
    for name, column in columns.items():
        alone = contract(Schema(SCHEMA.find_field(name)))
        before, after = alone.accept(pa.table({name: column})), alone.accept_dicts([{name: again[name]}])
        assert bool(before.rejected) == bool(after.rejected), name
        assert before.rows.equals(after.rows) or shown(before.rows) == shown(after.rows), name


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        ({"dec": Decimal("1.50"), "day": dt.date(2024, 1, 1), "s": "é"}, '{"dec":"1.50","day":"2024-01-01","s":"é"}'),
        ({"dec": "abc", "l": "much"}, '{"dec":"abc","l":"much"}'),
        ({"l": "12"}, '{"l":{"$unfit":"12"}}'),
        (
            {"ts": dt.datetime(2024, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2)))},
            '{"ts":"2024-01-01T02:00:00+02:00"}',
        ),
        ({"dec": "12.50"}, '{"dec":{"$unfit":"12.50"}}'),
        ({"bin": "abc"}, '{"bin":"YWJj"}'),
        ({"s": b"abc"}, '{"s":"abc"}'),
        ({"s": b"\xff"}, '{"s":{"$unfit":"/w=="}}'),
        ({"s": "\ud800"}, '{"s":"\\ud800"}'),
        ({"map": {1: Decimal("2.00")}}, '{"map":{"1":"2.00"}}'),
        ({"uid": UUID(int=1)}, '{"uid":"00000000-0000-0000-0000-000000000001"}'),
    ],
)
def test_the_text_is_as_plain_as_it_can_be(value: dict[str, Any], raw: str) -> None:
    (rejected,) = contract().accept_dicts([value]).rejected
    assert rejected.raw == raw


def test_what_a_fraction_of_an_integer_column_was_is_refused_not_cut() -> None:
    accepted = contract(Schema(NestedField(1, "l", LongType()))).accept_dicts(
        [{"l": Decimal("1.5")}, {"l": Decimal(2)}]
    )
    assert (accepted.rows.to_pylist(), [rejected.reason for rejected in accepted.rejected]) == (
        [{"l": 2}],
        ["field 'l': expected long, got Decimal('1.5')"],
    )


def test_text_that_is_no_object_is_said_to_be_none() -> None:
    with pytest.raises(ValueError, match="expected a JSON object, got \\[1\\]"):
        parse_row("[1]", contract().layout.arrow)


def test_nanoseconds_reach_the_quarantine_where_there_is_no_pandas() -> None:
    program = """
import sys
class NoPandas:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "pandas":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoPandas())
import pyarrow as pa
from tests.unit.write.contract.test_raw import contract
(row,) = contract().accept(pa.table({"never": pa.nulls(1), "ts": pa.array([1], pa.timestamp("ns"))})).rejected
print(row.raw)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[4]
    )
    assert "$unfit" in json.loads(done.stdout)["ts"]


def test_rows_that_were_written_before_are_read() -> None:
    assert parse_row(as_json({"id": 1, "tz": dt.datetime(2024, 1, 1, tzinfo=dt.UTC)}), contract().layout.arrow) == {
        "id": 1,
        "tz": dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
    }


def test_text_that_a_pipeline_has_read_is_read_again() -> None:
    """Out of CSV everything is text; a row that failed a check must not fail its types as well."""
    texts = {
        "b": "true",
        "l": " 12 ",
        "d": "1.5",
        "dec": "12.50",
        "day": "2024-01-01",
        "ts": "2024-01-01 10:00:00",
        "s": " x ",
    }
    parsed = parse_row(json.dumps(texts), contract().layout.arrow)
    assert parsed == {
        "b": True,
        "l": 12,
        "d": 1.5,
        "dec": Decimal("12.50"),
        "day": dt.date(2024, 1, 1),
        "ts": dt.datetime(2024, 1, 1, 10),
        "s": " x ",
    }


@pytest.mark.parametrize(
    "text",
    [
        {"l": "1.5"},
        {"l": "1_000"},
        {"dec": "1_000"},
        {"ts": "2024-01-01T00:00:00+02:00"},
        {"tz": "2024-01-01T00:00:00"},
    ],
)
def test_text_that_is_no_value_of_the_column_stays_text(text: dict[str, str]) -> None:
    assert parse_row(json.dumps(text), contract().layout.arrow) == text
