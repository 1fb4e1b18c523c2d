"""The search itself: over any history that changes once, and along the line of a branch."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from frazil.errors import ArgumentError, CheckError, HistoryError
from frazil.history.bisect import BisectRequest, find_flips, first_failing, line_between, tell_missing
from frazil.history.origins import Run
from tests.kit.raising import raises


@given(st.integers(1, 5000).flatmap(lambda count: st.tuples(st.just(count), st.integers(0, count))))
def test_the_first_that_fails_is_found_with_the_logarithm_of_checks(drawn: tuple[int, int]) -> None:
    count, first = drawn
    asked: list[int] = []

    def fails(place: int) -> bool:
        asked.append(place)
        return place >= first

    assert first_failing(count, fails) == first
    assert len(asked) == len(set(asked)) <= math.ceil(math.log2(count + 1))


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_every_change_is_a_flip_and_one_change_is_what_bisection_finds(failing: list[bool]) -> None:
    flips = find_flips(len(failing), failing.__getitem__)
    state, replayed = False, []
    for place in range(len(failing)):
        state = dict(flips).get(place, state)
        replayed.append(state)
    assert replayed == failing
    if len(flips) == 1 and flips[0][0] > 0:
        assert first_failing(len(failing), failing.__getitem__) == flips[0][0]


def history(parents: dict[int, int | None], **refs: int) -> TableMetadata:
    """The metadata of a table with snapshots by their parents."""
    snapshots = [
        {
            "snapshot-id": number,
            "sequence-number": number,
            "timestamp-ms": number,
            "manifest-list": "x",
            "summary": {"operation": "append"},
        }
        | ({} if parent is None else {"parent-snapshot-id": parent})
        for number, parent in parents.items()
    ]
    schema = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
    return TableMetadataUtil.parse_obj(
        {
            "format-version": 2,
            "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
            "location": "file:///lake/t",
            "last-sequence-number": 99,
            "last-updated-ms": 99,
            "last-column-id": 1,
            "schemas": [schema],
            "current-schema-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "default-spec-id": 0,
            "last-partition-id": 999,
            "snapshots": snapshots,
            "current-snapshot-id": refs["main"],
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "refs": {name: {"snapshot-id": number, "type": "branch"} for name, number in refs.items()},
            "snapshot-log": [{"snapshot-id": 1, "timestamp-ms": 1}, {"snapshot-id": refs["main"], "timestamp-ms": 98}],
        }
    )


# 3 and 4 were rolled back by 5; 6 and 7 are on a branch
FORKED = history({1: None, 2: 1, 3: 2, 4: 3, 5: 2, 6: 5, 7: 6, 8: 5}, main=8, dev=7)


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ({}, [1, 2, 5, 8]),
        ({"ref": "dev"}, [1, 2, 5, 6, 7]),
        ({"bad": 4}, [1, 2, 3, 4]),
        ({"good": 2, "bad": "dev"}, [2, 5, 6, 7]),
        ({"good": 8}, [8]),
    ],
)
def test_the_line_follows_parents_between_its_ends(ends: dict[str, object], expected: list[int]) -> None:
    line = line_between(FORKED, table="lake.t", **ends)  # type: ignore[arg-type]
    assert [snapshot.snapshot_id for snapshot in line] == expected


def test_an_end_that_was_rolled_back_or_does_not_exist_is_an_error() -> None:
    with raises(HistoryError, problem="not-an-ancestor", snapshot=4):
        line_between(FORKED, table="lake.t", good=4)
    with raises(HistoryError, ref="nope"):
        line_between(FORKED, table="lake.t", bad="nope")
    with raises(HistoryError, table="lake.t"):
        line_between(FORKED, table="lake.t", ref="gone")


def test_what_came_before_the_oldest_snapshot_is_reported_as_far_as_it_is_known() -> None:
    expired = history({7: 6, 8: 7}, main=8)
    run = Run("daily", "r1")
    assert list(tell_missing(expired, expired.snapshots[0], {6: run, 8: Run("daily", "r2")})) == [
        "older snapshots have expired: snapshot 6 came before it, and can no longer be read",
        "main was at snapshot 1 from 1970-01-01 00:00:00.001 UTC on",
        "run r1 of daily made snapshot 6, which has expired",
    ]
    (hint,) = tell_missing(FORKED, FORKED.snapshots[1], {})
    assert "--good" in hint


def test_a_request_needs_checks_of_one_kind() -> None:
    with raises(ArgumentError, option="check"):
        BisectRequest(())
    with raises(ArgumentError, option="check"):
        BisectRequest((3,))  # type: ignore[arg-type]
    with raises(CheckError, problem="mixed"):
        BisectRequest(("id > 0", "SELECT * FROM {table}"))
