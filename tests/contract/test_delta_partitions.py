"""Partition values of every type in Delta tables, as four readers see them; and files of old tables that no reader
finds.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction
from duckdb_extensions import import_extension
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, LongType, NestedField, StringType, TimestampType, TimeType, UUIDType

from frazil.errors import PartitionSpecError, RowRefused, SinkError
from frazil.sinks import open as open_sink
from frazil.sinks.audit import audit_delta
from frazil.sinks.delta import target as delta
from frazil.sinks.delta.repair import repair_paths
from frazil.sinks.delta.target import create_delta_table
from frazil.write.files.delta_values import hive_folder
from tests.kit.delta_tables import HELD, comparable, holdable, rows_of, write
from tests.kit.partition_values import CASES, PartitionCase
from tests.kit.raising import raises


@cache
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    import_extension("delta", con=connection)
    return connection.execute("LOAD delta").execute("SET TimeZone = 'UTC'")


def read_duckdb(uri: str) -> pa.Table:
    return duck().execute(f"FROM delta_scan('{uri}')").to_arrow_table()


READERS: dict[str, Callable[[str], pa.Table]] = {
    "deltalake, Arrow": lambda uri: DeltaTable(uri).to_pyarrow_table(),
    "deltalake, SQL": lambda uri: pa.table(
        QueryBuilder().register("t", DeltaTable(uri)).execute("SELECT * FROM t").read_all()
    ),
    "polars": lambda uri: pl.read_delta(uri).to_arrow(),
    "duckdb": read_duckdb,
}


def unread(reader: str, case: PartitionCase, value: Any) -> bool:
    """What a reader cannot, whichever engine wrote the table."""
    negative = isinstance(value, Decimal) and value < 0 and case.partition_by in ("v", "truncate(50, v)")
    own_folder = (
        isinstance(value, str) and case.is_identity and hive_folder("v", value, case.type).startswith("values-of")
    )
    truncated = case.name == "truncate of long string" and value is not None
    return (reader == "deltalake, Arrow" and negative and "." in f"{value:f}") or (
        reader == "polars" and (own_folder or truncated)
    )


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("case", HELD, ids=lambda case: case.name)
def test_every_reader_finds_the_values_that_were_written(case: PartitionCase, reader: str, tmp_path: Path) -> None:
    expected = write(str(tmp_path / "t"), case, [value for value in holdable(case) if not unread(reader, case, value)])
    assert comparable(rows_of(READERS[reader](str(tmp_path / "t")))) == comparable(expected)


def test_values_that_no_folder_can_spell_are_read_from_the_log(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "long string")
    expected = write(str(tmp_path / "t"), case, [*case.values, "__HIVE_DEFAULT_PARTITION__", "plain"])
    for reader in ("deltalake, Arrow", "deltalake, SQL", "duckdb"):
        assert rows_of(READERS[reader](str(tmp_path / "t"))) == expected
    with pytest.raises(pl.exceptions.PolarsError):  # loudly: it takes the values from the folders
        pl.read_delta(str(tmp_path / "t"))


def test_deltalake_misspells_negative_decimal_partitions_of_its_own_too(tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "v": pa.array([Decimal("-0.01")], pa.decimal128(9, 2))})
    with pytest.raises(DeltaError, match=r"Failed to parse value '0\.-1'"):
        write_deltalake(str(tmp_path / "t"), rows, partition_by=["v"])


def test_an_empty_string_which_delta_reads_as_null_is_a_bad_row(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    schema = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "v", StringType()))
    create_delta_table(uri, schema, partition_by=["v"])
    with open_sink(uri, name="s", bad_rows="quarantine") as sink:
        sink.write([{"id": 0, "v": ""}, {"id": 1, "v": None}, {"id": 2, "v": "x"}], position=3)
    assert rows_of(DeltaTable(uri).to_pyarrow_table()) == {1: None, 2: "x"}
    assert [row["reason"] for row in DeltaTable(f"{uri}__quarantine").to_pyarrow_table().to_pylist()] == [
        "partition field 'v': Delta reads an empty string as NULL"
    ]


@pytest.mark.parametrize("partition_by", [["v"], ["day(v)"]])
def test_a_year_that_delta_cannot_spell_is_a_bad_row_where_it_partitions(
    partition_by: list[str], tmp_path: Path
) -> None:
    uri = str(tmp_path / "t")
    schema = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "v", TimestampType()))
    create_delta_table(uri, schema, partition_by=partition_by)
    late = pa.array([253402300800000000], pa.int64()).view(pa.timestamp("us"))  # 10000-01-01
    rows = pa.table(
        [pa.array([1], pa.int64()), late],
        schema=pa.schema([pa.field("id", pa.int64(), False), ("v", pa.timestamp("us"))]),
    )
    with raises(RowRefused, reason=re.compile("a year from 1 to 9999")), open_sink(uri, name="s") as sink:
        sink.write(rows, position=1)


def test_a_year_that_statistics_cannot_spell_is_no_matter_where_it_does_not_partition(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    create_delta_table(
        uri, Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "v", TimestampType()))
    )
    last = dt.datetime.max
    with open_sink(uri, name="s") as sink:
        sink.write([{"id": 0, "v": last}], position=1)
    for reader in READERS.values():
        assert rows_of(reader(uri)) == {0: last}


@pytest.mark.parametrize(
    ("kind", "partition_by"),
    [(TimeType(), []), (UUIDType(), []), (BinaryType(), ["v"]), (BinaryType(), ["truncate(2, v)"])],
)
def test_a_table_that_delta_cannot_hold_is_refused_when_it_is_made(
    kind: Any, partition_by: list[str], tmp_path: Path
) -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "v", kind))
    with raises(PartitionSpecError if partition_by else SinkError, column=re.compile(r"^v(_trunc_2)?$")):
        create_delta_table(str(tmp_path / "t"), schema, partition_by=partition_by)
    assert not (tmp_path / "t").exists()


def test_a_required_column_next_to_a_timestamp_is_listed_as_spark_demands(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "v", TimestampType()))
    create_delta_table(str(tmp_path / "t"), schema)
    assert "invariants" in (DeltaTable(str(tmp_path / "t")).protocol().writer_features or ())


def test_paths_that_were_encoded_twice_are_repaired_in_one_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = next(case for case in CASES if case.name == "string")
    uri, values = str(tmp_path / "t"), ["ä", "a/b", "%", "plain", None]
    with monkeypatch.context() as before:  # as the sink wrote until then
        before.setattr(delta, "AddAction", lambda path, *more: AddAction(quote(path, safe="/=:+"), *more))
        expected = write(uri, case, values)
    with pytest.raises(FileNotFoundError):
        DeltaTable(uri).to_pyarrow_table()
    assert repair_paths(uri) == 3
    assert repair_paths(uri) == 0
    with open_sink(uri, name="s") as sink:
        assert dict(sink.position) == {"0": len(values)}
        sink.write([{"id": 9, "v": "ä"}], position=len(values) + 1)
    for reader in READERS.values():
        assert rows_of(reader(uri)) == {**expected, 9: "ä"}
    assert audit_delta(uri).problems == ()
