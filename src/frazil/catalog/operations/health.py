"""The server's own pages: whether it lives, whether it can serve, its numbers, its OpenAPI document."""

from __future__ import annotations

from frazil.catalog.access.privileges import SERVER
from frazil.catalog.context import Context
from frazil.catalog.http import Request, Response, json_response
from frazil.metrics import CONTENT_TYPE


def livez(_ctx: Context, _request: Request) -> Response:
    """The process answers."""
    return json_response({"status": "ok"})


def readyz(ctx: Context, _request: Request) -> Response:
    """The database answers too; raises Unavailable when it does not."""
    ctx.database.check()
    return json_response({"status": "ok"})


def metrics(ctx: Context, request: Request) -> Response:
    """The server's numbers as Prometheus reads them. Series that name a table are left out for callers who may not see
    every table.
    """
    text = ctx.telemetry.render(tables=ctx.gate.sees_all(request, SERVER))
    return Response(200, text.encode(), [(b"content-type", CONTENT_TYPE.encode())])
