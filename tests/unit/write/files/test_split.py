"""Rows apart by partition, compared with a plain loop over the rows."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    UUIDType,
)

from frazil.write.files.partitioning import partition_keys, partition_spec
from frazil.write.files.splitting import Partition, split

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "name", StringType()), NestedField(3, "ts", TimestampType())
)
BATCH = pa.schema([("id", pa.int64()), ("name", pa.string()), ("ts", pa.timestamp("us"))])


def apart(rows: pa.Table, *fields: str | int, schema: Schema = SCHEMA) -> dict[Partition, list[dict[str, object]]]:
    slices = split(rows, partition_keys(schema, partition_spec(schema, fields))).slices()
    assert len({slice_.partition for slice_ in slices}) == len(slices)
    return {slice_.partition: slice_.rows.to_pylist() for slice_ in slices}


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.none() | st.integers(-3, 3),
            "name": st.none() | st.sampled_from(["", "a", "b"]),
            "ts": st.none() | st.datetimes(dt.datetime(1969, 12, 30), dt.datetime(1970, 1, 3)),
        }
    ),
    max_size=40,
)


@given(ROWS, st.integers(0, 20))
def test_every_row_lands_in_its_partition_and_keeps_its_order(rows: list[dict[str, object]], cut: int) -> None:
    expected: dict[Partition, list[dict[str, object]]] = defaultdict(list)
    for row in rows:
        day = None if row["ts"] is None else (row["ts"] - dt.datetime(1970, 1, 1)).days
        expected[(row["name"], day, row["id"])].append(row)
    chunks = [pa.Table.from_pylist(rows[:cut], BATCH), pa.Table.from_pylist(rows[cut:], BATCH)]
    assert apart(pa.concat_tables(chunks), "name", "day(ts)", "id") == expected


def test_a_table_without_partitions_is_one_slice_of_the_same_memory() -> None:
    rows = pa.Table.from_pylist([{"id": 2}, {"id": 1}], BATCH)
    run = split(rows, ())
    assert (run.partitions, run.sizes) == ([()], [2])
    assert run.rows is rows


@pytest.mark.parametrize("ids", [[7, 7, 7], [1, 1, 2, 3, 3], [3, 2, 2, 1], [None, None, 5]])
def test_rows_that_lie_together_are_not_copied(ids: list[int | None]) -> None:
    rows = pa.Table.from_pylist([{"id": i} for i in ids], BATCH)
    slices = split(rows, partition_keys(SCHEMA, partition_spec(SCHEMA, ["id"]))).slices()
    address = rows.column("id").chunk(0).buffers()[1].address
    assert {slice_.rows.column("id").chunk(0).buffers()[1].address for slice_ in slices} == {address}


def test_no_rows_give_no_partition() -> None:
    assert apart(pa.Table.from_pylist([], BATCH), "id") == {}


@pytest.mark.parametrize(
    ("kind", "arrow", "value", "internal"),
    [
        (DateType(), pa.date32(), dt.date(1970, 1, 11), 10),
        (TimestampType(), pa.timestamp("us"), dt.datetime(1970, 1, 1, 0, 0, 1), 1_000_000),
        (DecimalType(9, 2), pa.decimal128(9, 2), Decimal("1.50"), Decimal("1.50")),
        (UUIDType(), pa.uuid(), UUID(int=5).bytes, UUID(int=5)),
        (BooleanType(), pa.bool_(), True, True),
        (DoubleType(), pa.float64(), 0.5, 0.5),
    ],
)
def test_partition_values_are_as_manifests_hold_them(
    kind: IcebergType, arrow: pa.DataType, value: object, internal: object
) -> None:
    schema = Schema(NestedField(1, "key", kind))
    rows = pa.table([pa.array([value, None, value], arrow)], names=["key"])
    assert list(apart(rows, "key", schema=schema)) == [(internal,), (None,)]
