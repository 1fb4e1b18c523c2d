"""Partition specs by name and by field id, and the keys that they give."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, NestedField, StringType, StructType, TimestampType

from frazil.errors import PartitionSpecError
from frazil.write.files.partitioning import compute_keys, partition_keys, partition_spec
from tests.kit.raising import raises

DEVICE = StructType(NestedField(11, "site", StringType()), NestedField(12, "tags", ListType(13, StringType())))
SCHEMA = Schema(
    NestedField(2, "device_id", StringType()),
    NestedField(3, "organization_id", LongType()),
    NestedField(7, "event_timestamp", TimestampType()),
    NestedField(10, "device", DEVICE),
)
ROWS = pa.record_batch(
    {
        "device_id": ["a", None, "c"],
        "organization_id": pa.array([1, -2, None]),
        "event_timestamp": pa.array(
            [dt.datetime(1969, 12, 31, 23), dt.datetime(2024, 2, 29), None], pa.timestamp("us")
        ),
        "device": [{"site": "x", "tags": []}, None, {"site": None, "tags": ["t"]}],
    }
)


def keys_of(*fields: str | int) -> list[list[object]]:
    return [array.to_pylist() for array in compute_keys(ROWS, partition_keys(SCHEMA, partition_spec(SCHEMA, fields)))]


@pytest.mark.requirement("sink.partition-names")
def test_a_spec_by_names_gives_the_values_of_those_columns() -> None:
    assert keys_of("device_id", "organization_id") == [["a", None, "c"], [1, -2, None]]


@pytest.mark.requirement("sink.partition-ordinals")
def test_a_spec_by_field_ids_gives_the_same_keys_as_by_names() -> None:
    assert keys_of(2, 3) == keys_of("device_id", "organization_id")
    assert partition_spec(SCHEMA, [2, "day(7)", "bucket(4, 3)"]) == partition_spec(
        SCHEMA, ["device_id", "day(event_timestamp)", "bucket(4, organization_id)"]
    )


@pytest.mark.requirement("sink.transforms")
def test_a_derived_partition_needs_only_its_source_column() -> None:
    assert keys_of("day(event_timestamp)") == [[-1, 19782, None]]


def test_a_source_inside_a_struct_is_null_where_the_struct_is() -> None:
    assert keys_of("device.site") == [["x", None, None]] == keys_of(11)


def test_an_unpartitioned_table_has_no_keys() -> None:
    assert keys_of() == []


def test_partition_fields_are_named_as_engines_name_them() -> None:
    spec = partition_spec(
        SCHEMA, ["device_id", "day(event_timestamp)", "bucket(16, organization_id)", "truncate(2, device.site)"]
    )
    assert [field.name for field in spec.fields] == [
        "device_id",
        "event_timestamp_day",
        "organization_id_bucket_16",
        "device.site_trunc_2",
    ]


@pytest.mark.parametrize(
    ("field", "facts"),
    [
        ("nope", {"column": "nope", "problem": "missing"}),
        (99, {"column": "99", "problem": "missing"}),
        ("day(device_id)", {"column": "device_id", "got": "string"}),
        ("hour(organization_id)", {"column": "organization_id", "got": "long"}),
        ("week(event_timestamp)", {"name": "week"}),
        ("bucket(device_id)", {"expected": "bucket(16, device_id)"}),
        ("bucket(0, device_id)", {"expected": "bucket(16, device_id)"}),
        ("day(3, event_timestamp)", {"expected": "day(event_timestamp)"}),
        (13, {"column": "device.tags.element", "problem": "repeated"}),
        ("device", {"column": "device", "got": re.compile("^struct")}),
    ],
)
def test_a_spec_that_does_not_fit_is_refused_by_name(field: str | int, facts: dict[str, Any]) -> None:
    with raises(PartitionSpecError, **facts):
        partition_spec(SCHEMA, [field])


def test_a_field_may_be_partitioned_by_once_only() -> None:
    with raises(PartitionSpecError, name="event_timestamp_day"):
        partition_spec(SCHEMA, ["day(event_timestamp)", "day(7)"])
