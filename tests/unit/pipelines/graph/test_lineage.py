"""From which columns the columns of models are computed; what is open is unknown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from frazil import Table, column, model
from frazil.pipelines.graph import Graph, Lineage, trace_columns
from frazil.pipelines.graph.lineage import trace_model

SCHEMAS = {"s.o": ["id", "Amount", "ts", "items", "address"], "s.c": ["id", "name"]}


def read_cases() -> list[tuple[str, str, str]]:
    text = Path(__file__).with_name("lineage.sql").read_text(encoding="utf-8")
    cases = re.findall(r"^-- case: (.+)\n((?:.*\n)+?)=> (.*)$", text, re.MULTILINE)
    assert len(cases) == text.count("-- case: ")
    return cases


def show(lineage: Lineage) -> str:
    if lineage.unknown:
        return "?"
    return " | ".join(
        f"{column.column} <- " + ("?" if column.unknown else " ".join(f"{t}.{name}" for t, name in column.inputs))
        for column in lineage.columns
    ).replace("  ", " ")


@pytest.mark.parametrize(("title", "query", "expected"), read_cases())
def test_columns_come_from_these(title: str, query: str, expected: str) -> None:
    printed = show(trace_model(model("g.t", query), SCHEMAS))
    assert [part.strip() for part in printed.split("|")] == [part.strip() for part in expected.split("|")]


def test_the_columns_of_a_model_are_known_to_those_that_read_it() -> None:
    orders = Table("s.o", column("id", "long"), column("amount", "double"))
    models = [
        model("g.b", "SELECT * FROM g.a"),
        model("g.a", "SELECT id, amount * 2 AS twice FROM s.o"),
        model("g.d", "SELECT * FROM g.c"),
        model("g.c", "SELECT * FROM b.raw", columns=[column("x", "int")]),
    ]
    traced = trace_columns(Graph.of([], models, [orders]), models, [orders])
    assert {name: show(lineage) for name, lineage in traced.items()} == {
        "g.a": "id <- s.o.id | twice <- s.o.amount",
        "g.b": "id <- g.a.id | twice <- g.a.twice",
        "g.c": "?",
        "g.d": "x <- g.c.x",
    }


def test_an_unknown_column_says_why() -> None:
    lineage = trace_model(model("g.t", "SELECT nope FROM s.c"), SCHEMAS)
    assert [column.unknown for column in lineage.columns] == ["s.c has no column 'nope'"]
    star = trace_model(model("g.t", "SELECT * FROM u.a"), SCHEMAS)
    assert star.unknown == "the columns of u.a are not declared, and SELECT * needs them"
