"""The route table: every operation that the server has."""

from __future__ import annotations

from functools import cache

from frazil.catalog.context import Context
from frazil.catalog.http import JSON_TYPE, Request, Response
from frazil.catalog.openapi import document_bytes
from frazil.catalog.operations import (
    commits,
    config,
    functions,
    health,
    indexes,
    namespaces,
    references,
    reports,
    scans,
    searches,
    tables,
    views,
)
from frazil.catalog.routing import Route


def _serve_openapi(_ctx: Context, _request: Request) -> Response:
    """The document that describes every operation of this server."""
    return Response(200, openapi_document(), [JSON_TYPE])


@cache
def openapi_document() -> bytes:
    """The OpenAPI document of the server's routes, as JSON."""
    return document_bytes((*ROUTES, *OWN_ROUTES))


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
    Route(
        "POST",
        f"{_NS}/tables/{{table}}",
        "updateTable",
        commits.update_table,
        writes=True,
        commits=True,
        refuse=commits.refuse_stale,
    ),
    Route("DELETE", f"{_NS}/tables/{{table}}", "dropTable", tables.drop_table, writes=True),
    Route("HEAD", f"{_NS}/tables/{{table}}", "tableExists", tables.table_exists, quick=True),
    Route("POST", f"{_NS}/tables/{{table}}/metrics", "reportMetrics", reports.report_metrics),
    Route("POST", f"{_NS}/tables/{{table}}/plan", "planTableScan", scans.plan_table_scan, stops=True),
    Route(
        "GET",
        f"{_NS}/tables/{{table}}/plan/{{plan-id}}",
        "fetchPlanningResult",
        scans.fetch_planning_result,
        stops=True,
    ),
    Route("DELETE", f"{_NS}/tables/{{table}}/plan/{{plan-id}}", "cancelPlanning", scans.cancel_planning),
    Route("POST", f"{_NS}/tables/{{table}}/tasks", "fetchScanTasks", scans.fetch_scan_tasks, stops=True),
    Route("POST", f"{_NS}/register", "registerTable", tables.register_table, writes=True, commits=True),
    Route("POST", f"{_NS}/tables/{{table}}/unregister", "unregisterTable", tables.unregister_table, writes=True),
    Route("POST", "/v1/{prefix}/tables/rename", "renameTable", tables.rename_table, writes=True),
    Route(
        "POST",
        "/v1/{prefix}/transactions/commit",
        "commitTransaction",
        commits.commit_transaction,
        writes=True,
        commits=True,
    ),
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
# need a library that the catalog does not
SCANS = ("planTableScan", "fetchPlanningResult", "cancelPlanning", "fetchScanTasks")
SEARCHES = ("searchTable",)  # not of the specification, and advertised
# Not of the specification: the server's own.
OWN_ROUTES: tuple[Route, ...] = (
    Route("GET", "/livez", "livez", health.livez, quick=True),
    Route("GET", "/readyz", "readyz", health.readyz),
    Route("GET", "/metrics", "metrics", health.metrics),
    Route("GET", "/openapi.json", "openapi", _serve_openapi),
    Route("POST", "/v1/{prefix}/tables/references", "findReferences", references.find_references),
    Route("GET", f"{_NS}/tables/{{table}}/indexes", "listIndexes", indexes.list_indexes, quick=True),
    Route("POST", f"{_NS}/tables/{{table}}/indexes", "createIndex", indexes.create_index, writes=True),
    Route("GET", f"{_NS}/tables/{{table}}/indexes/{{index}}", "loadIndex", indexes.load_index, quick=True),
    Route("POST", f"{_NS}/tables/{{table}}/indexes/{{index}}", "replaceIndex", indexes.replace_index, writes=True),
    Route("DELETE", f"{_NS}/tables/{{table}}/indexes/{{index}}", "dropIndex", indexes.drop_index, writes=True),
    Route("POST", f"{_NS}/tables/{{table}}/search", "searchTable", searches.search_table, stops=True),
)
