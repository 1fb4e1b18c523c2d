"""Manifests as files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

import frazil.sinks
from frazil.catalog.embedded import running_catalog
from frazil.client import connect
from frazil.sinks.entries import BLOCK_ENTRIES
from frazil.sinks.partitioning import partition_spec

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
