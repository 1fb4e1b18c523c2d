"""The route table: every operation that the server has."""

from __future__ import annotations

from functools import cache

from frazil.catalog.access import needs
from frazil.catalog.access.needs import on_index, on_namespace, on_relation, on_rename, on_server, on_warehouse
from frazil.catalog.access.privileges import Privilege as P
from frazil.catalog.context import Context
from frazil.catalog.http import JSON_TYPE, Request, Response
from frazil.catalog.openapi import document_bytes
from frazil.catalog.operations import (
    commits,
    config,
    credentials,
    functions,
    grants,
    health,
    indexes,
    namespaces,
    oauth,
    references,
    reports,
    scans,
    searches,
    signing,
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
    Route("GET", "/v1/config", "getConfig", config.get_config, needs.CONFIG, quick=True),
    Route("POST", "/v1/oauth/tokens", "getToken", oauth.get_token, needs.PUBLIC, form=True),
    Route("GET", "/v1/{prefix}/namespaces", "listNamespaces", namespaces.list_namespaces, needs.LIST_NAMESPACES),
    Route(
        "POST",
        "/v1/{prefix}/namespaces",
        "createNamespace",
        namespaces.create_namespace,
        needs.CREATE_NAMESPACE,
        writes=True,
    ),
    Route("GET", _NS, "loadNamespaceMetadata", namespaces.load_namespace, on_namespace(P.DISCOVER), quick=True),
    Route("HEAD", _NS, "namespaceExists", namespaces.namespace_exists, on_namespace(P.DISCOVER), quick=True),
    Route("DELETE", _NS, "dropNamespace", namespaces.drop_namespace, on_namespace(P.DROP), writes=True),
    Route(
        "POST",
        f"{_NS}/properties",
        "updateProperties",
        namespaces.update_properties,
        needs.UPDATE_NAMESPACE,
        writes=True,
    ),
    Route("GET", f"{_NS}/tables", "listTables", tables.list_tables, on_namespace(P.DISCOVER), confirms=True),
    Route(
        "POST",
        f"{_NS}/tables",
        "createTable",
        tables.create_table,
        needs.CREATE_RELATION,
        writes=True,
        commits=True,
        confirms=True,
        vends=True,
    ),
    Route(
        "GET",
        f"{_NS}/tables/{{table}}",
        "loadTable",
        tables.load_table,
        on_relation(P.READ),
        quick=True,
        confirms=True,
    ),
    Route(
        "POST",
        f"{_NS}/tables/{{table}}",
        "updateTable",
        commits.update_table,
        needs.COMMIT_TABLE,
        writes=True,
        commits=True,
        confirms=True,
        refuse=commits.refuse_stale,
    ),
    Route("DELETE", f"{_NS}/tables/{{table}}", "dropTable", tables.drop_table, needs.DROP_TABLE, writes=True),
    Route("HEAD", f"{_NS}/tables/{{table}}", "tableExists", tables.table_exists, on_relation(P.DISCOVER), quick=True),
    Route(
        "GET",
        f"{_NS}/tables/{{table}}/credentials",
        "loadCredentials",
        credentials.load_credentials,
        on_relation(P.READ),
    ),
    Route("POST", f"{_NS}/tables/{{table}}/sign", "signRequest", signing.sign_request, needs.SIGN),
    Route("POST", f"{_NS}/tables/{{table}}/metrics", "reportMetrics", reports.report_metrics, on_relation(P.READ)),
    Route(
        "POST", f"{_NS}/tables/{{table}}/plan", "planTableScan", scans.plan_table_scan, on_relation(P.READ), stops=True
    ),
    Route(
        "GET",
        f"{_NS}/tables/{{table}}/plan/{{plan-id}}",
        "fetchPlanningResult",
        scans.fetch_planning_result,
        on_relation(P.READ),
        stops=True,
    ),
    Route(
        "DELETE",
        f"{_NS}/tables/{{table}}/plan/{{plan-id}}",
        "cancelPlanning",
        scans.cancel_planning,
        on_relation(P.READ),
    ),
    Route(
        "POST",
        f"{_NS}/tables/{{table}}/tasks",
        "fetchScanTasks",
        scans.fetch_scan_tasks,
        on_relation(P.READ),
        stops=True,
    ),
    Route(
        "POST",
        f"{_NS}/register",
        "registerTable",
        tables.register_table,
        needs.REGISTER,
        writes=True,
        commits=True,
        vends=True,
    ),
    Route(
        "POST",
        f"{_NS}/tables/{{table}}/unregister",
        "unregisterTable",
        tables.unregister_table,
        needs.UNREGISTER,
        writes=True,
    ),
    Route("POST", "/v1/{prefix}/tables/rename", "renameTable", tables.rename_table, on_rename("table"), writes=True),
    Route(
        "POST",
        "/v1/{prefix}/transactions/commit",
        "commitTransaction",
        commits.commit_transaction,
        needs.COMMIT_TRANSACTION,
        writes=True,
        commits=True,
        confirms=True,
    ),
    Route("GET", f"{_NS}/views", "listViews", views.list_views, on_namespace(P.DISCOVER), confirms=True),
    Route(
        "POST",
        f"{_NS}/views",
        "createView",
        views.create_view,
        needs.CREATE_RELATION,
        writes=True,
        commits=True,
        confirms=True,
    ),
    Route("GET", f"{_NS}/views/{{view}}", "loadView", views.load_view, on_relation(P.READ, "view"), quick=True),
    Route(
        "POST", f"{_NS}/views/{{view}}", "replaceView", views.replace_view, needs.COMMIT_VIEW, writes=True, commits=True
    ),
    Route("DELETE", f"{_NS}/views/{{view}}", "dropView", views.drop_view, on_relation(P.DROP, "view"), writes=True),
    Route(
        "HEAD", f"{_NS}/views/{{view}}", "viewExists", views.view_exists, on_relation(P.DISCOVER, "view"), quick=True
    ),
    Route("POST", "/v1/{prefix}/views/rename", "renameView", views.rename_view, on_rename("view"), writes=True),
    Route(
        "POST", f"{_NS}/register-view", "registerView", views.register_view, needs.REGISTER, writes=True, commits=True
    ),
    Route("GET", f"{_NS}/functions", "listFunctions", functions.list_functions, on_namespace(P.DISCOVER)),
    Route(
        "GET",
        f"{_NS}/functions/{{function}}",
        "loadFunction",
        functions.load_function,
        on_namespace(P.DISCOVER),
        quick=True,
    ),
)
# need a library that the catalog does not
SCANS = ("planTableScan", "fetchPlanningResult", "cancelPlanning", "fetchScanTasks")
CREDENTIALS = ("loadCredentials",)  # advertised where the warehouse vends them
SIGNING = ("signRequest",)  # likewise, where it signs
SEARCHES = ("searchTable",)  # not of the specification, and advertised
# Not of the specification: the server's own.
OWN_ROUTES: tuple[Route, ...] = (
    Route("GET", "/livez", "livez", health.livez, needs.PUBLIC, quick=True),
    Route("GET", "/readyz", "readyz", health.readyz, needs.PUBLIC),
    Route("GET", "/metrics", "metrics", health.metrics, needs.AUTHENTICATED),
    Route("POST", "/oauth/token", "issueToken", oauth.get_token, needs.PUBLIC, form=True),
    Route("GET", "/.well-known/jwks.json", "jwks", oauth.get_jwks, needs.PUBLIC),
    Route("GET", "/access/roles", "findRoles", grants.find_roles, needs.AUTHENTICATED),
    Route("GET", "/access/grants", "listServerGrants", grants.list_grants, on_server(P.MANAGE)),
    Route("POST", "/access/grants", "changeServerGrants", grants.change, on_server(P.MANAGE), writes=True),
    Route("GET", "/access/grants/{prefix}", "listWarehouseGrants", grants.list_grants, on_warehouse(P.MANAGE)),
    Route(
        "POST",
        "/access/grants/{prefix}",
        "changeWarehouseGrants",
        grants.change,
        on_warehouse(P.MANAGE),
        writes=True,
    ),
    Route("GET", f"{_NS}/grants", "listNamespaceGrants", grants.list_grants, on_namespace(P.MANAGE)),
    Route("POST", f"{_NS}/grants", "changeNamespaceGrants", grants.change, on_namespace(P.MANAGE), writes=True),
    Route("GET", f"{_NS}/tables/{{table}}/grants", "listTableGrants", grants.list_grants, on_relation(P.MANAGE)),
    Route(
        "POST",
        f"{_NS}/tables/{{table}}/grants",
        "changeTableGrants",
        grants.change,
        on_relation(P.MANAGE),
        writes=True,
    ),
    Route("GET", f"{_NS}/views/{{view}}/grants", "listViewGrants", grants.list_grants, on_relation(P.MANAGE, "view")),
    Route(
        "POST",
        f"{_NS}/views/{{view}}/grants",
        "changeViewGrants",
        grants.change,
        on_relation(P.MANAGE, "view"),
        writes=True,
    ),
    Route(
        "GET",
        f"{_NS}/tables/{{table}}/indexes/{{index}}/grants",
        "listIndexGrants",
        grants.list_grants,
        on_index(P.MANAGE),
    ),
    Route(
        "POST",
        f"{_NS}/tables/{{table}}/indexes/{{index}}/grants",
        "changeIndexGrants",
        grants.change,
        on_index(P.MANAGE),
        writes=True,
    ),
    Route("GET", "/openapi.json", "openapi", _serve_openapi, needs.PUBLIC),
    Route("POST", "/v1/{prefix}/tables/references", "findReferences", references.find_references, needs.REFERENCES),
    Route(
        "GET", f"{_NS}/tables/{{table}}/indexes", "listIndexes", indexes.list_indexes, on_relation(P.READ), quick=True
    ),
    Route(
        "POST",
        f"{_NS}/tables/{{table}}/indexes",
        "createIndex",
        indexes.create_index,
        on_relation(P.MAINTAIN),
        writes=True,
    ),
    Route(
        "GET",
        f"{_NS}/tables/{{table}}/indexes/{{index}}",
        "loadIndex",
        indexes.load_index,
        on_index(P.READ),
        quick=True,
    ),
    Route(
        "POST",
        f"{_NS}/tables/{{table}}/indexes/{{index}}",
        "replaceIndex",
        indexes.replace_index,
        on_index(P.MAINTAIN),
        writes=True,
    ),
    Route(
        "DELETE",
        f"{_NS}/tables/{{table}}/indexes/{{index}}",
        "dropIndex",
        indexes.drop_index,
        on_index(P.DROP),
        writes=True,
    ),
    Route(
        "POST", f"{_NS}/tables/{{table}}/search", "searchTable", searches.search_table, on_relation(P.READ), stops=True
    ),
)
