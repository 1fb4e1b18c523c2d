"""The rules by which a commit is new, in already, or refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import ProgressMismatch, WriterFenced
from frazil.write.commit.progress import Claim, PartProgress, Progress, apply_claim, plan_takeover, take_over
from tests.kit.raising import raises

OWNED = Progress({"s/0": PartProgress(2, "w", 5, {"a": 10})})
CLAIM = Claim("s/0", "w", 2, 6, start={"a": 10}, end={"a": 20})


def test_rows_that_follow_are_new() -> None:
    assert apply_claim(OWNED, CLAIM, table="t") == Progress({"s/0": PartProgress(2, "w", 6, {"a": 20})})


def test_the_same_rows_again_are_in_already() -> None:
    after = apply_claim(OWNED, CLAIM, table="t")
    assert after is not None
    assert apply_claim(after, CLAIM, table="t") is None


def test_rows_of_a_source_that_ended_are_recognised_when_they_come_again() -> None:
    claim = replace(CLAIM, start={}, end={"file": 7}, done=frozenset({"file"}))
    after = apply_claim(OWNED, claim, table="t")
    assert after == Progress({"s/0": PartProgress(2, "w", 6, {"a": 10})})
    assert apply_claim(after, claim, table="t") is None


def test_an_older_writer_is_fenced() -> None:
    with raises(WriterFenced, part="s/0", current=3, ours=2):
        apply_claim(take_over(OWNED, "s/0", "newer"), CLAIM, table="t")


def test_two_writers_of_one_generation_are_distinguished() -> None:
    """Both took over at once, and one of them never saw the refusal."""
    with pytest.raises(WriterFenced):
        apply_claim(
            take_over(Progress(), "s/0", "theirs"),
            replace(CLAIM, writer="ours", generation=1, commit=1, start={}),
            table="t",
        )


def test_the_same_batch_of_an_older_writer_is_fenced_and_not_taken_for_done() -> None:
    after = apply_claim(OWNED, CLAIM, table="t")
    assert after is not None
    with pytest.raises(WriterFenced):
        apply_claim(take_over(after, "s/0", "newer"), CLAIM, table="t")


@pytest.mark.parametrize(
    ("claim", "facts"),
    [
        (replace(CLAIM, start={"a": 11}), {"source": "a", "expected": 10, "got": (11, 20)}),
        (replace(CLAIM, start={"a": 9}), {"source": "a", "expected": 10, "got": (9, 20)}),
        (replace(CLAIM, start={}, end={"a": 20}), {"source": "a", "expected": 10, "got": (None, 20)}),
        (replace(CLAIM, start={"a": 10}, end={"a": 9}), {"source": "a", "expected": 10, "got": (10, 9)}),
        (replace(CLAIM, commit=8), {"problem": "commit-number", "expected": 6, "got": 8}),
    ],
)
def test_rows_that_do_not_follow_are_refused(claim: Claim, facts: dict[str, object]) -> None:
    with raises(ProgressMismatch, table="t", part=claim.part, **facts):
        apply_claim(OWNED, claim, table="t")


def test_parts_do_not_disturb_each_other() -> None:
    both = take_over(OWNED, "s/1", "x")
    assert apply_claim(both, CLAIM, table="t") == Progress(
        {"s/0": PartProgress(2, "w", 6, {"a": 20}), "s/1": PartProgress(1, "x", 0, {})}
    )


NAMES = st.text('abc/-0123 "\\é', min_size=1, max_size=8)
PARTS = st.builds(
    PartProgress,
    st.integers(0),
    st.text(max_size=8),
    st.integers(0),
    st.dictionaries(NAMES, st.integers(0, 2**63), max_size=4),
)


@given(st.dictionaries(NAMES, PARTS, max_size=4))
def test_progress_survives_its_journey_through_a_property(parts: dict[str, PartProgress]) -> None:
    assert Progress.parse(Progress(parts).dump()) == Progress(parts)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"v":1,"parts":{"s":[1,2,3,4,5,6]}}', '{"v":99,"parts":{}}'])
def test_progress_that_cannot_be_read_is_never_taken_for_none(text: str) -> None:
    with pytest.raises(ProgressMismatch):
        Progress.parse(text)


class TableOfRows:
    """The model: a table whose rows are offsets, and writers that crash, retry and wake up late."""

    def __init__(self) -> None:
        self.progress, self.rows = Progress(), []

    def commit(self, claim: Claim) -> None:
        after = apply_claim(self.progress, claim, table="t")
        if after is not None:
            self.progress = after
            self.rows += range(claim.start.get("p", 0), claim.end["p"])


class Planner:
    """A writer of one commit, which is its takeover; it reads from where the table stood when it planned."""

    def __init__(self, table: TableOfRows, writer: str, count: int) -> None:
        planned = plan_takeover(table.progress.part("s/0"), writer)
        start = planned.own.offsets.get("p")
        ends = {"p": (start or 0) + count}
        number = planned.own.commits + 1
        starts = {} if start is None else {"p": start}
        self.claim = Claim("s/0", writer, planned.own.generation, number, starts, ends, takes_over=planned.before)
        self.may_commit = True


@given(st.lists(st.tuples(st.sampled_from(["plan", "commit", "again", "restart"]), st.integers(0, 3)), max_size=30))
def test_of_planners_from_one_progress_only_the_first_commits(story: list[tuple[str, int]]) -> None:
    """A planner commits if nothing has changed the part since it planned; whatever happens, every offset is in once."""
    table, planners = TableOfRows(), [Planner(TableOfRows(), "w-first", 2)]
    for number, (event, which) in enumerate(story):
        planner = planners[which % len(planners)]
        if event == "plan":
            planners.append(Planner(table, f"w{number}", which + 1))
        elif event == "restart":
            table.progress = take_over(table.progress, "s/0", f"w{number}")
            for other in planners:
                other.may_commit = False
        elif planner.may_commit:
            table.commit(planner.claim)
            if event == "again":  # its reply was lost
                table.commit(planner.claim)
            for other in planners:
                other.may_commit = False
        else:
            rows, own = list(table.rows), table.progress.part("s/0").writer == planner.claim.writer
            if own:
                table.commit(planner.claim)  # its own commit is the last one: it is in already
            else:
                with pytest.raises(WriterFenced):
                    table.commit(planner.claim)
            assert table.rows == rows
    assert table.rows == list(range(table.progress.part("s/0").offsets.get("p", 0)))


@given(
    st.lists(
        st.tuples(st.sampled_from(["write", "lose the reply", "restart", "zombie"]), st.integers(1, 4)), max_size=30
    )
)
def test_whatever_happens_every_offset_is_in_exactly_once(story: list[tuple[str, int]]) -> None:
    table, owners, old = TableOfRows(), 0, None
    for event, count in [("restart", 1), *story]:
        if event == "restart":
            owners += 1
            table.progress = take_over(table.progress, "s/0", f"w{owners}")
        now = table.progress.part("s/0")
        start = now.offsets.get("p")
        claim = Claim(
            "s/0",
            now.writer,
            now.generation,
            now.commits + 1,
            {} if start is None else {"p": start},
            {"p": (start or 0) + count},
        )
        if event == "zombie" and old is not None and old.generation != now.generation:
            with pytest.raises(WriterFenced):
                table.commit(old)
        elif event in ("write", "lose the reply"):
            table.commit(claim)
            if event == "lose the reply":
                table.commit(claim)
            old = claim
    assert table.rows == list(range(table.progress.part("s/0").offsets.get("p", 0)))
