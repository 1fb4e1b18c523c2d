"""The graph of a project: pipelines and models, joined by the tables that they fill and read."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import Literal

from frazil.errors import ProjectError
from frazil.pipelines import Pipeline
from frazil.pipelines.models import Model
from frazil.pipelines.sources import FileSource, KafkaSource, TableSource
from frazil.tables import Table

Kind = Literal["file", "kafka", "spark", "table", "model"]


@dataclass(frozen=True)
class Node:
    """A pipeline or a model: what it reads, and the table that it fills."""

    name: str
    kind: Kind  # what a pipeline reads; or "model"
    target: str
    inputs: tuple[str, ...] = ()  # tables
    sources: tuple[str, ...] = ()  # what is read and is no table: files, topics, connectors of Spark
    mode: str = "append"
    mode_reason: str = "declared"
    tags: tuple[str, ...] = ()
    group: str | None = None

    @classmethod
    def of_pipeline(cls, pipeline: Pipeline) -> Node:
        inputs, sources = _read_by(pipeline)
        kind: Kind = "table" if inputs else "spark"
        if isinstance(pipeline.source, FileSource | KafkaSource):
            kind = "file" if isinstance(pipeline.source, FileSource) else "kafka"
        target = pipeline.target.name
        return cls(
            pipeline.name, kind, target, inputs, sources, pipeline.mode, "declared", pipeline.tags, pipeline.group
        )

    @classmethod
    def of_model(cls, model: Model) -> Node:
        labels = (model.tags, model.group)
        return cls(model.name, "model", model.name, model.inputs, (), model.mode, model.mode_reason, *labels)


def _read_by(pipeline: Pipeline) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tables that a pipeline reads, and what else it reads."""
    if isinstance(pipeline.source, FileSource):
        return (), (pipeline.source.pattern,)
    if isinstance(pipeline.source, KafkaSource):
        return (), (str(pipeline.source),)
    values = pipeline.inputs.values()
    tables = dict.fromkeys(source.name for source in values if isinstance(source, TableSource))
    return tuple(tables), tuple(str(source) for source in values if not isinstance(source, TableSource))


@dataclass(frozen=True)
class Graph:
    """Pipelines and models in an order in which each comes after what it reads; ties are as declared."""

    nodes: tuple[Node, ...]
    tables: tuple[str, ...] = ()  # that are declared, whether or not something fills them

    @classmethod
    def of(cls, pipelines: Iterable[Pipeline], models: Iterable[Model], tables: Iterable[Table] = ()) -> Graph:
        """The graph of what a project declares; raises `ProjectError` if something reads what is made of it."""
        nodes = [*map(Node.of_pipeline, pipelines), *map(Node.of_model, models)]
        names = tuple(table.name for table in tables)
        _check_letters(nodes, names)
        return cls(tuple(_sorted(nodes)), names)

    def node(self, name: str) -> Node:
        """The pipeline or model of that name."""
        if name in self._by_name:
            return self._by_name[name]
        raise unknown_name(name, self._by_name, what="pipeline or model")

    def makers(self, table: str) -> tuple[Node, ...]:
        """What fills a table: one model, or pipelines."""
        return tuple(node for node in self.nodes if node.target == table)

    @property
    def external(self) -> tuple[str, ...]:
        """The tables that are read, and that nothing here fills, in order of appearance."""
        read = dict.fromkeys(table for node in self.nodes for table in node.inputs)
        return tuple(table for table in read if not self.makers(table))

    @cached_property
    def parents(self) -> Mapping[str, tuple[str, ...]]:
        """For each node, those that fill the tables that it reads."""
        return _parents(self.nodes)

    @cached_property
    def children(self) -> Mapping[str, tuple[str, ...]]:
        """For each node, those that read the table that it fills."""
        return {
            node.name: tuple(other.name for other in self.nodes if node.name in self.parents[other.name])
            for node in self.nodes
        }

    def last_parent(self, node: Node) -> str | None:
        """Of what a node depends on directly, what comes last in the order."""
        return next((other.name for other in reversed(self.nodes) if other.name in self.parents[node.name]), None)

    def upstream(self, names: str | Iterable[str], depth: int | None = None) -> tuple[Node, ...]:
        """What the nodes depend on, up to `depth` steps away; a node itself only if another one needs it."""
        return self._reach(names, self.parents, depth)

    def downstream(self, names: str | Iterable[str], depth: int | None = None) -> tuple[Node, ...]:
        """What depends on the nodes, up to `depth` steps away."""
        return self._reach(names, self.children, depth)

    def readers(self, table: str) -> tuple[Node, ...]:
        """What reads a table."""
        return tuple(node for node in self.nodes if table in node.inputs)

    def levels(self) -> tuple[tuple[Node, ...], ...]:
        """The nodes in steps: those of one step need nothing of each other, and can run at the same time."""
        level: dict[str, int] = {}
        for node in self.nodes:
            level[node.name] = 1 + max((level[parent] for parent in self.parents[node.name]), default=-1)
        count = 1 + max(level.values(), default=-1)
        return tuple(tuple(node for node in self.nodes if level[node.name] == number) for number in range(count))

    def part(self, nodes: Iterable[Node]) -> Graph:
        """The graph of some of its nodes alone."""
        names = {node.name for node in nodes}
        return Graph(tuple(node for node in self.nodes if node.name in names), self.tables)

    @cached_property
    def _by_name(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.nodes}

    def _reach(
        self, names: str | Iterable[str], neighbours: Mapping[str, tuple[str, ...]], depth: int | None
    ) -> tuple[Node, ...]:
        border = {self.node(name).name for name in ([names] if isinstance(names, str) else names)}
        reached: set[str] = set()
        while border and (depth is None or depth > 0):
            border = {other for name in border for other in neighbours[name]} - reached
            reached |= border
            depth = None if depth is None else depth - 1
        return tuple(node for node in self.nodes if node.name in reached)


