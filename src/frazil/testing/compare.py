"""Rows that were expected and rows that came: what is missing, what is unexpected, what differs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from frazil.testing.rows import Row, typed_rows

DIGITS = 12  # of floating-point numbers, which differ with the order of a sum


@dataclass(frozen=True)
class Difference:
    """What is wrong with the rows. A row that differs is a pair: as expected, as it came."""

    columns: tuple[str, ...]
    missing: tuple[Row, ...] = ()
    unexpected: tuple[Row, ...] = ()
    differing: tuple[tuple[Row, Row], ...] = field(default=())

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.differing)

    def lines(self) -> list[str]:
        """The difference for people, a line per row.

        >>> Difference(("id", "n"), differing=(({"id": 1, "n": 2}, {"id": 1, "n": 3}),)).lines()
        ['differing   {id: 1}: n is 3, expected 2']
        """
        lines = [f"missing     {show_row(row)}" for row in self.missing]
        lines += [f"unexpected  {show_row(row)}" for row in self.unexpected]
        return lines + [f"differing   {_show_pair(*pair)}" for pair in self.differing]


def compare_rows(expect: Sequence[Row], result: pa.Table) -> Difference:
    """How the result differs from the expected rows, in any order. Only columns that an expected row names count.

    >>> result = pa.table({"id": [1, 2], "n": [5, 6], "at": ["x", "y"]})
    >>> bool(compare_rows([{"id": 2, "n": 6}, {"id": 1, "n": 5}], result))
    False
    >>> compare_rows([{"id": 1, "n": 7}, {"id": 2, "n": 6}], result).lines()
    ['differing   {id: 1}: n is 5, expected 7']
    """
    named = {name for row in expect for name in row}
    columns = [name for name in result.column_names if name in named] if named else result.column_names
    wanted = typed_rows(expect, _schema(result, named), what="expect").to_pylist()
    missing, unexpected = _without_equal(wanted, result.select(columns).to_pylist())
    differing = []
    for row in list(missing):
        if (near := _nearest(row, unexpected)) is not None:
            differing.append((row, near))
            missing.remove(row)
            unexpected.remove(near)
    return Difference(tuple(columns), tuple(missing), tuple(unexpected), tuple(differing))


def _schema(result: pa.Table, named: set[str]) -> pa.Schema:
    """The named columns, or all of them: then an unknown one is an error that lists what there is."""
    if named <= set(result.column_names):
        return pa.schema([column for column in result.schema if column.name in named])
    return result.schema


def _without_equal(expected: list[Row], actual: list[Row]) -> tuple[list[Row], list[Row]]:
    missing, rest = [], [(_key(row), row) for row in actual]
    for row in expected:
        at = next((number for number, (key, _) in enumerate(rest) if key == _key(row)), None)
        if at is None:
            missing.append(row)
        else:
            rest.pop(at)
    return missing, [row for _, row in rest]


def _nearest(row: Row, others: Sequence[Row]) -> Row | None:
    """The row with the most equal values, if half of them are."""
    best = max(others, key=lambda other: _equal(row, other), default=None)
    return best if best is not None and 2 * _equal(row, best) >= len(row) else None


def _equal(row: Row, other: Row) -> int:
    return sum(_comparable(row[name]) == _comparable(other[name]) for name in row)


def _key(row: Row) -> dict[str, Any]:
    return {name: _comparable(value) for name, value in row.items()}


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else f"{value:.{DIGITS}g}"
    if isinstance(value, Mapping):
        return _key(value)
    return [_comparable(each) for each in value] if isinstance(value, list) else value


def show_row(row: Row) -> str:
    """
    >>> show_row({"id": 1, "name": None})
    '{id: 1, name: null}'
    """
    return "{" + ", ".join(f"{name}: {_show(value)}" for name, value in row.items()) + "}"


def _show(value: Any) -> str:
    return "null" if value is None else str(value)


def _show_pair(expected: Row, actual: Row) -> str:
    same = {name: value for name, value in expected.items() if _comparable(value) == _comparable(actual[name])}
    other = [name for name in expected if name not in same]
    return f"{show_row(same)}: " + ", ".join(
        f"{name} is {_show(actual[name])}, expected {_show(expected[name])}" for name in other
    )
