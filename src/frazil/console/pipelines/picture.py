"""The boxes and arrows of the pipelines page: what the project declares, and what commits have recorded, as one graph.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from frazil.console.pipelines.facts import Behind, Facts, Writer, speed
from frazil.console.pipelines.layout import draw

MOST_DRAWN = 400  # boxes of the picture; the list has all

Identifier = tuple[str, ...]
Json = Mapping[str, Any]


class Seen(Protocol):
    """What the caller may see; `sight.Sight` is one."""

    def shows(self, name: Identifier) -> bool: ...

    def knows(self, name: Identifier) -> bool: ...


@dataclass(frozen=True)
class Recorded:
    """What the metadata of the tables says that the caller may read."""

    tables: Mapping[Identifier, Facts]
    behind: Mapping[tuple[Identifier, str], Behind]  # of a table's writers, where the inputs are known
    now_ms: int


@dataclass(frozen=True)
class Declared:
    """What a project declares; nodes in the form of `frazil graph --columns --output json`."""

    nodes: Sequence[Json] = ()
    tables: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass
class Picture:
    """Boxes by their ids, and arrows between them."""

    seen: Seen
    recorded: Recorded
    declared: Declared = field(default_factory=Declared)
    boxes: dict[str, dict[str, Any]] = field(default_factory=dict)
    arrows: dict[tuple[str, str], None] = field(default_factory=dict)

    def fill(self) -> None:
        """Adds everything that the caller may see."""
        for node in self.declared.nodes:
            if self.seen.shows(_identify(node["table"])):
                self._add_node(node)
        for name, facts in self.recorded.tables.items():
            for writer in facts.writers:
                self._add_writer(name, writer)
        for label in self.declared.tables:
            if self.seen.shows(_identify(label)):
                self._table(_identify(label))

    def as_json(self) -> dict[str, Any]:
        """The boxes in the order in which they were added, with their places in the drawing."""
        drawn = list(self.boxes)[:MOST_DRAWN]
        drawing = draw(drawn, self.arrows)
        for box, (column, row) in drawing.places.items():
            self.boxes[box] |= {"column": column, "row": row}
        lines = [{"from": a, "to": b, "points": points} for (a, b), points in drawing.lines.items()]
        return {
            "boxes": list(self.boxes.values()),
            "arrows": [list(arrow) for arrow in self.arrows],
            "lines": lines,
            "columns": drawing.columns,
            "rows": drawing.rows,
        }

    # --- what is declared --------------------------------------------------------------------------------------------

    def _add_node(self, node: Json) -> None:
        table, is_model = _identify(node["table"]), node["kind"] == "model"
        box = self._table(table) if is_model else self._pipeline(node["name"], table)
        inputs = [_identify(name) for name in node["inputs"]]
        for name in filter(self.seen.shows, inputs):
            self.arrows[self._table(name)["id"], box["id"]] = None
        if is_model:
            box["kind"] = "model"
        else:
            self.arrows[box["id"], self._table(table)["id"]] = None
        box |= {"declared": True, "node": node["name"]}
        if not self.seen.knows(table):
            return
        for source in node["sources"]:
            self.arrows[self._source(source), box["id"]] = None
        box |= {"mode": node["mode"], "reads": node["kind"], "tags": node["tags"], "group": node["group"]}
        if is_model:
            box["columns"] = [self._column(column) for column in node["columns"]] or box["columns"]
            box["columns_unknown"] = node["columns_unknown"]

    def _column(self, column: Json) -> dict[str, Any]:
        """A column with its origins; if the caller may not know one of them, neither the expression."""
        inputs = [origin for origin in column["inputs"] if self.seen.knows(_identify(origin["table"]))]
        is_whole = len(inputs) == len(column["inputs"])
        return {
            "name": column["name"],
            "expression": column["expression"] if is_whole else None,
            "unknown": column["unknown"] if is_whole else None,
            "inputs": [[_box_of(_identify(origin["table"])), origin["column"]] for origin in inputs],
        }

    # --- what was committed ------------------------------------------------------------------------------------------

    def _add_writer(self, table: Identifier, writer: Writer) -> None:
        is_model = writer.name == ".".join(table)
        box = self._table(table) if is_model else self._pipeline(writer.name, table)
        if not box["declared"]:
            for name in filter(self.seen.shows, map(_identify, writer.inputs)):
                self.arrows[self._table(name)["id"], box["id"]] = None
            for topic in writer.topics:
                self.arrows[self._source(topic), box["id"]] = None
            if is_model:
                box["kind"] = "model"
            else:
                self.arrows[box["id"], self._table(table)["id"]] = None
        if (behind := self.recorded.behind.get((table, writer.name))) is not None and writer.inputs:
            box["state"] = behind.as_json(self.recorded.now_ms)
        if writer.topics:
            box["stream"] = speed(writer.commits, self.recorded.now_ms)

    # --- boxes -------------------------------------------------------------------------------------------------------

    def _box(self, key: str, kind: str, label: str, **more: Any) -> dict[str, Any]:
        fresh = {"id": key, "kind": kind, "label": label, "declared": False, "state": None, "stream": None, **more}
        return self.boxes.setdefault(key, fresh)

    def _source(self, text: str) -> str:
        box: str = self._box(f"source\x1f{text}", "source", text)["id"]
        return box

    def _pipeline(self, name: str, table: Identifier) -> dict[str, Any]:
        return self._box("\x1f".join(("pipeline", name, *table)), "pipeline", name, table=list(table))

    def _table(self, name: Identifier) -> dict[str, Any]:
        label, facts = ".".join(name), self.recorded.tables.get(name)
        columns = facts.columns if facts else self.declared.tables.get(label, ()) if self.seen.knows(name) else ()
        return self._box(
            _box_of(name),
            "table",
            label,
            table=list(name),
            exists=facts is not None,
            rows=facts.rows if facts else None,
            committed_ms=facts.committed_ms if facts else None,
            columns=[{"name": column, "expression": None, "unknown": None, "inputs": []} for column in columns],
            columns_unknown=None,
        )


def _identify(name: str) -> Identifier:
    return tuple(name.split("."))


def _box_of(name: Identifier) -> str:
    return "\x1f".join(("table", *name))


def input_tables(facts: Iterable[Facts]) -> Iterator[Identifier]:
    """The tables that the writers of others have read, each once."""
    names = dict.fromkeys(name for each in facts for writer in each.writers for name in writer.inputs)
    yield from map(_identify, names)
