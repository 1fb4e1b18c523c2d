"""What the audit says of two steps that do not fit together."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from frazil.sinks.audit import compare_steps
from frazil.sinks.progress import Claim, PartProgress, Progress

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
        (replace(CLAIM, start={}), "part 's/0', source partition 'a': overlap: None to 20 follows 10"),
        (replace(CLAIM, commit=5), "part 's/0': commit 5 follows commit 2"),
    ],
)
def test_a_gap_an_overlap_and_a_lost_commit_are_named(claim: Claim, problem: str) -> None:
    assert problems(claim) == [problem]


def test_a_part_that_moves_with_another_ones_commit_is_named() -> None:
    after = Progress({**BEFORE.parts, "s/0": PartProgress(1, "w", 3, {"a": 20}), "s/1": PartProgress(1, "v", 4, {"a": 1})})
    assert list(compare_steps(BEFORE, after, json.loads(CLAIM.summary()))) == [
        "part 's/1' moved from {'a': 3} to {'a': 1} without a commit of its own"
    ]
