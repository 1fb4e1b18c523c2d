"""What a later look at a table says about a commit of unknown fate."""

from __future__ import annotations

from uuid import UUID

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.refs import SnapshotRef
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertCreate,
    AssertRefSnapshotId,
    AssertTableUUID,
    AssignUUIDUpdate,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
)

from frazil.client.changes import Change, Verdict, judge, judge_all

OURS, THEIRS = UUID(int=1), UUID(int=2)


def table(*snapshot_ids: int, uuid: UUID = OURS, expired: tuple[int, ...] = ()) -> TableMetadata:
    """A table with these snapshots, each the parent of the next; main is at the last."""
    empty = new_table_metadata(
        schema=Schema(),
        partition_spec=UNPARTITIONED_PARTITION_SPEC,
        sort_order=UNSORTED_SORT_ORDER,
        location="file:/x",
        table_uuid=uuid,
    )
    parents = [None, *snapshot_ids[:-1]]
    snapshots = [
        snapshot(number, parent) for number, parent in zip(snapshot_ids, parents, strict=False) if number not in expired
    ]
    refs = {"main": SnapshotRef(snapshot_id=snapshot_ids[-1], snapshot_ref_type="branch")} if snapshot_ids else {}
    return empty.model_copy(update={"snapshots": snapshots, "refs": refs})


def snapshot(number: int, parent: int | None = None, **summary: str) -> Snapshot:
    described = Summary(operation=Operation.APPEND, **summary)
    return Snapshot(
        snapshot_id=number, parent_snapshot_id=parent, timestamp_ms=1, manifest_list="file:/m", summary=described
    )


APPEND = Change(
    ("ns", "t"),
    (AssertTableUUID(uuid=OURS), AssertRefSnapshotId(ref="main", snapshot_id=10)),
    (AddSnapshotUpdate(snapshot=snapshot(11)),),
)
CREATE = Change(("ns", "t"), (AssertCreate(),), (AssignUUIDUpdate(uuid=OURS),))
CREATE_UNNAMED = Change(("ns", "t"), (AssertCreate(),), ())
PROPERTIES = Change(("ns", "t"), (AssertTableUUID(uuid=OURS),), (SetPropertiesUpdate(updates={"a": "b"}),))

MOVE = Change(
    ("ns", "t"),
    (AssertRefSnapshotId(ref="main", snapshot_id=10),),
    (SetSnapshotRefUpdate.model_validate({"ref-name": "main", "type": "branch", "snapshot-id": 11}),),
)
DROP = Change(
    ("ns", "t"),
    (AssertRefSnapshotId(ref="v1", snapshot_id=10),),
    (RemoveSnapshotRefUpdate.model_validate({"ref-name": "v1"}),),
)


@pytest.mark.parametrize(
    ("change", "metadata", "verdict"),
    [
        (APPEND, table(10, 11), Verdict.COMMITTED),
        (APPEND, table(10, 11, 12), Verdict.COMMITTED),
        (APPEND, table(10), Verdict.UNDECIDED),
        (APPEND, table(10, 12), Verdict.REFUSED),
        (APPEND, table(10, 12, 13), Verdict.REFUSED),
        (APPEND, table(10, 12, expired=(10,)), Verdict.REFUSED),  # 12 says that it follows 10
        (APPEND, table(10, 11, 12, expired=(11,)), Verdict.UNDECIDED),
        (APPEND, table(10, 12, 13, expired=(12,)), Verdict.UNDECIDED),  # 12 could have been our own
        (APPEND, table(10, 12, 13, expired=(10, 12)), Verdict.UNDECIDED),
        (APPEND, table(12), Verdict.UNDECIDED),  # another line: 10 may have expired with 11
        (APPEND, table(), Verdict.UNDECIDED),  # main is gone
        (APPEND, table(10, 11, uuid=THEIRS), Verdict.UNDECIDED),  # ours may have been renamed since
        (APPEND, None, Verdict.UNDECIDED),
        (CREATE, table(), Verdict.COMMITTED),
        (CREATE, table(uuid=THEIRS), Verdict.UNDECIDED),
        (CREATE_UNNAMED, table(), Verdict.UNDECIDED),  # anyone's
        (CREATE, None, Verdict.UNDECIDED),
        (PROPERTIES, table(10), Verdict.UNDECIDED),
        (MOVE, table(11, 10), Verdict.UNDECIDED),
        (MOVE, table(10, 11), Verdict.UNDECIDED),  # by this change, or by another that moved it to the same place
        (MOVE, table(10, 11, 12), Verdict.UNDECIDED),  # 12 was written on top of it
        (MOVE, table(10, 12), Verdict.REFUSED),
        (DROP, table(10), Verdict.UNDECIDED),
    ],
)
def test_the_table_tells_what_became_of_the_change(
    change: Change, metadata: TableMetadata | None, verdict: Verdict
) -> None:
    assert judge(change, metadata) is verdict


@pytest.mark.parametrize(
    ("change", "value", "verdict"),
    [
        (APPEND, "true", Verdict.UNDECIDED),
        (APPEND, "false", Verdict.REFUSED),
        (MOVE, "true", Verdict.REFUSED),
    ],
)
def test_an_append_can_still_come_in_where_appends_are_rebased(change: Change, value: str, verdict: Verdict) -> None:
    metadata = table(10, 12)
    rebases = metadata.model_copy(update={"properties": {"commit.rebase-appends.enabled": value}})
    assert judge(change, rebases) is verdict


def test_an_append_to_an_empty_table_is_refused_once_somebody_else_has_written() -> None:
    first = Change(
        ("ns", "t"), (AssertRefSnapshotId(ref="main", snapshot_id=None),), (AddSnapshotUpdate(snapshot=snapshot(11)),)
    )
    assert (judge(first, table()), judge(first, table(12))) == (Verdict.UNDECIDED, Verdict.REFUSED)


def test_a_cherry_picked_copy_of_the_change_leaves_it_undecided() -> None:
    result = table(10)
    copy = snapshot(12, 10, **{"source-snapshot-id": "11"})
    main = SnapshotRef(snapshot_id=12, snapshot_ref_type="branch")
    result = result.model_copy(update={"snapshots": [*result.snapshots, copy], "refs": {"main": main}})
    assert judge(APPEND, result) is Verdict.UNDECIDED


def test_tables_that_contradict_each_other_decide_nothing() -> None:
    assert judge_all([Verdict.COMMITTED, Verdict.REFUSED]) is Verdict.UNDECIDED
    assert judge_all([Verdict.UNDECIDED, Verdict.REFUSED]) is Verdict.REFUSED
