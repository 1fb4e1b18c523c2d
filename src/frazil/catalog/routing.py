"""From a method and a path to an operation: a tree of path segments, built once from the route table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from frazil.catalog.access.needs import Needs
from frazil.errors import BadRequest, MethodNotAllowed, UnknownRoute

if TYPE_CHECKING:
    from frazil.catalog.context import Context
    from frazil.catalog.http import Request, Response

    Operation = Callable[[Context, Request], Response]


@dataclass(frozen=True, slots=True)
class Route:
    """One line of the route table."""

    method: str
    template: str
    operation: str  # the specification's operationId
    run: Operation
    needs: Needs  # what a caller must be granted
    quick: bool = False  # answers from memory, a stat and an indexed lookup when the database is local
    writes: bool = False  # takes an Idempotency-Key
    commits: bool = False  # a late answer means that the outcome is unknown
    confirms: bool = False  # compares the version of grants itself, if its caller is assumed (Gate.recognise)
    form: bool = False  # its body is a form, not JSON
    stops: bool = False  # ends early when the client has left; for long work without effects
    vends: bool = False  # answers with a table, and with credentials for it if the client asks
    # raises at once when the operation is bound to fail; takes no time
    refuse: Callable[[Context, Request], None] | None = None

    @property
    def endpoint(self) -> str:
        return f"{self.method} {self.template}"


@dataclass(slots=True)
class _Node:
    literals: dict[str, _Node] = field(default_factory=dict)
    variable: _Node | None = None
    variable_name: str = ""
    routes: dict[str, Route] = field(default_factory=dict)


class Router:
    """Finds the route of a request. A path without the prefix means the default warehouse."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        for route in routes:
            self._add(route, route.template)
            if "/{prefix}/" in route.template:
                self._add(route, route.template.replace("/{prefix}/", "/"))

    def _add(self, route: Route, template: str) -> None:
        if not isinstance(route.needs, Needs):
            raise TypeError(f"the route {route.endpoint} does not declare what it needs")
        node = self._root
        for segment in template.strip("/").split("/"):
            if segment.startswith("{"):
                if node.variable is not None and node.variable_name != segment[1:-1]:
                    raise TypeError(
                        f"the route {route.endpoint} has {segment} where others have {{{node.variable_name}}}"
                    )
                node.variable = node.variable or _Node()
                node.variable_name = segment[1:-1]
                node = node.variable
            else:
                node = node.literals.setdefault(segment, _Node())
        node.routes[route.method] = route

    def find(self, method: str, raw_path: bytes) -> tuple[Route, dict[str, str]]:
        """The route, and the path's variables decoded; an encoded slash stays inside its variable."""
        variables: dict[str, str] = {}
        node = self._root
        for segment in raw_path.decode("ascii", "replace")[1:].split("/"):
            literal = node.literals.get(segment)
            if literal is not None:
                node = literal
            elif node.variable is not None and segment:
                variables[node.variable_name] = _decode(segment) if "%" in segment else segment
                node = node.variable
            else:
                raise UnknownRoute(f"No route for request: {method} {_printable(raw_path)}")
        route = node.routes.get(method)
        if route is None:
            message = f"No route for request: {method} {_printable(raw_path)}"
            raise MethodNotAllowed(message, allowed=tuple(node.routes)) if node.routes else UnknownRoute(message)
        return route, variables


def _decode(segment: str) -> str:
    try:
        return unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError as exc:
        message = f"The path segment {segment[:200]!r} is not UTF-8 when decoded"
        raise BadRequest(message, option="path", got=segment[:200]) from exc


def _printable(raw_path: bytes) -> str:
    return raw_path[:200].decode("ascii", "replace")
