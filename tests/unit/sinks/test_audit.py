"""What the audit says of two steps that do not fit together."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from frazil.sinks.audit_line import AuditReport, Line, PartReport, Step, check_line, compare_steps
from frazil.write.commit.progress import Claim, PartProgress, Progress

BEFORE = Progress({"s/0": PartProgress(1, "w", 2, {"a": 10}), "s/1": PartProgress(1, "v", 4, {"a": 3})})
CLAIM = Claim("s/0", "w", 1, 3, start={"a": 10}, end={"a": 20})


def problems(claim: Claim, **moved: int) -> list[str]:
    after = BEFORE.with_part("s/0", PartProgress(1, "w", claim.commit, {**claim.end, **moved}))
    return list(compare_steps(BEFORE, after, json.loads(claim.summary())))


def test_steps_that_abut_are_fine() -> None:
    assert problems(CLAIM) == []


@pytest.mark.parametrize(
    ("claim", "problem"),
    [
        (replace(CLAIM, start={"a": 12}), "part 's/0', source partition 'a': gap: 12 to 20 follows 10"),
        (replace(CLAIM, start={"a": 8}), "part 's/0', source partition 'a': overlap: 8 to 20 follows 10"),
        (replace(CLAIM, start={}), "part 's/0', source partition 'a': overlap: its beginning to 20 follows 10"),
        (replace(CLAIM, commit=5), "part 's/0': commit 5 follows commit 2"),
        (replace(CLAIM, end={"a": 7}), "part 's/0', source partition 'a': overlap: it goes back from 10 to 7"),
        (replace(CLAIM, generation=0), "part 's/0': a commit of writer generation 0, though 1 had taken over"),
        (
            replace(CLAIM, done=frozenset({"a"})),
            "part 's/0' says that it reached a: 20, but its commit leads to its beginning",
        ),
    ],
)
def test_a_gap_an_overlap_and_a_lost_commit_are_named(claim: Claim, problem: str) -> None:
    assert problems(claim) == [problem]


def test_a_part_that_moves_with_another_ones_commit_is_named() -> None:
    after = Progress(
        {**BEFORE.parts, "s/0": PartProgress(1, "w", 3, {"a": 20}), "s/1": PartProgress(1, "v", 4, {"a": 1})}
    )
    assert list(compare_steps(BEFORE, after, json.loads(CLAIM.summary()))) == [
        "part 's/1' moved from a: 3 to a: 1 without a commit of its own"
    ]


def test_a_commit_that_says_it_reached_more_than_it_consumed_is_named() -> None:
    """The next commit would follow it without a gap, and the rows in between would be lost silently."""
    assert problems(CLAIM, a=30) == ["part 's/0' says that it reached a: 30, but its commit leads to a: 20"]


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        (PartProgress(0, "old", 2, {"a": 10}), "part 's/0': writer generation 0 follows 1"),
        (PartProgress(1, "other", 2, {"a": 10}), "part 's/0': another writer has generation 1, too"),
        (PartProgress(2, "new", 2, {"a": 10}), None),
    ],
)
def test_a_take_over_raises_the_generation(part: PartProgress, problem: str | None) -> None:
    assert list(compare_steps(BEFORE, BEFORE.with_part("s/0", part), None)) == ([problem] if problem else [])


@pytest.mark.parametrize(
    ("part", "is_takeover", "problem"),
    [
        (PartProgress(2, "new", 3, {"a": 20}), True, None),
        (PartProgress(2, "new", 3, {"a": 20}), False, "a commit of writer generation 2, though 1 had taken over"),
        (PartProgress(2, "w", 3, {"a": 20}), True, "a commit of writer generation 2, though 1 had taken over"),
        (PartProgress(3, "new", 3, {"a": 20}), True, "a commit of writer generation 3, though 1 had taken over"),
        (PartProgress(1, "w", 3, {"a": 20}), True, "a commit of writer generation 1, though 1 had taken over"),
    ],
)
def test_a_commit_that_takes_over_says_so_and_raises_the_generation_by_one(
    part: PartProgress, is_takeover: bool, problem: str | None
) -> None:
    claim = replace(
        CLAIM, writer=part.writer, generation=part.generation, takes_over=BEFORE.part("s/0") if is_takeover else None
    )
    steps = list(compare_steps(BEFORE, BEFORE.with_part("s/0", part), json.loads(claim.summary())))
    assert steps == ([f"part 's/0': {problem}"] if problem else [])


def step(
    number: int,
    commits: int,
    reached: dict[str, int],
    start: dict[str, int],
    end: dict[str, int],
    *done: str,
    **other: Any,
) -> Step:
    """A commit of part s/0 by its one writer."""
    claim = Claim("s/0", "w", 1, commits, start=start, end=end, done=frozenset(done))
    return Step(number, Progress({"s/0": PartProgress(1, "w", commits, reached)}), json.loads(claim.summary()), **other)


TAKEN = Step(1, Progress({"s/0": PartProgress(1, "w", 0, {})}))


def look(*steps: Step, now: dict[str, int], commits: int, **line: Any) -> AuditReport:
    return check_line(Line(steps, Progress({"s/0": PartProgress(1, "w", commits, now)}), **line))


def test_the_base_is_what_the_oldest_kept_commit_found() -> None:
    report = look(
        step(7, 3, {"a": 20, "b": 5}, {"a": 10}, {"a": 20, "b": 5}), now={"a": 20, "b": 5}, commits=3, from_first=False
    )
    assert report == AuditReport(1, 0, False, (PartReport("s/0", 1, {"a": 10}, {"a": 20, "b": 5}),))


def test_where_all_is_kept_the_first_commit_must_begin_at_the_beginning() -> None:
    report = look(TAKEN, step(2, 1, {"a": 20}, {"a": 10}, {"a": 20}), now={"a": 20}, commits=1)
    assert report.problems == ("2: part 's/0', source partition 'a': gap: 10 to 20 follows its beginning",)


def test_a_file_that_was_finished_and_begins_again_is_an_overlap() -> None:
    """Its entry is gone from the progress, so the sink cannot see it; the kept commits can."""
    once = step(2, 1, {}, {}, {"f": 9}, "f")
    report = look(TAKEN, once, step(3, 2, {}, {}, {"f": 9}, "f"), now={}, commits=2)
    assert report.problems == ("3: part 's/0', source partition 'f': finished at 9 before, begins again",)
    assert look(TAKEN, once, step(3, 2, {}, {}, {"g": 9}, "g"), now={}, commits=2).parts == (
        PartReport("s/0", 2, {}, {}, 2),
    )


def test_two_commits_of_one_range_are_an_overlap() -> None:
    first = step(2, 1, {"a": 5}, {}, {"a": 5})
    assert look(TAKEN, first, replace(first, id=3), now={"a": 5}, commits=1).problems == (
        "3: part 's/0': commit 1 follows commit 1",
        "3: part 's/0', source partition 'a': overlap: its beginning to 5 follows 5",
    )


def test_rows_at_a_position_that_was_reached_are_a_problem() -> None:
    first, again = step(2, 1, {"a": 5}, {}, {"a": 5}, added=5), step(3, 2, {"a": 5}, {"a": 5}, {"a": 5}, added=5)
    report = look(TAKEN, first, again, now={"a": 5}, commits=2)
    assert report.problems == ("3: part 's/0': 5 rows came in at a position reached before",)
    assert look(TAKEN, first, replace(again, added=0), now={"a": 5}, commits=2).problems == ()


def test_rows_of_a_branch_that_was_published_count_where_they_are() -> None:
    """The same sink, started again on a branch, brings rows in again that main has: publishing the branch makes them
    twins.
    """
    main, branch = step(2, 1, {"a": 5}, {}, {"a": 5}), step(3, 1, {"a": 9}, {}, {"a": 9}, ref="b")
    assert "overlap: its beginning to 9 follows 5" in look(TAKEN, main, branch, now={"a": 9}, commits=1).problems[1]


def test_what_others_do_is_said_and_no_problem() -> None:
    others = [
        Step(4, operation="append", added=7),
        Step(5, operation="delete", deleted=3),
        Step(6, operation="replace", added=9, deleted=9),
        Step(7, replayed=2),
    ]
    report = look(TAKEN, step(2, 1, {"a": 5}, {}, {"a": 5}), *others, now={"a": 5}, commits=1)
    assert (report.problems, report.commits, report.others) == ((), 3, 3)
    assert report.notes == (
        "4: 7 rows added outside the sinks",
        "5: 3 rows removed and 0 added outside the sinks (delete)",
        "7: 2 rows came out of quarantine",
    )


def test_where_no_commit_of_a_sink_is_kept_the_base_is_all_there_is() -> None:
    report = look(Step(9, operation="replace", added=5, deleted=5), now={"a": 5}, commits=1, from_first=False)
    assert (report.problems, report.parts) == ((), (PartReport("s/0", 0, {"a": 5}, {"a": 5}),))
    assert look(Step(9, added=5), now={"a": 5}, commits=1).problems == (
        "no commit says anything of progress: what the table says of it stands alone",
    )


def test_a_rollback_that_is_the_oldest_kept_commit_is_the_base() -> None:
    back = Step(7, Progress({"s/0": PartProgress(2, "", 1, {"a": 5})}), back_to="3", operation="replace")
    taken = Step(8, Progress({"s/0": PartProgress(3, "w", 1, {"a": 5})}))
    report = check_line(Line((back, taken), taken.progress or Progress(), from_first=False))
    assert (report.problems, report.notes, report.parts) == (
        (),
        ("7: back to 3",),
        (PartReport("s/0", 0, {"a": 5}, {"a": 5}),),
    )


def test_a_branch_that_main_took_in_without_its_progress_is_said() -> None:
    branch = Step(3, Progress({"t/0": PartProgress(1, "v", 0, {})}), ref="b")
    report = look(TAKEN, branch, now={}, commits=0)
    assert report.notes == (
        "part 't/0' wrote to a branch that main has taken in without its progress: on main, it would start over",
    )
