"""Columns besides the table's own: the file and the position of a row, whatever is filtered or deleted, in streams and
in tables.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import GreaterThan
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from frazil.errors import ScanError
from frazil.scan.engines.spark import split
from frazil.scan.scan import Scan
from tests.kit.raising import raises
from tests.kit.real_tables import MadeDelete, RealTable
from tests.unit.scan.reading.test_rows import NONE, field, numbered, scan_of, table_of

Rows = list[dict[str, Any]]
WHERE = ["_pos", "id", "_file"]


def whole(scan: Scan) -> Rows:
    rows: Rows = scan.to_arrow().to_pylist()
    return rows


def streamed(scan: Scan) -> Rows:
    return [row for batch in scan.iter_batches() for row in batch.to_pylist()]


def places(table: RealTable, *ids: int) -> Rows:
    """Where ids are in files of six."""
    return [{"_pos": number % 6, "id": number, "_file": table.files[number // 6].path} for number in ids]


@pytest.mark.parametrize("read", [whole, streamed])
def test_rows_tell_their_file_and_their_position_in_it(tmp_path: Path, read: Callable[[Scan], Rows]) -> None:
    table = numbered(tmp_path, 2, rows=6)
    assert read(scan_of(table, columns=WHERE, ordered=True)) == places(table, *range(12))
    table.delete([MadeDelete("positions", NONE, (), 0, positions={table.files[1].path: [0, 3]})])
    assert read(scan_of(table, GreaterThan("id", 3), columns=WHERE, ordered=True)) == places(table, 4, 5, 7, 8, 10, 11)
    assert read(scan_of(table, GreaterThan("id", 9), columns=["_pos"])) == [{"_pos": 4}, {"_pos": 5}]


@pytest.mark.parametrize("read", [whole, streamed])
def test_rows_of_format_2_have_no_ids(tmp_path: Path, read: Callable[[Scan], Rows]) -> None:
    scan = scan_of(numbered(tmp_path, 1, rows=1), columns=["_row_id", "id", "_last_updated_sequence_number"])
    assert read(scan) == [{"_row_id": None, "id": 0, "_last_updated_sequence_number": None}]


def test_rows_tell_where_they_are_also_when_they_are_read_elsewhere(tmp_path: Path) -> None:
    table = numbered(tmp_path, 2, rows=6)
    scan = scan_of(table, GreaterThan("id", 8), columns=WHERE)
    parts = [pickle.loads(pickle.dumps(part)) for part in split(scan, scan.plan().tasks(), 2)]
    assert [row for part in parts for batch in part.batches() for row in batch.to_pylist()] == places(table, 9, 10, 11)


def test_a_tables_own_column_of_that_name_is_meant(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "_pos", LongType()), NestedField(2, "n", LongType()))
    kinds = pa.schema([field("_pos", pa.int64(), 1), field("n", pa.int64(), 2)])
    table = table_of(tmp_path, schema, pa.table([[7], [1]], schema=kinds))
    assert scan_of(table, columns=["_pos"]).to_arrow().to_pylist() == [{"_pos": 7}]


def test_a_column_that_was_called_so_when_its_file_was_written_is_no_position(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "renamed", LongType()))
    table = table_of(tmp_path, schema, pa.table([[7, 8]], schema=pa.schema([field("_pos", pa.int64(), 1)])))
    assert scan_of(table, columns=["_pos", "renamed"]).to_arrow().to_pylist() == [
        {"_pos": 0, "renamed": 7},
        {"_pos": 1, "renamed": 8},
    ]


def test_a_filter_takes_the_tables_own_columns_alone(tmp_path: Path) -> None:
    with raises(ScanError, column="_pos"):
        scan_of(numbered(tmp_path), GreaterThan("_pos", 1))
