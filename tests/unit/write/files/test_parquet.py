"""The Parquet writer: file sizes, field ids, properties, and files that never become part of the table."""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    UUIDType,
)

from frazil.errors import SinkError, WriteFailed
from frazil.write.files.layout import TableLayout
from frazil.write.files.parquet import FileMaker, RollingWriter, choose_dictionary, write_files
from frazil.write.files.schema import arrow_schema
from frazil.write.files.written import WrittenFile
from tests.kit.raising import raises

LayoutOf = Callable[..., TableLayout]
SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "payload", StringType()))


def noise(rows: int) -> pa.Table:
    """Rows of about 208 bytes that do not compress."""
    ids = list(range(rows))
    return pa.table({"id": ids, "payload": [os.urandom(100).hex() for _ in ids]}, schema=arrow_schema(SCHEMA))


@pytest.mark.requirement("flow.io")
def test_files_reach_the_target_size_on_disk(layout_of: LayoutOf) -> None:
    layout = layout_of(SCHEMA, **{"write.target-file-size-bytes": "500000"})
    files = write_files(noise(20_000), layout)
    assert len(files) > 3
    assert all(0.85 < file.size_bytes / 500_000 < 1.15 for file in files[:-1])
    assert [Path(file.path).stat().st_size for file in files] == [file.size_bytes for file in files]
    assert sum(file.rows for file in files) == 20_000


def test_a_file_that_compresses_well_holds_more_rows(layout_of: LayoutOf) -> None:
    layout = layout_of(SCHEMA, **{"write.target-file-size-bytes": "500000", "write.parquet.row-group-limit": "5000"})
    same = noise(1).slice(0, 1)
    (file,) = write_files(pa.concat_tables([same] * 20_000), layout)
    assert file.rows == 20_000


@pytest.mark.requirement("flow.io")
@pytest.mark.parametrize(
    ("codec", "compression"),
    [("snappy", "SNAPPY"), ("zstd", "ZSTD"), ("gzip", "GZIP"), ("none", "UNCOMPRESSED")],
)
def test_the_codec_is_that_of_the_table(layout_of: LayoutOf, codec: str, compression: str) -> None:
    (file,) = write_files(noise(10), layout_of(SCHEMA, **{"write.parquet.compression-codec": codec}))
    assert pq.read_metadata(file.path).row_group(0).column(1).compression == compression


@pytest.mark.requirement("flow.io")
def test_a_higher_level_gives_a_smaller_file(layout_of: LayoutOf) -> None:
    fast, small = (
        write_files(noise(5_000), layout_of(SCHEMA, **{"write.parquet.compression-level": level}))[0]
        for level in ("1", "19")
    )
    assert small.size_bytes < fast.size_bytes


@pytest.mark.requirement("flow.io")
def test_row_groups_and_pages_have_the_sizes_of_the_table(layout_of: LayoutOf) -> None:
    (by_rows,) = write_files(noise(10_000), layout_of(SCHEMA, **{"write.parquet.row-group-limit": "3000"}))
    assert [pq.read_metadata(by_rows.path).row_group(n).num_rows for n in range(4)] == [3000, 3000, 3000, 1000]
    (by_bytes,) = write_files(noise(10_000), layout_of(SCHEMA, **{"write.parquet.row-group-size-bytes": "300000"}))
    groups = [
        pq.read_metadata(by_bytes.path).row_group(n) for n in range(pq.read_metadata(by_bytes.path).num_row_groups)
    ]
    on_disk = [sum(group.column(c).total_compressed_size for c in range(2)) for group in groups[1:-1]]
    assert all(0.8 < size / 300_000 < 1.2 for size in on_disk)
    plain = {"write.parquet.compression-codec": "none"}
    few, many = (
        write_files(noise(9_000), layout_of(SCHEMA, **plain, **{"write.parquet.page-row-limit": rows}))[0]
        for rows in ("9000", "90")
    )
    assert many.size_bytes > few.size_bytes  # every page has a head of its own


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("write.target-file-size-bytes", "big", "a whole number from 1"),
        ("write.parquet.row-group-limit", "0", "a whole number from 1"),
        ("write.parquet.compression-codec", "lzo", "one of zstd"),
        ("write.parquet.compression-level", "99", "a whole number from -7 to 22"),
        ("write.format.default", "orc", "parquet"),
        ("write.metadata.metrics.default", "some", "none, counts, full"),
    ],
)
def test_a_property_that_makes_no_sense_is_refused_by_name(
    layout_of: LayoutOf, key: str, value: str, expected: str
) -> None:
    named = key if key != "write.metadata.metrics.default" else "write.metadata.metrics"
    with raises(SinkError, option=named, expected=re.compile("^" + re.escape(expected)), got=value):
        write_files(noise(1), layout_of(SCHEMA, **{key: value}))


def test_every_field_carries_its_id_nested_ones_too(layout_of: LayoutOf) -> None:
    inner = StructType(NestedField(5, "x", LongType()))
    schema = Schema(
        NestedField(1, "points", ListType(4, inner)),
        NestedField(2, "tags", MapType(7, StringType(), 8, LongType())),
        NestedField(3, "in", StructType(NestedField(6, "x", LongType()))),
    )
    rows = pa.Table.from_pylist([{"points": [{"x": 1}], "tags": [("a", 1)], "in": {"x": 2}}], layout_of(schema).arrow)
    (file,) = write_files(rows, layout_of(schema))
    text = str(pq.read_metadata(file.path).schema.to_arrow_schema().to_string(show_field_metadata=True))
    assert sorted(int(part.split("'")[0]) for part in text.split("PARQUET:field_id: '")[1:]) == list(range(1, 9))


