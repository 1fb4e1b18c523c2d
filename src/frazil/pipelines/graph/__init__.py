"""The graph of pipelines and models: order, selection, lineage of columns, drawings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.pipelines.graph.lineage import ColumnLineage, Lineage, trace_columns, trace_model
    from frazil.pipelines.graph.nodes import Graph, Kind, Node
    from frazil.pipelines.graph.render import as_dot, as_json, as_mermaid, as_text
    from frazil.pipelines.graph.selectors import select
    from frazil.pipelines.graph.state import NodeState, StateFinder

__all__ = [
    "ColumnLineage",
    "Graph",
    "Kind",
    "Lineage",
    "Node",
    "NodeState",
    "StateFinder",
    "as_dot",
    "as_json",
    "as_mermaid",
    "as_text",
    "select",
    "trace_columns",
    "trace_model",
]

__getattr__ = lazy_names(__name__)
