"""Texts that are read as dictionaries come out as the texts that they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, IsNull, LessThan, Or
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, LongType, NestedField, StringType

from frazil.scan.reading.dictionaries import repeated_texts
from frazil.scan.reading.project import file_columns
from tests.unit.scan.reading.test_rows import field, scan_of, table_of

ROWS, GROUP_ROWS = 12_000, 5_000
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "few", StringType()),
    NestedField(3, "later", StringType()),
    NestedField(4, "raw", BinaryType()),
    NestedField(5, "own", StringType()),
)
STORED = pa.schema(
    [
        field("id", pa.int64(), 1),
        field("few", pa.string(), 2),
        field("later", pa.large_string(), 3),
        field("raw", pa.binary(), 4),
        field("own", pa.string(), 5),
    ]
)


def some_rows(start: int = 0) -> pa.Table:
    """Texts that repeat, with nulls and an empty one; other ones in each row group; bytes that repeat; and texts of
    which no two are the same.
    """
    random, ids = np.random.default_rng(start), range(start, start + ROWS)
    few = [None if n == 0 else "" if n == 1 else f"text {n} ü" for n in random.integers(0, 50, ROWS)]
    later = [f"{number // 1000} and {number % 7}" for number in ids]
    raw = [bytes([number % 251, 255]) for number in ids]
    own = [f"the text of row {number}" for number in ids]
    return pa.table([ids, few, later, raw, own], schema=STORED)


def write(path: Path, rows: pa.Table, **how: Any) -> pq.FileMetaData:
    pq.write_table(rows, path, row_group_size=GROUP_ROWS, **how)
    return pq.read_metadata(path)


def chosen(path: Path, schema: Schema = SCHEMA) -> list[str]:
    file = pq.ParquetFile(path)
    return repeated_texts(file.metadata, file_columns(file.schema_arrow, None), schema.fields)


def test_columns_whose_texts_are_in_a_dictionary_are_chosen(tmp_path: Path) -> None:
    write(tmp_path / "f.parquet", some_rows())
    assert chosen(tmp_path / "f.parquet") == ["few", "later", "raw"]
    assert chosen(tmp_path / "f.parquet", Schema(SCHEMA.fields[0], SCHEMA.fields[3])) == ["raw"]


def test_a_column_without_a_dictionary_in_one_row_group_is_not_chosen(tmp_path: Path) -> None:
    rows = some_rows()
    few = pa.chunked_array([rows["few"].slice(0, 2 * GROUP_ROWS), rows["own"].slice(2 * GROUP_ROWS)])
    write(tmp_path / "f.parquet", rows.set_column(1, STORED.field("few"), few), dictionary_pagesize_limit=2_000)
    assert "few" not in chosen(tmp_path / "f.parquet")
    write(tmp_path / "g.parquet", rows, use_dictionary=["later"])
    assert chosen(tmp_path / "g.parquet") == ["later"]


def test_a_name_with_a_dot_and_a_file_without_rows_are_left_as_they_are(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "a.b", StringType()))
    inner = pa.struct([field("b", pa.string(), 3)])
    stored = pa.schema([field("a.b", pa.string(), 1), field("a", inner, 2)])
    rows = pa.table([["x"] * ROWS, [{"b": "y"}] * ROWS], schema=stored)
    write(tmp_path / "f.parquet", rows)
    write(tmp_path / "g.parquet", some_rows().slice(0, 0))
    assert (chosen(tmp_path / "f.parquet", schema), chosen(tmp_path / "g.parquet")) == ([], [])


FILTERS = {
    "all": None,
    "range": And(GreaterThanOrEqual("id", 7_000), LessThan("id", 7_400)),
    "text": Or(EqualTo("few", "text 7 ü"), EqualTo("few", "")),
    "null": IsNull("few"),
    "bytes": EqualTo("raw", b"\x05\xff"),
    "none": EqualTo("later", "nothing"),
}


@pytest.mark.parametrize("columns", [None, ["raw", "few"], ["later"]], ids=["all", "two", "one"])
@pytest.mark.parametrize("name", FILTERS)
def test_rows_are_those_of_the_files_whatever_is_asked(tmp_path: Path, name: str, columns: list[str] | None) -> None:
    files = [some_rows(), some_rows(ROWS)]
    table = table_of(tmp_path, SCHEMA, *files, group_rows=GROUP_ROWS)
    scan = scan_of(table, FILTERS[name], columns=columns, ordered=True)
    expected = _expected(pa.concat_tables(files), name).select(columns or SCHEMA.column_names)
    assert scan.to_arrow().schema.types == [kind for kind in scan.schema.types if not pa.types.is_dictionary(kind)]
    for read in (scan.to_arrow(), scan.to_batches().read_all()):
        assert read.to_pydict() == expected.to_pydict()


def _expected(rows: pa.Table, name: str) -> pa.Table:
    keep = {
        "all": lambda: pa.array([True] * rows.num_rows),
        "range": lambda: pc.and_(pc.greater_equal(rows["id"], 7_000), pc.less(rows["id"], 7_400)),
        "text": lambda: pc.is_in(rows["few"], pa.array(["text 7 ü", ""])),
        "null": lambda: rows["few"].is_null(),
        "bytes": lambda: pc.equal(rows["raw"], b"\x05\xff"),
        "none": lambda: pa.array([False] * rows.num_rows),
    }
    return rows.filter(keep[name]())


def test_bytes_that_are_texts_to_the_table_are_texts(tmp_path: Path) -> None:
    stored = pa.schema([field("id", pa.int64(), 1), field("few", pa.binary(), 2)])
    rows = pa.table([range(ROWS), [b"x", b"y"] * (ROWS // 2)], schema=stored)
    read = table_of(tmp_path, Schema(*SCHEMA.fields[:2]), rows, group_rows=GROUP_ROWS).read(LessThan("id", 3))
    assert read.to_pydict() == {"id": [0, 1, 2], "few": ["x", "y", "x"]}
