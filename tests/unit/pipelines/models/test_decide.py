"""What a run does with a model, for each mode and each kind of news of its inputs."""

from __future__ import annotations

import pytest

from frazil.errors import PipelineError
from frazil.pipelines.models.decide import Action, Question, decide
from frazil.pipelines.models.inputs import Arrived, News
from frazil.write.commit import InputState

STATE = InputState("u", 1)
A, C, U, N, F = News.APPENDED, News.CHANGED, News.UNKNOWN, News.NOTHING, News.FIRST


def arrived(news: News) -> Arrived:
    return Arrived(news, STATE, STATE, news.value)


def action(mode: str, orders: News, customers: News, **options: bool) -> Action:
    question = Question("gold.revenue", mode, "orders", **{"is_alone": True, **options})
    return decide(question, {"orders": arrived(orders), "customers": arrived(customers)}).action


@pytest.mark.parametrize(
    ("mode", "orders", "customers", "expected"),
    [
        *((mode, N, N, Action.NOTHING) for mode in ("rebuild", "append", "upsert", "replace-partition")),
        *(("rebuild", news, other, Action.OVERWRITE) for news, other in [(A, N), (C, N), (U, N), (N, A), (F, F)]),
        ("append", A, N, Action.APPEND),
        ("append", A, C, Action.APPEND),
        ("append", N, A, Action.NOTHING),  # rows that are there stay as they are
        ("append", F, F, Action.ALL),
        ("upsert", A, N, Action.MERGE),
        ("upsert", C, N, Action.MERGE),
        ("upsert", N, A, Action.OVERWRITE),  # any row may depend on the other input
        ("upsert", F, F, Action.ALL),
        ("replace-partition", A, N, Action.PARTITIONS),
        ("replace-partition", C, N, Action.PARTITIONS),
        ("replace-partition", A, U, Action.OVERWRITE),
        ("replace-partition", F, F, Action.ALL),
    ],
)
def test_the_mode_and_the_news_decide(mode: str, orders: News, customers: News, expected: Action) -> None:
    assert action(mode, orders, customers) is expected


@pytest.mark.parametrize(
    ("mode", "orders", "problem"),
    [("append", C, "changed"), ("append", U, "expired"), ("upsert", U, "expired"), ("replace-partition", U, "expired")],
)
def test_what_the_mode_cannot_follow_is_an_error_that_names_the_way_out(mode: str, orders: News, problem: str) -> None:
    with pytest.raises(PipelineError) as raised:
        action(mode, orders, N)
    assert raised.value.problem == problem
    assert "frazil run gold.revenue --full-refresh" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("mode", "orders", "expected"),
    [
        ("rebuild", N, Action.OVERWRITE),
        ("upsert", N, Action.OVERWRITE),
        ("replace-partition", A, Action.OVERWRITE),
        ("append", N, Action.NOTHING),  # the input may no longer have the rows that are there
        ("append", A, Action.APPEND),
    ],
)
def test_a_table_whose_query_changed_is_rebuilt_unless_it_only_grows(mode: str, orders: News, expected: Action) -> None:
    assert action(mode, orders, N, query_changed=True) is expected


def test_appends_say_that_earlier_rows_are_those_of_the_former_query() -> None:
    question = Question("gold.log", "append", "orders", is_alone=True, query_changed=True)
    decision = decide(question, {"orders": arrived(N)})
    assert decision.reason.endswith("earlier rows stay as they are (frazil run gold.log --full-refresh)")


def test_an_input_that_is_read_for_the_first_time_appends_no_row_twice() -> None:
    assert action("append", A, F) is Action.APPEND
    with pytest.raises(PipelineError) as raised:
        action("append", F, N)
    assert raised.value.problem == "other-inputs"


def test_a_full_refresh_is_a_rebuild_in_every_mode() -> None:
    assert {action(mode, U, U, full_refresh=True) for mode in ("append", "upsert", "rebuild")} == {Action.OVERWRITE}


def test_a_pipeline_that_reads_only_new_rows_refuses_changed_ones() -> None:
    with pytest.raises(PipelineError, match="only rows that were added") as raised:
        action("upsert", C, N, is_alone=False, reads_changes=False)
    assert "changes=True" in (raised.value.hint or "")


@pytest.mark.parametrize(("mode", "expected"), [("append", Action.APPEND), ("upsert", Action.MERGE)])
def test_a_pipeline_that_takes_changes_goes_on_unless_they_are_not_known(mode: str, expected: Action) -> None:
    options = {"is_alone": False, "takes_changes": True}
    assert action(mode, C, N, **options) is expected
    for others in (N, A, F):  # also where it reads all rows: which ones went is not among them
        with pytest.raises(PipelineError) as raised:
            action(mode, U, others, **options)
        assert raised.value.problem == "expired"


def test_a_table_that_others_fill_too_is_never_overwritten() -> None:
    assert action("upsert", N, A, is_alone=False) is Action.ALL
