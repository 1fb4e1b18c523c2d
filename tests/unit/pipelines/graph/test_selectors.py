"""Selectors: `+gold.revenue`, `tag:daily`, `silver.*+`."""

from __future__ import annotations

import pytest

from frazil.errors import ProjectError
from frazil.pipelines.graph import Graph, Node, select
from tests.kit.raising import raises

#   load -> s.o -> s.clean -> g.day -> g.week -> g.year
#                     b.raw ---^        g.alone
GRAPH = Graph(
    (
        Node("load", "file", "s.o", sources=("*.csv",), tags=("daily",)),
        Node("s.clean", "model", "s.clean", ("s.o",), tags=("daily",), group="silver"),
        Node("g.day", "model", "g.day", ("s.clean", "b.raw"), tags=("daily", "finance"), group="gold"),
        Node("g.week", "model", "g.week", ("g.day",), group="gold"),
        Node("g.year", "model", "g.year", ("g.week",)),
        Node("g.alone", "model", "g.alone"),
    )
)


@pytest.mark.parametrize(
    ("selectors", "expected"),
    [
        ("", "load s.clean g.day g.week g.year g.alone"),
        ("g.day", "g.day"),
        ("load", "load"),
        ("s.o", "load"),
        ("g.*", "g.day g.week g.year g.alone"),
        ("g.?????", "g.alone"),
        ("+g.day", "load s.clean g.day"),
        ("1+g.day", "s.clean g.day"),
        ("0+g.day", "g.day"),
        ("g.day+", "g.day g.week g.year"),
        ("g.day+1", "g.day g.week"),
        ("1+g.day+1", "s.clean g.day g.week"),
        ("+g.day+", "load s.clean g.day g.week g.year"),
        ("s.*+1", "load s.clean g.day"),
        ("b.raw+", "g.day g.week g.year"),
        ("b.raw+1", "g.day"),
        ("b.*+2", "g.day g.week"),
        ("tag:daily", "load s.clean g.day"),
        ("tag:fin*", "g.day"),
        ("group:gold", "g.day g.week"),
        ("+group:gold", "load s.clean g.day g.week"),
        ("tag:daily,group:gold", "g.day"),
        ("+g.year,tag:daily,s.*", "load s.clean"),
        ("tag:finance,g.alone", ""),
        ("g.year load", "load g.year"),
        ("g.day g.day+", "g.day g.week g.year"),
        ("g.* -g.alone", "g.day g.week g.year"),
        ("-tag:daily", "g.week g.year g.alone"),
        ("g.day+ -g.week+", "g.day"),
        ("g.day -g.*", ""),
    ],
)
def test_selectors_select_these_nodes(selectors: str, expected: str) -> None:
    words = selectors.split()
    wanted, excluded = [w for w in words if w[0] != "-"], [w[1:] for w in words if w[0] == "-"]
    assert " ".join(node.name for node in select(GRAPH, wanted, excluded)) == expected


@pytest.mark.parametrize(
    ("selector", "facts"),
    [
        ("g.dya", {"name": "g.dya", "problem": "unknown", "expected": ["g.day", "g.year"]}),
        ("G.DAY", {"name": "G.DAY", "expected": ["g.day"]}),
        ("x.*", {"name": "x.*", "problem": "unknown"}),
        ("+g.dya+", {"name": "g.dya"}),
        ("g.day,g.dya", {"name": "g.dya"}),
        ("tag:dayly", {"name": "dayly", "expected": ["daily"]}),
        ("group:golden", {"name": "golden", "expected": ["gold"]}),
        ("tag:", {"name": "tag:"}),
        ("b.raw", {"table": "b.raw", "problem": "external"}),
        ("+b.raw", {"table": "b.raw", "problem": "external"}),
        ("", {"problem": "selector"}),
        ("+", {"problem": "selector"}),
        ("g.day++", {"problem": "selector"}),
        ("a+b", {"problem": "selector"}),
        ("g.day,", {"problem": "selector"}),
    ],
)
def test_a_selector_that_selects_nothing_known_is_an_error(selector: str, facts: dict[str, object]) -> None:
    with raises(ProjectError, **facts):
        select(GRAPH, [selector])
    with raises(ProjectError, **facts):
        select(GRAPH, [], [selector])
