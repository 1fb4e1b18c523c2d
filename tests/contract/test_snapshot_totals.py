"""Every snapshot that our writers make has all totals, also where another writer's snapshot before it has none."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.types import LongType, NestedField, StringType

from frazil import sinks
from frazil.client import FrazilCatalog
from frazil.client.changes import Change
from frazil.lake import Lake
from frazil.upkeep.compact import Compaction, plan_compaction
from frazil.upkeep.policy import Policy
from frazil.write.commit.replace import Replace
from frazil.write.commit.totals import TOTALS, count_totals
from frazil.write.files.buffer import Buffer
from frazil.write.files.layout import TableLayout
from frazil.write.files.partitioning import partition_spec

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "k", StringType()))
NUMBERS = count()


def rows(*ids: int) -> pa.Table:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("k", pa.string())])
    return pa.table([pa.array(ids, pa.int64()), pa.array([f"k{number % 2}" for number in ids])], schema=schema)


def make(catalog: FrazilCatalog) -> Table:
    name = f"lake.totals{next(NUMBERS)}"
    table = catalog.create_table(name, SCHEMA, partition_spec=partition_spec(SCHEMA, ["k"]))
    for number in range(0, 9, 3):
        table.append(rows(number, number + 1, number + 2))
    table.delete("id = 4")
    return catalog.load_table(name)


def forget_totals(catalog: FrazilCatalog, table: Table, summary: dict[str, str] | None) -> None:
    """A snapshot of the same files, as another writer would leave it."""
    metadata, head = table.metadata, table.current_snapshot()
    assert head is not None
    snapshot = Snapshot.model_validate(
        {
            "snapshot-id": metadata.new_snapshot_id(),
            "parent-snapshot-id": head.snapshot_id,
            "sequence-number": metadata.next_sequence_number(),
            "timestamp-ms": head.timestamp_ms + 1,
            "manifest-list": head.manifest_list,
            "schema-id": 0,
            "summary": summary,
        }
    )
    moved = SetSnapshotRefUpdate.model_validate(
        {"ref-name": "main", "type": "branch", "snapshot-id": snapshot.snapshot_id}
    )
    catalog.commit_changes([Change(table.name(), (), (AddSnapshotUpdate(snapshot=snapshot), moved))])


def append(catalog: FrazilCatalog, table: Table) -> None:
    with sinks.open(table.name(), name="s", catalog=catalog) as sink:
        sink.write(rows(20, 21), position=1)


def take_over(catalog: FrazilCatalog, table: Table) -> None:
    sinks.open(table.name(), name="s", catalog=catalog).close()


def upsert(catalog: FrazilCatalog, table: Table) -> None:
    with sinks.open(table.name(), name="u", catalog=catalog, mode="upsert", key=["id", "k"]) as sink:
        sink.write(rows(3, 30), position=1)


def mark(catalog: FrazilCatalog, table: Table) -> None:
    table.transaction().set_properties({"write.merge.mode": "merge-on-read"}).commit_transaction()
    upsert(catalog, table)


def replace(catalog: FrazilCatalog, table: Table) -> None:
    layout = TableLayout.of(table.refresh())
    buffer = Buffer(layout)
    buffer.add(rows(2, 40).cast(layout.arrow))
    change = Replace(table.name(), buffer.flush())
    catalog.commit_changes([change.build(table, attempt=1, summary={}, properties={})])


def roll_back(catalog: FrazilCatalog, table: Table) -> None:
    forgetful = table.refresh().current_snapshot()
    assert forgetful is not None
    append(catalog, table)
    Lake(catalog=catalog).table(".".join(table.name())).rollback(forgetful.snapshot_id, with_progress=False)


def rewrite(catalog: FrazilCatalog, table: Table) -> None:
    policy = Policy(min_input_files=2)
    before = table.current_snapshot()
    Compaction(catalog, table.name()).run(
        table, plan_compaction(table, policy), replan=lambda item: plan_compaction(item, policy)
    )
    assert table.refresh().current_snapshot() != before


WRITERS: dict[str, Callable[[FrazilCatalog, Table], None]] = {
    writer.__name__: writer for writer in (append, take_over, upsert, mark, replace, roll_back, rewrite)
}


def stated(table: Table) -> dict[str, Any]:
    head = table.refresh().current_snapshot()
    assert head is not None
    assert head.summary is not None
    return {name: head.summary.additional_properties.get(name) for name in TOTALS}


def counted(table: Table) -> dict[str, Any]:
    head = table.refresh().current_snapshot()
    assert head is not None
    return count_totals(table.io, head)


def by_pyiceberg(table: Table) -> dict[str, int]:
    files = table.refresh().inspect.files()
    sizes = sum(files["file_size_in_bytes"].to_pylist())
    data = files.filter(pa.compute.equal(files["content"], 0))
    return {
        "total-data-files": len(data),
        "total-records": sum(data["record_count"].to_pylist()),
        "total-files-size": sizes,
    }


@pytest.mark.parametrize(
    "summary",
    [
        {"operation": "append", "total-data-files": "3", "total-records": "8"},
        {"operation": "append", "total-files-size": "many"},
    ],
    ids=["lacks some", "has no number"],
)
@pytest.mark.parametrize("writer", WRITERS)
def test_totals_are_restored_after_a_snapshot_without_them(
    catalog: FrazilCatalog, writer: str, summary: dict[str, str]
) -> None:
    table = make(catalog)
    forget_totals(catalog, table, summary)
    WRITERS[writer](catalog, catalog.load_table(table.name()))
    assert stated(table) == counted(table)
    assert {name: int(stated(table)[name]) for name in by_pyiceberg(table)} == by_pyiceberg(table)


@pytest.mark.parametrize("writer", [name for name in WRITERS if name != "roll_back"])
def test_totals_are_carried_on(catalog: FrazilCatalog, writer: str) -> None:
    table = make(catalog)
    WRITERS[writer](catalog, table)
    assert stated(table) == counted(table)


def test_an_emptied_table_says_zero(catalog: FrazilCatalog) -> None:
    table = make(catalog)
    first = table.metadata.snapshots[0]
    table.delete()
    Lake(catalog=catalog).table(".".join(table.name())).rollback(first.snapshot_id)
    assert stated(table) == counted(table)