def test_names_that_avro_cannot_spell_are_replaced_in_the_file(layout_of: LayoutOf) -> None:
    layout = layout_of(Schema(NestedField(1, "a b", DoubleType())))
    (file,) = write_files(pa.table({"a b": [float("nan"), 1.0]}, schema=layout.arrow), layout)
    assert pq.read_metadata(file.path).schema.names == ["a_x20b"]
    assert (file.nan_counts, file.value_counts) == ({1: 1}, {1: 2})


def test_columns_of_different_values_get_no_dictionary(layout_of: LayoutOf) -> None:
    rows = noise(2_000)
    repeated = rows.set_column(1, rows.schema.field(1), pa.array(["a", "b"] * 1_000))
    assert choose_dictionary(rows, layout_of(SCHEMA)) == []
    assert choose_dictionary(repeated, layout_of(SCHEMA)) == ["payload"]


def test_the_sort_order_is_named_only_where_the_rows_follow_it(layout_of: LayoutOf) -> None:
    layout = layout_of(SCHEMA, order=SortOrder(SortField(1, IdentityTransform()), order_id=3))
    ids = []
    for is_sorted in (True, False):
        writer = RollingWriter(FileMaker(layout), is_sorted=is_sorted)
        writer.write(noise(3))
        ids += [file.sort_order_id for file in writer.finish()]
    assert ids == [3, None]


def test_files_lie_in_the_folder_of_their_partition(layout_of: LayoutOf, tmp_path: Path) -> None:
    layout = layout_of(SCHEMA, "bucket(8, id)", "payload")
    writer = RollingWriter(FileMaker(layout, part=3), partition=(5, "a/b c"))
    writer.write(noise(1))
    (file,) = writer.finish()
    assert file.path.startswith(f"{tmp_path}/t/data/id_bucket_8=5/payload=a%2Fb+c/00003-0-")


def test_the_folder_of_a_partition_is_the_one_that_pyiceberg_gives(layout_of: LayoutOf) -> None:
    kinds = [
        DateType(),
        TimestampType(),
        LongType(),
        StringType(),
        DecimalType(9, 2),
        BooleanType(),
        UUIDType(),
        BinaryType(),
    ]
    schema = Schema(*[NestedField(number, f"c {number}", kind) for number, kind in enumerate(kinds, start=1)])
    names = ["month(c 1)", "day(c 1)", "hour(c 2)", "c 2", "bucket(4, c 3)", "c 4", "c 5", "c 6", "c 7", "c 8"]
    layout = layout_of(schema, *names)
    values = (650, 19_782, -5, 1_700_000_000_000_000, 3, "a/b c=ü", Decimal("1.50"), True, UUID(int=7), b"\x00x")
    for partition in (values, (None,) * len(values)):
        expected = layout.spec.partition_to_path(Record(*partition), schema)
        assert layout.data_location(partition, "f").removesuffix("/f").endswith("/data/" + expected)


def test_a_table_may_keep_its_data_elsewhere(layout_of: LayoutOf, tmp_path: Path) -> None:
    (file,) = write_files(noise(1), layout_of(SCHEMA, **{"write.data.path": f"{tmp_path}/else"}))
    assert Path(file.path).parent == tmp_path / "else"


def test_an_abandoned_writer_leaves_no_file(layout_of: LayoutOf, tmp_path: Path) -> None:
    writer = RollingWriter(FileMaker(layout_of(SCHEMA, **{"write.target-file-size-bytes": "200000"})))
    writer.write(noise(3_000))
    assert list(tmp_path.rglob("*.parquet"))
    writer.abandon()
    assert list(tmp_path.rglob("*.parquet")) == []


def test_what_is_known_of_a_file_survives_a_journey(layout_of: LayoutOf) -> None:
    layout = pickle.loads(pickle.dumps(layout_of(SCHEMA)))
    (file,) = write_files(noise(5), layout)
    assert WrittenFile.from_json(file.to_json()) == file


@pytest.mark.requirement("sink.temp")
def test_a_full_disk_is_a_clear_error_and_leaves_no_file(on_small_disk: Callable[..., str]) -> None:
    program = """
        import os
        from pathlib import Path
        import pyarrow as pa
        from pyiceberg.partitioning import PartitionSpec
        from pyiceberg.schema import Schema
        from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
        from pyiceberg.types import BinaryType, NestedField
        from frazil.errors import WriteFailed
        from frazil.write.files.layout import TableLayout
        from frazil.write.files.parquet import write_files

        layout = TableLayout("t", Schema(NestedField(1, "x", BinaryType())), PartitionSpec(), UNSORTED_SORT_ORDER, DISK + "/t", {}, {})
        try:
            write_files(pa.table({"x": [os.urandom(1000) for _ in range(3000)]}, schema=layout.arrow), layout)
        except WriteFailed as exc:
            print(exc)
        print([path.name for path in Path(DISK).rglob("*.parquet")])
    """  # noqa: E501
    said = on_small_disk(program, size="1m").splitlines()
    assert said[0].startswith("cannot write ")
    assert said[0].endswith(": no space left")
    assert said[-1] == "[]"


@pytest.mark.requirement("sink.temp")
def test_a_folder_that_cannot_be_written_is_a_clear_error(layout_of: LayoutOf, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("a file where a folder should be")
    with raises(WriteFailed, path=re.compile(r"\.parquet$"), reason=re.compile("not a folder")):
        write_files(noise(1), layout_of(SCHEMA))
