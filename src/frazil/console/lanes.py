"""Snapshots as a graph: each in a row, the newest first; each branch in a lane next to the others. Pure."""

from __future__ import annotations

import sys
from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]
MAIN = "main"
MOST_LANES = 12  # further branches share the last one


@dataclass(slots=True)
class Line:
    """Snapshots that follow each other, from the head of a branch back to where it left another line."""

    first: int  # rows
    last: int
    joins: int | None  # the row of the snapshot that it left from, if that is still there
    lane: int = 0


def draw_lines(snapshots: Sequence[Json], refs: Mapping[str, Json]) -> tuple[list[Line], list[int]]:
    """The lines of snapshots that are sorted with the newest first, and the number of the line of each of them.

    Main is the first line; then come the other branches and tags, the newest first, and what no ref leads to.
    """
    row_of = {snapshot["snapshot-id"]: row for row, snapshot in enumerate(snapshots)}
    parents = [row_of.get(snapshot.get("parent-snapshot-id")) for snapshot in snapshots]
    heads = sorted(
        {(name != MAIN, row_of[ref["snapshot-id"]]) for name, ref in refs.items() if ref["snapshot-id"] in row_of}
    )
    lines: list[Line] = []
    line_of = [-1] * len(snapshots)
    for head in (*(row for _, row in heads), *range(len(snapshots))):
        if line_of[head] < 0:
            lines.append(_follow(head, parents, line_of, len(lines)))
    _take_lanes(lines)
    return lines, line_of


def _follow(head: int, parents: Sequence[int | None], line_of: list[int], number: int) -> Line:
    """The line from a head down to the first snapshot that is on another line."""
    row, last = head, head
    while True:
        line_of[row], last = number, row
        parent = parents[row]
        if parent is None or line_of[parent] >= 0:
            return Line(head, last, parent)
        row = parent


def _take_lanes(lines: Sequence[Line]) -> None:
    """Gives each line the first lane that is free all along its way."""
    free_from: list[list[tuple[int, int]]] = []  # per lane: the rows that are taken
    for line in lines:
        top, bottom = _span(line)
        lane = next((at for at, taken in enumerate(free_from) if _is_free(taken, top, bottom)), len(free_from))
        lane = min(lane, MOST_LANES - 1)
        if lane == len(free_from):
            free_from.append([])
        insort(free_from[lane], (top, bottom))
        line.lane = lane


def _is_free(taken: Sequence[tuple[int, int]], top: int, bottom: int) -> bool:
    """Whether no row from top to bottom is taken: spans are sorted, and lie apart in all lanes but the last.

    >>> _is_free([(0, 2), (5, 9)], 3, 4), _is_free([(0, 2), (5, 9)], 2, 4), _is_free([(0, 2), (5, 9)], 3, 5)
    (True, False, False)
    """
    at = bisect_right(taken, (bottom, sys.maxsize))
    return at == 0 or taken[at - 1][1] < top


def _span(line: Line) -> tuple[int, int]:
    rows = (line.first, line.last, line.last if line.joins is None else line.joins)
    return min(rows), max(rows)
