"""Files of queries in pieces of equal size: what one commit brings, and what one task of Spark does."""

from __future__ import annotations

import pytest

from examples.transpile.slices import Slice, count, cut, share
from frazil.pipelines.sources import SourceFile


def whole(name: str, rows: int, *, start: int = 0) -> Slice:
    return Slice(SourceFile(name, 1, "t"), start, rows, rows)


def spans(parts: list[list[Slice]]) -> list[list[tuple[str, int, int]]]:
    return [[(span.file.path, span.start, span.end) for span in part] for part in parts]


def test_a_long_file_is_cut_and_short_ones_are_put_together() -> None:
    parts = list(cut([whole("a", 25, start=3), whole("b", 4), whole("c", 5)], 10))
    assert spans(parts) == [[("a", 3, 13)], [("a", 13, 23)], [("a", 23, 25), ("b", 0, 4), ("c", 0, 4)], [("c", 4, 5)]]


def test_only_the_piece_that_ends_a_file_is_its_last() -> None:
    parts = list(cut([whole("a", 20)], 10))
    assert [item.is_last for part in parts for item in part] == [False, True]


def test_an_empty_file_stays_in_the_list_and_ends_at_once() -> None:
    parts = list(cut([whole("a", 10), whole("b", 0), whole("c", 1)], 10))
    assert spans(parts) == [[("a", 0, 10), ("b", 0, 0)], [("c", 0, 1)]]
    assert spans(list(cut([whole("b", 0)], 10))) == [[("b", 0, 0)]]
    assert list(cut([], 10)) == []


def test_no_rows_at_a_time_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 1 or more, got 0"):
        next(cut([whole("a", 1)], 0))


def test_rows_are_shared_evenly() -> None:
    parts = share([whole("a", 7), whole("b", 4)], 4)
    assert [count(part) for part in parts] == [3, 3, 3, 2]
    assert spans(share([whole("a", 2)], 4)) == [[("a", 0, 1)], [("a", 1, 2)]]
    assert share([whole("b", 0)], 4) == [[whole("b", 0)]]
