"""The buffer: bounded memory, well-sized files, and nothing left behind."""

from __future__ import annotations

import math
import re
import struct
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, FloatType, LongType, NestedField, PrimitiveType, StringType

from frazil.errors import RowsLost, WriteFailed
from frazil.write.files.buffer import Buffer, BufferLimits
from frazil.write.files.layout import TableLayout
from frazil.write.files.written import WrittenFile
from tests.kit.changes import example_count
from tests.kit.raising import raises

LayoutOf = Callable[..., TableLayout]
SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "key", LongType()), NestedField(3, "text", StringType())
)


def some_rows(layout: TableLayout, start: int, count: int, keys: int) -> pa.Table:
    ids = range(start, start + count)
    return pa.table(
        {"id": ids, "key": [i * 7 % keys for i in ids], "text": [f"text of row {i}" for i in ids]}, schema=layout.arrow
    )


def read_back(files: list[WrittenFile]) -> pa.Table:
    return pa.concat_tables([pq.ParquetFile(file.path).read() for file in files])


@given(
    budget=st.integers(1, 60_000),
    group=st.integers(1, 4_000),
    threads=st.integers(1, 3),
    keys=st.integers(1, 9),
    spec=st.sampled_from([(), ("key",)]),
)
@settings(max_examples=example_count(short=15, full=150))
def test_every_row_is_in_one_file_of_its_partition_whatever_the_budget(
    layout_of: LayoutOf, budget: int, group: int, threads: int, keys: int, spec: tuple[str, ...]
) -> None:
    layout = layout_of(SCHEMA, *spec)
    buffer = Buffer(layout, limits=BufferLimits(budget, group, threads))
    for start in range(0, 600, 100):
        buffer.add(some_rows(layout, start, 100, keys))
    files = buffer.flush()
    assert sorted(read_back(files)["id"].to_pylist()) == list(range(600))
    for file in files if spec else []:
        assert set(pq.ParquetFile(file.path).read()["key"].to_pylist()) == {file.partition[0]}
    assert (buffer.rows, buffer.flush()) == (0, [])


def test_many_partitions_give_one_file_each_however_small_the_memory(layout_of: LayoutOf) -> None:
    layout = layout_of(SCHEMA, "key")
    buffer = Buffer(layout, limits=BufferLimits(budget_bytes=20_000, threads=1))
    for start in range(0, 5_000, 500):
        buffer.add(some_rows(layout, start, 500, 50))
    files = buffer.flush()
    assert len(files) == 50
    assert {pq.read_metadata(file.path).num_row_groups for file in files} == {1}


OTHER_NAN = struct.unpack("<d", b"\x01\x00\x00\x00\x00\x00\xf8\xff")[0]  # another sign and payload


@pytest.mark.parametrize("budget", [500, 100_000], ids=["spooled", "in memory"])
@pytest.mark.parametrize("kind", [FloatType(), DoubleType()], ids=str)
def test_zeros_and_nans_of_a_float_partition_are_one_partition_each_and_no_row_is_lost(
    layout_of: LayoutOf, budget: int, kind: PrimitiveType
) -> None:
    layout = layout_of(Schema(NestedField(1, "id", LongType()), NestedField(2, "v", kind)), "v")
    values = [0.0, -0.0, math.nan, OTHER_NAN, 1.5, None] * 20
    buffer = Buffer(layout, limits=BufferLimits(budget, threads=1))
    for start in range(0, len(values), 24):
        some = values[start : start + 24]
        buffer.add(pa.table({"id": range(start, start + len(some)), "v": some}, schema=layout.arrow))
    files = buffer.flush()
    assert sorted((file.rows, repr(file.partition[0])) for file in files) == [
        (20, "1.5"),
        (20, "None"),
        (40, "0.0"),
        (40, "nan"),
    ]
    written = read_back(files).sort_by("id")["v"].to_pylist()
    # the rows keep the sign of their zeros
    assert [repr(value) for value in written] == [repr(value) for value in values]


def test_files_with_fewer_rows_than_were_taken_are_not_handed_over(layout_of: LayoutOf, tmp_path: Path) -> None:
    buffer = Buffer(layout_of(SCHEMA, "key"))
    buffer.add(some_rows(buffer.layout, 0, 10, 2))
    buffer.rows += 1  # a row that was taken, and got lost on the way
    with pytest.raises(RowsLost) as caught:
        buffer.flush()
    assert (caught.value.expected, caught.value.got) == (11, 10)
    buffer.abandon()
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_sorted_table_gets_sorted_files(layout_of: LayoutOf) -> None:
    layout = layout_of(SCHEMA, "key", order=SortOrder(SortField(3, IdentityTransform()), order_id=2))
    buffer = Buffer(layout, limits=BufferLimits(budget_bytes=30_000, row_group_bytes=3_000))
    for start in range(0, 3_000, 300):
        buffer.add(some_rows(layout, start, 300, 3))
    files = buffer.flush()
    for file in files:
        texts = pq.ParquetFile(file.path).read()["text"].to_pylist()
        assert (file.sort_order_id, texts) == (2, sorted(texts))
    assert sorted(read_back(files)["id"].to_pylist()) == list(range(3_000))


