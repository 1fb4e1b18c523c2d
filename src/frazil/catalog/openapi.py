"""The OpenAPI document of this server, built from the route table: what is served is what is described."""

from __future__ import annotations

import re
from typing import Any

import orjson

import frazil
from frazil.catalog.http import ARROW_STREAM, FORM, JSON
from frazil.catalog.openapi_schemas import SCHEMAS, TEXT, Schema, ref
from frazil.catalog.routing import Route

# operation -> (summary, schema of the request's body, status, schema of the answer)
OPERATIONS: dict[str, tuple[str, str | None, int, str | None]] = {
    "getConfig": ("Configuration of a warehouse", None, 200, "Config"),
    "getToken": ("An access token for a client id and secret; deprecated path", "TokenRequest", 200, "Token"),
    "listNamespaces": ("Namespaces below a parent", None, 200, "Namespaces"),
    "createNamespace": ("Create a namespace", "CreateNamespace", 200, "NamespaceResult"),
    "loadNamespaceMetadata": ("Properties of a namespace", None, 200, "NamespaceResult"),
    "namespaceExists": ("Whether a namespace exists", None, 204, None),
    "dropNamespace": ("Drop an empty namespace", None, 204, None),
    "updateProperties": ("Set and remove properties of a namespace", "UpdateProperties", 200, "PropertiesResult"),
    "listTables": ("Tables of a namespace", None, 200, "Identifiers"),
    "createTable": ("Create a table, or stage its creation", "CreateTable", 200, "TableResult"),
    "loadTable": ("Metadata of a table", None, 200, "TableResult"),
    "updateTable": ("Commit updates to a table", "CommitTable", 200, "TableResult"),
    "dropTable": ("Drop a table", None, 204, None),
    "tableExists": ("Whether a table exists", None, 204, None),
    "registerTable": ("A table for an existing metadata file", "Register", 200, "TableResult"),
    "unregisterTable": ("Remove a table and keep its files", None, 200, "TableResult"),
    "renameTable": ("Rename a table", "Rename", 204, None),
    "loadCredentials": ("Short-lived credentials for the files of a table", None, 200, "CredentialsResult"),
    "signRequest": ("Sign a request to the files of a table", "SignRequest", 200, "SignResult"),
    "reportMetrics": ("Keep a metrics report", "Report", 204, None),
    "planTableScan": ("Plan a scan", "PlanScan", 200, "PlannedScan"),
    "fetchPlanningResult": ("The answer of a plan, once more", None, 200, "PlannedScan"),
    "cancelPlanning": ("Forget a plan", None, 204, None),
    "fetchScanTasks": ("The files of a plan task", "FetchTasks", 200, "ScanTasks"),
    "commitTransaction": ("Commit updates to several tables at once", "CommitTransaction", 204, None),
    "listViews": ("Views of a namespace", None, 200, "Identifiers"),
    "createView": ("Create a view", "CreateView", 200, "ViewResult"),
    "loadView": ("Metadata of a view", None, 200, "ViewResult"),
    "replaceView": ("Commit updates to a view", "CommitView", 200, "ViewResult"),
    "dropView": ("Drop a view", None, 204, None),
    "viewExists": ("Whether a view exists", None, 204, None),
    "renameView": ("Rename a view", "Rename", 204, None),
    "registerView": ("A view for an existing metadata file", "Register", 200, "ViewResult"),
    "listFunctions": ("Functions of a namespace", None, 200, "Functions"),
    "loadFunction": ("Metadata of a function", None, 200, "FunctionResult"),
    "findReferences": ("Of some files, those that tables lead to", "FindReferences", 200, "References"),
    "listIndexes": ("Indexes of a table", None, 200, "Indexes"),
    "createIndex": ("Record an index of a table", "CreateIndex", 200, "Index"),
    "loadIndex": ("The record of an index", None, 200, "Index"),
    "replaceIndex": ("Replace the record of an index, if it has the expected version", "ReplaceIndex", 200, "Index"),
    "dropIndex": ("Remove the record of an index; its files stay", None, 204, None),
    "searchTable": ("Rows whose vectors are nearest", "Search", 200, "SearchResult"),
    "findRoles": ("Which of some roles do not exist, and whether grants are enforced", None, 200, "RoleCheck"),
    "listServerGrants": ("Grants on the whole server", None, 200, "Grants"),
    "changeServerGrants": ("Grant and revoke privileges on the whole server", "ChangeGrants", 200, "Grants"),
    "listWarehouseGrants": ("Grants on a warehouse", None, 200, "Grants"),
    "changeWarehouseGrants": ("Grant and revoke privileges on a warehouse", "ChangeGrants", 200, "Grants"),
    "listNamespaceGrants": ("Grants on a namespace", None, 200, "Grants"),
    "changeNamespaceGrants": ("Grant and revoke privileges on a namespace", "ChangeGrants", 200, "Grants"),
    "listTableGrants": ("Grants on a table", None, 200, "Grants"),
    "changeTableGrants": ("Grant and revoke privileges on a table", "ChangeGrants", 200, "Grants"),
    "listViewGrants": ("Grants on a view", None, 200, "Grants"),
    "changeViewGrants": ("Grant and revoke privileges on a view", "ChangeGrants", 200, "Grants"),
    "listIndexGrants": ("Grants on an index", None, 200, "Grants"),
    "changeIndexGrants": ("Grant and revoke privileges on an index", "ChangeGrants", 200, "Grants"),
    "livez": ("The process answers", None, 200, None),
    "readyz": ("The database answers too", None, 200, None),
    "metrics": ("Numbers for Prometheus", None, 200, None),
    "issueToken": ("An access token for the id and the secret of an API key", "TokenRequest", 200, "Token"),
    "jwks": ("Public keys of the access tokens", None, 200, None),
    "openapi": ("This document", None, 200, None),
}

