"""Equality deletes: rows that they delete leave with a compaction, those that come meanwhile hold, and those that are
done go.

tests/engines/test_maintain_deletes.py has delete files that Iceberg's Java library wrote; the rules are those of the
specification.
"""

from __future__ import annotations

import pytest
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType

from frazil.client import FrazilCatalog
from frazil.upkeep.deletes import DeleteResult, DeleteRewrite, plan_deletes
from frazil.upkeep.survey import Survey
from tests.contract.upkeep_lake import HURRIED, Kept, during

BUCKET = BucketTransform(2).transform(LongType())


@pytest.fixture
def kept(catalog: FrazilCatalog) -> Kept:
    """Six files; 0 and 3 are deleted, and 3 is there again, in a seventh one that is younger than the delete."""
    kept = Kept(catalog).create("day")
    for number in range(6):
        kept.append(number)
    kept.delete_equal(0, 3)
    kept.append(3)
    return kept


LEFT = [1, 2, 3, 4, 5]


def drop_deletes(kept: Kept) -> DeleteResult:
    return DeleteRewrite(kept.catalog, kept.identifier, HURRIED).run(kept.live, plan_deletes(kept.live, kept.policy))


def test_rows_that_were_deleted_leave_and_the_delete_files_after_them(kept: Kept) -> None:
    result = kept.compact()
    assert (result.files_before, result.files_after, result.rows, result.problems) == (7, 1, 5, ())
    assert kept.scanned() == LEFT
    assert drop_deletes(kept).dangling == 1
    assert (kept.ids(), plan_deletes(kept.live, kept.policy).before) == (LEFT, 0)  # PyIceberg can read it now
    summary = kept.summary()
    assert [summary[name] for name in ("removed-equality-delete-files", "removed-equality-deletes")] == ["1", "2"]


def test_a_delete_file_that_still_concerns_a_file_stays(kept: Kept) -> None:
    assert plan_deletes(kept.live, kept.policy).before == 0


def test_positions_and_values_may_delete_the_same_row(kept: Kept) -> None:
    kept.delete(0, 1, 3)
    assert kept.compact().problems == ()
    assert kept.scanned() == [2, 4, 5]


@pytest.mark.parametrize("step", ["files written", "before commit"])
def test_a_delete_that_comes_meanwhile_holds_for_the_new_files(kept: Kept, step: str) -> None:
    """And 3, which is younger than the first delete, is still there: the new file is as old as what was read, and no
    older.
    """
    result = kept.compact(retry=during(lambda: kept.delete_equal(4), step))
    assert (result.groups, len(result.snapshots), result.overtaken) == (1, 1, 0)
    assert kept.scanned() == [1, 2, 3, 5]
    assert drop_deletes(kept).dangling == 1  # the first one; the second concerns the new file
    assert kept.scanned() == [1, 2, 3, 5]
    kept.compact(kept.plan(everything=True))
    drop_deletes(kept)
    assert (kept.ids(), Survey(kept.live).has_deletes) == ([1, 2, 3, 5], False)


def test_a_row_that_is_replaced_meanwhile_is_there_once(kept: Kept) -> None:
    def upsert() -> None:
        kept.delete_equal(4)
        kept.append(4)

    kept.compact(retry=during(upsert))
    assert kept.scanned() == LEFT
    kept.compact(kept.plan(everything=True))
    assert kept.scanned() == LEFT


def test_a_position_delete_next_to_an_equality_delete_makes_it_plan_again(kept: Kept) -> None:
    def delete_both() -> None:
        kept.delete_equal(4)
        kept.delete(5)

    kept.compact(retry=during(delete_both))
    assert kept.scanned() == [1, 2, 3]


def move_main(kept: Kept, snapshot_id: int) -> None:
    kept.live.manage_snapshots().set_current_snapshot(snapshot_id).commit()


def test_a_delete_that_a_rollback_takes_back_meanwhile_is_not_carried_out(kept: Kept) -> None:
    before = kept.head()
    kept.delete_equal(1)
    kept.compact(retry=during(lambda: move_main(kept, before)))
    assert kept.scanned() == LEFT


def test_a_delete_from_another_line_that_is_not_younger_makes_it_plan_anew(kept: Kept) -> None:
    """It was staged before the files were read, and is published while they are rewritten: its number is no greater
    than what was read.
    """
    base = kept.head()
    staged = kept.delete_equal(4)
    move_main(kept, base)
    kept.append(100, day=2)
    kept.compact(retry=during(lambda: move_main(kept, staged)))
    assert kept.scanned() == [1, 2, 3, 5]


def test_a_delete_by_a_column_that_is_dropped_finds_its_rows(kept: Kept) -> None:
    """The old files still have the column; the new ones do not. A writer may not know yet that it was dropped."""
    with kept.live.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("name")
    kept.delete_equal("n1")
    kept.compact(retry=during(lambda: kept.delete_equal("n4")))
    assert kept.scanned() == [2, 3, 5]


def test_without_partitions_a_delete_holds_for_every_file(catalog: FrazilCatalog) -> None:
    kept = Kept(catalog).create()
    for number in range(6):
        kept.append(number)
    kept.delete_equal(1, partition=None)
    kept.compact(retry=during(lambda: kept.delete_equal(2, partition=None)))
    assert kept.scanned() == [0, 3, 4, 5]
    assert drop_deletes(kept).dangling == 1
    assert kept.scanned() == [0, 3, 4, 5]


# --- files that move to another partitioning -------------------------------------------------------------------------


@pytest.fixture
def moving(kept: Kept) -> Kept:
    with kept.live.update_spec() as update:
        update.add_field("id", BucketTransform(2), "id_bucket")
    return kept


def test_rows_that_move_are_deleted_by_what_comes_meanwhile(moving: Kept) -> None:
    """The delete is about the old partitioning, and would not find them in the new one."""
    moving.compact(moving.plan(everything=True), retry=during(lambda: moving.delete_equal(4)))
    assert moving.scanned() == [1, 2, 3, 5]


def test_rows_that_move_are_not_deleted_by_what_did_not_concern_them(moving: Kept) -> None:
    """The delete is about the new partitioning, in which they were not when it came."""

    def delete_there() -> None:
        moving.delete_equal(4, partition=(1, BUCKET(4)), spec_id=1)

    moving.compact(moving.plan(everything=True), retry=during(delete_there))
    assert moving.scanned() == LEFT


# --- delete files that seem to be done -------------------------------------------------------------------------------


def test_a_rollback_brings_back_what_seemed_to_dangle(kept: Kept) -> None:
    before = kept.head()
    kept.compact()
    plan = plan_deletes(kept.live, kept.policy)
    assert len(plan.dangling) == 1
    move_main(kept, before)
    assert DeleteRewrite(kept.catalog, kept.identifier, HURRIED).run(kept.live, plan).overtaken == 1
    assert kept.scanned() == LEFT


def test_a_manifest_that_is_committed_at_the_second_attempt_has_that_attempts_number(kept: Kept) -> None:
    kept.compact(retry=during(lambda: kept.append(9), "before commit"))
    head = kept.live.current_snapshot()
    assert head is not None
    added = [manifest for manifest in head.manifests(kept.live.io) if manifest.added_snapshot_id == head.snapshot_id]
    assert {item.sequence_number for item in added} == {head.sequence_number}
