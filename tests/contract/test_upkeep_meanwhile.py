"""What others do at the worst moment: after upkeep has looked at the table, and before its commit arrives.

The catalog itself refuses a snapshot whose sequence number is used. So most writers would be noticed without any guard;
here are those who would not: a ref that moves to a snapshot which is there already, a table of format 1, another table
of the same name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest
from pyiceberg.table.update import AssertRefSnapshotId

from frazil.client import FrazilCatalog
from frazil.client.changes import Change
from frazil.upkeep.deletes import DeletePlan, DeleteRewrite, plan_deletes
from frazil.upkeep.manifests import ManifestRewrite, plan_manifests
from frazil.upkeep.policy import DAY_MS
from frazil.write.commit.publish import RetryPolicy
from tests.contract.upkeep_lake import HURRIED, Kept, during, with_deleted_rows


@pytest.fixture
def kept(catalog: FrazilCatalog) -> Kept:
    return with_deleted_rows(catalog)


def compact(kept: Kept, retry: RetryPolicy) -> None:
    kept.compact(retry=retry)


def merge_deletes(kept: Kept, retry: RetryPolicy) -> None:
    DeleteRewrite(kept.catalog, kept.identifier, retry).run(kept.live, plan_deletes(kept.live, kept.policy))


def merge_manifests(kept: Kept, retry: RetryPolicy) -> None:
    ManifestRewrite(kept.catalog, kept.identifier, retry).run(
        plan_manifests(kept.live, kept.policy), policy=kept.policy
    )


Work = Callable[[Kept, RetryPolicy], None]
WORKS: list[Work] = [compact, merge_deletes, merge_manifests]
BEFORE_COMMIT = "before commit"


def move_main(kept: Kept, snapshot_id: int) -> None:
    """As `rollback_to_snapshot` and `fast_forward` of other engines do it: no snapshot is added."""
    kept.live.manage_snapshots().set_current_snapshot(snapshot_id).commit()


# --- between the look and the commit ---------------------------------------------------------------------------------


@pytest.mark.parametrize("work", WORKS)
def test_a_rollback_is_not_undone(kept: Kept, work: Work) -> None:
    good = kept.head()
    kept.append(666)
    work(kept, during(lambda: move_main(kept, good), BEFORE_COMMIT))
    assert kept.ids() == list(range(6))


@pytest.mark.parametrize("work", WORKS)
def test_rows_that_are_published_from_a_branch_are_not_lost(kept: Kept, work: Work) -> None:
    kept.live.manage_snapshots().create_branch(kept.head(), "audit").commit()
    kept.append(500, branch="audit")
    work(kept, during(lambda: move_main(kept, kept.head("audit")), BEFORE_COMMIT))
    assert kept.ids() == [*range(6), 500]


@pytest.mark.parametrize("work", [compact, merge_manifests])
def test_rows_that_are_appended_to_a_table_of_format_1_are_not_lost(catalog: FrazilCatalog, work: Work) -> None:
    kept = Kept(catalog).create("day", properties={"format-version": "1"})
    for number in range(6):
        kept.append(number)
    work(kept, during(lambda: kept.append(500), BEFORE_COMMIT))
    assert kept.ids() == [*range(6), 500]


@pytest.mark.parametrize("work", WORKS)
def test_a_table_that_takes_the_place_of_another_keeps_its_own_rows(kept: Kept, work: Work) -> None:
    def replace_table() -> None:
        kept.catalog.drop_table(kept.name)
        kept.create("day")
        kept.append(1000)

    work(kept, during(replace_table, BEFORE_COMMIT))
    assert kept.ids() == [1000]


def test_a_branch_that_goes_back_keeps_the_snapshot_that_would_expire(kept: Kept) -> None:
    first = kept.live.history()[0].snapshot_id
    kept.live.manage_snapshots().create_branch(kept.head(), "side").commit()

    def go_back() -> None:
        kept.live.manage_snapshots().remove_branch("side").create_branch(first, "side").commit()

    kept.expire(now_ms=int(time.time() * 1000) + 10 * DAY_MS, retry=during(go_back, BEFORE_COMMIT))
    assert (kept.head("side"), kept.ids(first)) == (first, [0, 10])


@pytest.mark.parametrize("kind", ["tag", "branch"])
def test_a_ref_that_is_made_on_a_snapshot_that_would_expire_keeps_it(kept: Kept, kind: str) -> None:
    first = kept.live.history()[0].snapshot_id

    def make() -> None:
        refs = kept.live.manage_snapshots()
        (refs.create_tag if kind == "tag" else refs.create_branch)(first, "late").commit()

    kept.expire(now_ms=int(time.time() * 1000) + 10 * DAY_MS, retry=during(make, BEFORE_COMMIT))
    assert (kept.head("late"), kept.ids(first)) == (first, [0, 10])


def test_an_expiry_says_where_every_ref_is(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frazil's catalog would notice by itself; others drop a ref with its snapshot."""
    kept.live.manage_snapshots().create_branch(kept.head(), "side").create_tag(kept.head(), "v1").commit()
    sent: list[Change] = []

    def commit(changes: Sequence[Change]) -> None:
        sent.extend(changes)
        raise KeyboardInterrupt

    monkeypatch.setattr(kept.catalog, "commit_changes", commit)
    with pytest.raises(KeyboardInterrupt):
        kept.expire(now_ms=int(time.time() * 1000) + 10 * DAY_MS)
    guards = {
        requirement.ref: requirement.snapshot_id
        for requirement in sent[0].requirements
        if isinstance(requirement, AssertRefSnapshotId)
    }
    assert guards == dict.fromkeys(("main", "side", "v1"), kept.head())


# --- between the plan and the look -----------------------------------------------------------------------------------


def perform(kept: Kept, plan: DeletePlan) -> int:
    """Gives how many delete files were left to another time."""
    return DeleteRewrite(kept.catalog, kept.identifier, HURRIED).run(kept.live, plan).overtaken


def test_a_rollback_brings_back_what_seemed_to_dangle(kept: Kept) -> None:
    """The data files are gone when the plan is made, and live again when it is carried out: their deletes must hold."""
    deleted = kept.head()
    kept.compact()
    plan = plan_deletes(kept.live, kept.policy)
    assert len(plan.dangling) == 6
    move_main(kept, deleted)
    assert (perform(kept, plan), kept.ids()) == (6, list(range(6)))


def test_merged_deletes_cover_files_that_a_rollback_has_brought_back(kept: Kept) -> None:
    """One delete file about two data files, of which one is gone when the plan is made: the merged one would leave out
    its rows.
    """
    for number in range(20, 25):
        kept.append(number, number + 10)
    wide = kept.delete_together(*range(30, 35))
    kept.live.delete("id == 20")  # copy-on-write: the file is gone, the others of the same delete file stay
    plan = plan_deletes(kept.live, kept.policy)
    assert len(plan.merges) == 1
    move_main(kept, wide)
    perform(kept, plan)
    assert kept.ids() == [*range(6), *range(20, 25)]