_PAGES = ("pageToken", "pageSize")
_QUERY: dict[str, tuple[str, ...]] = {
    "getConfig": ("warehouse",),
    "findRoles": ("names",),
    "listNamespaces": (*_PAGES, "parent"),
    "listTables": _PAGES,
    "listViews": _PAGES,
    "listFunctions": _PAGES,
    "loadTable": ("snapshots",),
    "dropTable": ("purgeRequested",),
}
_KINDS: dict[str, Schema] = {
    "pageSize": {"type": "integer", "minimum": 1},
    "snapshots": {"type": "string", "enum": ["all", "refs"]},
    "purgeRequested": {"type": "boolean", "default": False},
}


def build_document(routes: tuple[Route, ...]) -> dict[str, Any]:
    """The document for these routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.template, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "Frazil: Iceberg REST catalog",
            "version": frazil.__version__,
            "license": {"name": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": SCHEMAS},
    }


def _operation(route: Route) -> dict[str, Any]:
    summary, body, status, answer = OPERATIONS[route.operation]
    description: dict[str, Any] = {"operationId": route.operation, "summary": summary, "parameters": _parameters(route)}
    content_type = (FORM if route.form else JSON).decode()
    if body is not None:
        description["requestBody"] = {"required": True, "content": {content_type: {"schema": ref(body)}}}
    ok: dict[str, Any] = {"description": "Success"}
    if answer is not None:
        ok["content"] = {"application/json": {"schema": ref(answer)}}
    if route.operation == "searchTable":
        ok["content"][ARROW_STREAM] = {"schema": {"type": "string", "format": "binary"}}
    description["responses"] = {str(status): ok, "default": _error("Error", *(["OAuthError"] if route.form else []))}
    if route.operation == "loadTable":
        description["responses"]["304"] = {"description": "The client has it already"}
    return description


def _error(*shapes: str) -> dict[str, Any]:
    schema = ref(*shapes) if len(shapes) == 1 else {"anyOf": [ref(shape) for shape in shapes]}
    return {
        "description": "An error in the specification's shape",
        "content": {"application/json": {"schema": schema}},
    }


def _parameters(route: Route) -> list[dict[str, Any]]:
    names = re.findall(r"\{([^}]+)\}", route.template)
    parameters = [
        {"name": n, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}} for n in names
    ]
    parameters += [{"name": n, "in": "query", "schema": _KINDS.get(n, TEXT)} for n in _QUERY.get(route.operation, ())]
    if route.writes:
        parameters.append({"name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "format": "uuid"}})
    if route.operation == "loadTable":
        parameters.append({"name": "If-None-Match", "in": "header", "schema": TEXT})
    return parameters


def document_bytes(routes: tuple[Route, ...]) -> bytes:
    """The document of some routes, serialised."""
    return orjson.dumps(build_document(routes))
