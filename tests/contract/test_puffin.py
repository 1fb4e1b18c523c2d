"""Puffin files that we write are read by PyIceberg, and the other way round; damaged ones are named."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table
from pyiceberg.table.puffin import PuffinFile
from pyiceberg.table.statistics import BlobMetadata

from frazil.client import FrazilCatalog
from frazil.errors import DataFileMissing, DataFileUnreadable, HistoryError
from frazil.puffin import MAGIC, Blob, PuffinReader, PuffinWriter, add_blobs, read_blobs
from frazil.vector.portable import ROOT
from tests.kit.raising import raises

IO = PyArrowFileIO()
SKETCH = Blob("apache-datasketches-theta-v1", (1,), b"sketch" * 100, {"ndv": "3"})
OWN = Blob("frazil-test-v1", (1, 2), bytes(range(256)), codec=None)


@pytest.fixture
def table(catalog: FrazilCatalog) -> Iterator[Table]:
    rows = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})
    result = catalog.create_table("lake.blobs", rows.schema)
    result.append(rows)
    yield result
    catalog.drop_table("lake.blobs")


def write(path: Path, *blobs: Blob) -> Path:
    with PuffinWriter(IO.new_output(str(path)), properties={"who": "test"}) as writer:
        for blob in blobs:
            writer.add(blob, snapshot_id=7, sequence_number=2)
    assert writer.written is not None
    assert writer.written.size == path.stat().st_size
    return path


@pytest.mark.requirement("daft.puffin")
def test_pyiceberg_reads_every_blob_that_was_written(tmp_path: Path) -> None:
    puffin_file = PuffinFile(write(tmp_path / "a.puffin", SKETCH, OWN).read_bytes())
    assert [puffin_file.get_blob_payload(blob) for blob in puffin_file.footer.blobs] == [SKETCH.payload, OWN.payload]
    assert [
        (blob.type, blob.fields, blob.snapshot_id, blob.compression_codec) for blob in puffin_file.footer.blobs
    ] == [
        (SKETCH.type, [1], 7, "zstd"),
        (OWN.type, [1, 2], 7, None),
    ]
    assert puffin_file.footer.properties == {"created-by": "Frazil", "who": "test"}


@given(payloads=st.lists(st.binary(max_size=300), max_size=4), zstd=st.booleans())
def test_what_goes_in_comes_out(tmp_path_factory: pytest.TempPathFactory, payloads: list[bytes], zstd: bool) -> None:
    blobs = [Blob("b", (at,), payload, codec="zstd" if zstd else None) for at, payload in enumerate(payloads)]
    reader = PuffinReader(IO.new_input(str(write(tmp_path_factory.mktemp("p") / "a.puffin", *blobs))))
    assert [reader.read(info) for info in reader.blobs] == payloads


def test_a_compressed_footer_and_an_lz4_blob_are_read(tmp_path: Path) -> None:
    stored = pa.compress(OWN.payload, codec="lz4", asbytes=True)
    about = {"type": "t", "fields": [], "snapshot-id": -1, "sequence-number": -1, "offset": 4, "length": len(stored)}
    footer = pa.compress(
        json.dumps({"blobs": [about | {"compression-codec": "lz4"}]}).encode(), codec="lz4", asbytes=True
    )
    path = tmp_path / "a.puffin"
    path.write_bytes(MAGIC + stored + MAGIC + footer + len(footer).to_bytes(4, "little") + b"\x01\0\0\0" + MAGIC)
    reader = PuffinReader(IO.new_input(str(path)))
    assert reader.read(reader.blobs[0]) == OWN.payload


@pytest.mark.parametrize("kept", [0, 3, 40, -1, -20])
def test_a_file_that_was_cut_short_is_named(tmp_path: Path, kept: int) -> None:
    path = write(tmp_path / "cut.puffin", SKETCH)
    path.write_bytes(path.read_bytes()[:kept])
    with raises(DataFileUnreadable, path=re.compile(r"cut\.puffin$")):
        PuffinReader(IO.new_input(str(path)))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with raises(DataFileMissing, path=re.compile(r"gone\.puffin$")):
        PuffinReader(IO.new_input(str(tmp_path / "gone.puffin")))


@pytest.mark.requirement("daft.puffin")
def test_blobs_of_a_table_belong_to_its_snapshot_and_older_ones_stay(table: Table, catalog: FrazilCatalog) -> None:
    add_blobs(table, [SKETCH, OWN])
    add_blobs(table, [Blob(OWN.type, OWN.fields, b"newer")])
    fresh = catalog.load_table("lake.blobs")
    assert {info.type: payload for info, payload in read_blobs(fresh)} == {
        SKETCH.type: SKETCH.payload,
        OWN.type: b"newer",
    }
    fresh.append(pa.table({"id": [4], "name": ["d"]}))
    assert list(read_blobs(fresh)) == []
    before = fresh.metadata.snapshots[0].snapshot_id
    assert [payload for _, payload in read_blobs(fresh, type=OWN.type, snapshot_id=before)] == [b"newer"]


def test_a_table_with_blobs_of_our_own_types_stays_readable_for_pyiceberg(table: Table, catalog: FrazilCatalog) -> None:
    blobs = add_blobs(table, [SKETCH, OWN])
    assert [metadata.type for metadata in blobs.blob_metadata] == [SKETCH.type]
    plain = load_catalog("plain", type="rest", uri=catalog.properties["uri"])
    assert plain.load_table("lake.blobs").scan().to_arrow().num_rows == 3
    # why it is not named in the metadata; if this passes, it can be
    with pytest.raises(ValueError, match="frazil-test-v1"):
        BlobMetadata(**{"type": OWN.type, "snapshot-id": 1, "sequence-number": 1, "fields": [1]})


def name_in_metadata(catalog: FrazilCatalog, table: Table, *types: str) -> None:
    """Commits as another engine does: the statistics file of the newest snapshot, with all of its blobs named."""
    (file,) = table.metadata.statistics
    blobs = [{"type": each, "snapshot-id": file.snapshot_id, "sequence-number": 1, "fields": [1]} for each in types]
    statistics = {**file.model_dump(by_alias=True, exclude_none=True), "blob-metadata": blobs}
    change = {"action": "set-statistics", "snapshot-id": file.snapshot_id, "statistics": statistics}
    path = catalog.url("namespaces/lake/tables/blobs")
    catalog.session.post(path, json={"requirements": [], "updates": [change]}).raise_for_status()


def test_the_copy_of_an_index_stays_out_of_the_metadata_when_another_engine_names_it(
    table: Table, catalog: FrazilCatalog
) -> None:
    """Trino copies blobs of all types when it analyses some columns, and names them."""
    add_blobs(table, [SKETCH, Blob(ROOT, (2,), b"{}")])
    name_in_metadata(catalog, table, SKETCH.type, ROOT)
    loaded = load_catalog("plain", type="rest", uri=catalog.properties["uri"]).load_table("lake.blobs")
    assert [blob.type for file in loaded.metadata.statistics for blob in file.blob_metadata] == [SKETCH.type]


def test_a_table_whose_metadata_names_types_of_other_engines_is_read_and_written(
    table: Table, catalog: FrazilCatalog
) -> None:
    add_blobs(table, [SKETCH])
    name_in_metadata(catalog, table, "acme-sketch-v1", SKETCH.type)
    loaded = catalog.load_table("lake.blobs")
    assert [blob.type for file in loaded.metadata.statistics for blob in file.blob_metadata] == [SKETCH.type]
    loaded.append(pa.table({"id": [4], "name": ["d"]}))
    assert catalog.load_table("lake.blobs").scan().to_arrow().num_rows == 4
    catalog.drop_table("lake.blobs")
    again = catalog.register_table("lake.blobs", loaded.metadata_location)
    assert again.metadata.table_uuid == loaded.metadata.table_uuid


def test_a_table_without_rows_has_no_snapshot_for_blobs(catalog: FrazilCatalog) -> None:
    empty = catalog.create_table("lake.empty", pa.schema([("id", pa.int64())]))
    with raises(HistoryError, table="lake.empty"):
        add_blobs(empty, [OWN])
    assert list(read_blobs(empty)) == []
