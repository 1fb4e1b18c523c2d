"""Routes by which tests reach the console's child processes."""

from __future__ import annotations

from frazil.catalog import Context, Privilege, Request, Response, Route, on_warehouse
from frazil.console.work import run_job


def count(ctx: Context, request: Request) -> Response:
    return run_job(ctx, request, "count", {}, seconds=float(request.json()["seconds"]))


_SEES = on_warehouse(Privilege.DISCOVER)
ROUTES = (Route("POST", "/console/test/{prefix}/count", "countForTest", count, _SEES, stops=True),)
