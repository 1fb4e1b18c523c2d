"""What is new in an input since a model has read it, from histories with appends, compaction, deletes and rollbacks."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.types import LongType, NestedField

from frazil.pipelines.models.inputs import Arrived, News, current_state, find_news, only_grew_last
from frazil.write.commit import InputState

TABLE = uuid.UUID(int=7)


def snapshot(number: int, operation: str = "append", parent: int | None = None, **counts: int) -> dict[str, Any]:
    summary = {"operation": operation, "total-records": "10"}
    summary |= {name.replace("_", "-"): str(count) for name, count in counts.items()}
    return {
        "snapshot-id": number,
        "parent-snapshot-id": parent,
        "sequence-number": number,
        "timestamp-ms": number,
        "manifest-list": f"file:///t/snap-{number}.avro",
        "summary": summary,
    }


def metadata(*snapshots: dict[str, Any], head: int | None = None) -> TableMetadata:
    schema = Schema(NestedField(1, "id", LongType()), schema_id=0)
    refs = {} if head is None else {"main": {"snapshot-id": head, "type": "branch"}}
    return TableMetadataV2(
        **{
            "table-uuid": TABLE,
            "location": "file:///t",
            "last-updated-ms": 100,
            "last-column-id": 1,
            "schemas": [schema],
            "current-schema-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "default-spec-id": 0,
            "last-partition-id": 999,
            "last-sequence-number": 100,
            "snapshots": list(snapshots),
            "current-snapshot-id": head,
            "refs": refs,
        }
    )


def news(loaded: TableMetadata, since: int | None, *, uuid: str = str(TABLE)) -> Arrived:
    return find_news(loaded, InputState(uuid, since), current_state(loaded), name="silver.orders")


FIRST = snapshot(1, added_records=10)


@pytest.mark.parametrize(
    ("later", "expected", "rows"),
    [
        ([], News.NOTHING, 0),
        ([snapshot(2, parent=1, added_records=3)], News.APPENDED, 3),
        ([snapshot(2, parent=1)], News.NOTHING, 0),  # the empty append of a takeover
        ([snapshot(2, "replace", 1, added_records=10, deleted_records=10)], News.NOTHING, 0),
        ([snapshot(2, parent=1, added_records=3), snapshot(3, "replace", 2, added_records=13)], News.APPENDED, 3),
        ([snapshot(2, "overwrite", 1, added_records=2, deleted_records=2)], News.CHANGED, 0),
        ([snapshot(2, "overwrite", 1, added_delete_files=1)], News.CHANGED, 0),
        ([snapshot(2, "delete", 1, deleted_records=1), snapshot(3, parent=2, added_records=4)], News.CHANGED, 4),
        ([snapshot(2, "overwrite", 1)], News.NOTHING, 0),
    ],
)
def test_the_operations_since_the_last_read_say_what_is_new(later: list[Any], expected: News, rows: int) -> None:
    arrived = news(metadata(FIRST, *later, head=len(later) + 1), since=1)
    assert (arrived.news, arrived.rows_added) == (expected, rows)


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ([], True),
        ([snapshot(2, "overwrite", 1, added_records=2, deleted_records=2)], False),
        ([snapshot(2, "delete", 1, deleted_records=2), snapshot(3, parent=2)], False),  # a takeover on top of it
        ([snapshot(2, "overwrite", 1, deleted_records=2), snapshot(3, parent=2, added_records=1)], True),
        ([snapshot(2, "replace", 1, added_records=10, deleted_records=10)], True),
    ],
)
def test_the_last_snapshot_that_changed_rows_says_whether_a_table_only_grew(later: list[Any], expected: bool) -> None:
    assert only_grew_last(metadata(FIRST, *later, head=len(later) + 1)) is expected


def test_a_table_without_a_snapshot_has_not_grown() -> None:
    assert not only_grew_last(metadata())


def test_an_append_that_counts_nothing_may_have_added_rows() -> None:
    bare = snapshot(2, parent=1)
    del bare["summary"]["total-records"]
    assert news(metadata(FIRST, bare, head=2), since=1).news is News.APPENDED


def test_all_snapshots_of_a_table_that_was_empty_are_new() -> None:
    assert news(metadata(FIRST, head=1), since=None).news is News.APPENDED


def test_a_rollback_changes_rows_as_long_as_the_snapshot_is_known() -> None:
    loaded = metadata(FIRST, snapshot(2, parent=1, added_records=3), snapshot(3, parent=1, added_records=5), head=3)
    arrived = news(loaded, since=2)
    assert arrived.news is News.CHANGED
    assert "rolled back" in arrived.reason


def test_a_branch_that_lacks_what_was_read_on_main_has_changed_rows() -> None:
    loaded = metadata(FIRST, snapshot(2, parent=1, added_records=3), snapshot(3, parent=1, added_records=5), head=2)
    arrived = find_news(loaded, InputState(str(TABLE), 2), InputState(str(TABLE), 3), name="silver.orders")
    assert (arrived.news, "another branch" in arrived.reason) == (News.CHANGED, True)


def test_an_expired_snapshot_leaves_what_changed_unknown() -> None:
    loaded = metadata(snapshot(5, parent=4, added_records=1), head=5)
    assert news(loaded, since=2).news is News.UNKNOWN
    assert news(loaded, since=None).news is News.UNKNOWN


@pytest.mark.parametrize(("later", "expected"), [([], News.NOTHING), ([{"added_records": 3}], News.APPENDED)])
def test_an_expired_snapshot_is_replaced_by_one_on_top_of_it_with_the_same_rows(
    later: list[dict[str, int]], expected: News
) -> None:
    newer = [snapshot(6, parent=5, **counts) for counts in later]
    loaded = metadata(snapshot(5, parent=4), *newer, head=6 if newer else 5)
    arrived = news(loaded, since=4)
    assert arrived.news is expected
    assert arrived.since == InputState(str(TABLE), 5)


def test_a_table_that_was_made_again_is_unknown() -> None:
    assert news(metadata(FIRST, head=1), since=1, uuid=str(uuid.UUID(int=8))).news is News.UNKNOWN


def test_what_was_never_read_is_all_new() -> None:
    loaded = metadata(FIRST, head=1)
    assert find_news(loaded, None, current_state(loaded), name="t").news is News.FIRST
