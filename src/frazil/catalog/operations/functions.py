"""Functions: the catalog has none yet, and says so in the specification's words."""

from __future__ import annotations

from frazil.catalog.context import Context
from frazil.catalog.http import Request, Response, json_response
from frazil.catalog.names import show
from frazil.catalog.pages import page_of
from frazil.catalog.store import namespaces
from frazil.errors import NoSuchFunction


def list_functions(ctx: Context, request: Request) -> Response:
    page_of(request)
    namespaces.load(ctx.database.read(), ctx.warehouse(request).name, request.namespace)
    return json_response({"identifiers": [], "next-page-token": None})


def load_function(ctx: Context, request: Request) -> Response:
    namespace = request.namespace
    namespaces.load(ctx.database.read(), ctx.warehouse(request).name, namespace)
    raise NoSuchFunction(f"{show(namespace)}.{request.variables['function']}")