def unknown_name(name: str, known: Iterable[str], *, what: str) -> ProjectError:
    """The error for a name that is not there, with those that are nearest to it."""
    names = list(dict.fromkeys(known))
    lower = {each.lower(): each for each in names}
    close = [lower[match] for match in get_close_matches(name.lower(), list(lower), n=3)]
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(sorted(names)[:10]) or 'none'}"
    return ProjectError(f"no {what} '{name}'", hint=hint, name=name, expected=close, problem="unknown")


def _parents(nodes: Sequence[Node]) -> dict[str, tuple[str, ...]]:
    makers: dict[str, list[str]] = {}
    for node in nodes:
        makers.setdefault(node.target, []).append(node.name)
    return {
        node.name: tuple(dict.fromkeys(maker for table in node.inputs for maker in makers.get(table, ())))
        for node in nodes
    }


def _sorted(nodes: Sequence[Node]) -> list[Node]:
    """The nodes in topological order; of those that could be next, the one that is declared first."""
    parents = _parents(nodes)
    place = {node.name: number for number, node in enumerate(nodes)}
    waiting = {name: set(before) for name, before in parents.items()}
    ready = [place[name] for name, before in waiting.items() if not before]
    heapq.heapify(ready)
    done: list[Node] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        done.append(node)
        for other, before in waiting.items():
            if node.name in before:
                before.discard(node.name)
                if not before:
                    heapq.heappush(ready, place[other])
    if len(done) < len(nodes):
        raise _cycle_error(
            _find_cycle({name: sorted(before, key=place.__getitem__) for name, before in waiting.items()})
        )
    return done


def _find_cycle(waiting: Mapping[str, Sequence[str]]) -> list[str]:
    """A circle among nodes that wait for each other, in the direction in which rows would go, from the first declared.

    >>> _find_cycle({"a": [], "b": ["c"], "c": ["d"], "d": ["c"]})
    ['c', 'd', 'c']
    """
    name = next(name for name, before in waiting.items() if before)
    path: list[str] = []
    while name not in path:
        path.append(name)
        name = waiting[name][0]
    circle = path[path.index(name) :][::-1]
    start = circle.index(next(name for name in waiting if name in circle))
    return [*circle[start:], *circle[: start + 1]]


def _cycle_error(cycle: Sequence[str]) -> ProjectError:
    return ProjectError(
        f"pipelines and models read each other in a circle: {' -> '.join(cycle)}",
        hint="remove one of these steps; a model cannot read what is made of it",
        name=cycle[0],
        got=list(cycle),
        problem="cycle",
    )


def _check_letters(nodes: Sequence[Node], tables: Sequence[str]) -> None:
    """Refuses an input whose name differs from a table of the project in upper and lower case alone.

    The catalog would look for another table, and the graph would lack the edge.
    """
    known = {name.lower(): name for name in (*tables, *(node.target for node in nodes))}
    exact = {*tables, *(node.target for node in nodes)}
    for node in nodes:
        for table in node.inputs:
            if table not in exact and table.lower() in known:
                raise ProjectError(
                    f"'{node.name}' reads '{table}', but the table is '{known[table.lower()]}'",
                    hint="upper and lower case count in names of tables",
                    name=node.name,
                    table=table,
                    expected=known[table.lower()],
                    problem="case",
                )
