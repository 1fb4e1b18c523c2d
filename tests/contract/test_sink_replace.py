"""Replaced partitions, on a real catalog: what goes, what stays, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField

from frazil.client import FrazilCatalog
from frazil.errors import CommitConflict, SinkError
from frazil.write.commit.replace import Replace
from frazil.write.files.buffer import Buffer
from frazil.write.files.layout import TableLayout
from frazil.write.files.partitioning import partition_spec
from tests.kit.lake import lake_catalog
from tests.kit.raising import raises

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "day", IntegerType()), NestedField(3, "shop", IntegerType())
)


@pytest.fixture
def catalog() -> Iterator[FrazilCatalog]:
    with lake_catalog() as result:
        yield result


@pytest.fixture
def table(catalog: FrazilCatalog) -> Table:
    result = catalog.create_table("lake.t", SCHEMA, partition_spec=partition_spec(SCHEMA, ["day"]))
    result.append(rows((1, 1), (2, 1), (3, 2)))
    result.append(rows((4, 2), (5, 3)))
    return result


def rows(*pairs: tuple[int, int], shop: int = 0) -> pa.Table:
    ids, days = zip(*pairs, strict=True)
    schema = pa.schema([("id", pa.int64()), ("day", pa.int32()), ("shop", pa.int32())])
    return pa.table(
        [pa.array(ids, pa.int64()), pa.array(days, pa.int32()), pa.array([shop] * len(ids), pa.int32())], schema
    )


def replacement(table: Table, *pairs: tuple[int, int], shop: int = 0) -> Replace:
    layout = TableLayout.of(table.refresh())
    buffer = Buffer(layout)
    buffer.add(rows(*pairs, shop=shop).cast(layout.arrow))
    return Replace(("lake", "t"), buffer.flush())


def commit(catalog: FrazilCatalog, change: Replace, *, attempt: int = 1) -> None:
    catalog.commit_changes([change.build(catalog.load_table("lake.t"), attempt=attempt, summary={}, properties={})])


def ids(catalog: FrazilCatalog) -> list[int]:
    return sorted(catalog.load_table("lake.t").scan().to_arrow()["id"].to_pylist())


def test_only_partitions_with_new_files_are_replaced(catalog: FrazilCatalog, table: Table) -> None:
    commit(catalog, replacement(table, (9, 2)))
    assert ids(catalog) == [1, 2, 5, 9]
    snapshot = catalog.load_table("lake.t").current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    result = ("added-records", "deleted-records", "deleted-data-files", "total-records", "total-data-files")
    assert [snapshot.summary[key] for key in result] == ["1", "2", "2", "4", "3"]
    assert snapshot.summary.operation == Operation.OVERWRITE


def test_an_append_that_came_first_is_replaced_at_the_next_attempt(catalog: FrazilCatalog, table: Table) -> None:
    change = replacement(table, (9, 2))
    late = change.build(catalog.load_table("lake.t"), attempt=1, summary={}, properties={})
    table.refresh().append(rows((6, 2), (7, 3)))
    with pytest.raises(CommitConflict):
        catalog.commit_changes([late])
    commit(catalog, change, attempt=2)
    assert ids(catalog) == [1, 2, 5, 7, 9]


def test_older_snapshots_keep_their_rows(catalog: FrazilCatalog, table: Table) -> None:
    before = table.refresh().current_snapshot()
    commit(catalog, replacement(table, (9, 1), (10, 2), (11, 3)))
    assert before is not None
    old = catalog.load_table("lake.t").scan(snapshot_id=before.snapshot_id).to_arrow()
    assert (ids(catalog), sorted(old["id"].to_pylist())) == ([9, 10, 11], [1, 2, 3, 4, 5])


def test_files_of_another_partitioning_are_kept_apart_or_refused(catalog: FrazilCatalog, table: Table) -> None:
    with table.update_spec() as update:
        update.add_field("shop", IdentityTransform(), "shop")
    commit(catalog, replacement(table, (9, 4)))  # no old file has day 4
    assert ids(catalog) == [1, 2, 3, 4, 5, 9]
    with raises(SinkError, table="lake.t", problem="other-spec"):
        commit(catalog, replacement(table, (10, 2)))
    assert ids(catalog) == [1, 2, 3, 4, 5, 9]
