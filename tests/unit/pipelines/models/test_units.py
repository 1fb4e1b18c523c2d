"""Which derivations are published together."""

from __future__ import annotations

from typing import Any

from frazil.pipelines.models.derivation import Derivation
from frazil.pipelines.models.units import split_units
from frazil.pipelines.sources import TableSource


def derivation(name: str, *inputs: str, group: str | None = None) -> Derivation:
    sources = {source: TableSource(source) for source in inputs}
    compute: Any = None
    return Derivation(name, name, "rebuild", sources, None, compute, group=group)


def names(*derivations: Derivation, together: bool = False) -> list[list[str]]:
    return [[each.name for each in unit] for unit in split_units(derivations, together=together)]


def test_each_derivation_is_a_unit_of_its_own_after_its_inputs() -> None:
    assert names(derivation("s.a", "b.x"), derivation("g.b", "s.a"), derivation("g.c", "s.a")) == [
        ["s.a"],
        ["g.b"],
        ["g.c"],
    ]


def test_all_are_one_unit_if_asked_for() -> None:
    assert names(derivation("s.a", "b.x"), derivation("g.b", "s.a"), together=True) == [["s.a", "g.b"]]


def test_a_group_is_one_unit() -> None:
    first, second = derivation("s.a", "b.x", group="day"), derivation("g.b", "s.a", group="day")
    assert names(first, second, derivation("g.c", "g.b")) == [["s.a", "g.b"], ["g.c"]]


def test_what_lies_between_two_members_of_a_group_joins_it() -> None:
    a, b, c = derivation("s.a", "b.x", group="day"), derivation("s.b", "s.a"), derivation("g.c", "s.b", group="day")
    assert names(a, b, c, derivation("g.d", "g.c")) == [["s.a", "s.b", "g.c"], ["g.d"]]


def test_two_groups_that_wait_for_each_other_become_one() -> None:
    a, b = derivation("s.a", group="x"), derivation("s.b", "s.a", group="y")
    c, d = derivation("s.c", group="y"), derivation("s.d", "s.c", group="x")
    assert names(a, b, c, d) == [["s.a", "s.b", "s.c", "s.d"]]


def test_nothing_gives_no_unit() -> None:
    assert names(together=True) == []
