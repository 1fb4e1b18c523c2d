"""Which files tables lead to: what upkeep asks before it deletes. A client sees one warehouse; the server sees all of
them.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from operator import itemgetter

from frazil.catalog import fields
from frazil.catalog.access.privileges import Target
from frazil.catalog.context import Context
from frazil.catalog.http import Request, Response, json_response
from frazil.catalog.names import Name, parse_name
from frazil.catalog.operations.scans import can_plan
from frazil.catalog.store.relations import Pointer
from frazil.errors import BadRequest, ReferencesUnknown, Unavailable
from frazil.scan.manifests import Candidates

WHERE = "References request"
MOST_FILES = 50_000
PAGE_SECONDS = 15.0  # after so long the answer says where the next request goes on
WAIT_SECONDS = 60.0
Order = Callable[[Pointer], list[str]]
HIDDEN = "(a table that you may not see)"


def find_references(ctx: Context, request: Request) -> Response:
    """Of these files, those that a table or view of any warehouse leads to, and which; `other-than` is not looked at.

    With a `next-page-token` more tables are to be looked at: the same files are sent again with it. With `unknown`, a
    table could not be read: no file may be deleted.
    """
    body = request.json()
    files = fields.texts(body, "files", WHERE)
    if len(files) > MOST_FILES:
        raise BadRequest(f"{WHERE}: expected at most {MOST_FILES:,} files, got {len(files):,}", got=len(files))
    skipped = parse_name(body["other-than"], "other-than") if body.get("other-than") is not None else None
    after = fields.texts(body, "page-token", WHERE) if body.get("page-token") is not None else []
    if not can_plan():
        return json_response({"referenced": [], "unknown": "the server has no pyarrow (pip install 'frazil[sinks]')"})
    order = _order(ctx, request)
    keyed = sorted(((order(pointer), pointer) for pointer in _pointers(ctx, request, skipped)), key=itemgetter(0))
    pointers = [pointer for key, pointer in keyed if key > after]
    # One at a time: each reads what the one before has learned, and none takes the threads of all other requests.
    if not ctx.guard.busy.acquire(timeout=WAIT_SECONDS):
        raise Unavailable("another request for references is under way; retry")
    try:
        return json_response(_look(ctx, request, Candidates(files), pointers))
    finally:
        ctx.guard.busy.release()


def _pointers(ctx: Context, request: Request, skipped: Name | None) -> list[Pointer]:
    pointers = ctx.guard.pointers()
    if skipped is None:
        return pointers
    own = (ctx.warehouse(request).name, skipped.key, skipped.name)
    return [pointer for pointer in pointers if (pointer.warehouse, pointer.namespace, pointer.name) != own]


def _order(ctx: Context, request: Request) -> Order:
    """The order in which tables are looked at: a rename meanwhile does not move one behind the others. A token says how
    far a client is; with authentication it does not tell names and UUIDs, and each principal has an order of its own.
    """
    if request.caller is None:
        return lambda pointer: [pointer.uuid, pointer.warehouse, pointer.namespace, pointer.name]
    secret = ctx.gate.plan_secret(request)

    def hashed(*parts: str) -> str:
        return hmac.digest(secret, "\x00".join(("references", *parts)).encode(), "sha256").hex()

    return lambda pointer: [hashed(pointer.uuid), hashed(pointer.warehouse, pointer.namespace, pointer.name)]


def _look(ctx: Context, request: Request, candidates: Candidates, pointers: list[Pointer]) -> dict[str, object]:
    until, unknown, token = time.monotonic() + PAGE_SECONDS, None, None
    for pointer in pointers:
        try:
            ctx.guard.spare(candidates, [pointer])
        except ReferencesUnknown as exc:
            unknown = exc.message if _sees(ctx, request, pointer) else "a table that you may not see cannot be read"
            break
        if time.monotonic() > until and pointer is not pointers[-1]:
            token = _order(ctx, request)(pointer)
            break
    hidden = {pointer.label for pointer in pointers if not _sees(ctx, request, pointer)} if ctx.gate.on else set()
    references = [
        {"file": file, "table": HIDDEN if table in hidden else table} for file, table in candidates.referenced.items()
    ]
    return {"referenced": references, "unknown": unknown, "next-page-token": token}


def _sees(ctx: Context, request: Request, pointer: Pointer) -> bool:
    """Whether the caller may learn the name of a table."""
    return ctx.gate.sees(request, Target(pointer.kind, pointer.warehouse, pointer.namespace, pointer.name))
