"""Manifests as files."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DoubleType, LongType, NestedField

import frazil.sinks
from frazil.catalog.embedded import running_catalog
from frazil.client import connect
from frazil.pyiceberg_compat.manifests import BLOCK_ENTRIES
from frazil.write.commit.entries import as_added, read_entries, write_entries
from frazil.write.files.partitioning import partition_spec
from frazil.write.files.written import WrittenFile
from tests.kit.lake import lake_catalog

REALS = Schema(NestedField(1, "v", DoubleType()))
SCHEMA = Schema(NestedField(1, "id", LongType(), required=True))
SYNC_BYTES = 16  # they end the header and every block, and so the file
FILES = 2 * BLOCK_ENTRIES + 1


def test_the_entries_of_a_manifest_are_packed_together(tmp_path: Path) -> None:
    with running_catalog(tmp_path) as server:
        catalog = connect(uri=server.uri)
        catalog.create_namespace("lake")
        table = catalog.create_table("lake.t", SCHEMA, partition_spec=partition_spec(SCHEMA, ["id"]))
        with frazil.sinks.open("lake.t", name="s", catalog=catalog) as sink:
            sink.write(pa.table({"id": pa.array(range(FILES), pa.int64())}, SCHEMA.as_arrow()), position=1)
        table.refresh()
        snapshot = table.current_snapshot()
        assert snapshot is not None
        (manifest,) = snapshot.manifests(table.io)
        content = table.io.new_input(manifest.manifest_path).open().read()
        assert (manifest.added_files_count, len(manifest.fetch_manifest_entry(table.io))) == (FILES, FILES)
        assert content.count(content[-SYNC_BYTES:]) - 1 == 3


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    with lake_catalog() as catalog:
        yield catalog.create_table("lake.reals", REALS, partition_spec=partition_spec(REALS, ["v"]))


def write(table: Table, *values: float) -> ManifestFile:
    files = [
        WrittenFile(f"file:///f{number}.parquet", 1, 1, (value,)).to_data_file() for number, value in enumerate(values)
    ]
    return write_entries(table, [as_added(file, 1) for file in files], spec_id=0, snapshot_id=1)


def test_doubles_of_a_partition_are_read_with_all_their_bits(table: Table) -> None:
    values = (0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, math.inf, math.nan)
    result = [entry.data_file.partition[0] for entry in read_entries(table, write(table, *values))]
    assert [repr(value) for value in result] == [repr(value) for value in values]
    assert result[-1] is math.nan  # one NaN, so that it can be looked up


@pytest.mark.parametrize(
    "values", [(-0.0, 0.0), (0.0, -0.0), (0.0,), (-0.0,), (-1.0, -0.0, 0.0), (0.0, -0.0, 1.0), (-1.0, 1.0)]
)
def test_bounds_of_a_manifest_have_minus_zero_before_zero(table: Table, values: tuple[float, ...]) -> None:
    (summary,) = write(table, *values).partitions or []
    ordered = sorted(values, key=lambda value: (value, math.copysign(1, value)))
    assert (summary.lower_bound, summary.upper_bound) == (struct.pack("<d", ordered[0]), struct.pack("<d", ordered[-1]))


def test_a_partition_that_was_rewritten_as_a_32_bit_float_has_its_own_value_again(table: Table) -> None:
    def file(partition: float, low: float, high: float) -> DataFile:
        bounds = {"lower_bounds": {1: struct.pack("<d", low)}, "upper_bounds": {1: struct.pack("<d", high)}}
        return WrittenFile("file:///f.parquet", 1, 1, (partition,), **bounds).to_data_file()

    damaged = [file(0.10000000149011612, 0.1, 0.1), file(math.inf, 1e300, 1e300)]
    right = [
        file(0.10000000149011612, 0.10000000149011612, 0.10000000149011612),
        file(0.0, -0.0, 0.0),
        file(2.0, 0.1, 3.0),
    ]
    manifest = write_entries(table, [as_added(item, 1) for item in (*damaged, *right)], spec_id=0, snapshot_id=1)
    result = [entry.data_file.partition[0] for entry in read_entries(table, manifest)]
    assert result == [0.1, 1e300, 0.10000000149011612, 0.0, 2.0]
