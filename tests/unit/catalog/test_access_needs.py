"""What each route needs, and that no route comes without a declaration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from frazil.catalog.access.needs import PUBLIC, Needs
from frazil.catalog.http import Request, Response
from frazil.catalog.routes import OWN_ROUTES, ROUTES
from frazil.catalog.routing import Route, Router
from frazil.catalog.warehouse import Warehouses
from frazil.errors import BadRequest

ALL = {route.operation: route for route in (*ROUTES, *OWN_ROUTES)}
VARIABLES = {"namespace": "a\x1fb", "table": "t", "view": "v", "index": "i", "function": "f", "plan-id": "p"}
# The needs of every operation, as "privilege kind names"; the body and query are those of EXAMPLES.
EXPECTED = {
    "getConfig": ["discover warehouse w"],
    "listNamespaces": ["discover warehouse w"],
    "createNamespace": ["create namespace w: a"],
    "loadNamespaceMetadata": ["discover namespace w: a.b"],
    "namespaceExists": ["discover namespace w: a.b"],
    "dropNamespace": ["drop namespace w: a.b"],
    "updateProperties": ["write namespace w: a.b"],
    "listTables": ["discover namespace w: a.b"],
    "createTable": ["create namespace w: a.b"],
    "loadTable": ["read table w: a.b.t"],
    "updateTable": ["write table w: a.b.t"],
    "dropTable": ["drop table w: a.b.t"],
    "tableExists": ["discover table w: a.b.t"],
    "loadCredentials": ["read table w: a.b.t"],
    "reportMetrics": ["read table w: a.b.t"],
    "planTableScan": ["read table w: a.b.t"],
    "fetchPlanningResult": ["read table w: a.b.t"],
    "cancelPlanning": ["read table w: a.b.t"],
    "fetchScanTasks": ["read table w: a.b.t"],
    "registerTable": ["register namespace w: a.b"],
    "unregisterTable": ["drop table w: a.b.t", "read table w: a.b.t"],
    "renameTable": ["manage table w: a.x", "drop table w: a.x", "create namespace w: c"],
    "commitTransaction": ["write table w: a.x", "manage table w: c.y"],
    "listViews": ["discover namespace w: a.b"],
    "createView": ["create namespace w: a.b"],
    "loadView": ["read view w: a.b.v"],
    "replaceView": ["write view w: a.b.v"],
    "dropView": ["drop view w: a.b.v"],
    "viewExists": ["discover view w: a.b.v"],
    "renameView": ["manage view w: a.x", "drop view w: a.x", "create namespace w: c"],
    "registerView": ["register namespace w: a.b"],
    "listFunctions": ["discover namespace w: a.b"],
    "loadFunction": ["discover namespace w: a.b"],
    "findReferences": ["maintain server"],
    "listIndexes": ["read table w: a.b.t"],
    "createIndex": ["maintain table w: a.b.t"],
    "loadIndex": ["read index w: a.b.t.i"],
    "replaceIndex": ["maintain index w: a.b.t.i"],
    "dropIndex": ["drop index w: a.b.t.i"],
    "searchTable": ["read table w: a.b.t"],
    "signRequest": ["read table w: a.b.t"],
    "metrics": [],
    "getToken": [],
    "issueToken": [],
    "jwks": [],
    "findRoles": [],
    "listServerGrants": ["manage server"],
    "changeServerGrants": ["manage server"],
    "listWarehouseGrants": ["manage warehouse w"],
    "changeWarehouseGrants": ["manage warehouse w"],
    "listNamespaceGrants": ["manage namespace w: a.b"],
    "changeNamespaceGrants": ["manage namespace w: a.b"],
    "listTableGrants": ["manage table w: a.b.t"],
    "changeTableGrants": ["manage table w: a.b.t"],
    "listIndexGrants": ["manage index w: a.b.t.i"],
    "changeIndexGrants": ["manage index w: a.b.t.i"],
    "listViewGrants": ["manage view w: a.b.v"],
    "changeViewGrants": ["manage view w: a.b.v"],
    "livez": [],
    "readyz": [],
    "openapi": [],
}
X, Y = {"namespace": ["a"], "name": "x"}, {"namespace": ["c"], "name": "y"}
MOVE = {"action": "set-location", "location": "/elsewhere"}
EXAMPLES: dict[str, Any] = {
    "createNamespace": {"namespace": ["a", "b"]},
    "renameTable": {"source": X, "destination": Y},
    "renameView": {"source": X, "destination": Y},
    "commitTransaction": {"table-changes": [{"identifier": X, "updates": []}, {"identifier": Y, "updates": [MOVE]}]},
}


@pytest.fixture(scope="module")
def warehouses(tmp_path_factory: pytest.TempPathFactory) -> Warehouses:
    folder: Path = tmp_path_factory.mktemp("lake")
    return Warehouses({"w": str(folder / "w"), "other": str(folder / "other")}, [])


def needs_of(warehouses: Warehouses, operation: str, body: Any = None, query: bytes = b"", **names: str) -> list[str]:
    route = ALL[operation]
    request = Request(
        route.method, "", {**VARIABLES, **names}, query, body=orjson.dumps(EXAMPLES.get(operation, {}) | (body or {}))
    )
    return [f"{need.privilege} {need.target}" for need in route.needs.find(request, warehouses)]


def nothing(_ctx: object, _request: Request) -> Response:
    return Response(204)


def test_a_route_without_a_declaration_cannot_be_registered() -> None:
    with pytest.raises(TypeError):
        Route("GET", "/v1/open", "open", nothing)  # type: ignore[call-arg]
    for undeclared in (None, "public", lambda *_: ()):
        with pytest.raises(TypeError):
            Router([*ROUTES, Route("GET", "/v1/open", "open", nothing, undeclared)])  # type: ignore[arg-type]
    Router([Route("GET", "/v1/open", "open", nothing, PUBLIC)])


def test_a_variable_has_one_name_in_all_routes() -> None:
    with pytest.raises(TypeError, match="prefix"):  # else all of them would find the warehouse under the other name
        Router([*ROUTES, Route("GET", "/v1/{other}/open", "open", nothing, PUBLIC)])


def test_the_table_of_needs_names_every_route() -> None:
    assert set(EXPECTED) == set(ALL)
    assert all(isinstance(route.needs, Needs) and route.needs.text for route in ALL.values())


@pytest.mark.parametrize("operation", list(EXPECTED))
def test_each_route_needs_exactly_this(warehouses: Warehouses, operation: str) -> None:
    assert needs_of(warehouses, operation) == EXPECTED[operation]


def test_only_the_pages_that_tell_nothing_are_open_to_all() -> None:
    pages = {"livez", "readyz", "openapi", "jwks"}
    tokens = {"getToken", "issueToken"}  # ask for the secret themselves
    assert {name for name, route in ALL.items() if not route.needs.authenticated} == pages | tokens


def test_the_warehouse_is_that_of_the_prefix_or_of_the_query(warehouses: Warehouses) -> None:
    assert needs_of(warehouses, "loadTable", prefix="other") == ["read table other: a.b.t"]
    assert needs_of(warehouses, "getConfig", query=b"warehouse=other") == ["discover warehouse other"]
    assert needs_of(warehouses, "listNamespaces", query=b"parent=a", prefix="other") == ["discover namespace other: a"]


@pytest.mark.parametrize("query", [b"", b"parent=a", b"warehouse=other", b"purgeRequested=true", b"snapshots=all"])
def test_what_is_remembered_of_a_read_does_not_depend_on_its_query(warehouses: Warehouses, query: bytes) -> None:
    """The gate remembers it by operation and names."""
    reads = [name for name, route in ALL.items() if route.confirms and route.method != "POST"]
    assert {name: needs_of(warehouses, name, query=query) for name in reads} == {name: EXPECTED[name] for name in reads}
    assert {ALL[name].method for name in reads} == {"GET"}


def test_a_signature_for_a_staged_table_needs_create(warehouses: Warehouses) -> None:
    staged = {"properties": {"frazil.staged-uuid": "u", "frazil.staged-location": "s3://b/t"}}
    assert needs_of(warehouses, "signRequest", staged) == ["create namespace w: a.b"]
    assert needs_of(warehouses, "signRequest", {"properties": {"other": "x"}}) == ["read table w: a.b.t"]


def test_a_drop_that_deletes_files_needs_purge(warehouses: Warehouses) -> None:
    assert needs_of(warehouses, "dropTable", query=b"purgeRequested=true") == ["purge table w: a.b.t"]


def test_a_registration_that_overwrites_needs_drop_too(warehouses: Warehouses) -> None:
    assert needs_of(warehouses, "registerTable", {"name": "old", "overwrite": True}) == [
        "register namespace w: a.b",
        "drop table w: a.b.old",
    ]


@pytest.mark.parametrize(
    "update",
    [
        MOVE,
        {"action": "SET-LOCATION", "location": "/x"},
        {"action": "set-properties", "updates": {"write.data.path": "/x"}},
        {"action": "Set-Properties", "updated": {"write.metadata.path": "/x"}},
        {"action": "set-properties", "updates": {}, "updated": {"write.object-storage.path": "/x"}},
        {"action": "remove-properties", "removals": ["write.folder-storage.path"]},
        {"action": "remove-properties", "removed": ["write.data.path"]},
    ],
)
def test_what_says_where_files_lie_needs_manage(warehouses: Warehouses, update: dict[str, Any]) -> None:
    harmless = {"action": "set-properties", "updates": {"owner": "x"}}
    assert needs_of(warehouses, "updateTable", {"updates": [harmless]}) == ["write table w: a.b.t"]
    assert needs_of(warehouses, "updateTable", {"updates": [harmless, update]}) == ["manage table w: a.b.t"]
    assert needs_of(warehouses, "replaceView", {"updates": [update]}) == ["manage view w: a.b.v"]
    change = {"identifier": X, "updates": [update]}
    assert needs_of(warehouses, "commitTransaction", {"table-changes": [change]}) == ["manage table w: a.x"]


def test_a_commit_that_creates_its_table_needs_create(warehouses: Warehouses) -> None:
    create = {"requirements": [{"type": "assert-create"}], "updates": [MOVE]}
    assert needs_of(warehouses, "updateTable", create) == ["create namespace w: a.b"]
    paths = {"action": "set-properties", "updates": {"write.data.path": "/x"}}
    assert needs_of(warehouses, "updateTable", create | {"updates": [paths]}) == ["manage namespace w: a.b"]
    # A view has no such requirement: what a client adds makes no commit weaker.
    assert needs_of(warehouses, "replaceView", create) == ["manage view w: a.b.v"]
    mixed = [{"type": "assert-create"}, {"type": "assert-table-uuid", "uuid": "x"}]
    with pytest.raises(BadRequest):
        needs_of(warehouses, "updateTable", {"requirements": mixed, "updates": []})


def test_locations_of_namespaces_and_paths_of_new_tables_need_manage(warehouses: Warehouses) -> None:
    located = {"namespace": ["a"], "properties": {"location": "/x"}}
    assert needs_of(warehouses, "createNamespace", located) == ["manage warehouse w"]
    assert needs_of(warehouses, "createNamespace", {"namespace": ["a"]}) == ["create warehouse w"]
    for body in ({"updates": {"location": "/x"}}, {"removals": ["location"]}):
        assert needs_of(warehouses, "updateProperties", body) == ["manage namespace w: a.b"]
    paths = {"properties": {"write.data.path": "/x"}}
    assert needs_of(warehouses, "createTable", paths) == ["manage namespace w: a.b"]


def test_references_of_files_need_maintain_on_the_own_table(warehouses: Warehouses) -> None:
    assert needs_of(warehouses, "findReferences", {"other-than": X}) == ["maintain table w: a.x"]


@pytest.mark.parametrize("junk", [3, "x", None, [3], [[]], {"a": 1}, [{"action": 3}], [{"updates": 3}]])
def test_a_malformed_body_is_no_server_error(warehouses: Warehouses, junk: Any) -> None:
    for operation in ALL:
        keys = ("updates", "requirements", "removals", "properties", "namespace", "source", "table-changes", "name")
        for key in keys:
            try:
                needs_of(warehouses, operation, {key: junk})
            except BadRequest:
                continue
