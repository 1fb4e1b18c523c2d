"""What each engine needs to reach this catalog: the texts of `frazil connect`, without keys and tokens."""

from __future__ import annotations

from frazil.catalog import Context, Request, Response
from frazil.console.answers import console_json, refuse_other_sites
from frazil.errors import FrazilError


def show_connections(ctx: Context, request: Request) -> Response:
    """The configuration of every engine for the warehouse of the path; an engine that cannot use it says why."""
    refuse_other_sites(request)
    from frazil.engine_config import ENGINES, S3, Connection

    warehouse = ctx.warehouse(request)
    known = warehouse.access.public() if warehouse.place.scheme == "s3" else None
    store = None
    if known is not None:
        store = S3(known.get("s3.endpoint"), known.get("s3.region", "us-east-1"), warehouse.access.path_style)
    token = "of the person who connects" if ctx.gate.on else None  # texts name the variable that holds it
    to = Connection(
        "lake",
        ctx.uri(request),
        warehouse.name,
        token,
        store,
        {},
        vended=warehouse.vends,
        signed=warehouse.signs and not warehouse.vends,
    )
    engines = []
    for name, make in ENGINES.items():
        try:
            engines.append({"engine": name, "text": make(to, show_secrets=False), "problem": None})
        except FrazilError as exc:
            engines.append({"engine": name, "text": None, "problem": exc.message})
    return console_json({"warehouse": warehouse.name, "engines": engines})
