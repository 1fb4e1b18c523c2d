"""Delete files in a table, as merge-on-read engines write them: PyIceberg writes none."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.typedef import Record

from frazil.client import FrazilCatalog
from frazil.client.changes import Change
from frazil.write.commit.builder import guards, move_ref, next_snapshot
from frazil.write.commit.entries import write_entries
from frazil.write.commit.format3 import write_list_v3
from frazil.write.commit.manifests import read_list, write_list

POSITIONS = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)


class _DeleteWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def delete_positions(catalog: FrazilCatalog, name: str, positions: list[int]) -> None:
    """Deletes rows of the table's one data file by their positions."""
    table = catalog.load_table(name)
    (path,) = table.inspect.data_files()["file_path"].to_pylist()
    rows = pa.table({"file_path": [path] * len(positions), "pos": positions}, schema=POSITIONS)
    _commit(catalog, table, rows, content=DataFileContent.POSITION_DELETES)


def delete_rows(catalog: FrazilCatalog, name: str, places: pa.Table) -> None:
    """Deletes rows by the paths of their files and their positions, in one delete file for all of them."""
    rows = pa.Table.from_arrays([column.combine_chunks() for column in places.columns], schema=POSITIONS)
    rows = rows.sort_by([("file_path", "ascending"), ("pos", "ascending")])
    _commit(catalog, catalog.load_table(name), rows, content=DataFileContent.POSITION_DELETES)


def delete_equal(catalog: FrazilCatalog, name: str, column: str, values: list[Any]) -> None:
    """Deletes the rows that have these values in a column, as Flink does."""
    table = catalog.load_table(name)
    result = table.schema().find_field(column)
    kind = pa.array(values).type
    field = pa.field(column, kind, metadata={"PARQUET:field_id": str(result.field_id)})
    rows = pa.table({column: values}, schema=pa.schema([field]))
    _commit(catalog, table, rows, content=DataFileContent.EQUALITY_DELETES, equality_ids=[result.field_id])


def _commit(catalog: FrazilCatalog, table: Table, rows: pa.Table, **facts: Any) -> None:
    path = table.location_provider().new_data_location(f"{uuid.uuid4()}-deletes.parquet")
    Path(path.removeprefix("file://")).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path.removeprefix("file://"))
    size = Path(path.removeprefix("file://")).stat().st_size
    file = DataFile.from_args(
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=rows.num_rows,
        file_size_in_bytes=size,
        **facts,
    )
    metadata, parent = table.metadata, table.current_snapshot()
    assert parent is not None
    new_id, row_ids = metadata.new_snapshot_id(), {}
    entry = ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=new_id, data_file=file)
    where: dict[str, Any] = {"snapshot_id": new_id, "parent_id": parent.snapshot_id, "attempt": 1}
    if metadata.format_version >= 3:
        file.spec_id = table.spec().spec_id
        manifest = write_entries(
            table, [entry], spec_id=file.spec_id, content=ManifestContent.DELETES, snapshot_id=new_id
        )
        written = write_list_v3(table, [manifest, *read_list(table, parent)], **where)
        listed, row_ids = written.location, {"first_row_id": written.first_row_id, "added_rows": written.added_rows}
    else:
        location = table.location_provider().new_metadata_location(f"{uuid.uuid4()}-m0.avro")
        with _DeleteWriter(table.spec(), table.schema(), table.io.new_output(location), new_id, "null") as writer:
            writer.add_entry(entry)
        listed = write_list(table, [writer.to_manifest_file(), *parent.manifests(table.io)], **where)
    snapshot = next_snapshot(
        metadata, parent, snapshot_id=new_id, manifest_list=listed, summary=Summary(Operation.DELETE)
    ).model_copy(update=row_ids)
    updates = (AddSnapshotUpdate(snapshot=snapshot), move_ref(metadata, "main", new_id))
    catalog.commit_changes([Change(table.name(), guards(metadata, "main", parent.snapshot_id), updates)])
