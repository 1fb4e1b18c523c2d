"""The drawing of a graph: columns from left to right, boxes that never overlap, and the same drawing each time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

from frazil.console.pipelines.layout import Arrow, Drawing, draw

DIAMOND = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]


def columns(drawing: Drawing) -> dict[str, int]:
    return {box: column for box, (column, _) in drawing.places.items()}


def made_up(count: int, seed: int) -> tuple[list[str], list[Arrow]]:
    chance = random.Random(seed)
    boxes = [f"b{number}" for number in range(count)]
    arrows = [(boxes[chance.randrange(at)], boxes[at]) for at in range(1, count) for _ in range(chance.randint(0, 3))]
    return boxes, arrows


def apart(drawing: Drawing) -> float:
    """The least distance of two boxes in one column."""
    rows: dict[int, list[float]] = {}
    for column, row in drawing.places.values():
        rows.setdefault(column, []).append(row)
    gaps = [b - a for each in rows.values() for a, b in pairwise(sorted(each))]
    return min(gaps, default=1.0)


def test_what_is_made_stands_to_the_right_of_all_that_it_is_made_from() -> None:
    assert columns(draw("abcd", DIAMOND)) == {"a": 0, "b": 1, "c": 1, "d": 2}
    assert columns(draw("abcd", [*DIAMOND, ("a", "d")]))["d"] == 2


def test_a_source_stands_next_to_what_reads_it() -> None:
    assert columns(draw("abcs", [("a", "b"), ("b", "c"), ("s", "c")])) == {"a": 0, "b": 1, "c": 2, "s": 1}


def test_parts_that_are_not_connected_stand_below_each_other() -> None:
    places = draw("abcd", [("a", "c"), ("b", "d")]).places
    assert places == {"a": (0, 0.0), "c": (1, 0.0), "b": (0, 1.0), "d": (1, 1.0)}


def test_lines_do_not_cross_where_they_need_not() -> None:
    places = draw("abxy", [("a", "y"), ("b", "x"), ("a", "x"), ("b", "x")]).places
    assert (places["a"][1] < places["b"][1]) == (places["y"][1] < places["x"][1])


def test_a_long_line_passes_a_place_of_its_own_in_each_column() -> None:
    drawing = draw("abcd", [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")])
    line = drawing.lines["a", "d"]
    assert [column for column, _ in line] == [0, 1, 2, 3]
    assert all(abs(row - drawing.places["bc"[at]][1]) >= 1 for at, (_, row) in enumerate(line[1:3]))


def test_a_circle_is_drawn_with_a_line_that_turns_back() -> None:
    drawing = draw("ab", [("a", "b"), ("b", "a"), ("a", "a")])
    assert columns(drawing) == {"a": 0, "b": 1}
    assert [[column for column, _ in line] for line in drawing.lines.values()] == [[0, 1], [1, 0]]


def test_nothing_is_a_drawing_and_arrows_to_boxes_that_are_not_drawn_are_left_out() -> None:
    assert draw([], [("a", "b")]) == Drawing({}, {}, 0, 0.0)
    assert draw("a", [("a", "b")]).lines == {}


def test_boxes_of_any_graph_are_apart_and_drawn_the_same_each_time() -> None:
    for seed in range(20):
        boxes, arrows = made_up(40, seed)
        drawing = draw(boxes, arrows)
        assert set(drawing.places) == set(boxes)
        assert apart(drawing) >= 1 - 1e-6, seed
        assert all(drawing.places[start][0] < drawing.places[end][0] for start, end in arrows), seed
        assert draw(boxes, list(arrows)) == drawing


def test_a_chain_of_a_thousand_boxes_needs_no_recursion() -> None:
    boxes = [str(number) for number in range(1_000)]
    chain: Sequence[Arrow] = list(pairwise(boxes))
    assert draw(boxes, chain).columns == 1_000
