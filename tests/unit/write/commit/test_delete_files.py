"""Delete files by position: what is written is what a scan reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

from frazil.puffin import PuffinReader
from frazil.scan.reading.positions import _decode_vector
from frazil.write.commit.delete_files import PATH_ID, DeletedRows, write_position_deletes, write_vectors
from frazil.write.commit.format3 import OFFSET, REFERENCED
from frazil.write.files.layout import TableLayout

OTHER_SPEC = PartitionSpec(spec_id=1)  # the rows lie in spec 0: an older one


@pytest.fixture
def layout(tmp_path: Path) -> TableLayout:
    schema = Schema(NestedField(1, "id", LongType()))
    return TableLayout("l.t", schema, PartitionSpec(), SortOrder(order_id=0), str(tmp_path), {}, {})


def deleted(path: str, *positions: int, partition: Record | None = None) -> DeletedRows:
    return DeletedRows(path, np.array(positions, np.int64), 0, partition or Record())


def test_positions_are_in_order_and_divided_into_files_of_a_size(layout: TableLayout) -> None:
    io = PyArrowFileIO()
    files = write_position_deletes(io, layout, [deleted("b", 3, 9), deleted("a", 5), deleted("é", 1)], most_rows=3)
    rows = [pq.read_table(file.file_path).to_pydict() for file in files]
    assert rows == [{"file_path": ["a", "b", "b"], "pos": [5, 3, 9]}, {"file_path": ["é"], "pos": [1]}]
    assert [(file.lower_bounds[PATH_ID], file.upper_bounds[PATH_ID]) for file in files] == [
        (b"a", b"b"),
        ("é".encode(), "é".encode()),
    ]
    assert pq.read_schema(files[0].file_path).field("file_path").type == pa.string()


def test_a_data_file_in_a_partition_of_floating_point_has_a_delete_file_of_its_own(layout: TableLayout) -> None:
    values = [0.0, -0.0, float("nan"), float("nan"), None]
    rows = [deleted(f"f{n}", n, partition=Record(value)) for n, value in enumerate(values)]
    files = write_position_deletes(PyArrowFileIO(), replace(layout, spec=OTHER_SPEC), rows)
    assert [file.record_count for file in files] == [1, 1, 1, 1, 1]


def test_vectors_share_a_file_and_hold_any_position(layout: TableLayout) -> None:
    io = PyArrowFileIO()
    positions = {"b": [0, 1, 2, 70_000, 2**40], "a": list(range(5_000))}
    files = write_vectors(io, layout, [deleted(path, *some) for path, some in positions.items()])
    content = Path(files[0].file_path).read_bytes()
    assert {file.file_path for file in files} == {files[0].file_path}
    assert {file.file_size_in_bytes for file in files} == {len(content)}
    vectors = {file[REFERENCED]: content[file[OFFSET] :][: file[OFFSET + 1]] for file in files}
    assert {path: _decode_vector(path, blob).tolist() for path, blob in vectors.items()} == positions
    described = PuffinReader(io.new_input(files[0].file_path)).blobs
    assert [(blob.type, blob.codec, blob.snapshot_id, blob.sequence_number) for blob in described] == [
        ("deletion-vector-v1", None, -1, -1)
    ] * 2
    assert [blob.properties for blob in described] == [
        {"referenced-data-file": path, "cardinality": str(len(positions[path]))} for path in ("a", "b")
    ]


def test_nothing_deleted_is_no_file(layout: TableLayout, tmp_path: Path) -> None:
    assert (write_vectors(PyArrowFileIO(), layout, []), write_position_deletes(PyArrowFileIO(), layout, [])) == ([], [])
    assert list(tmp_path.iterdir()) == []
