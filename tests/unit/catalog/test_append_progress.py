"""The progress of a sink after commits of other parts: as its own writer would find it, or a refusal."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.catalog.appends.problems import NotRebased
from frazil.catalog.appends.progress import PROPERTY, PartCommit, advance, read_part_commit
from frazil.errors import FrazilError
from frazil.write.commit.progress import Claim, PartProgress, Progress, apply_claim, property_key

Json = dict[str, Any]
PART = "s/0"
BEFORE = Progress({PART: PartProgress(2, "w", 4, {"p": 10, "q": 5}), "s/1": PartProgress(1, "x", 7, {"r": 3})})
CLAIM = Claim(PART, "w", 2, 5, {"p": 10}, {"p": 12, "new": 1})


def request(before: Progress = BEFORE, claim: Claim = CLAIM) -> tuple[dict[str, str], dict[str, str]]:
    """Summary and properties of a commit, as the sink sends them."""
    applied = apply_claim(before, claim, table="t")
    assert applied is not None
    text = applied.dump()
    return {"frazil.progress": text, "frazil.commit": claim.summary(rebases=True)}, {PROPERTY: text}


def commit(before: Progress = BEFORE, claim: Claim = CLAIM) -> PartCommit:
    return read_part_commit(*request(before, claim))


def test_the_property_is_that_of_main() -> None:
    assert property_key() == PROPERTY


def test_other_parts_are_those_of_the_head() -> None:
    head = BEFORE.with_part("s/1", PartProgress(3, "y", 9, {})).with_part("s/2", PartProgress(1, "z", 1, {"t": 1}))
    expected = head.with_part(PART, PartProgress(2, "w", 5, {"p": 12, "q": 5, "new": 1}))
    assert advance(head.dump(), commit()) == expected.dump()


def test_a_source_partition_that_is_done_has_no_entry_any_more() -> None:
    claim = replace(CLAIM, end={"p": 12}, done=frozenset({"p"}))
    assert Progress.parse(advance(BEFORE.dump(), commit(claim=claim))).part(PART).offsets == {"q": 5}


MOVED = {
    "a takeover": PartProgress(3, "new", 4, {"p": 10, "q": 5}),
    "another token": PartProgress(2, "other", 4, {"p": 10, "q": 5}),
    "another generation": PartProgress(3, "w", 4, {"p": 10, "q": 5}),
    "this commit": PartProgress(2, "w", 5, {"p": 12, "q": 5, "new": 1}),
    "a later commit": PartProgress(2, "w", 6, {"p": 12, "q": 5, "new": 1}),
    "a commit before": PartProgress(2, "w", 3, {"p": 10, "q": 5}),
    "offsets that went back": PartProgress(2, "w", 4, {"p": 9, "q": 5}),
    "offsets that are gone": PartProgress(2, "w", 4, {"q": 5}),
    "offsets of another source partition": PartProgress(2, "w", 4, {"p": 10, "q": 6}),
    "a query": PartProgress(2, "w", 4, {"p": 10, "q": 5}, definition="5f0c"),
}


@pytest.mark.parametrize("entry", MOVED.values(), ids=MOVED.keys())
def test_a_part_that_is_not_where_its_writer_left_it_is_refused(entry: PartProgress) -> None:
    with pytest.raises(NotRebased):
        advance(BEFORE.with_part(PART, entry).dump(), commit())


OFFSETS = st.dictionaries(st.sampled_from("pqr"), st.integers(0, 3), max_size=3)
ENTRIES = st.builds(PartProgress, st.integers(1, 2), st.sampled_from("vw"), st.integers(0, 2), OFFSETS)
PROGRESS = st.dictionaries(st.sampled_from([PART, "s/1", "t/0"]), ENTRIES).map(Progress)


@st.composite
def claims(draw: st.DrawFn) -> tuple[Progress, Claim]:
    """Progress, and the next commit of one of its parts."""
    before = draw(PROGRESS.filter(lambda progress: PART in progress.parts))
    own, moves = before.part(PART), draw(OFFSETS)
    end = {name: own.offsets.get(name, 0) + offset for name, offset in moves.items()}
    start = {name: own.offsets[name] for name in end if name in own.offsets}
    done = draw(st.sets(st.sampled_from(sorted(end)))) if end else set()
    return before, Claim(PART, own.writer, own.generation, own.commits + 1, start, end, frozenset(done))


@given(claims(), PROGRESS, st.booleans())
def test_it_is_what_the_writer_would_do_after_a_conflict(
    claimed: tuple[Progress, Claim], head: Progress, own_part_moved: bool
) -> None:
    before, claim = claimed
    if not own_part_moved:
        head = head.with_part(PART, before.part(PART))
    try:
        expected = apply_claim(head, claim, table="t")
    except FrazilError:
        expected = None
    try:
        moved = advance(head.dump(), commit(before, claim))
    except NotRebased:
        moved = None
    assert moved is None or (expected is not None and moved == expected.dump())
    assert own_part_moved or moved is not None


def edited(key: str, value: object, *, drop: bool = False) -> tuple[dict[str, str], dict[str, str]]:
    """A commit whose claim says something else."""
    summary, properties = request()
    claim = json.loads(summary["frazil.commit"])
    claim = {name: each for name, each in claim.items() if name != key} | ({} if drop else {key: value})
    return {**summary, "frazil.commit": json.dumps(claim)}, properties


def progressed(text: str) -> tuple[dict[str, str], dict[str, str]]:
    summary, _ = request()
    return {**summary, "frazil.progress": text}, {PROPERTY: text}


REFUSED = {
    "no word about rebase": edited("rebase", None, drop=True),
    "another word about rebase": edited("rebase", 1),
    "a takeover": edited("takeover", True),
    "inputs": edited("inputs", {}),
    "anything else": edited("x", 1),
    "no part": edited("part", None, drop=True),
    "a part that is a list": edited("part", []),
    "an unknown part": edited("part", "s/9"),
    "another generation": edited("generation", 3),
    "another number": edited("commit", 6),
    "offsets that are texts": edited("to", {"p": "12"}),
    "offsets that are true": edited("to", {"p": True}),
    "offsets that are a list": edited("from", []),
    "sources that are done but have no name": edited("done", [1]),
    "no claim": ({"frazil.progress": request()[1][PROPERTY]}, request()[1]),
    "a claim that is a list": ({**request()[0], "frazil.commit": "[]"}, request()[1]),
    "a claim that is no JSON": ({**request()[0], "frazil.commit": "{"}, request()[1]),
    "a claim without end": ({**request()[0], "frazil.commit": "[" * 100_000}, request()[1]),
    "no progress": ({"frazil.commit": CLAIM.summary(rebases=True)}, request()[1]),
    "a copy that differs": (request()[0], {PROPERTY: BEFORE.dump()}),
    "another property": (request()[0], {**request()[1], "a": "b"}),
    "progress of a newer version": progressed('{"v":2,"parts":{}}'),
    "progress with more": progressed('{"v":1,"parts":{},"x":1}'),
    "parts that are a list": progressed('{"v":1,"parts":[]}'),
    "a part that is short": progressed('{"v":1,"parts":{"s/0":[2,"w",5]}}'),
    "a part of texts": progressed('{"v":1,"parts":{"s/0":["2","w",5,{}]}}'),
    "a part that is a number": progressed('{"v":1,"parts":{"s/0":7}}'),
}


@pytest.mark.parametrize(("summary", "properties"), REFUSED.values(), ids=REFUSED.keys())
def test_a_commit_that_depends_on_more_or_says_less_is_refused(
    summary: dict[str, str], properties: dict[str, str]
) -> None:
    with pytest.raises(NotRebased):
        read_part_commit(summary, properties)


@pytest.mark.parametrize("text", [None, "", "{}", "[]", '{"v":1,"parts":{}}', '{"v":1,"parts":{"s/0":[2,"w",4,{}]}}'])
def test_a_head_without_this_progress_is_refused(text: str | None) -> None:
    with pytest.raises(NotRebased):
        advance(text, commit())
