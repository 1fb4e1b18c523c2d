"""Who is signed in to the console, and what they may look at."""

from __future__ import annotations

import frazil
from frazil.catalog import SERVER, Context, Need, Privilege, Request, Response, list_warehouses_seen
from frazil.console.answers import console_json, refuse_other_sites


def show_session(ctx: Context, request: Request) -> Response:
    """The caller, and the warehouses that it may see."""
    refuse_other_sites(request)
    caller = request.caller
    return console_json(
        {
            "version": frazil.__version__,
            "authentication": ctx.gate.on,
            "principal": caller.principal if caller is not None else None,
            "operator": ctx.gate.allows(ctx.database.read(), request, Need(Privilege.MANAGE, SERVER)),
            "default_warehouse": ctx.warehouses.default.name,  # the one of clients that name none
            "warehouses": list_warehouses_seen(ctx, request),
        }
    )
