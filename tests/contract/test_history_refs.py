"""Branches and tags on a real catalog: made, dropped and published, and what goes with them."""

from __future__ import annotations

import threading

import pytest

from frazil.errors import CommitConflict, HistoryError
from frazil.history.refs import RefInfo, Retention, create_ref, perform_drop, perform_publish, plan_drop, plan_publish
from frazil.scan.planning.points import find_point
from frazil.sinks.audit import audit
from frazil.write.commit.progress import PartProgress, Progress, property_key, read_progress
from tests.contract.history_lake import Past
from tests.kit.raising import raises


def test_refs_are_listed_with_where_they_are_and_how_long_they_are_kept(past: Past) -> None:
    first = past.append(1)
    past.append(2)
    past.table.create_tag("v1", at=first, retention=Retention(max_ref_age_ms=1000))
    past.table.create_branch("dev", at="v1", retention=Retention(2000, 3000, 4))
    (main, dev, v1), when = [*past.table.branches(), *past.table.tags()], past.live.snapshot_by_id(first)
    assert when is not None
    assert (main.name, main.snapshot_id) == ("main", past.head())
    assert dev == RefInfo("dev", "branch", first, when.timestamp_ms, Retention(2000, 3000, 4))
    assert v1 == RefInfo("v1", "tag", first, when.timestamp_ms, Retention(1000))
    assert [ref.name for ref in past.table.tags()] == ["v1"]


def test_a_name_that_is_taken_or_looks_like_an_id_is_refused(past: Past) -> None:
    past.append(1)
    past.table.create_tag("v1")
    with raises(HistoryError, ref="v1"):
        past.table.create_branch("v1")
    with raises(HistoryError, name="12"):
        past.table.create_branch("12")


def test_of_two_that_make_a_tag_at_once_one_fails(past: Past) -> None:
    past.append(1)
    live, result = past.live, []  # both have read the table without the tag
    point = find_point(live.metadata, "main", table=past.name)

    def make() -> None:
        try:
            create_ref(past.catalog, live, "v1", "tag", point)
        except CommitConflict as exc:
            result.append(exc)

    threads = [threading.Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(result), "v1" in past.live.metadata.refs) == (1, True)


def test_dropping_a_branch_tells_what_goes_with_it(past: Past) -> None:
    past.append(1)
    past.table.create_branch("dev")
    with past.sink("s", ref="dev") as sink:
        past.fill(sink, 2)
    plan = past.table.drop_branch("dev")
    assert (len(plan.unreachable), plan.parts) == (2, ("s/part-0",))
    assert ("dev" in past.live.metadata.refs, property_key("dev") in past.live.properties) == (False, False)


def test_main_and_refs_of_the_other_kind_are_not_dropped(past: Past) -> None:
    past.append(1)
    past.table.create_tag("v1")
    with raises(HistoryError, ref="main"):
        past.table.drop_branch("main")
    with raises(HistoryError, ref="v1"):
        past.table.drop_branch("v1")


def test_a_branch_that_has_moved_since_the_plan_is_not_dropped(past: Past) -> None:
    past.append(1)
    past.table.create_branch("dev")
    live = past.live
    plan = plan_drop(live, "dev", "branch")
    past.append(2, branch="dev")
    with pytest.raises(CommitConflict):
        perform_drop(past.catalog, live, plan)
    assert past.ids("dev") == [1, 2]


def test_a_published_branch_brings_its_rows_and_its_progress_to_main(past: Past) -> None:
    past.append(100)
    past.table.create_branch("dev")
    with past.sink("s", ref="dev") as sink:
        past.fill(sink, 2)
        past.table.publish("dev")
        assert (past.ids(), read_progress(past.live.metadata).part("s/part-0").offsets) == ([0, 1, 100], {"0": 2})
        past.fill(sink, 5)
    past.table.publish("dev")
    assert (past.ids(), read_progress(past.live.metadata).part("s/part-0").offsets) == ([*range(5), 100], {"0": 5})
    with raises(HistoryError, ref="dev"):
        past.table.publish("dev")


def test_a_branch_that_main_has_outgrown_is_not_published(past: Past) -> None:
    past.append(1)
    past.table.create_branch("dev")
    past.append(2, branch="dev")
    past.append(3)
    with raises(HistoryError, ref="dev"):
        past.table.publish("dev")
    assert past.ids() == [1, 3]


def test_a_publication_that_somebody_has_outrun_changes_nothing(past: Past) -> None:
    past.append(1)
    past.table.create_branch("dev")
    past.append(2, branch="dev")
    live = past.live
    plan = plan_publish(live, "dev")
    past.append(3, branch="dev")
    with pytest.raises(CommitConflict):
        perform_publish(past.catalog, live, plan)
    assert past.ids() == [1]


def test_a_sink_goes_on_on_a_branch_where_main_stands_and_on_main_where_the_branch_came_to(past: Past) -> None:
    with past.sink("s") as sink:
        past.fill(sink, 5)
    past.table.create_branch("dev")
    with past.sink("s", ref="dev") as sink:
        assert sink.offset == 5
        past.fill(sink, 7)
    past.table.publish("dev")
    with past.sink("s") as sink:
        assert sink.offset == 7
    assert (past.ids(), audit(past.live.metadata).problems) == (list(range(7)), ())


def test_a_sink_that_is_further_on_main_forbids_the_publication(past: Past) -> None:
    with past.sink("s") as sink:
        past.fill(sink, 5)
    past.table.create_branch("dev")
    with past.sink("s", ref="dev") as sink:
        past.fill(sink, 7)
    with past.live.transaction() as change:  # as if another writer had set it forward
        change.set_properties({property_key(): Progress({"s/part-0": PartProgress(9, "w", 9, {"0": 9})}).dump()})
    with raises(HistoryError, part="s/part-0", ref="dev"):
        past.table.publish("dev")
