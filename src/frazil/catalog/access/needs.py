"""What a route needs: each route of the table declares one of these, and cannot be registered without.

A declaration finds the privileges, and the objects that they are needed on, in the request alone: the path, the query
and the body. It looks nothing up, so the time that it takes tells nothing about what exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from frazil.catalog import fields
from frazil.catalog.access.privileges import SEPARATOR, SERVER, Need, Privilege, Target
from frazil.catalog.http import Request
from frazil.catalog.names import Name, check_name, check_namespace, parse_name, split_namespace
from frazil.catalog.places import PATH_PROPERTIES
from frazil.catalog.requirements import is_create
from frazil.catalog.warehouse import Warehouses
from frazil.errors import BadRequest

STAGED_UUID, STAGED_LOCATION = "frazil.staged-uuid", "frazil.staged-location"  # of requests to sign
Find = Callable[[Request, Warehouses], Sequence[Need]]
P = Privilege


@dataclass(frozen=True, slots=True)
class Needs:
    """What a request of one route needs."""

    text: str  # for people
    find: Find
    authenticated: bool = True  # else anyone may call the route, and nothing else is needed


PUBLIC = Needs("nothing", lambda _request, _warehouses: (), authenticated=False)
AUTHENTICATED = Needs("a known caller", lambda _request, _warehouses: ())


# --- objects of the path ---------------------------------------------------------------------------------------------


def _warehouse(request: Request, warehouses: Warehouses) -> str:
    return warehouses.of_request(request).name


def _namespace(request: Request, warehouses: Warehouses) -> Target:
    """The namespace of the path. Its name is one that there can be: others are refused, as they are by operations."""
    return Target("namespace", _warehouse(request, warehouses), SEPARATOR.join(request.namespace))


def _named(request: Request, warehouses: Warehouses, kind: str = "table") -> Target:
    """The table or view of the path."""
    return _relation(kind, _warehouse(request, warehouses), request.name(kind))


def config_warehouse(request: Request, warehouses: Warehouses) -> Sequence[Need]:
    """The warehouse that a client names in the query."""
    return (Need(P.DISCOVER, Target("warehouse", warehouses.named(request.query.get("warehouse")).name)),)


CONFIG = Needs("discover on the warehouse", config_warehouse)


def on_server(privilege: Privilege) -> Needs:
    return Needs(f"{privilege} on the server", lambda _request, _warehouses: (Need(privilege, SERVER),))


def on_warehouse(privilege: Privilege) -> Needs:
    def find(request: Request, warehouses: Warehouses) -> Sequence[Need]:
        return (Need(privilege, Target("warehouse", _warehouse(request, warehouses))),)

    return Needs(f"{privilege} on the warehouse", find)


def on_namespace(privilege: Privilege) -> Needs:
    def find(request: Request, warehouses: Warehouses) -> Sequence[Need]:
        return (Need(privilege, _namespace(request, warehouses)),)

    return Needs(f"{privilege} on the namespace", find)


def on_relation(privilege: Privilege, kind: str = "table") -> Needs:
    """On the table or view of the path."""

    def find(request: Request, warehouses: Warehouses) -> Sequence[Need]:
        return (Need(privilege, _named(request, warehouses, kind)),)

    return Needs(f"{privilege} on the {kind}", find)


def on_index(privilege: Privilege) -> Needs:
    def find(request: Request, warehouses: Warehouses) -> Sequence[Need]:
        index = check_name(request.variables["index"], "index name")
        return (Need(privilege, _named(request, warehouses)._replace(kind="index", index_name=index)),)

    return Needs(f"{privilege} on the index", find)


# --- what depends on the query or the body ---------------------------------------------------------------------------


def _list_namespaces(request: Request, warehouses: Warehouses) -> Sequence[Need]:
    parent = request.query.get("parent", "")
    key = SEPARATOR.join(split_namespace(parent)) if parent else ""
    return (Need(P.DISCOVER, _place(_warehouse(request, warehouses), key)),)


LIST_NAMESPACES = Needs("discover on the parent namespace, or on the warehouse", _list_namespaces)


def _create_namespace(request: Request, warehouses: Warehouses) -> Sequence[Need]:
    body = request.json()
    levels = body.get("namespace")
    if not isinstance(levels, list):
        raise BadRequest("Create namespace: 'namespace' must be a list of text")
    parent = _place(_warehouse(request, warehouses), SEPARATOR.join(check_namespace(levels)[:-1]))
    properties = body.get("properties")
    located = _is_many(properties) and "location" in properties
    return (Need(P.MANAGE if located else P.CREATE, parent),)


CREATE_NAMESPACE = Needs(
    "create on the parent namespace, or on the warehouse; manage, if a location is set", _create_namespace
)


def _update_namespace(request: Request, warehouses: Warehouses) -> Sequence[Need]:
    body = request.json()
    located = any("location" in part for part in (body.get("updates"), body.get("removals")) if _is_many(part))
    privilege = P.MANAGE if located else P.WRITE
    return (Need(privilege, _namespace(request, warehouses)),)


UPDATE_NAMESPACE = Needs("write on the namespace; manage, if its location changes", _update_namespace)


def _create_relation(request: Request, warehouses: Warehouses) -> Sequence[Need]:
    target = _namespace(request, warehouses)
    return (Need(P.MANAGE if _has_path(request.json().get("properties")) else P.CREATE, target),)


CREATE_RELATION = Needs(
    "create on the namespace; manage, if a path property is set; manage on what contains a location that is named",
    _create_relation,
)


def _register(request: Request, warehouses: Warehouses) -> Iterator[Need]:
    body, namespace = request.json(), _namespace(request, warehouses)
    yield Need(P.REGISTER, namespace)
    if body.get("overwrite") not in (None, False):
        yield Need(P.DROP, namespace._replace(kind="table", name=check_name(body.get("name"), "table name")))


REGISTER = Needs(
    "register on the namespace, manage on what contains the files; and drop on the table that is overwritten",
    lambda *asked: tuple(_register(*asked)),
)


def _drop_table(request: Request, warehouses: Warehouses) -> Sequence[Need]:
    purges = request.flag("purgeRequested")
    return (Need(P.PURGE if purges else P.DROP, _named(request, warehouses)),)


DROP_TABLE = Needs("drop on the table; purge, if its files are to be deleted", _drop_table)


def _unregister(request: Request, warehouses: Warehouses) -> Sequence[Need]:
    target = _named(request, warehouses)
    return (Need(P.DROP, target), Need(P.READ, target))


UNREGISTER = Needs("drop and read on the table: the answer has its metadata", _unregister)


def on_rename(kind: str) -> Needs:
    """Both sides: the table or view goes away from one namespace and comes into the other."""

    def find(request: Request, warehouses: Warehouses) -> Sequence[Need]:
        body, warehouse = request.json(), _warehouse(request, warehouses)
        source, target = parse_name(body.get("source"), "source"), parse_name(body.get("destination"), "destination")
        moved = _relation(kind, warehouse, source)
        both = (Need(P.DROP, moved), Need(P.CREATE, Target("namespace", warehouse, target.key)))
        # In another namespace it inherits other grants.
        return both if source.key == target.key else (Need(P.MANAGE, moved), *both)

    return Needs(
        f"drop on the {kind}, and create on the namespace; manage on the {kind}, if the namespace is another one", find
    )


def _commit_table(request: Request, warehouses: Warehouses) -> Sequence[Need]:
    return (_commit_need(request.json(), _named(request, warehouses)),)


COMMIT_TABLE = Needs(
    "write on the table; manage, if its location or a path property changes, also on what contains the new place; "
    "create on the namespace, if it is new",
    _commit_table,
)


def _commit_view(request: Request, warehouses: Warehouses) -> Sequence[Need]:
    return (_commit_need(request.json(), _named(request, warehouses, "view")),)


COMMIT_VIEW = Needs("write on the view; manage, if its location or a path property changes", _commit_view)


def _commit_transaction(request: Request, warehouses: Warehouses) -> Sequence[Need]:
    warehouse = _warehouse(request, warehouses)
    parts = fields.objects(request.json(), "table-changes", "Commit transaction")
    names = [parse_name(part.get("identifier"), f"table-changes[{i}].identifier") for i, part in enumerate(parts)]
    return [_commit_need(part, _relation("table", warehouse, name)) for part, name in zip(parts, names, strict=True)]


COMMIT_TRANSACTION = Needs("for each table, what a commit of it needs", _commit_transaction)


def _sign(request: Request, warehouses: Warehouses) -> Sequence[Need]:
    names, warehouse = request.variables, _warehouse(request, warehouses)
    properties = request.json().get("properties")
    if _is_many(properties) and STAGED_UUID in properties:
        return (Need(P.CREATE, Target("namespace", warehouse, names["namespace"])),)
    return (Need(P.READ, Target("table", warehouse, names["namespace"], names["table"])),)


SIGN = Needs(
    "read on the table, and for writes and deletes what vended credentials need; create on the namespace, if it is "
    "staged",
    _sign,
)


def _references(request: Request, warehouses: Warehouses) -> Sequence[Need]:
    own = request.json().get("other-than")
    if own is None:
        return (Need(P.MAINTAIN, SERVER),)
    return (Need(P.MAINTAIN, _relation("table", _warehouse(request, warehouses), parse_name(own, "other-than"))),)


REFERENCES = Needs("maintain on the table that is left out, or on the server", _references)


# --- parts -----------------------------------------------------------------------------------------------------------


def _place(warehouse: str, namespace: str) -> Target:
    return Target("namespace", warehouse, namespace) if namespace else Target("warehouse", warehouse)


def _relation(kind: str, warehouse: str, name: Name) -> Target:
    return Target(kind, warehouse, name.key, name.name)


def _commit_need(body: dict[str, Any], target: Target) -> Need:
    """What the commit of one table or view needs. What is malformed is left to the operation, which refuses it."""
    requirements, updates = _objects(body.get("requirements")), _objects(body.get("updates"))
    moves = any(_moves(update) for update in updates)
    if target.kind == "table" and is_create(requirements):
        # The client that creates a table sets its location.
        sets_path = any(_moves(update) for update in updates if _action(update) != "set-location")
        return Need(P.MANAGE if sets_path else P.CREATE, Target("namespace", target.warehouse, target.namespace))
    return Need(P.MANAGE if moves else P.WRITE, target)


def _objects(value: Any) -> list[dict[str, Any]]:
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def _action(update: dict[str, Any]) -> str:
    action = update.get("action")
    return action.lower() if isinstance(action, str) else ""


def _moves(update: dict[str, Any]) -> bool:
    """Whether an update says where files lie.

    >>> _moves({"action": "Set-Location"}), _moves({"action": "set-properties", "updates": {"a": "b"}})
    (True, False)
    >>> _moves({"action": "remove-properties", "removals": ["write.data.path"]})
    True
    """
    action = _action(update)
    if action == "set-properties":
        return _has_path(update.get("updates") or update.get("updated"))
    if action == "remove-properties":
        return _has_path(update.get("removals") or update.get("removed"))
    return action == "set-location"


def _has_path(properties: Any) -> bool:
    return _is_many(properties) and any(name in properties for name in PATH_PROPERTIES)


def _is_many(value: Any) -> TypeGuard[dict[str, Any] | list[Any]]:
    return isinstance(value, dict | list)
