"""The order of pipelines and models, and what depends on what."""

from __future__ import annotations

from typing import Any

import pytest

from frazil import Table, column, model, pipeline, sources
from frazil.errors import ProjectError
from frazil.pipelines.graph import Graph, Node
from tests.kit.raising import raises


def table(name: str) -> Table:
    return Table(name, column("id", "long"))


def load(name: str, target: str, source: Any = None, **options: Any) -> Any:
    @pipeline(source=source or sources.csv("landing/*.csv"), target=table(target), name=name, **options)
    def function(rows: Any) -> Any:
        return rows

    return function


def reads(name: str, *inputs: str, **options: Any) -> Any:
    return model(name, "SELECT 1 AS one FROM " + ", ".join(inputs or ["range(1)"]), **options)


def names(nodes: tuple[Node, ...]) -> list[str]:
    return [node.name for node in nodes]


def test_each_node_says_what_it_reads_and_fills() -> None:
    jdbc = {"rows": sources.table("s.o"), "rates": sources.spark("jdbc", url="secret")}

    @pipeline(source=jdbc, target=table("s.rated"), tags=["hourly"], group="silver")
    def rate(rows: Any, rates: Any) -> Any:
        return rows

    topic = sources.kafka("events", servers="x:1")
    graph = Graph.of([load("a", "s.o"), load("b", "s.e", topic), rate], [reads("g.m", "s.rated", mode="append")])
    assert graph.nodes == (
        Node("a", "file", "s.o", sources=("landing/*.csv",)),
        Node("b", "kafka", "s.e", sources=("events",)),
        Node("rate", "table", "s.rated", ("s.o",), ("jdbc",), tags=("hourly",), group="silver"),
        Node("g.m", "model", "g.m", ("s.rated",), mode="append", mode_reason="declared"),
    )


def test_a_node_comes_after_what_it_reads_and_ties_are_as_declared() -> None:
    models = [reads("g.z", "g.y", "s.o"), reads("g.b", "s.o"), reads("g.y", "s.o"), reads("g.a")]
    graph = Graph.of([load("load", "s.o")], models)
    assert names(graph.nodes) == ["load", "g.b", "g.y", "g.z", "g.a"]
    assert [names(level) for level in graph.levels()] == [["load", "g.a"], ["g.b", "g.y"], ["g.z"]]


def test_all_pipelines_that_fill_a_table_come_before_its_readers() -> None:
    graph = Graph.of([load("eu", "s.o"), load("us", "s.o")], [reads("g.m", "s.o")])
    assert (graph.parents["g.m"], names(graph.makers("s.o"))) == (("eu", "us"), ["eu", "us"])


def test_upstream_and_downstream_go_as_far_as_they_are_allowed() -> None:
    models = [reads("g.b", "g.a"), reads("g.c", "g.b"), reads("g.d", "g.c", "g.a"), reads("g.a")]
    graph = Graph.of([], models)
    assert names(graph.upstream("g.d")) == ["g.a", "g.b", "g.c"]
    assert names(graph.upstream("g.d", 1)) == ["g.a", "g.c"]
    assert names(graph.downstream("g.a", 1)) == ["g.b", "g.d"]
    assert names(graph.downstream(["g.b", "g.c"])) == ["g.c", "g.d"]
    assert names(graph.downstream("g.d")) == []


def test_a_circle_is_named() -> None:
    models = [reads("g.out", "g.c"), reads("g.a", "g.c"), reads("g.b", "g.a"), reads("g.c", "g.b")]
    with raises(ProjectError, problem="cycle", got=["g.a", "g.b", "g.c", "g.a"]):
        Graph.of([], models)


def test_a_circle_through_a_pipeline_is_named() -> None:
    with raises(ProjectError, problem="cycle", got=["load", "g.a", "load"]):
        Graph.of([load("load", "s.o", sources.table("g.a"))], [reads("g.a", "s.o")])


def test_tables_that_nothing_fills_are_external() -> None:
    graph = Graph.of([load("load", "s.o")], [reads("g.a", "s.o", "b.raw", "b.other"), reads("g.b", "b.raw", "g.a")])
    assert (graph.external, names(graph.readers("b.raw"))) == (("b.raw", "b.other"), ["g.a", "g.b"])


def test_a_part_of_a_graph_keeps_the_order_and_its_own_edges() -> None:
    graph = Graph.of([], [reads("g.a"), reads("g.b", "g.a"), reads("g.c", "g.b")])
    part = graph.part([graph.node("g.c"), graph.node("g.a")])
    assert (names(part.nodes), part.parents) == (["g.a", "g.c"], {"g.a": (), "g.c": ()})


@pytest.mark.parametrize("other", ["S.o", "s.O"])
def test_a_name_that_differs_in_case_alone_is_refused(other: str) -> None:
    with raises(ProjectError, problem="case", table=other, expected="s.o"):
        Graph.of([load("load", "s.o")], [reads("g.a", other)])


def test_an_unknown_node_has_near_names() -> None:
    graph = Graph.of([load("daily_sales", "s.o")], [])
    with raises(ProjectError, name="daily_sale", expected=["daily_sales"]):
        graph.node("daily_sale")
