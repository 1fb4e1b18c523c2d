"""The server's own pages: whether it lives, whether it can serve, its numbers, its OpenAPI document."""

from __future__ import annotations

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


def metrics(ctx: Context, _request: Request) -> Response:
    """The server's numbers as Prometheus reads them."""
    return Response(200, ctx.telemetry.render().encode(), [(b"content-type", CONTENT_TYPE.encode())])
