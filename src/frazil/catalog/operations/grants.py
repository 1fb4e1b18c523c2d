"""Grants on the server, a warehouse, namespace, table, view or index: list and change them. Not of the specification,
which has no grants.
"""

from __future__ import annotations

from typing import Any

from frazil.catalog import fields
from frazil.catalog.access.manage import change_grants
from frazil.catalog.access.privileges import SERVER, Target
from frazil.catalog.context import Context
from frazil.catalog.http import Request, Response, json_response
from frazil.catalog.idempotency import transact
from frazil.catalog.names import SEPARATOR, show
from frazil.catalog.operations.indexes import find_index
from frazil.catalog.operations.namespaces import hold_warehouse
from frazil.catalog.operations.tables import KINDS, find_relation
from frazil.catalog.store import access, namespaces
from frazil.catalog.store.database import Sql
from frazil.errors import AccessError, BadRequest, NoSuchNamespace

WHERE = "Change grants"
MOST_CHANGES = 1000  # in one request
MOST_ROLES = 200


def list_grants(ctx: Context, request: Request) -> Response:
    """The grants on this object; not those that it inherits."""
    sql = ctx.database.read()
    return json_response(_show(sql, _find(ctx, request, sql)))


def change(ctx: Context, request: Request) -> Response:
    """Grants and revokes, all or nothing. What is granted already, or not granted, stays so."""
    body = request.json()
    granted, revoked = (_pairs(body, name) for name in ("grant", "revoke"))
    if len(granted) + len(revoked) > MOST_CHANGES:
        raise BadRequest(f"{WHERE}: at most {MOST_CHANGES} at once")
    by = request.caller.principal if request.caller is not None else "unknown: authentication is off"

    def work(sql: Sql) -> Response:
        target = _find(ctx, request, sql)
        if target.kind == "warehouse":
            hold_warehouse(sql, ctx.warehouse(request))
        try:
            change_grants(sql, target, granted=granted, revoked=revoked, by=by, now_ms=ctx.clock())
        except AccessError as exc:
            raise BadRequest(f"{WHERE}: {exc.message}", hint=exc.hint) from exc
        return json_response(_show(sql, target))

    return transact(ctx, request, work)


def find_roles(ctx: Context, request: Request) -> Response:
    """Which of some roles do not exist, and whether grants are enforced."""
    names = [name for name in request.query.get("names", "").split(",") if name]
    if len(names) > MOST_ROLES:
        raise BadRequest(f"names: at most {MOST_ROLES} roles")
    sql = ctx.database.read()
    unknown = [name for name in names if not access.has_role(sql, name)]
    return json_response({"authentication": ctx.gate.on, "unknown": unknown})


def _pairs(body: dict[str, Any], name: str) -> list[tuple[str, str]]:
    if body.get(name) is None:
        return []
    parts = fields.objects(body, name, WHERE)
    return [(fields.text(part, "grantee", WHERE), fields.text(part, "privilege", WHERE)) for part in parts]


def _find(ctx: Context, request: Request, sql: Sql) -> Target:
    if "prefix" not in request.variables and "namespace" not in request.variables:
        return SERVER
    warehouse = ctx.warehouse(request)
    if "namespace" not in request.variables:
        return Target("warehouse", warehouse.name)
    for kind in KINDS:
        if kind in request.variables:
            name = request.name(kind)
            relation = find_relation(sql, warehouse, name, kind)
            target = Target(kind, warehouse.name, name.key, name.name)
            if "index" in request.variables:
                return target._replace(kind="index", index_name=find_index(sql, relation, request).name)
            return target
    if namespaces.find(sql, warehouse.name, request.namespace) is None:
        raise NoSuchNamespace(show(request.namespace))
    return Target("namespace", warehouse.name, SEPARATOR.join(request.namespace))


def _show(sql: Sql, target: Target) -> dict[str, Any]:
    held = [grant for grant in access.grants_on(sql, target[1:]) if grant.object == target[1:]]
    return {
        "grants": [
            {
                "grantee": grant.grantee,
                "privilege": grant.privilege,
                "creator": grant.granted_by == access.CREATOR,  # came with the object
            }
            for grant in held
        ]
    }
