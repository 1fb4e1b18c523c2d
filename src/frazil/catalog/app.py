"""The catalog as an ASGI application. ROUTES is the whole of it: method, path, operation, function.

Operations are plain functions. One that is marked `quick` runs in the event loop when the database is local: an indexed lookup, a stat
and bytes from the cache take less than a hop to a thread. If it finds that it would have to wait, it raises WouldBlock and is called
again in a thread, where everything else runs.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from frazil.catalog.context import Context
from frazil.catalog.http import Receive, Request, Response, Scope, Send, read_body
from frazil.catalog.idempotency import answer_once
from frazil.catalog.operations import commits, config, functions, health, namespaces, reports, tables, views
from frazil.catalog.problems import problem, problem_response
from frazil.catalog.routing import Route, Router
from frazil.catalog.warehouse import WouldBlock
from frazil.errors import CatalogError

_NS = "/v1/{prefix}/namespaces/{namespace}"

ROUTES: tuple[Route, ...] = (
    Route("GET", "/v1/config", "getConfig", config.get_config, quick=True),
    Route("GET", "/v1/{prefix}/namespaces", "listNamespaces", namespaces.list_namespaces),
    Route("POST", "/v1/{prefix}/namespaces", "createNamespace", namespaces.create_namespace, writes=True),
    Route("GET", _NS, "loadNamespaceMetadata", namespaces.load_namespace, quick=True),
    Route("HEAD", _NS, "namespaceExists", namespaces.namespace_exists, quick=True),
    Route("DELETE", _NS, "dropNamespace", namespaces.drop_namespace, writes=True),
    Route("POST", f"{_NS}/properties", "updateProperties", namespaces.update_properties, writes=True),
    Route("GET", f"{_NS}/tables", "listTables", tables.list_tables),
    Route("POST", f"{_NS}/tables", "createTable", tables.create_table, writes=True, commits=True),
    Route("GET", f"{_NS}/tables/{{table}}", "loadTable", tables.load_table, quick=True),
    Route("POST", f"{_NS}/tables/{{table}}", "updateTable", commits.update_table, writes=True, commits=True),
    Route("DELETE", f"{_NS}/tables/{{table}}", "dropTable", tables.drop_table, writes=True),
    Route("HEAD", f"{_NS}/tables/{{table}}", "tableExists", tables.table_exists, quick=True),
    Route("POST", f"{_NS}/tables/{{table}}/metrics", "reportMetrics", reports.report_metrics),
    Route("POST", f"{_NS}/register", "registerTable", tables.register_table, writes=True, commits=True),
    Route("POST", f"{_NS}/tables/{{table}}/unregister", "unregisterTable", tables.unregister_table, writes=True),
    Route("POST", "/v1/{prefix}/tables/rename", "renameTable", tables.rename_table, writes=True),
    Route("POST", "/v1/{prefix}/transactions/commit", "commitTransaction", commits.commit_transaction, writes=True, commits=True),
    Route("GET", f"{_NS}/views", "listViews", views.list_views),
    Route("POST", f"{_NS}/views", "createView", views.create_view, writes=True, commits=True),
    Route("GET", f"{_NS}/views/{{view}}", "loadView", views.load_view, quick=True),
    Route("POST", f"{_NS}/views/{{view}}", "replaceView", views.replace_view, writes=True, commits=True),
    Route("DELETE", f"{_NS}/views/{{view}}", "dropView", views.drop_view, writes=True),
    Route("HEAD", f"{_NS}/views/{{view}}", "viewExists", views.view_exists, quick=True),
    Route("POST", "/v1/{prefix}/views/rename", "renameView", views.rename_view, writes=True),
    Route("POST", f"{_NS}/register-view", "registerView", views.register_view, writes=True, commits=True),
    Route("GET", f"{_NS}/functions", "listFunctions", functions.list_functions),
    Route("GET", f"{_NS}/functions/{{function}}", "loadFunction", functions.load_function, quick=True),
)
# Not of the specification: the server's own.
OWN_ROUTES: tuple[Route, ...] = (
    Route("GET", "/livez", "livez", health.livez, quick=True),
    Route("GET", "/readyz", "readyz", health.readyz),
)


def endpoints() -> list[str]:
    """What /v1/config tells clients that this server can do."""
    return [route.endpoint for route in ROUTES if route.operation != "getConfig"]


class CatalogApp:
    """ASGI: `uvicorn.run(CatalogApp(context))`."""

    def __init__(self, ctx: Context, *, routes: Iterable[Route] = (*ROUTES, *OWN_ROUTES)) -> None:
        self.ctx = ctx
        self.limits = ctx.limits
        self._router = Router(routes)
        self._threads = ThreadPoolExecutor(ctx.limits.threads, thread_name_prefix="frazil-catalog")
        self._run_quick_inline = ctx.database.local

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            else:
                await asyncio.to_thread(self.close)
                await send({"type": "lifespan.shutdown.complete"})
                return

    def close(self) -> None:
        """Waits for the work in flight, then closes the database."""
        self._threads.shutdown(wait=True)
        self.ctx.close()

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        route, response = await self._answer(scope, receive)
        headers = response.headers
        if response.status != 204 and response.status != 304:
            headers = [*headers, (b"content-length", str(len(response.body)).encode())]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else response.body})
        del started, route

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[Route | None, Response]:
        route = None
        try:
            method = scope["method"]
            route, variables = self._router.find(method, scope["raw_path"])
            headers = dict(scope["headers"])
            body = b""
            if method == "POST":
                body = await read_body(headers, receive, max_bytes=self.limits.body_bytes, seconds=self.limits.body_seconds)
            request = Request(method, scope["path"], variables, scope["query_string"], headers, body)
            return route, await self._run(route, request)
        except CatalogError as exc:
            return route, problem_response(exc)
        except Exception as exc:
            kind = "CommitStateUnknownException" if route and route.commits else "InternalServerError"
            self.ctx.log_failure(route, exc)
            return route, problem(500, kind, f"The server failed: {type(exc).__name__}")

    async def _run(self, route: Route, request: Request) -> Response:
        if route.quick and self._run_quick_inline:
            try:
                request.inline = True
                return route.run(self.ctx, request)
            except WouldBlock:
                request.inline = False
        work = (
            functools.partial(answer_once, self.ctx, route.run, request)
            if route.writes
            else functools.partial(route.run, self.ctx, request)
        )
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
