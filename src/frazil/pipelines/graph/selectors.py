"""Selectors: which pipelines and models of a graph a command is about.

gold.revenue        a model or pipeline, by its name or the table that it fills; `gold.*` is a pattern
+gold.revenue       and all that it depends on; `1+gold.revenue` takes one step
gold.revenue+       and all that depends on it; `gold.revenue+2` takes two steps
tag:daily           all with this tag; `group:gold`: all of this group
tag:daily,gold.*    both: a comma without spaces means "and"; several selectors mean "or"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from frazil.errors import ProjectError
from frazil.pipelines.graph.nodes import Graph, Node, unknown_name

_SELECTOR = re.compile(r"(?:(?P<before>\d*)\+)?(?P<what>[^+]+)(?:\+(?P<after>\d*))?")
_PATTERN = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Selector:
    """One selector without commas; a depth of None is no limit, and 0 adds nothing."""

    what: str
    before: int | None = 0
    after: int | None = 0


def parse_selector(text: str) -> Selector:
    """
    >>> parse_selector("gold.revenue"), parse_selector("+gold.*+2")
    (Selector(what='gold.revenue', before=0, after=0), Selector(what='gold.*', before=None, after=2))
    """
    match = _SELECTOR.fullmatch(text.strip())
    if match is None:
        raise ProjectError(
            f"the selector '{text}' is not understood",
            hint="write gold.revenue, +gold.revenue, gold.*+, 1+gold.revenue+2, tag:daily or group:gold",
            name=text,
            problem="selector",
        )
    return Selector(match["what"], _depth(match["before"]), _depth(match["after"]))


def _depth(text: str | None) -> int | None:
    return 0 if text is None else int(text) if text else None


def select(graph: Graph, selectors: Iterable[str] = (), exclude: Iterable[str] = ()) -> tuple[Node, ...]:
    """The nodes that one of the selectors names, without the excluded ones, in the order of the graph.

    Without a selector, all nodes. A name that is not there is an error; that no node fits two conditions is not.
    """
    wanted = list(selectors)
    names = _union(graph, wanted) if wanted else {node.name for node in graph.nodes}
    names -= _union(graph, exclude)
    return tuple(node for node in graph.nodes if node.name in names)


def _union(graph: Graph, selectors: Iterable[str]) -> set[str]:
    return {name for selector in selectors for name in _intersection(graph, selector)}


def _intersection(graph: Graph, text: str) -> set[str]:
    parts = [_names(graph, parse_selector(part)) for part in text.split(",")]
    return set.intersection(*parts)


def _names(graph: Graph, selector: Selector) -> set[str]:
    names = _match(graph, selector)
    around = set()
    if selector.before != 0:
        around |= {node.name for node in graph.upstream(names, selector.before)}
    if selector.after != 0:
        around |= {node.name for node in graph.downstream(names, selector.after)}
        around |= _readers(graph, selector)
    return names | around


def _match(graph: Graph, selector: Selector) -> set[str]:
    method, _, value = selector.what.partition(":")
    if method == "tag" and value:
        known = {tag for node in graph.nodes for tag in node.tags}
        return _labelled(value, known, {n.name: n.tags for n in graph.nodes}, what="tag")
    if method == "group" and value:
        groups = {node.name: (node.group,) if node.group else () for node in graph.nodes}
        return _labelled(value, {label for labels in groups.values() for label in labels}, groups, what="group")
    names = {node.name for node in graph.nodes if _fits(selector.what, node.name, node.target)}
    if names or (selector.after != 0 and _external(graph, selector.what)):
        return names
    raise _nothing(graph, selector.what)


def _labelled(value: str, known: set[str], labels: Mapping[str, tuple[str, ...]], *, what: str) -> set[str]:
    if not any(_fits(value, label) for label in known):
        raise unknown_name(value, sorted(known), what=what)
    return {name for name, own in labels.items() if any(_fits(value, label) for label in own)}


def _fits(pattern: str, *names: str) -> bool:
    return any(name == pattern or (_PATTERN.search(pattern) and fnmatchcase(name, pattern)) for name in names)


def _external(graph: Graph, pattern: str) -> list[str]:
    """Tables of that name which something reads, and nothing fills."""
    return [table for table in graph.external if _fits(pattern, table)]


def _readers(graph: Graph, selector: Selector) -> set[str]:
    """What depends on tables that nothing here fills: `bronze.raw+`."""
    readers = {node.name for table in _external(graph, selector.what) for node in graph.readers(table)}
    depth = None if selector.after is None else selector.after - 1
    return readers | {node.name for node in graph.downstream(readers, depth)}


def _nothing(graph: Graph, what: str) -> ProjectError:
    external = _external(graph, what)
    if external:
        return ProjectError(
            f"no pipeline or model fills '{external[0]}'",
            hint=f"for what reads it: {what}+",
            name=what,
            table=external[0],
            problem="external",
        )
    known = [name for node in graph.nodes for name in (node.name, node.target)]
    return unknown_name(what, [*known, *graph.external], what="pipeline, model or table")
