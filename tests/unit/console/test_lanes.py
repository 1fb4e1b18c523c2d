"""Snapshots as lines next to each other."""

from __future__ import annotations

from typing import Any

from frazil.console.lanes import MOST_LANES, draw_lines


def past(*snapshots: tuple[int, int | None]) -> list[dict[str, Any]]:
    """Snapshots with their parents, the newest first."""
    return [
        {"snapshot-id": number} if parent is None else {"snapshot-id": number, "parent-snapshot-id": parent}
        for number, parent in snapshots
    ]


def refs(**heads: int) -> dict[str, dict[str, Any]]:
    return {name: {"snapshot-id": head, "type": "branch"} for name, head in heads.items()}


def lines(snapshots: list[dict[str, Any]], heads: dict[str, dict[str, Any]]) -> list[tuple[int, int, int | None, int]]:
    return [(line.first, line.last, line.joins, line.lane) for line in draw_lines(snapshots, heads)[0]]


def test_a_table_without_branches_is_one_line() -> None:
    assert lines(past((3, 2), (2, 1), (1, None)), refs(main=3)) == [(0, 2, None, 0)]


def test_a_branch_lies_next_to_main_and_joins_where_it_left() -> None:
    snapshots = past((5, 4), (4, 2), (3, 2), (2, 1), (1, None))
    assert lines(snapshots, refs(main=3, audit=5)) == [(2, 4, None, 0), (0, 1, 3, 1)]


def test_branches_that_never_meet_share_a_lane() -> None:
    snapshots = past((6, 5), (7, 5), (5, 3), (4, 2), (3, 2), (2, 1), (1, None))
    assert [line[3] for line in lines(snapshots, refs(main=6, new=7, old=4))] == [0, 1, 1]


def test_what_was_rolled_back_is_a_line_without_a_ref() -> None:
    assert lines(past((3, 2), (2, 1), (1, None)), refs(main=1)) == [(2, 2, None, 0), (0, 1, 2, 1)]


def test_a_parent_that_has_expired_ends_a_line() -> None:
    assert lines(past((9, 8), (5, 4)), refs(main=9)) == [(0, 0, None, 0), (1, 1, None, 0)]


def test_very_many_branches_share_the_last_lane() -> None:
    heads = {f"b{number}": number for number in range(2, 60)}
    snapshots = past(*((number, 1) for number in range(59, 1, -1)), (1, None))
    assert {line[3] for line in lines(snapshots, refs(main=1, **heads))} == set(range(MOST_LANES))
