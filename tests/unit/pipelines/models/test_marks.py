"""What a run does with an input that is read from a high-water mark on."""

from __future__ import annotations

import pytest

from frazil import sources
from frazil.errors import DeclarationError, PipelineError
from frazil.pipelines.models.decide import Action
from frazil.pipelines.models.inputs import Arrived, News
from frazil.pipelines.models.marks import MarkedInput, decide_marked
from frazil.pipelines.table_inputs import Reading, check_reading
from frazil.write.commit import InputState, Mark, PartProgress

SOURCE = sources.spark("jdbc", high_water_mark="id")
MARK = Mark("id", "bigint", "7", 1)


def marked(mode: str, mark: Mark | None) -> MarkedInput:
    return MarkedInput("load", "rows", SOURCE, mode, mark)


def customers(news: News) -> dict[str, Arrived]:
    state = InputState("u", 1)
    return {"silver.customers": Arrived(news, state, state, news.value)}


@pytest.mark.parametrize(
    ("mode", "mark", "news", "expected"),
    [
        ("append", None, News.FIRST, Action.ALL),
        ("append", MARK, News.NOTHING, Action.APPEND),
        ("append", MARK, News.CHANGED, Action.APPEND),  # rows that are there stay as they are
        ("upsert", MARK, News.NOTHING, Action.MERGE),
        ("upsert", MARK, News.CHANGED, Action.ALL),
        ("replace-partition", MARK, News.NOTHING, Action.PARTITIONS),
    ],
)
def test_the_mark_and_the_other_inputs_decide(mode: str, mark: Mark | None, news: News, expected: Action) -> None:
    assert decide_marked(marked(mode, mark), customers(news)).action is expected


def test_rows_that_were_read_by_another_column_are_read_again_only_if_asked_for() -> None:
    with pytest.raises(PipelineError) as raised:
        decide_marked(marked("append", Mark("updated_at", "date", "2024-01-15")), {})
    assert raised.value.problem == "mark-column"
    assert "frazil run load --full-refresh" in (raised.value.hint or "")


def test_a_rebuild_has_no_use_for_a_mark() -> None:
    with pytest.raises(DeclarationError) as raised:
        check_reading(Reading("load", "bronze.rows", "rebuild", {"rows": SOURCE}))
    assert raised.value.problem == "high-water-mark"


def test_a_mark_is_stored_with_the_progress() -> None:
    progress = PartProgress(1, "w", 2, marks={"rows": MARK})
    assert PartProgress.parse(progress.dump()) == progress
