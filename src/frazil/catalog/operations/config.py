"""What a client learns first: its warehouse, and what this server can do."""

from __future__ import annotations

from frazil.catalog.context import Context
from frazil.catalog.http import Request, Response, json_response
from frazil.catalog.idempotency import LIFETIME
from frazil.catalog.names import SEPARATOR_ENCODED
from frazil.catalog.warehouse import Warehouse
from frazil.protocol import PROPERTY_REBASE_APPENDS


def get_config(ctx: Context, request: Request) -> Response:
    """The configuration of the warehouse that the client names, by its name or its location; none named means the
    default.
    """
    warehouse = ctx.warehouses.named(request.query.get("warehouse"))
    return json_response(
        {
            "defaults": _defaults(warehouse) | _oauth(ctx, request),
            "overrides": _overrides(ctx, warehouse),
            "endpoints": [*ctx.endpoints, *_storage_endpoints(ctx, warehouse)],
            "idempotency-key-lifetime": LIFETIME,
        }
    )


def _overrides(ctx: Context, warehouse: Warehouse) -> dict[str, str]:
    """Paths, and whether late appends can still come in: a client that has lost a reply must know."""
    rebases = {PROPERTY_REBASE_APPENDS: "true"} if ctx.appends.default else {}
    return {"prefix": warehouse.name, "namespace-separator": SEPARATOR_ENCODED, **rebases}


def _storage_endpoints(ctx: Context, warehouse: Warehouse) -> tuple[str, ...]:
    vending = ctx.vending_endpoints if warehouse.name in ctx.vendors else ()
    return (*vending, *(ctx.signing_endpoints if warehouse.name in ctx.signers else ()))


def _oauth(ctx: Context, request: Request) -> dict[str, str]:
    """Where clients get tokens. They take a new one with their secret, not in exchange for the one that ends."""
    if not ctx.gate.on or ctx.tokens is None:
        return {}
    return {"oauth2-server-uri": f"{ctx.uri(request)}/oauth/token", "token-exchange-enabled": "false"}


def _defaults(warehouse: Warehouse) -> dict[str, str]:
    return warehouse.access.public() if warehouse.place.scheme == "s3" else {}
