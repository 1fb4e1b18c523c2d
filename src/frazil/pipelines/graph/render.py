"""Drawings of a graph: a tree for the terminal, Mermaid, DOT, and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from frazil.pipelines.graph.nodes import Graph, Node
from frazil.terminal import visible_line

if TYPE_CHECKING:
    from frazil.pipelines.graph.lineage import Lineage
    from frazil.pipelines.graph.state import NodeState

Columns = Mapping[str, "Lineage"]  # by model
States = Mapping[str, "NodeState"]  # by pipeline or model
_READS = {"file": "files", "kafka": "Kafka", "spark": "Spark", "table": "tables", "model": "model"}


# --- text ------------------------------------------------------------------------------------------------------------


def as_text(graph: Graph, columns: Columns | None = None, states: States | None = None) -> str:
    r"""A tree: below each pipeline or model stands what reads its table.

    A node with several inputs stands in full below the last of them, when all that it needs has been named; at the
    others there is only its name.

    >>> load = Node("load", "file", "silver.orders", sources=("landing/*.csv",))
    >>> revenue = Node("gold.revenue", "model", "gold.revenue", ("silver.orders",), mode="rebuild", tags=("daily",))
    >>> print(as_text(Graph((load, revenue))))
    load -> silver.orders  files landing/*.csv, append
    └─ gold.revenue  model, rebuild, reads silver.orders  tag:daily
    """
    notes = {node.name: [*_state_lines(node, states), *_column_lines(node, columns)] for node in graph.nodes}
    lines = [line for node in graph.nodes if not graph.parents[node.name] for line in _tree(graph, node, notes)]
    return "\n".join(lines)


def _tree(graph: Graph, node: Node, notes: Mapping[str, Sequence[str]], prefix: str = "") -> Iterator[str]:
    yield prefix + describe(node)
    children = [graph.node(name) for name in graph.children[node.name]]
    inside = prefix.replace("├─ ", "│  ").replace("└─ ", "   ")
    for line in notes[node.name]:
        yield inside + ("│    " if children else "     ") + line
    for child in children:
        branch = inside + ("└─ " if child is children[-1] else "├─ ")
        last = graph.last_parent(child)
        if last == node.name:
            yield from _tree(graph, child, notes, branch)
        else:
            yield branch + visible_line(f"{child.name}  (below {last})")


def describe(node: Node) -> str:
    """A node in a line: its table, what it reads, its mode and its labels."""
    name = node.name if node.name == node.target else f"{node.name} -> {node.target}"
    if node.kind == "model":
        reads = f"model, {node.mode}" + (f", reads {', '.join(node.inputs)}" if node.inputs else "")
    else:
        reads = f"{_READS[node.kind]} {', '.join((*node.inputs, *node.sources))}, {node.mode}"
    labels = [*(f"tag:{tag}" for tag in node.tags), *([f"group:{node.group}"] if node.group else [])]
    return visible_line("  ".join([name, reads, *([" ".join(labels)] if labels else [])]))


def _state_lines(node: Node, states: States | None) -> list[str]:
    return [visible_line(line) for line in states[node.name].lines()] if states and node.name in states else []


def _column_lines(node: Node, columns: Columns | None) -> Iterator[str]:
    lineage = (columns or {}).get(node.name)
    if columns is None or lineage is None:
        return
    if lineage.unknown:
        yield visible_line(f"columns unknown: {lineage.unknown}")
    for column in lineage.columns:
        inputs = ", ".join(f"{table}.{name}" for table, name in column.inputs)
        origin = f"unknown: {column.unknown}" if column.unknown else inputs or "no column"
        text = f" = {column.expression}" if column.expression != column.column else ""
        yield visible_line(f"{column.column}{text}  <- {origin}")


# --- pictures --------------------------------------------------------------------------------------------------------

Shape = Literal["source", "pipeline", "model", "table"]


@dataclass
class Picture:
    """Boxes and arrows. Each box has an id of its own, so that names never stand where a format has syntax."""

    boxes: dict[tuple[Shape, str], str] = field(default_factory=dict)
    labels: dict[str, tuple[Shape, tuple[str, ...]]] = field(default_factory=dict)  # a text per line
    arrows: dict[tuple[str, str], None] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph) -> Picture:
        picture = cls()
        for node in graph.nodes:
            for source in node.sources:
                picture.add_arrow(picture.box("source", source), picture.of_node(node))
            for table in node.inputs:
                picture.add_arrow(picture.of_table(graph, table), picture.of_node(node))
            picture.of_node(node)
            if node.kind != "model":
                picture.add_arrow(picture.of_node(node), picture.box("table", node.target))
        return picture

    def of_node(self, node: Node) -> str:
        return self.box("model" if node.kind == "model" else "pipeline", node.name, node.mode)

    def of_table(self, graph: Graph, table: str) -> str:
        maker = next((node for node in graph.makers(table) if node.kind == "model"), None)
        return self.of_node(maker) if maker else self.box("table", table)

    def box(self, shape: Shape, name: str, *details: str) -> str:
        box = self.boxes.setdefault((shape, name), f"n{len(self.boxes)}")
        self.labels.setdefault(box, (shape, (name, *details)))
        return box

    def add_arrow(self, start: str, end: str) -> None:
        self.arrows[start, end] = None


_MERMAID: dict[Shape, tuple[str, str]] = {
    "source": ('(["', '"])'),
    "pipeline": ('["', '"]'),
    "model": ('["', '"]'),
    "table": ('[("', '")]'),
}
_DOT: dict[Shape, str] = {"source": "folder", "pipeline": "box", "model": "box", "table": "cylinder"}


def as_mermaid(graph: Graph) -> str:
    """The graph in Mermaid: tables are cylinders, pipelines and models boxes."""
    picture = Picture.of(graph)
    lines = ["graph LR"]
    for box, (shape, texts) in picture.labels.items():
        begin, end = _MERMAID[shape]
        lines.append(f"    {box}{begin}{'<br/>'.join(map(quote_mermaid, texts))}{end}")
    return "\n".join([*lines, *(f"    {start} --> {end}" for start, end in picture.arrows)])


def as_dot(graph: Graph) -> str:
    """The graph in the language of Graphviz."""
    picture = Picture.of(graph)
    lines = ["digraph frazil {", "    rankdir=LR;"]
    for box, (shape, texts) in picture.labels.items():
        label = "\\n".join(map(quote_dot, texts))
        lines.append(f'    {box} [shape={_DOT[shape]}, label="{label}"];')
    return "\n".join([*lines, *(f"    {start} -> {end};" for start, end in picture.arrows), "}"])


def quote_mermaid(text: str) -> str:
    r"""Text inside double quotes in Mermaid, where `#` begins an entity.

    >>> quote_mermaid('a"b<c>#1;`x`\n')
    'a#34;b#60;c#62;#35;1#59;#96;x#96;\\x0a'
    """
    return "".join(f"#{ord(char)};" if char in '"<>#;`&' else char for char in visible_line(text))


def quote_dot(text: str) -> str:
    r"""Text inside double quotes in DOT, where a backslash begins an escape.

    >>> quote_dot('a"b\\N\n')
    'a\\"b\\\\N\\\\x0a'
    """
    return visible_line(text).replace("\\", "\\\\").replace('"', '\\"')


# --- for programs ----------------------------------------------------------------------------------------------------


def as_json(
    graph: Graph, chosen: Graph | None = None, columns: Columns | None = None, states: States | None = None
) -> dict[str, Any]:
    """The graph, or the chosen nodes of it, for programs: docs/cli-json.md has its shape."""
    levels = {node.name: number for number, level in enumerate(graph.levels()) for node in level}
    nodes = (chosen or graph).nodes
    return {
        "nodes": [
            _node_as_json(graph, node, levels[node.name], columns)
            | ({"state": states[node.name].as_json()} if states else {})
            for node in nodes
        ],
        "external": [table for table in graph.external if any(table in node.inputs for node in nodes)],
    }


def _node_as_json(graph: Graph, node: Node, level: int, columns: Columns | None) -> dict[str, Any]:
    values = {
        "name": node.name,
        "kind": node.kind,
        "table": node.target,
        "inputs": list(node.inputs),
        "sources": list(node.sources),
        "mode": node.mode,
        "mode_reason": node.mode_reason,
        "tags": list(node.tags),
        "group": node.group,
        "level": level,
        "upstream": list(graph.parents[node.name]),
        "downstream": list(graph.children[node.name]),
    }
    return values if columns is None else values | _columns_as_json(columns.get(node.name))


def _columns_as_json(lineage: Lineage | None) -> dict[str, Any]:
    if lineage is None:
        return {"columns": [], "columns_unknown": "a function of Python"}
    columns = [
        {
            "name": column.column,
            "expression": column.expression,
            "inputs": [{"table": table, "column": name} for table, name in column.inputs],
            "unknown": column.unknown,
        }
        for column in lineage.columns
    ]
    return {"columns": columns, "columns_unknown": lineage.unknown}
