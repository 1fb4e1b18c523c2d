"""Expiry on a real catalog: which snapshots go, which files go with them, and which stay for whom."""

from __future__ import annotations

import time

import pytest

import frazil.sinks
from frazil.client import FrazilCatalog
from frazil.errors import CommitUnknown, Unavailable
from frazil.sinks.audit import audit
from frazil.upkeep.expire import plan_expiry
from frazil.upkeep.policy import DAY_MS
from frazil.write.commit.publish import RetryPolicy
from frazil.write.commit.rollback import roll_back
from tests.contract.upkeep_lake import Kept, as_path, compacted, rows


@pytest.fixture
def kept(catalog: FrazilCatalog) -> Kept:
    return compacted(catalog)


def later() -> int:
    """Ten days from now: all snapshots are old then."""
    return int(time.time() * 1000) + 10 * DAY_MS


def test_files_that_only_expired_snapshots_reach_are_removed_and_no_others(kept: Kept) -> None:
    old = kept.paths(kept.live.history()[5].snapshot_id)
    result = kept.expire(now_ms=later())
    assert result.snapshots == 6
    assert kept.ids() == list(range(6))
    on_disk = kept.on_disk()
    assert not {as_path(path) for path in old} & on_disk
    assert len([path for path in on_disk if path.endswith(".parquet")]) == 1
    lists = [path for path in on_disk if "/snap-" in path]
    assert len(lists) == 1


def test_a_plan_names_what_goes_and_touches_nothing(kept: Kept) -> None:
    before = kept.on_disk()
    plan = plan_expiry(kept.live, kept.policy, now_ms=later())
    assert (len(plan.expired.snapshot_ids), len(plan.doomed.data), len(plan.doomed.lists)) == (6, 6, 6)
    assert plan.doomed.bytes > 0
    assert (kept.on_disk(), len(kept.live.history())) == (before, 7)


def test_young_snapshots_and_the_least_number_stay(kept: Kept) -> None:
    assert kept.expire(now_ms=int(time.time() * 1000)).snapshots == 0
    assert kept.expire(now_ms=later(), min_snapshots=3).snapshots == 4
    assert [len(kept.ids(entry.snapshot_id)) for entry in kept.live.history()] == [5, 6, 6]


def test_branches_and_tags_keep_their_files(kept: Kept) -> None:
    first, third = kept.live.history()[0].snapshot_id, kept.live.history()[2].snapshot_id
    kept.live.manage_snapshots().create_tag(first, "first").create_branch(third, "side").commit()
    kept.append(50, branch="side")
    kept.expire(now_ms=later())
    assert (kept.ids(first), kept.ids(kept.head("side")), kept.ids()) == ([0], [0, 1, 2, 50], list(range(6)))
    assert set(kept.live.metadata.refs) == {"main", "first", "side"}


def test_a_refs_own_rules_come_first(kept: Kept) -> None:
    first, third = kept.live.history()[0].snapshot_id, kept.live.history()[2].snapshot_id
    kept.live.manage_snapshots().create_tag(first, "old", max_ref_age_ms=DAY_MS).commit()
    kept.live.manage_snapshots().create_branch(third, "side", max_snapshot_age_ms=100 * DAY_MS).commit()
    result = kept.expire(now_ms=later())
    assert result.refs == ("old",)
    assert set(kept.live.metadata.refs) == {"main", "side"}
    assert kept.ids(first) == [0]  # the branch keeps it, though the tag is gone


def test_files_that_a_rollback_has_brought_back_stay(kept: Kept) -> None:
    old = kept.live.history()[5].snapshot_id
    roll_back(kept.catalog, kept.identifier, old, with_progress=False)
    kept.expire(now_ms=later())
    assert kept.ids() == list(range(6))
    assert len(kept.paths()) == 6


def test_the_audit_agrees_after_expiry(catalog: FrazilCatalog) -> None:
    kept = Kept(catalog).create("day")
    sink = frazil.sinks.open(kept.name, name="s", catalog=catalog)
    for number in range(5):
        sink.write(rows([number]), position=number + 1)
        sink.commit()
    kept.compact()
    kept.expire(now_ms=later())
    assert audit(kept.live.metadata).problems == ()
    sink.write(rows([5]), position=6)
    sink.close()
    report = audit(kept.live.metadata)
    assert (report.problems, report.from_first, kept.ids()) == ((), False, list(range(6)))


def test_killed_between_commit_and_removal_the_files_are_left_and_the_table_is_whole(kept: Kept) -> None:
    def stop(step: str) -> None:
        if step == "expired, files not removed":
            raise KeyboardInterrupt

    before = kept.on_disk()
    with pytest.raises(KeyboardInterrupt):
        kept.expire(now_ms=later(), retry=RetryPolicy(on_step=stop))
    assert kept.on_disk() >= before
    assert (len(kept.live.metadata.snapshots), kept.ids()) == (1, list(range(6)))


def test_a_commit_of_unknown_fate_removes_no_file(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(_: object) -> None:
        raise CommitUnknown("no reply")

    monkeypatch.setattr(kept.catalog, "commit_changes", lose)
    before = kept.on_disk()
    with pytest.raises((CommitUnknown, Unavailable)):
        kept.expire(now_ms=later(), retry=RetryPolicy(give_up_seconds=0.2, longest_pause_seconds=0.05))
    assert kept.on_disk() == before


def test_a_lost_reply_still_removes_the_files(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = kept.catalog.commit_changes

    def lose(changes: object) -> None:
        commit(changes)  # type: ignore[arg-type]
        raise CommitUnknown("the reply was lost")

    monkeypatch.setattr(kept.catalog, "commit_changes", lose)
    result = kept.expire(now_ms=later())
    assert (result.snapshots, kept.ids()) == (6, list(range(6)))
    assert len([path for path in kept.on_disk() if path.endswith(".parquet")]) == 1


def test_a_tag_that_comes_after_the_plan_keeps_its_snapshot(kept: Kept) -> None:
    """What goes is decided again right before the commit."""
    first = kept.live.history()[0].snapshot_id

    def tag(step: str) -> None:
        if step == "before load" and "late" not in kept.live.metadata.refs:
            kept.live.manage_snapshots().create_tag(first, "late").commit()

    kept.expire(now_ms=later(), retry=RetryPolicy(on_step=tag, longest_pause_seconds=0.05))
    assert kept.live.metadata.refs["late"].snapshot_id == first
    assert kept.ids(first) == [0]


def test_main_that_moves_meanwhile_makes_it_decide_anew(kept: Kept) -> None:
    old = kept.live.history()[5].snapshot_id
    left = [True]

    def go_back(step: str) -> None:
        if step == "before commit" and left:
            left.pop()
            kept.live.manage_snapshots().set_current_snapshot(old).commit()

    kept.expire(now_ms=later(), retry=RetryPolicy(on_step=go_back, longest_pause_seconds=0.05))
    assert (kept.head(), kept.ids(), len(kept.paths())) == (old, list(range(6)), 6)


def test_a_table_that_forbids_it_loses_no_file(kept: Kept) -> None:
    before = kept.on_disk()
    assert kept.expire(now_ms=later(), may_delete=False).removed.files == 0
    assert kept.on_disk() >= before
