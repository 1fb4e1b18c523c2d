"""Delete files and manifests on a real catalog: fewer of them, and the same rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import ManifestContent

from frazil.client import FrazilCatalog
from frazil.upkeep.deletes import DeleteRewrite, plan_deletes
from frazil.upkeep.manifests import ManifestRewrite, plan_manifests
from frazil.write.commit.publish import RetryPolicy
from tests.contract.upkeep_lake import HURRIED, Kept


@pytest.fixture
def kept(catalog: FrazilCatalog) -> Kept:
    """Two days with six files each."""
    kept = Kept(catalog).create("day")
    for number in range(6):
        kept.append(*range(number * 10, number * 10 + 10))
        kept.append(*range(100 + number * 10, 110 + number * 10), day=2)
    return kept


def manifests(kept: Kept, content: ManifestContent) -> int:
    snapshot = kept.live.current_snapshot()
    assert snapshot is not None
    return sum(manifest.content == content for manifest in snapshot.manifests(kept.live.io))


GONE = (1, 12, 23, 34, 45, 101)
LEFT = [item for start in (0, 100) for item in range(start, start + 60) if item not in GONE]


def test_small_delete_files_of_a_partition_become_one(kept: Kept) -> None:
    kept.delete(*GONE)
    result = DeleteRewrite(kept.catalog, kept.identifier, HURRIED).run(kept.live, plan_deletes(kept.live, kept.policy))
    assert (result.merged, result.written, result.dangling) == (5, 1, 0)
    assert (kept.ids(), len(kept.delete_files())) == (LEFT, 2)
    summary = kept.summary()
    assert [summary[key] for key in ("operation", "removed-delete-files", "added-delete-files")] == [
        "replace",
        "5",
        "1",
    ]


def test_deletes_of_files_that_are_gone_go(kept: Kept) -> None:
    kept.delete(*GONE)
    kept.compact(kept.plan(everything=True))
    plan = plan_deletes(kept.live, kept.policy)
    assert (len(plan.dangling), plan.merges) == (6, ())
    result = DeleteRewrite(kept.catalog, kept.identifier, HURRIED).run(kept.live, plan)
    assert (result.dangling, kept.ids(), plan_deletes(kept.live, kept.policy).before) == (6, LEFT, 0)


def test_rows_deleted_meanwhile_stay_deleted(kept: Kept) -> None:
    kept.delete(*GONE)
    left = [True]

    def on_step(step: str) -> None:
        if step == "before commit" and left:
            left.pop()
            kept.delete(2)

    work = DeleteRewrite(kept.catalog, kept.identifier, replace(HURRIED, on_step=on_step))
    work.run(kept.live, plan_deletes(kept.live, kept.policy))
    assert kept.ids() == [item for item in LEFT if item != 2]


def test_manifests_are_merged_and_lie_by_partition(kept: Kept) -> None:
    assert manifests(kept, ManifestContent.DATA) == 12
    result = ManifestRewrite(kept.catalog, kept.identifier, HURRIED).run(
        plan_manifests(kept.live, kept.policy), policy=kept.policy
    )
    assert (result.before, result.after, manifests(kept, ManifestContent.DATA)) == (12, 1, 1)
    assert len(kept.ids()) == 120
    days = [task.file.partition[0] for task in kept.live.scan().plan_files()]
    assert days == sorted(days)
    assert len(kept.live.scan(EqualTo("day", 2)).to_arrow()) == 60


def test_sequence_numbers_stay_so_that_deletes_still_hold(kept: Kept) -> None:
    for item in GONE:
        kept.delete(item)
    plan = plan_manifests(kept.live, kept.policy)
    assert len(plan.merges) == 2  # of data, and of deletes
    ManifestRewrite(kept.catalog, kept.identifier, HURRIED).run(plan, policy=kept.policy)
    assert (kept.ids(), manifests(kept, ManifestContent.DELETES)) == (LEFT, 1)


def test_a_writer_that_merged_manifests_first_makes_it_plan_anew(kept: Kept) -> None:
    plan = plan_manifests(kept.live, kept.policy)
    ManifestRewrite(kept.catalog, kept.identifier, HURRIED).run(plan, policy=kept.policy)
    result = ManifestRewrite(kept.catalog, kept.identifier, HURRIED).run(plan, policy=kept.policy)
    assert (result.before, result.overtaken, len(kept.ids())) == (0, 0, 120)


def test_an_append_meanwhile_is_carried_over(kept: Kept) -> None:
    left = [True]

    def on_step(step: str) -> None:
        if step == "before commit" and left:
            left.pop()
            kept.append(999)

    retry: RetryPolicy = replace(HURRIED, on_step=on_step)
    ManifestRewrite(kept.catalog, kept.identifier, retry).run(
        plan_manifests(kept.live, kept.policy), policy=kept.policy
    )
    assert (len(kept.ids()), manifests(kept, ManifestContent.DATA)) == (121, 2)


def test_deletes_that_outlive_all_data_go(kept: Kept) -> None:
    kept.delete(*GONE)
    kept.compact(kept.plan(everything=True))
    kept.live.delete("day > 0")
    result = DeleteRewrite(kept.catalog, kept.identifier, HURRIED).run(kept.live, plan_deletes(kept.live, kept.policy))
    assert (result.dangling, kept.ids()) == (6, [])
