"""`nearest(...)` in SQL: a vector search as a table of a query, with its arguments taken from DuckDB's syntax tree.

    SELECT name, _distance FROM nearest('lakehouse.words', 'embedding', [0.1, 0.7], k := 5, filter := 'id > 10')

Arguments are computed before the query runs, each by itself: a constant, or a subquery that stands alone. So a vector
can be that of a row: (SELECT embedding FROM lakehouse.words WHERE name = 'ice').
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frazil.errors import QueryError

if TYPE_CHECKING:
    from frazil.scan import Scan
    from frazil.scan.reading import NearestRows

Node = dict[str, Any]  # a piece of DuckDB's syntax tree, as JSON
NEAREST = "nearest"
FORM = "nearest('namespace.table', 'column', [0.1, 0.2, ...], k := 10)"
PLACES = ("table", "column", "vector")
OPTIONS = ("k", "metric", "filter", "at", "exact")


def is_nearest(node: Node) -> bool:
    """Whether a table of a query is a call of `nearest`."""
    if node.get("type") != "TABLE_FUNCTION":
        return False
    function = node["function"]
    return not function["schema"] and function["function_name"].lower() == NEAREST


@dataclass(frozen=True)
class NearestCall:
    """The arguments of one call, computed."""

    table: str
    column: str
    vector: Any
    options: Mapping[str, Any]

    @classmethod
    def of(cls, node: Node, compute: Callable[[Node, str], Any]) -> NearestCall:
        """The call in a syntax tree; `compute` gives the value of an expression."""
        expressions = _arguments(node["function"]["children"])
        values = {name: compute(expression, name) for name, expression in expressions.items()}
        for name in ("table", "column", "metric", "filter"):
            if name in values and not isinstance(values[name], str):
                raise _wrong(name, values[name], "text")
        if not isinstance(values["vector"], Sequence):
            raise _wrong("vector", values["vector"], "a list of numbers, a list of such lists, or text")
        if not isinstance(values.get("exact", False), bool):
            raise _wrong("exact", values["exact"], "true or false")
        table, column, vector = (values.pop(name) for name in PLACES)
        return cls(table, column, vector, values)

    def run(self, scan: Scan) -> NearestRows:
        """The search of a scan; nothing is read but what tells a wrong argument."""
        how = {name: value for name, value in self.options.items() if name in ("k", "metric", "exact")}
        return scan.nearest(self.column, self.vector, **how)


def _arguments(children: Sequence[Node]) -> dict[str, Node]:
    """The expressions by the names of their parameters: some by their place, some by their name."""
    named = {child["alias"].lower(): child for child in children if child["alias"]}
    placed = [child for child in children if not child["alias"]]
    if len(named) + len(placed) < len(children):
        raise QueryError("nearest has an argument twice", hint=f"write {FORM}", problem="arguments")
    known = (*PLACES, *OPTIONS)
    if unknown := [name for name in named if name not in known]:
        raise QueryError(
            f"nearest has no argument '{unknown[0]}'", hint=f"there are: {', '.join(known)}", option=unknown[0]
        )
    arguments = dict(zip(PLACES, placed, strict=False))
    if len(placed) > len(PLACES) or arguments.keys() & named.keys():
        raise QueryError("nearest has too many arguments", hint=f"write {FORM}", problem="arguments")
    arguments |= named
    if missing := [name for name in PLACES if name not in arguments]:
        raise QueryError(f"nearest needs a {missing[0]}", hint=f"write {FORM}", option=missing[0])
    return arguments


def _wrong(name: str, value: object, expected: str) -> QueryError:
    shown = f"{value!r:.60}"
    return QueryError(f"nearest: {name} is {shown}: expected {expected}", hint=f"write {FORM}", option=name, got=shown)
