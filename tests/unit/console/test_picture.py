"""The boxes of the pipelines page: what is declared and what was committed as one graph, and what callers see of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from frazil.console.pipelines.facts import Behind, Facts, ReadState, Writer
from frazil.console.pipelines.picture import Declared, Picture, Recorded

Identifier = tuple[str, ...]


class Caller:
    """Knows of some tables, and what is in some of these."""

    def __init__(self, shown: Collection[str] | None = None, known: Collection[str] | None = None) -> None:
        self._shown = None if shown is None else {*shown, *(known or ())}
        self._known = known if known is not None or shown is None else ()

    def shows(self, name: Identifier) -> bool:
        return self._shown is None or ".".join(name) in self._shown

    def knows(self, name: Identifier) -> bool:
        return self._known is None or ".".join(name) in self._known


def node(name: str, kind: str, table: str, *inputs: str, **more: Any) -> dict[str, Any]:
    labels = {"mode": "append", "tags": [], "group": None, "columns": [], "columns_unknown": None, "sources": []}
    return {"name": name, "kind": kind, "table": table, "inputs": list(inputs), **labels, **more}


def column(name: str, expression: str, *inputs: tuple[str, str]) -> dict[str, Any]:
    origins = [{"table": table, "column": each} for table, each in inputs]
    return {"name": name, "expression": expression, "inputs": origins, "unknown": None}


REVENUE = column("revenue", "SUM(amount)", ("s.orders", "amount"), ("s.secret", "rate"))
NODES = [
    node("load", "file", "s.orders", sources=["landing/*.csv"]),
    node("g.revenue", "model", "g.revenue", "s.orders", "s.secret", columns=[REVENUE]),
]
DECLARED = Declared(NODES, {"s.orders": ["amount"]})


def picture(seen: Caller, declared: Declared = DECLARED, **facts: Facts) -> dict[str, Any]:
    tables = {tuple(name.split("__")): each for name, each in facts.items()}
    behind = {(name, writer.name): Behind(("late",), 5) for name, each in tables.items() for writer in each.writers}
    drawn = Picture(seen, Recorded(tables, behind, 10), declared)
    drawn.fill()
    return drawn.as_json()


def labels(drawn: dict[str, Any]) -> list[str]:
    return sorted(f"{box['kind']} {box['label']}" for box in drawn["boxes"])


def arrows(drawn: dict[str, Any]) -> list[str]:
    label = {box["id"]: box["label"] for box in drawn["boxes"]}
    return sorted(f"{label[start]} -> {label[end]}" for start, end in drawn["arrows"])


def test_all_that_is_declared_is_drawn_for_who_may_see_it() -> None:
    drawn = picture(Caller())
    assert labels(drawn) == [
        "model g.revenue",
        "pipeline load",
        "source landing/*.csv",
        "table s.orders",
        "table s.secret",
    ]
    assert arrows(drawn) == [
        "landing/*.csv -> load",
        "load -> s.orders",
        "s.orders -> g.revenue",
        "s.secret -> g.revenue",
    ]
    assert all("column" in box for box in drawn["boxes"])


def test_a_table_that_may_not_be_seen_leaves_no_trace() -> None:
    drawn = picture(Caller(shown=["s.orders", "g.revenue"], known=["s.orders", "g.revenue"]))
    assert "secret" not in str(drawn)
    assert "rate" not in str(drawn)
    (revenue,) = [box for box in drawn["boxes"] if box["label"] == "g.revenue"]
    (shown,) = revenue["columns"]
    assert (shown["expression"], len(shown["inputs"])) == (None, 1), (
        "the expression may name columns of the other table"
    )


def test_of_a_table_that_may_be_seen_and_not_read_only_the_name_is_shown() -> None:
    drawn = picture(Caller(shown=["s.orders", "g.revenue"]))
    assert labels(drawn) == ["model g.revenue", "pipeline load", "table s.orders"]
    assert [box.get("columns") for box in drawn["boxes"] if box["kind"] != "pipeline"] == [[], []]
    assert not {"mode", "reads"}.intersection(*(box for box in drawn["boxes"]))


def test_who_sees_no_table_sees_no_box() -> None:
    assert picture(Caller(shown=[]))["boxes"] == []


def test_what_was_committed_is_drawn_without_a_project() -> None:
    model = Facts("u", 5, 7, ("day",), (Writer("g.revenue", {"s.orders": ReadState("v", 1)}),))
    events = Facts("w", 5, 7, ("id",), (Writer("uplink", {}, ("topic",), ((9, 1), (8, 1), (7, 1))),))
    drawn = picture(Caller(), Declared(), g__revenue=model, s__events=events)
    assert arrows(drawn) == ["s.orders -> g.revenue", "topic -> uplink", "uplink -> s.events"]
    states = {box["label"]: box["state"] for box in drawn["boxes"]}
    assert states["g.revenue"] == {"status": "out of date", "reason": "late", "lag_ms": 5}
    (stream,) = [box["stream"] for box in drawn["boxes"] if box["stream"]]
    assert stream["interval_ms"] == 1


def test_a_writer_that_is_declared_has_one_box() -> None:
    loaded = Facts("u", 5, 7, ("amount",), (Writer("load", {}, ()), Writer("other", {}, ())))
    drawn = picture(Caller(), s__orders=loaded)
    declared = {box["label"]: box["declared"] for box in drawn["boxes"] if box["kind"] == "pipeline"}
    assert declared == {"load": True, "other": False}


def test_inputs_that_were_recorded_and_may_not_be_seen_are_not_drawn() -> None:
    model = Facts("u", 5, 7, ("day",), (Writer("g.revenue", {"s.secret": ReadState("v", 1)}),))
    drawn = picture(Caller(shown=["g.revenue"], known=["g.revenue"]), Declared(), g__revenue=model)
    assert labels(drawn) == ["model g.revenue"]
