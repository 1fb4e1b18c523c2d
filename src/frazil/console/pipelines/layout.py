"""A graph as a drawing in columns: what is read stands to the left of what is made from it. Pure and deterministic.

The steps of Sugiyama: columns by the longest way, empty places where a line passes a column, few crossings by
barycentres, and rows as near as possible to those of the neighbours.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

SWEEPS = 8
Arrow = tuple[str, str]
Point = tuple[int, float]  # column and row


@dataclass(frozen=True)
class Drawing:
    """Where each box stands, and the points that each arrow passes."""

    places: Mapping[str, Point]
    lines: Mapping[Arrow, Sequence[Point]]
    columns: int = 0
    rows: float = 0


def draw(boxes: Sequence[str], arrows: Iterable[Arrow]) -> Drawing:
    """The drawing of a graph: its connected parts below each other, the first box first.

    >>> draw(["a", "b", "c"], [("a", "c"), ("b", "c")]).places
    {'a': (0, 0.0), 'b': (0, 1.0), 'c': (1, 0.5)}
    """
    known = set(boxes)
    kept = [arrow for arrow in dict.fromkeys(arrows) if known.issuperset(arrow) and arrow[0] != arrow[1]]
    places: dict[str, Point] = {}
    lines: dict[Arrow, Sequence[Point]] = {}
    top = 0.0
    for part in _parts(boxes, kept):
        inside = set(part)
        drawing = _draw_part(part, [arrow for arrow in kept if arrow[0] in inside])
        places |= {box: (column, row + top) for box, (column, row) in drawing.places.items()}
        lines |= {arrow: [(column, row + top) for column, row in points] for arrow, points in drawing.lines.items()}
        top += drawing.rows
    return Drawing(places, lines, 1 + max((column for column, _ in places.values()), default=-1), top)


def _parts(boxes: Sequence[str], arrows: Sequence[Arrow]) -> list[list[str]]:
    """The boxes that are connected with each other, in order."""
    near: dict[str, list[str]] = {box: [] for box in boxes}
    for start, end in arrows:
        near[start].append(end)
        near[end].append(start)
    place, seen, parts = {box: at for at, box in enumerate(boxes)}, set[str](), []
    for box in boxes:
        if box in seen:
            continue
        part, waiting = {box}, [box]
        while waiting:
            new = [other for other in near[waiting.pop()] if other not in part]
            part.update(new)
            waiting += new
        seen |= part
        parts.append(sorted(part, key=place.__getitem__))
    return parts


def _draw_part(boxes: Sequence[str], arrows: Sequence[Arrow]) -> Drawing:
    column_of = find_columns(boxes, arrows)
    # A line that turns back, in a circle, is drawn from left to right as well.
    ahead = {arrow: arrow if column_of[arrow[0]] < column_of[arrow[1]] else arrow[::-1] for arrow in arrows}
    columns: list[list[str]] = [[] for _ in range(1 + max(column_of.values()))]
    for box in boxes:
        columns[column_of[box]].append(box)
    chains = {arrow: _chain(ahead[arrow], column_of, columns) for arrow in arrows}
    links = [link for chain in chains.values() for link in pairwise(chain)]
    _order(columns, links)
    row_of = _rows(columns, links)
    place = {name: (at, row_of[name]) for at, column in enumerate(columns) for name in column}
    lines = {
        arrow: [place[name] for name in (chain if ahead[arrow] == arrow else chain[::-1])]
        for arrow, chain in chains.items()
    }
    return Drawing({box: place[box] for box in boxes}, lines, len(columns), 1 + max(row_of.values()))


def find_columns(boxes: Sequence[str], arrows: Sequence[Arrow]) -> dict[str, int]:
    """The column of each box: one after the last of what it is made from. What nothing is read for stands just before
    what reads it. An arrow that closes a circle does not count.

    >>> find_columns("abcx", ["ab", "bc", "xc", "ca"])
    {'a': 0, 'b': 1, 'c': 2, 'x': 1}
    """
    after: dict[str, list[str]] = {box: [] for box in boxes}
    for start, end in arrows:
        after[start].append(end)
    order, into = _topological(boxes, after)
    column = dict.fromkeys(boxes, 0)
    for box in order:
        for end in after[box]:
            if (box, end) in into:
                column[end] = max(column[end], column[box] + 1)
    for box in boxes:
        ends = [column[end] for end in after[box] if (box, end) in into]
        if ends and not any(end == box for _, end in into):
            column[box] = min(ends) - 1
    return column


def _topological(boxes: Sequence[str], after: Mapping[str, Sequence[str]]) -> tuple[list[str], set[Arrow]]:
    """The boxes, each before those behind it, and the arrows that close no circle."""
    order: list[str] = []
    into: set[Arrow] = set()
    open_boxes, done = set[str](), set[str]()
    for root in boxes:
        waiting = [(root, iter(after[root]))] if root not in done else []
        open_boxes.update(box for box, _ in waiting)
        while waiting:
            box, ends = waiting[-1]
            end = next(ends, None)
            if end is None:
                waiting.pop()
                open_boxes.discard(box)
                done.add(box)
                order.append(box)
            elif end not in open_boxes:
                into.add((box, end))
                if end not in done:
                    open_boxes.add(end)
                    waiting.append((end, iter(after[end])))
    return order[::-1], into


def _chain(arrow: Arrow, column_of: Mapping[str, int], columns: list[list[str]]) -> list[str]:
    """The boxes of an arrow with an empty place in each column between them."""
    start, end = arrow
    between = [f"{start}\x00{end}\x00{at}" for at in range(column_of[start] + 1, column_of[end])]
    for at, name in enumerate(between, column_of[start] + 1):
        columns[at].append(name)
    return [start, *between, end]


def _order(columns: list[list[str]], links: Sequence[Arrow]) -> None:
    """Sorts each column by the mean place of the neighbours, from the left and from the right; the best order stays."""
    before, after = _neighbours(links)
    best, fewest = [list(column) for column in columns], _crossings(columns, links)
    for sweep in range(SWEEPS):
        near, numbers = (before, range(1, len(columns))) if sweep % 2 == 0 else (after, range(len(columns) - 2, -1, -1))
        for at in numbers:
            place = {name: row for column in columns for row, name in enumerate(column)}
            columns[at].sort(key=lambda name: fmean([place[other] for other in near.get(name, (name,))]))
        if (count := _crossings(columns, links)) < fewest:
            best, fewest = [list(column) for column in columns], count
    columns[:] = best


def _neighbours(links: Sequence[Arrow]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """For each name, those to its left and those to its right."""
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for start, end in links:
        before.setdefault(end, []).append(start)
        after.setdefault(start, []).append(end)
    return before, after


def _crossings(columns: Sequence[Sequence[str]], links: Sequence[Arrow]) -> int:
    """How many pairs of lines between neighbouring columns cross."""
    place = {name: (at, row) for at, column in enumerate(columns) for row, name in enumerate(column)}
    by_column: dict[int, list[tuple[int, int]]] = {}
    for start, end in links:
        by_column.setdefault(place[start][0], []).append((place[start][1], place[end][1]))
    return sum(_inversions([end for _, end in sorted(ends)]) for ends in by_column.values())


def _inversions(numbers: Sequence[int]) -> int:
    """
    >>> _inversions([2, 0, 1])
    2
    """
    seen: list[int] = []
    count = 0
    for number in numbers:
        count += len(seen) - bisect_right(seen, number)
        insort(seen, number)
    return count


def _rows(columns: Sequence[Sequence[str]], links: Sequence[Arrow]) -> dict[str, float]:
    """A row for each name: near its neighbours, at least one apart from the next in its column."""
    before, after = _neighbours(links)
    row = {name: float(at) for column in columns for at, name in enumerate(column)}
    for sweep in range(SWEEPS):
        near = before if sweep % 2 == 0 else after
        for column in columns if sweep % 2 == 0 else reversed(columns):
            wanted = [fmean([row[other] for other in near.get(name, (name,))]) for name in column]
            row |= zip(column, spread(wanted), strict=True)
    lowest = min(row.values())
    return {name: round(value - lowest, 3) for name, value in row.items()}


def spread(wanted: Sequence[float]) -> list[float]:
    """Rows in the same order, at least one apart, with the least squares from those that are wanted: neighbours that
    are too near move together (isotonic regression).

    >>> spread([0.0, 0.0, 5.0])
    [-0.5, 0.5, 5.0]
    """
    blocks: list[tuple[float, int]] = []  # mean, count
    for at, value in enumerate(wanted):
        mean, count = value - at, 1
        while blocks and blocks[-1][0] > mean:
            other, size = blocks.pop()
            mean, count = (other * size + mean * count) / (size + count), size + count
        blocks.append((mean, count))
    flat = [mean for mean, count in blocks for _ in range(count)]
    return [value + at for at, value in enumerate(flat)]
