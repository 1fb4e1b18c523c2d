"""Delete files committed to a table of a running catalog, of the kinds that PyIceberg does not write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyiceberg.manifest import write_manifest_list
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate

from tests.kit.real_tables import MadeDelete, RealTable


def delete_from(table: Table, deletes: Sequence[MadeDelete]) -> None:
    """A snapshot that adds delete files to the current one. The table must be on local disk."""
    current = table.current_snapshot()
    assert current is not None
    folder = Path(urlsplit(table.location()).path) / "metadata"
    real_table = RealTable(folder, table.schema(), [table.spec()])
    number, sequence = table.metadata.new_snapshot_id(), table.metadata.last_sequence_number + 1
    manifests = [real_table._write_deletes(response, number) for response in deletes]
    place = str(folder / f"snap-{number}-deletes.avro")
    with write_manifest_list(2, table.io.new_output(place), number, current.snapshot_id, sequence, "deflate") as writer:
        writer.add_manifests([*current.manifests(table.io), *manifests])
    snapshot = Snapshot(
        **{
            "snapshot-id": number,
            "parent-snapshot-id": current.snapshot_id,
            "sequence-number": sequence,
            "schema-id": table.schema().schema_id,
        },
        **{"manifest-list": place, "summary": Summary(Operation.DELETE), "timestamp-ms": current.timestamp_ms + 1},
    )
    updates: Any = (
        AddSnapshotUpdate(snapshot=snapshot),
        SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=number),
    )
    table.catalog.commit_table(table, (AssertRefSnapshotId(ref="main", snapshot_id=current.snapshot_id),), updates)
    table.refresh()
