"""Drawings of a graph, also with names that a format could take for syntax."""

from __future__ import annotations

import re

from frazil.pipelines.graph import ColumnLineage, Graph, Lineage, Node, as_dot, as_json, as_mermaid, as_text

GRAPH = Graph(
    (
        Node("load", "file", "s.o", sources=("landing/*.csv",), tags=("daily",)),
        Node("people", "kafka", "s.c", sources=("people",)),
        Node("g.a", "model", "g.a", ("s.o", "s.c"), mode="upsert", group="gold"),
        Node("g.b", "model", "g.b", ("g.a", "b.raw"), mode="rebuild", tags=("daily", "x")),
    )
)
HOSTILE = 'a"];click n0 "javascript:alert(1)"\n<img src=x>#1; `b` \\" end \x1b[31m\u202e'


def test_the_tree_has_each_node_once_below_the_last_that_it_needs() -> None:
    assert as_text(GRAPH).splitlines() == [
        "load -> s.o  files landing/*.csv, append  tag:daily",
        "└─ g.a  (below people)",
        "people -> s.c  Kafka people, append",
        "└─ g.a  model, upsert, reads s.o, s.c  group:gold",
        "   └─ g.b  model, rebuild, reads g.a, b.raw  tag:daily tag:x",
    ]


def test_the_tree_shows_columns_and_what_is_unknown() -> None:
    columns = {
        "g.a": Lineage("g.a", (ColumnLineage("id", "o.id", (("s.o", "id"),)), ColumnLineage("n", "COUNT(*)"))),
        "g.b": Lineage("g.b", (ColumnLineage("id", "id", unknown="not declared"),), unknown="*"),
    }
    assert as_text(GRAPH.part(GRAPH.nodes[2:]), columns).splitlines() == [
        "g.a  model, upsert, reads s.o, s.c  group:gold",
        "│    id = o.id  <- s.o.id",
        "│    n = COUNT(*)  <- no column",
        "└─ g.b  model, rebuild, reads g.a, b.raw  tag:daily tag:x",
        "        columns unknown: *",
        "        id  <- unknown: not declared",
    ]


def test_mermaid_has_a_box_per_pipeline_model_and_table() -> None:
    assert as_mermaid(GRAPH.part(GRAPH.nodes[::2])).splitlines() == [
        "graph LR",
        '    n0(["landing/*.csv"])',
        '    n1["load<br/>append"]',
        '    n2[("s.o")]',
        '    n3["g.a<br/>upsert"]',
        '    n4[("s.c")]',
        "    n0 --> n1",
        "    n1 --> n2",
        "    n2 --> n3",
        "    n4 --> n3",
    ]


def test_dot_has_the_same() -> None:
    assert as_dot(GRAPH.part(GRAPH.nodes[:1])).splitlines() == [
        "digraph frazil {",
        "    rankdir=LR;",
        '    n0 [shape=folder, label="landing/*.csv"];',
        '    n1 [shape=box, label="load\\nappend"];',
        '    n2 [shape=cylinder, label="s.o"];',
        "    n0 -> n1;",
        "    n1 -> n2;",
        "}",
    ]


def test_names_are_never_syntax() -> None:
    graph = Graph((Node(HOSTILE, "file", f"s.{HOSTILE}", sources=(HOSTILE,)), Node("g.a", "model", "g.a", (HOSTILE,))))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", as_text(graph) + as_mermaid(graph) + as_dot(graph))
    assert len(as_text(graph).splitlines()) == 2
    mermaid = re.compile(r"graph LR|    n\d+(\(\[|\[\(|\[)\"[^\"<>`]*(<br/>\w+)?\"(\]\)|\)\]|\])|    n\d+ --> n\d+")
    assert [line for line in as_mermaid(graph).splitlines() if not mermaid.fullmatch(line)] == []
    dot = re.compile(r'    n\d+ \[shape=\w+, label="(?:[^"\\]|\\.)*"\];|    n\d+ -> n\d+;|digraph.*|    rankdir.*|}')
    assert [line for line in as_dot(graph).splitlines() if not dot.fullmatch(line)] == []


def test_json_tells_of_chosen_nodes_what_is_around_them() -> None:
    printed = as_json(GRAPH, GRAPH.part(GRAPH.nodes[3:]), {})
    assert printed == {
        "nodes": [
            {
                "name": "g.b",
                "kind": "model",
                "table": "g.b",
                "inputs": ["g.a", "b.raw"],
                "sources": [],
                "mode": "rebuild",
                "mode_reason": "declared",
                "tags": ["daily", "x"],
                "group": None,
                "level": 2,
                "upstream": ["g.a"],
                "downstream": [],
                "columns": [],
                "columns_unknown": "a function of Python",
            }
        ],
        "external": ["b.raw"],
    }