def test_an_abandoned_buffer_leaves_no_file(layout_of: LayoutOf, tmp_path: Path) -> None:
    layout = layout_of(SCHEMA)
    buffer = Buffer(layout, limits=BufferLimits(budget_bytes=10_000))
    buffer.add(some_rows(layout, 0, 1_000, 1))
    assert list(tmp_path.rglob("*.parquet"))
    buffer.abandon()
    assert (list(tmp_path.rglob("*.parquet")), buffer.flush()) == ([], [])


@pytest.mark.requirement("sink.temp")
def test_a_temporary_folder_that_is_not_there_is_a_clear_error(layout_of: LayoutOf, tmp_path: Path) -> None:
    layout = layout_of(SCHEMA, "key")
    buffer = Buffer(layout, limits=BufferLimits(budget_bytes=1_000, spool_folder=tmp_path / "nowhere"))
    with raises(WriteFailed, path=re.compile("nowhere"), reason="the folder is not there"):
        buffer.add(some_rows(layout, 0, 100, 5))


SPOOLING = """
    from pathlib import Path
    import pyarrow as pa
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import LongType, NestedField
    from frazil.errors import WriteFailed
    from frazil.write.files.buffer import Buffer, BufferLimits
    from frazil.write.files.layout import TableLayout

    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "key"))
    schema = Schema(NestedField(1, "key", LongType()), NestedField(2, "id", LongType()))
    layout = TableLayout("t", schema, spec, UNSORTED_SORT_ORDER, "/nonexistent", {}, {})
    buffer = Buffer(layout, limits=BufferLimits(budget_bytes=100_000, spool_folder=Path(DISK)))
    try:
        for start in range(0, 10_000_000, 5_000):
            buffer.add(pa.table({"key": [i % 10 for i in range(5_000)], "id": range(start, start + 5_000)}, schema=layout.arrow))
    except WriteFailed as exc:
        print(exc)
    print(list(Path(DISK).iterdir()))
"""  # noqa: E501


@pytest.mark.long
@pytest.mark.requirement("sink.temp")
@pytest.mark.parametrize(("mode", "reason"), [("rw", "no space left"), ("ro", "the file system is read-only")])
def test_a_full_or_read_only_temporary_folder_is_a_clear_error(
    on_small_disk: Callable[..., str], mode: str, reason: str
) -> None:
    said = on_small_disk(SPOOLING, size="1m", mode=mode).splitlines()
    assert said[0].startswith("cannot write temporary file in ")
    assert said[0].endswith(reason)
    assert said[-1] == "[]"


@pytest.mark.long
@pytest.mark.requirement("arrow.direct")
@pytest.mark.parametrize(
    "fields", [[], ["key"], ["bucket(200, id)"]], ids=["flat", "few partitions", "many partitions"]
)
def test_memory_does_not_grow_with_the_rows(fields: list[str], tmp_path: Path) -> None:
    """A tenth of the rows and all of them, each in a fresh process; what the system counts as its own memory may differ
    by a fifth.
    """
    program = textwrap.dedent("""
        import sys
        import pyarrow as pa
        from pyiceberg.schema import Schema
        from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
        from pyiceberg.types import LongType, NestedField, StringType
        from frazil.write.files.buffer import Buffer, BufferLimits
        from frazil.write.files.layout import TableLayout
        from frazil.write.files.partitioning import partition_spec

        def peak():
            lines = open("/proc/self/status").read().splitlines()
            return int(next(line for line in lines if line.startswith("RssAnon")).split()[1])

        schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "key", LongType()), NestedField(3, "text", StringType()))
        layout = TableLayout("t", schema, partition_spec(schema, sys.argv[3:]), UNSORTED_SORT_ORDER, sys.argv[1], {}, {})
        buffer = Buffer(layout, limits=BufferLimits(budget_bytes=16 << 20, threads=1))
        highest = 0
        ids = range(20_000)
        rows = pa.table({"id": ids, "key": [i % 5 for i in ids], "text": [f"{i:0100d}" for i in ids]}, schema=layout.arrow)
        for _ in range(0, int(sys.argv[2]), 20_000):
            buffer.add(rows.take(pa.array(ids)))  # memory of their own, as rows from a source have
            highest = max(highest, peak())
        assert sum(file.rows for file in buffer.flush()) == int(sys.argv[2])
        print(max(highest, peak()))
    """)  # noqa: E501

    def peak_kb(rows: int) -> int:
        command = [sys.executable, "-c", program, str(tmp_path / str(rows)), str(rows), *fields]
        return int(subprocess.run(command, capture_output=True, text=True, check=True, timeout=240).stdout)

    assert peak_kb(2_000_000) < 1.2 * peak_kb(200_000)
