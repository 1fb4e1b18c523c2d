"""Whether the process lives, and whether it can serve."""

from __future__ import annotations

from frazil.catalog.context import Context
from frazil.catalog.http import Request, Response, json_response


def livez(_ctx: Context, _request: Request) -> Response:
    """The process answers."""
    return json_response({"status": "ok"})


def readyz(ctx: Context, _request: Request) -> Response:
    """The database answers too; raises Unavailable when it does not."""
    ctx.database.read().rows("SELECT 1")
    return json_response({"status": "ok"})
