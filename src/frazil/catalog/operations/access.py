"""Keys, roles and members, for those who manage the server: what `frazil token`, `role`, `who-can` and `why` do on the
database, here with the rights of a caller. Not of the specification.

Each change is recorded in its own transaction. The text of a new key is in the answer, and nowhere else: these routes
take no idempotency key, which would keep the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from frazil.catalog import fields
from frazil.catalog.access import manage
from frazil.catalog.access.manage import Within
from frazil.catalog.access.privileges import SERVER, Privilege, Target
from frazil.catalog.context import Context
from frazil.catalog.http import Request, Response, json_response
from frazil.catalog.idempotency import transact
from frazil.catalog.store import access as store
from frazil.catalog.store.database import Sql
from frazil.errors import AccessError, BadRequest

DAY_SECONDS = 86_400
MOST_SECONDS = 3650 * DAY_SECONDS
Json = dict[str, Any]


def list_access(ctx: Context, _request: Request) -> Response:
    """All keys without their secrets, the roles with their members, and the groups of issuers that have a role."""
    sql, now_ms = ctx.database.read(), ctx.clock()
    keys = [_describe(key, now_ms) for key in store.list_keys(sql)]
    roles = [{"name": name, "members": members} for name, members in store.all_members(sql).items()]
    return json_response(
        {
            "authentication": ctx.gate.on,
            "privileges": list(Privilege),
            "keys": keys,
            "roles": roles,
            "groups": _groups(ctx),
            "warehouses": [warehouse.name for warehouse in ctx.warehouses],
        }
    )


def _describe(key: store.StoredKey, now_ms: int) -> Json:
    ended = key.expires_ms is not None and key.expires_ms <= now_ms
    return {
        "id": key.id,
        "principal": key.principal,
        "scopes": key.scopes.split(",") if key.scopes else [],
        "state": "revoked" if key.revoked_ms is not None else "expired" if ended else "valid",
        "created_ms": key.created_ms,
        "expires_ms": key.expires_ms,
        "used_ms": key.used_ms,
    }


def _groups(ctx: Context) -> dict[str, dict[str, str]]:
    """The roles of the groups of each issuer."""
    return ctx.tokens.groups() if ctx.tokens is not None else {}


def create_key(ctx: Context, request: Request) -> Response:
    """A key for a principal, which is made if it is new and becomes a member of the roles."""
    body, pepper, now_ms = request.json(), ctx.gate.require_pepper(), ctx.clock()
    principal = fields.text(body, "principal", "Create key")
    roles, scopes = (fields.texts(body, name, "Create key") if name in body else [] for name in ("roles", "scopes"))
    seconds = fields.integer_or_none(body, "expires_seconds", "Create key", most=MOST_SECONDS)
    if seconds is not None and seconds < 1:
        raise BadRequest("Create key: 'expires_seconds' must be at least 1", option="expires_seconds")
    expires_ms = now_ms + 1000 * seconds if seconds is not None else None

    def work(sql: Sql, by: str) -> Json:
        key = manage.create_token(
            Within(sql), pepper, principal, now_ms=now_ms, roles=roles, scopes=scopes, expires_ms=expires_ms, by=by
        )
        request.mention(f"key {key.id} of {key.principal}")
        return asdict(key)

    return _change(ctx, request, work)


def rotate_key(ctx: Context, request: Request) -> Response:
    """A key that takes the place of another, which stays valid for a while."""
    body, pepper = request.json(), ctx.gate.require_pepper()
    key_id = fields.text(body, "id", "Rotate key")
    keep_ms = 1000 * fields.integer(body, "keep_seconds", "Rotate key", most=MOST_SECONDS)
    if keep_ms < 0:
        raise BadRequest("Rotate key: 'keep_seconds' must be at least 0", option="keep_seconds")

    def work(sql: Sql, by: str) -> Json:
        key = manage.rotate_token(Within(sql), pepper, key_id, now_ms=ctx.clock(), keep_ms=keep_ms, by=by)
        request.mention(f"key {key.id} of {key.principal}")
        return asdict(key)

    return _change(ctx, request, work)


def revoke_key(ctx: Context, request: Request) -> Response:
    """Ends a key at once, on all servers."""
    key_id = fields.text(request.json(), "id", "Revoke key")

    def work(sql: Sql, by: str) -> Json:
        key = manage.revoke_token(Within(sql), key_id, now_ms=ctx.clock(), by=by)
        request.mention(f"key {key.id} of {key.principal}")
        return {"id": key.id, "principal": key.principal}

    return _change(ctx, request, work)


def create_role(ctx: Context, request: Request) -> Response:
    """A role, which has no privileges yet."""
    name = fields.text(request.json(), "name", "Create role")

    def work(sql: Sql, by: str) -> Json:
        return {"name": name, "created": manage.create_role(Within(sql), name, now_ms=ctx.clock(), by=by)}

    return _change(ctx, request, work, f"role {name}")


def drop_role(ctx: Context, request: Request) -> Response:
    """Drops a role with its members and grants."""
    name = fields.text(request.json(), "name", "Drop role")

    def work(sql: Sql, by: str) -> Json:
        manage.drop_role(Within(sql), name, now_ms=ctx.clock(), by=by)
        return {"name": name}

    return _change(ctx, request, work, f"role {name}")


def change_member(ctx: Context, request: Request) -> Response:
    """Makes a principal a member of a role, or ends that."""
    body, where = request.json(), "Change member"
    role, principal = (fields.text(body, name, where) for name in ("role", "principal"))
    member = fields.boolean(body, "member", where)

    def work(sql: Sql, by: str) -> Json:
        changed = manage.change_member(Within(sql), role, principal, member=member, now_ms=ctx.clock(), by=by)
        return {"role": role, "principal": principal, "member": member, "changed": changed}

    return _change(ctx, request, work, f"{principal} in role {role}")


def _change(ctx: Context, request: Request, work: Callable[[Sql, str], Json], *mentioned: str) -> Response:
    """The answer of a change, which is made in one transaction with its records, for a caller that is known."""
    ctx.gate.require_pepper()
    assert request.caller is not None
    by = request.caller.principal
    request.mention(*mentioned)

    def change(sql: Sql) -> Response:
        try:
            return json_response(work(sql, by))
        except AccessError as exc:
            raise BadRequest(exc.message, hint=exc.hint) from exc

    return transact(ctx, request, change)


def explain_access(ctx: Context, request: Request) -> Response:
    """Who has a privilege on an object, or what a principal may do with it, and by which grants."""
    query = {name: value for name, value in request.query.items() if value}
    sql = ctx.database.read()
    try:
        target = _target(ctx, sql, query)
        reasons = manage.explain(
            sql, target, principal=query.get("principal"), privilege=query.get("privilege"), groups=_groups(ctx)
        )
    except AccessError as exc:
        raise BadRequest(exc.message, hint=exc.hint) from exc
    return json_response({"object": str(target), "grants": [asdict(reason) for reason in reasons]})


def _target(ctx: Context, sql: Sql, query: dict[str, str]) -> Target:
    """The server, a warehouse, or what has a name in one."""
    if "warehouse" not in query:
        return SERVER
    names = [warehouse.name for warehouse in ctx.warehouses]
    warehouse = manage.find_warehouse_target(sql, query["warehouse"], names, granted=True)
    if "name" not in query:
        return warehouse
    is_namespace, index = query.get("kind") == "namespace", query.get("index", "")
    return manage.find_target(sql, warehouse.warehouse, query["name"], index=index, namespace=is_namespace)


ACCESS_OPERATIONS = {
    "listAccess": list_access,
    "explainAccess": explain_access,
    "createToken": create_key,
    "rotateToken": rotate_key,
    "revokeToken": revoke_key,
    "createRole": create_role,
    "dropRole": drop_role,
    "changeMember": change_member,
}
