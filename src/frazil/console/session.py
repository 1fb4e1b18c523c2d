"""Who is signed in to the console, and what they may look at."""

from __future__ import annotations

import frazil
from frazil.catalog import Context, Request, Response, json_response, list_warehouses_seen


def show_session(ctx: Context, request: Request) -> Response:
    """The caller, and the warehouses that it may see."""
    caller = request.caller
    return json_response(
        {
            "version": frazil.__version__,
            "authentication": ctx.gate.on,
            "principal": caller.principal if caller is not None else None,
            "warehouses": list_warehouses_seen(ctx, request),
        }
    )
