"""Landing files as Arrow: names from each file, text as it is, and what is not a row separately."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from frazil.errors import PipelineError
from frazil.pipelines import sources
from frazil.pipelines.files import lines, read_csv
from frazil.pipelines.files.columns import FileColumns
from frazil.pipelines.files.malformed import Malformed
from frazil.pipelines.files.reading import POSITION, Reader, read_columns, schema_of_text, unpack_position
from frazil.pipelines.files.slices import Slice, plan_tasks
from frazil.pipelines.sources import FileSource
from tests.kit.raising import raises

LOCAL = fs.LocalFileSystem()


def read_all(
    source: FileSource, path: Path, *names: str, pieces: list[Slice] | None = None
) -> tuple[list[dict[str, object]], list[Malformed]]:
    """The rows of a file with their numbers, and what was no row."""
    malformed: list[Malformed] = []
    reader = Reader(source, schema_of_text(names), {})
    rows = []
    for piece in pieces or [Slice(0, 0, str(path))]:
        for batch in reader.read(piece, malformed.append):
            rows += [row | {"row": unpack_position(row.pop(POSITION))[1]} for row in batch.to_pylist()]
    return rows, malformed


def test_columns_follow_the_files_own_header_and_missing_ones_are_null(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('b,a\n2,1\n"",\n')
    rows, malformed = read_all(sources.csv("*"), tmp_path / "a.csv", "a", "b", "c")
    assert rows == [{"a": "1", "b": "2", "c": None, "row": 2}, {"a": None, "b": "", "c": None, "row": 3}]
    assert malformed == []


def test_rows_of_another_length_or_encoding_are_reported_with_their_number(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a,b\n1,2\n3\n4,5\n\n\xff,6\n7,8,9\n0,1\n")
    rows, malformed = read_all(sources.csv("*"), tmp_path / "a.csv", "a", "b")
    assert [(row["a"], row["row"]) for row in rows] == [("1", 2), ("4", 4), ("0", 7)]
    assert sorted((rejected.row, rejected.reason, rejected.text) for rejected in malformed) == [
        (3, "expected 2 columns, got 1", "3"),
        (5, "expected UTF-8, got other bytes", "\\xff,6"),
        (6, "expected 2 columns, got 3", "7,8,9"),
    ]


def test_a_file_without_a_header_numbers_its_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1;2\n3;4\n")
    source = sources.csv("*", header=False, delimiter=";")
    assert read_csv.read_names(LOCAL, str(tmp_path / "a.csv"), source.csv) == ("_c0", "_c1")
    assert [(row["_c1"], row["row"]) for row in read_all(source, tmp_path / "a.csv", "_c0", "_c1")[0]] == [
        ("2", 1),
        ("4", 2),
    ]


def test_a_line_may_break_inside_quotes_if_the_source_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('a,"b\nc"\n1,"x\ny"\n')
    rows, _ = read_all(sources.csv("*", newlines_in_values=True), tmp_path / "a.csv", "a", "b\nc")
    assert rows == [{"a": "1", "b\nc": "x\ny", "row": 2}]


def test_compressed_files_are_read_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"a\n1\n"))
    assert read_all(sources.csv("*"), tmp_path / "a.csv.gz", "a")[0] == [{"a": "1", "row": 2}]


def test_an_empty_file_has_no_rows_and_no_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    assert read_csv.read_names(LOCAL, str(tmp_path / "a.csv"), sources.csv("*").csv) == ()
    assert read_all(sources.csv("*"), tmp_path / "a.csv", "a") == ([], [])


def test_a_header_that_names_a_column_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,a\n")
    with raises(PipelineError, column="a"):
        read_csv.read_names(LOCAL, str(tmp_path / "a.csv"), sources.csv("*").csv)


@given(
    widths=st.lists(st.integers(0, 40), max_size=30),
    ends=st.booleans(),
    pieces=st.integers(1, 9),
    block=st.integers(1, 64),
)
def test_the_lines_of_neighbouring_ranges_are_all_the_lines(
    tmp_path_factory: pytest.TempPathFactory, widths: list[int], ends: bool, pieces: int, block: int
) -> None:
    data = b"\n".join(b"x" * width for width in widths) + (b"\n" if ends else b"")
    path = tmp_path_factory.mktemp("lines") / "f"
    path.write_bytes(data)
    cuts = [len(data) * part // pieces for part in range(pieces + 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        result = b""
        for start, end in itertools.pairwise(cuts):
            with lines.LineRange(LOCAL.open_input_file(str(path)), start, end) as stream:
                while some := stream.read(7):
                    result += some
    assert result == data


def test_a_large_file_is_read_in_pieces_that_give_the_same_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "".join(f"{number},{'x' * (number % 50)}\n" for number in range(5000)))
    tasks = plan_tasks([str(path)], [path.stat().st_size], cores=2, can_split=True, task_bytes=10_000)
    rows, malformed = read_all(sources.csv("*"), path, "a", "b", pieces=[piece for task in tasks for piece in task])
    assert (len(tasks) > 10, malformed) == (True, [])
    assert [int(str(row["a"])) for row in rows] == list(range(5000))


def test_json_numbers_keep_their_digits_and_other_lines_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        '{"a": 12.50, "b": {"c": 1.5}}\nno\n\n[1]\n{"a": 123456789012345678.25, "d": true}\n'
    )
    rows, malformed = read_all(sources.json("*"), tmp_path / "a.json", "a", "b", "d")
    assert rows == [
        {"a": "12.50", "b": '{"c":1.5}', "d": None, "row": 1},
        {"a": "123456789012345678.25", "b": None, "d": "true", "row": 5},
    ]
    assert [(item.row, item.text) for item in malformed] == [(2, "no"), (4, "[1]")]


def test_row_groups_of_a_parquet_file_go_to_the_slice_in_which_they_begin(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": list(range(1000))}), path, row_group_size=100)
    tasks = plan_tasks([str(path)], [path.stat().st_size], cores=2, can_split=True, task_bytes=path.stat().st_size // 4)
    result = []
    for piece in (piece for task in tasks for piece in task):
        for first, batch in read_columns(sources.parquet("*"), piece, {}, lambda _: None):
            result += [(first + at, value) for at, value in enumerate(batch.column(0).to_pylist())]
    assert len(tasks) > 2
    assert sorted(result) == [(number + 1, number) for number in range(1000)]


def test_small_files_share_a_task_and_ten_thousand_make_few() -> None:
    tasks = plan_tasks([f"f{number}" for number in range(10_000)], [100_000] * 10_000, cores=2, can_split=True)
    assert len(tasks) < 12
    assert [piece.number for task in tasks for piece in task] == list(range(10_000))


def test_files_with_any_of_some_columns_are_found() -> None:
    columns = FileColumns((("a",), ("a", "b"), ("a", "c", "b")), schema_of_text(["a", "b", "c"]))
    assert columns.files_with(["b", "c"]) == {1: ("b",), 2: ("c", "b")}


def test_json_text_is_plain(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"a": "é\u0000"}) + "\n")
    assert read_all(sources.json("*"), tmp_path / "a.json", "a")[0][0]["a"] == "é\u0000"
