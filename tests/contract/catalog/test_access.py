"""Keys and grants of a running catalog: who is let in, and what each caller may see and do."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import requests

from frazil.catalog import Target, list_keys, newest_records, revoke_token, rotate_token, running_catalog
from frazil.catalog.access.privileges import Privilege, included
from frazil.catalog.http import Request
from frazil.catalog.names import Name
from frazil.catalog.operations.rights import allowed_rights
from frazil.catalog.routes import OWN_ROUTES, ROUTES
from frazil.catalog.storage import Rights
from frazil.errors import NotVendable
from tests.kit.access import SERVER, VIEW, Guarded, namespace, now_ms, table
from tests.kit.catalog_databases import SCHEMA, Answer, Client

UNSEEN = ("NoSuchTableException", "NoSuchViewException", "NoSuchNamespaceException", "NoSuchWarehouseException")


def kind_of(answer: Answer) -> str:
    return str(answer.body["error"]["type"]) if answer.status >= 400 and answer.body else ""


# --- who -------------------------------------------------------------------------------------------------------------


def test_a_request_without_a_valid_key_is_401_on_every_route_but_the_open_ones(guarded: Guarded) -> None:
    token = guarded.token("ann", roles=["admin"])
    key_id, secret = token.split("_")[1:]
    wrong = [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic " + token,
        token,
        f"Bearer {token}x",
        f"Bearer frz_{key_id}_{'x' * 43}",
        f"Bearer frz_{'0' * 16}_{secret}",
        f"Bearer {token[:-1]}",
        "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJyb290In0.",
        "Bearer " + "x" * 10_000,
    ]
    for header in wrong:
        for route in (*ROUTES, *OWN_ROUTES):
            path = route.template.replace("{prefix}", "default").replace("{", "").replace("}", "")
            headers = {} if header is None else {"Authorization": header}
            reply = requests.request(route.method, guarded.server.uri + path, headers=headers, timeout=60)
            if route.operation in OPEN:
                assert reply.status_code == (400 if route.form else 200)  # a form without a kind of grant
                continue
            assert reply.status_code == 401, (route.operation, header)
            assert reply.headers["www-authenticate"] == 'Bearer realm="frazil"'
            if route.method != "HEAD":
                assert reply.json()["error"]["type"] == "NotAuthorizedException"
                assert token not in reply.text
                assert secret not in reply.text
        if header is not None and header.startswith("Bearer x"):
            break
    assert guarded.client(token).raw("GET", "/v1/config").status == 200


def test_a_revoked_or_expired_key_ends_at_once_also_where_it_was_just_used(guarded: Guarded) -> None:
    guarded.admin.create()
    token = guarded.token("ann", roles=["admin"])
    client = guarded.client(token)
    for _ in range(3):
        client.load()
    revoke_token(guarded.database, token.split("_")[1], now_ms=now_ms())
    assert client.get("/namespaces/ns/tables/t").status == 401
    soon = guarded.client(guarded.token("bob", roles=["admin"], expires_ms=now_ms() + 60_000))
    soon.load()
    clock = guarded.server.app.ctx.gate._clock
    guarded.server.app.ctx.gate._clock = lambda: clock() + 60_001
    assert soon.get("/namespaces/ns/tables/t").status == 401
    assert guarded.client(guarded.token("eve", expires_ms=now_ms() - 1)).raw("GET", "/v1/config").status == 401


def test_both_keys_are_valid_while_one_takes_the_place_of_the_other(guarded: Guarded) -> None:
    old = guarded.token("ann", roles=["admin"], scopes=["read"])
    new = rotate_token(guarded.database, guarded.pepper, old.split("_")[1], now_ms=now_ms(), keep_ms=60_000)
    assert [guarded.client(token).raw("GET", "/v1/config").status for token in (old, new.token)] == [200, 200]
    keys = {key.id: key for key in list_keys(guarded.database.read())}
    assert keys[new.id].scopes == "read"
    clock = guarded.server.app.ctx.gate._clock
    guarded.server.app.ctx.gate._clock = lambda: clock() + 60_001
    assert [guarded.client(token).raw("GET", "/v1/config").status for token in (old, new.token)] == [401, 200]


def test_two_authorization_headers_that_differ_are_refused(guarded: Guarded) -> None:
    import http.client

    token = guarded.token("ann", roles=["admin"])
    connection = http.client.HTTPConnection(guarded.server.uri.removeprefix("http://"), timeout=60)
    connection.putrequest("GET", "/v1/config")
    connection.putheader("Authorization", f"Bearer {token}")
    connection.putheader("Authorization", "Bearer other")
    connection.endheaders()
    assert connection.getresponse().status == 400
    connection.close()


def test_the_body_of_an_unknown_caller_is_not_read(guarded: Guarded) -> None:
    import socket

    host, port = guarded.server.uri.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        head = f"POST /v1/default/namespaces HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: 1000000\r\n\r\n{{".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 401 ")


def test_the_database_holds_no_secret(guarded: Guarded) -> None:
    token = guarded.token("ann")
    rows = [str(row) for row in guarded.database.read().rows("SELECT * FROM api_keys")]
    assert not any(token.split("_")[2] in row or guarded.pepper.hex() in row for row in rows)


# --- the matrix ------------------------------------------------------------------------------------------------------


def request_of(operation: str, ns: str) -> tuple[str, str, Any, dict[str, str]]:
    """Method, path, body and query of a request of an operation, on objects of a namespace."""
    route = next(route for route in (*ROUTES, *OWN_ROUTES) if route.operation == operation)
    names = {"prefix": "default", "namespace": ns, "table": "t", "view": "v", "index": "i", "function": "f"}
    path = route.template.replace("{plan-id}", "p")
    for name, value in names.items():
        path = path.replace(f"{{{name}}}", value)
    t, v = {"namespace": [ns], "name": "t"}, {"namespace": [ns], "name": "v"}
    bodies: dict[str, Any] = {
        "createNamespace": {"namespace": [ns, "sub"]},
        "updateProperties": {"updates": {"owner": "x"}},
        "createTable": {"name": "new", "schema": SCHEMA},
        "createView": VIEW | {"name": "new_view"},
        "updateTable": {"requirements": [], "updates": []},
        "replaceView": {"requirements": [], "updates": []},
        "renameTable": {"source": t, "destination": {"namespace": [ns], "name": "renamed"}},
        "renameView": {"source": v, "destination": {"namespace": [ns], "name": "renamed_view"}},
        "registerTable": {"name": "r", "metadata-location": "nowhere"},
        "registerView": {"name": "r", "metadata-location": "nowhere"},
        "commitTransaction": {"table-changes": [{"identifier": t, "requirements": [], "updates": []}]},
        "findReferences": {"files": [], "other-than": t},
        "reportMetrics": {"report-type": "x"},
        "signRequest": {"method": "GET", "region": "us-east-1", "uri": "http://store/b/t", "headers": {}},
    }
    query = {"parent": ns} if operation == "listNamespaces" else {}
    body = bodies.get(operation, {}) if route.method == "POST" else None
    return route.method, path, body, query


# What each operation needs on the namespace or on something in it.
MATRIX: dict[str, str] = {
    "listNamespaces": "discover",
    "createNamespace": "create",
    "loadNamespaceMetadata": "discover",
    "namespaceExists": "discover",
    "dropNamespace": "drop",
    "updateProperties": "write",
    "listTables": "discover",
    "createTable": "create",
    "loadTable": "read",
    "updateTable": "write",
    "dropTable": "drop",
    "tableExists": "discover",
    "loadCredentials": "read",
    "signRequest": "read",
    "reportMetrics": "read",
    "planTableScan": "read",
    "fetchPlanningResult": "read",
    "cancelPlanning": "read",
    "fetchScanTasks": "read",
    "registerTable": "register",
    "unregisterTable": "drop+read",
    "renameTable": "drop+create",
    "commitTransaction": "write",
    "listViews": "discover",
    "createView": "create",
    "loadView": "read",
    "replaceView": "write",
    "dropView": "drop",
    "viewExists": "discover",
    "renameView": "drop+create",
    "registerView": "register",
    "listFunctions": "discover",
    "loadFunction": "discover",
    "findReferences": "maintain",
    "listIndexes": "read",
    "createIndex": "maintain",
    "loadIndex": "read",
    "replaceIndex": "maintain",
    "dropIndex": "drop",
    "searchTable": "read",
    "listNamespaceGrants": "manage",
    "changeNamespaceGrants": "manage",
    "listTableGrants": "manage",
    "changeTableGrants": "manage",
    "listViewGrants": "manage",
    "changeViewGrants": "manage",
    "listIndexGrants": "manage",
    "changeIndexGrants": "manage",
}
# Those that need manage on what is above all namespaces: see test_access_kinds.py.
ABOVE = {
    "listServerGrants": "server",
    "changeServerGrants": "server",
    "listWarehouseGrants": "warehouse",
    "changeWarehouseGrants": "warehouse",
}
OPEN = {"getToken", "issueToken", "jwks", "livez", "readyz", "openapi"}
ELSEWHERE = OPEN | {"getConfig", "metrics", "findRoles"}  # are about no namespace


def restore(admin: Client, ns: str) -> None:
    """The namespace with a table and a view in it, and nothing else."""
    admin.post("/namespaces", {"namespace": [ns]})
    admin.post(f"/namespaces/{ns}/tables", {"name": "t", "schema": SCHEMA})
    admin.post(f"/namespaces/{ns}/views", VIEW)
    for name in ("new", "renamed"):
        admin.delete(f"/namespaces/{ns}/tables/{name}")
    for name in ("new_view", "renamed_view"):
        admin.delete(f"/namespaces/{ns}/views/{name}")
    admin.delete(f"/namespaces/{ns}%1Fsub")


def test_the_matrix_has_every_route() -> None:
    assert set(MATRIX) | set(ABOVE) | ELSEWHERE == {route.operation for route in (*ROUTES, *OWN_ROUTES)}


def test_every_route_for_every_privilege_on_own_foreign_and_missing_objects(guarded: Guarded) -> None:
    for ns in ("own", "foreign"):
        restore(guarded.admin, ns)
    for privilege in (None, *Privilege):
        grants = [] if privilege is None else [(privilege.value, namespace("own"))]
        client = guarded.user(f"with-{privilege or 'nothing'}", *grants)
        held = included([privilege]) if privilege is not None else frozenset()
        for operation, needed in MATRIX.items():
            own = client.raw(*send(operation, "own"))
            if own.status < 400:
                restore(guarded.admin, "own")
            case = (privilege, operation, own.status, own.body)
            if set(needed.split("+")) <= held:
                assert own.status not in (401, 403), case
                assert kind_of(own) not in UNSEEN, case
            elif privilege is None:
                assert own.status == 404, case
                assert own.body is None or kind_of(own) == "NoSuchWarehouseException", case
            else:
                assert own.status == 403, case
            foreign, missing = (client.raw(*send(operation, ns)) for ns in ("foreign", "missing"))
            assert foreign.status == missing.status == 404, (privilege, operation, foreign.body, missing.body)
            assert kind_of(foreign) in (*UNSEEN, ""), case
            assert _same(foreign, "foreign") == _same(missing, "missing")


def send(operation: str, ns: str) -> tuple[Any, ...]:
    method, path, body, query = request_of(operation, ns)
    return method, path + "".join(f"?{key}={value}" for key, value in query.items()), body


def _same(answer: Answer, ns: str) -> str:
    return str(answer.body).replace(ns, "NS")


def test_grants_on_one_table_show_its_namespace_and_nothing_else_of_it(guarded: Guarded) -> None:
    for name in ("a", "b", "c"):
        guarded.admin.create(name)
    guarded.admin.create("x", namespace="hidden")
    ann = guarded.user("ann", ("read", table("b")))
    assert ann.get("/namespaces").body["namespaces"] == [["ns"]]
    assert [entry["name"] for entry in ann.get("/namespaces/ns/tables").body["identifiers"]] == ["b"]
    assert ann.get("/namespaces/ns").status == 200
    assert ann.get("/namespaces/ns/tables/b").status == 200
    assert ann.get("/namespaces/ns/tables/a").status == 404
    assert ann.delete("/namespaces/ns/tables/b").status == 403
    assert ann.delete("/namespaces/ns").status == 403
    assert ann.post("/namespaces/ns/tables", {"name": "d", "schema": SCHEMA}).status == 403
    assert ann.get("/namespaces/hidden").status == 404


def test_lists_are_filtered_before_they_are_cut_into_pages(guarded: Guarded) -> None:
    for number in range(12):
        guarded.admin.create(f"t{number:02}")
        guarded.admin.post("/namespaces", {"namespace": [f"n{number:02}"]})
    grants = [("read", table(f"t{number:02}")) for number in (3, 7, 11)]
    ann = guarded.user("ann", *grants, *(("read", namespace(f"n{number:02}")) for number in (0, 5, 11)))
    pages, names, token = 0, [], ""
    while True:
        page = ann.get("/namespaces/ns/tables", pageSize="2", pageToken=token).body
        pages, names = pages + 1, names + [entry["name"] for entry in page["identifiers"]]
        token = page["next-page-token"]
        if not token:
            break
    assert (pages, names) == (2, ["t03", "t07", "t11"])
    first = ann.get("/namespaces", pageSize="3", pageToken="").body
    assert first["namespaces"] == [["n00"], ["n05"], ["n11"]]
    assert ann.get("/namespaces", pageSize="3", pageToken=first["next-page-token"]).body["namespaces"] == [["ns"]]


def test_a_nested_namespace_shows_those_above_it_and_no_sibling_with_a_longer_name(guarded: Guarded) -> None:
    for levels in (["a"], ["a", "b"], ["a", "b", "c"], ["a", "bb"], ["ab"]):
        guarded.admin.post("/namespaces", {"namespace": levels})
    ann = guarded.user("ann", ("read", namespace("a\x1fb\x1fc")))
    assert ann.get("/namespaces").body["namespaces"] == [["a"]]
    assert ann.get("/namespaces", parent="a").body["namespaces"] == [["a", "b"]]
    assert [ann.get(f"/namespaces/{key}").status for key in ("a", "a%1Fb", "a%1Fbb", "ab")] == [200, 200, 404, 404]
    guarded.grant("create", namespace("a\x1fb"), "ann")
    assert ann.post("/namespaces", {"namespace": ["a", "b", "d"]}).status == 200
    assert ann.post("/namespaces", {"namespace": ["a", "e"]}).status == 403


def test_a_warehouse_without_grants_does_not_exist(guarded: Guarded) -> None:
    guarded.admin.create()
    ann = guarded.user("ann", ("read", namespace("ns")))
    for path in (
        "/v1/config?warehouse={}",
        "/v1/{}/namespaces",
        "/v1/{}/namespaces/ns/tables/t",
        "/v1/{}/namespaces/x",
    ):
        hidden, missing = (ann.raw("GET", path.format(name)) for name in ("cold", "none"))
        assert (hidden.status, missing.status) == (404, 404)
        assert _same(hidden, "cold") == _same(missing, "none")
        assert "cold" not in str(missing.body)


def test_a_caller_without_grants_does_not_learn_the_name_of_the_default_warehouse(guarded: Guarded) -> None:
    refused = guarded.user("ann").raw("GET", "/v1/config")
    assert refused.error[:2] == (404, "NoSuchWarehouseException")
    assert "default" not in str(refused.body)


def test_properties_of_a_namespace_are_for_callers_with_grants_on_it(guarded: Guarded) -> None:
    guarded.admin.post("/namespaces", {"namespace": ["ns"], "properties": {"budget": "42"}})
    guarded.admin.create("t")
    ann = guarded.user("ann", ("read", table("t")))
    assert ann.get("/namespaces/ns").body == {"namespace": ["ns"], "properties": {}}
    guarded.grant("discover", namespace("ns"), "ann")
    assert ann.get("/namespaces/ns").body["properties"]["budget"] == "42"


# --- changes ---------------------------------------------------------------------------------------------------------


def test_the_creator_of_a_table_manages_it_until_it_is_dropped(guarded: Guarded) -> None:
    guarded.admin.post("/namespaces", {"namespace": ["ns"]})
    ann = guarded.user("ann", ("create", namespace("ns")))
    bob = guarded.user("bob", ("create", namespace("ns")))
    ann.create("mine")
    assert ann.commit({"action": "set-properties", "updates": {"a": "b"}}, table="mine").status == 200
    assert bob.get("/namespaces/ns/tables/mine").status == 403
    assert ann.delete("/namespaces/ns/tables/mine", purgeRequested="true").status == 204
    bob.create("mine")
    assert bob.load("mine")["metadata"]["table-uuid"]
    assert ann.get("/namespaces/ns/tables/mine").status == 403


def test_grants_move_with_a_renamed_table_and_both_sides_are_needed(guarded: Guarded) -> None:
    guarded.admin.create("t")
    guarded.admin.post("/namespaces", {"namespace": ["to"]})
    ann = guarded.user("ann", ("manage", table("t")))
    bob = guarded.user("bob", ("manage", table("t")))
    guarded.grant("create", namespace("to"), "bob")
    body = {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["to"], "name": "u"}}
    assert ann.post("/tables/rename", body).error[:2] == (404, "NoSuchNamespaceException")
    assert bob.post("/tables/rename", body).status == 204
    assert ann.get("/namespaces/to/tables/u").status == 200
    guarded.admin.create("t")
    assert ann.get("/namespaces/ns/tables/t").status == 404


@pytest.mark.parametrize("kind", ["table", "view"])
def test_drop_alone_does_not_move_a_table_into_a_namespace_of_the_caller(guarded: Guarded, kind: str) -> None:
    restore(guarded.admin, "ns")
    guarded.admin.post("/namespaces", {"namespace": ["own"]})
    name = kind[0]
    ann = guarded.user("ann", ("purge", Target(kind, "default", "ns", name)), ("manage", namespace("own")))
    guarded.grant("create", namespace("ns"), "ann")
    source = {"namespace": ["ns"], "name": name}
    body = {"source": source, "destination": {"namespace": ["own"], "name": name}}
    refused = ann.post(f"/{kind}s/rename", body).error
    assert refused[:2] == (403, "ForbiddenException")
    assert "manage" in refused[2]
    assert ann.post(f"/{kind}s/rename", body | {"destination": source | {"name": "renamed"}}).status == 204
    assert ann.get(f"/namespaces/ns/{kind}s/renamed").status == 403


def test_unregister_answers_with_metadata_and_needs_read_as_well(guarded: Guarded) -> None:
    guarded.admin.create("t")
    ann = guarded.user("ann", ("drop", table("t")))
    assert ann.post("/namespaces/ns/tables/t/unregister", {}).error[:2] == (403, "ForbiddenException")
    guarded.grant("read", table("t"), "ann")
    assert ann.post("/namespaces/ns/tables/t/unregister", {}).status == 200


def test_a_commit_of_several_tables_is_checked_for_each(guarded: Guarded) -> None:
    for name in ("a", "b"):
        guarded.admin.create(name)
    ann = guarded.user("ann", ("write", table("a")))
    update = [{"action": "set-properties", "updates": {"by": "ann"}}]
    changes = [
        {"identifier": {"namespace": ["ns"], "name": name}, "requirements": [], "updates": update} for name in "ab"
    ]
    refused = ann.post("/transactions/commit", {"table-changes": changes})
    assert refused.error == (404, "NoSuchTableException", "Table does not exist: ns.b")
    guarded.grant("read", table("b"), "ann")
    assert ann.post("/transactions/commit", {"table-changes": changes}).status == 403
    assert "by" not in guarded.admin.load("a")["metadata"]["properties"]
    guarded.grant("write", table("b"), "ann")
    assert ann.post("/transactions/commit", {"table-changes": changes}).status == 204


def test_a_stale_commit_is_a_conflict_to_who_may_write_and_to_no_one_else(guarded: Guarded) -> None:
    guarded.admin.create()
    guarded.admin.post("/namespaces", {"namespace": ["elsewhere"]})
    clients = [guarded.user("stranger"), guarded.user("reader", ("read", table("t")))]
    clients += [guarded.user("writer", ("write", table("t"))), guarded.user("other", ("write", namespace("elsewhere")))]
    change = {"action": "set-properties", "updates": {"a": "b"}}
    stale = [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 7}]
    headers: list[dict[str, str]] = [{}, {"Idempotency-Key": str(uuid.uuid4())}]
    for header in headers:
        answers = [client.commit(change, requirements=stale, headers=header).status for client in clients]
        assert answers == [404, 403, 409, 404]


def test_a_location_changes_only_with_manage(guarded: Guarded, tmp_path: Path) -> None:
    guarded.admin.create("t")
    ann = guarded.user("ann", ("maintain", table("t")))
    for update in (
        {"action": "set-location", "location": str(tmp_path / "warehouse" / "elsewhere")},
        {"action": "set-properties", "updates": {"write.data.path": str(tmp_path / "warehouse" / "elsewhere")}},
    ):
        assert ann.commit(update).error[:2] == (403, "ForbiddenException")
    guarded.grant("manage", table("t"), "ann")
    inside = {"write.data.path": str(tmp_path / "warehouse" / "ns" / "t" / "files")}
    assert ann.commit({"action": "set-properties", "updates": inside}).status == 200


def test_a_key_does_no_more_than_its_scopes(guarded: Guarded) -> None:
    guarded.admin.create()
    client = guarded.client(guarded.token("ann", roles=["admin"], scopes=["read"]))
    assert client.get("/namespaces/ns/tables/t").status == 200
    assert client.commit({"action": "set-properties", "updates": {"a": "b"}}).status == 403
    assert client.delete("/namespaces/ns/tables/t").status == 403


# --- revocation ------------------------------------------------------------------------------------------------------


def test_what_is_revoked_ends_at_once_on_all_servers(guarded: Guarded, database: str, tmp_path: Path) -> None:
    guarded.admin.create()
    token = guarded.token("ann")
    guarded.grant("write", table("t"), "ann")
    with running_catalog(tmp_path, database=database, authentication="keys") as other:
        clients = [guarded.client(token), guarded.client(token, uri=other.uri)]
        change = {"action": "set-properties", "updates": {"a": "b"}}
        for client in clients * 2:
            client.load()
            assert client.commit(change).status == 200
        guarded.revoke("write", table("t"), "ann")
        assert [client.get("/namespaces/ns/tables/t").status for client in clients] == [404, 404]
        assert [client.commit(change).status for client in clients] == [404, 404]
        guarded.grant("read", table("t"), "ann")
        assert [client.get("/namespaces/ns/tables/t").status for client in clients] == [200, 200]


def test_a_grant_that_ends_while_a_commit_is_under_way_stops_it(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded.admin.create()
    ann = guarded.user("ann", ("write", table("t")))
    files = guarded.server.app.ctx.files
    write = type(files).write_versions

    def revoke_first(self: Any, versions: Any) -> None:
        write(self, versions)
        guarded.revoke("write", table("t"), "ann")

    monkeypatch.setattr(type(files), "write_versions", revoke_first)
    assert ann.commit({"action": "set-properties", "updates": {"a": "b"}}).status == 404
    monkeypatch.undo()
    assert "a" not in guarded.admin.load()["metadata"]["properties"]


def test_a_key_that_ends_while_a_commit_is_under_way_stops_it(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded.admin.create()
    token = guarded.token("ann", roles=["admin"])
    ann = guarded.client(token)
    files = guarded.server.app.ctx.files
    write = type(files).write_versions

    def revoke_first(self: Any, versions: Any) -> None:
        write(self, versions)
        revoke_token(guarded.database, token.split("_")[1], now_ms=now_ms())

    monkeypatch.setattr(type(files), "write_versions", revoke_first)
    assert ann.commit({"action": "set-properties", "updates": {"a": "b"}}).status == 401
    monkeypatch.undo()
    assert "a" not in guarded.admin.load()["metadata"]["properties"]


# --- what belongs to a principal -------------------------------------------------------------------------------------


def test_an_idempotency_key_belongs_to_its_principal(guarded: Guarded) -> None:
    guarded.admin.create()
    ann, bob = (guarded.user(name, ("manage", namespace("ns"))) for name in ("ann", "bob"))
    headers = {"Idempotency-Key": str(uuid.uuid4())}
    body = {"name": "new", "schema": SCHEMA}
    created = ann.post("/namespaces/ns/tables", body, headers=headers)
    assert created.status == 200
    assert bob.post("/namespaces/ns/tables", body, headers=headers).status == 409
    again = ann.post("/namespaces/ns/tables", body, headers=headers)
    assert again.body["metadata"]["table-uuid"] == created.body["metadata"]["table-uuid"]
    guarded.revoke("manage", namespace("ns"), "ann")
    assert ann.post("/namespaces/ns/tables", body, headers=headers).status == 404


def test_a_drop_that_is_sent_again_is_answered_again_though_its_grant_is_gone(guarded: Guarded) -> None:
    guarded.admin.create()
    ann, bob = (guarded.user(name, ("drop", table("t"))) for name in ("ann", "bob"))
    headers = {"Idempotency-Key": str(uuid.uuid4())}
    drop = ("DELETE", "/namespaces/ns/tables/t")
    assert ann.call(*drop, headers=headers).status == 204
    assert ann.call(*drop, headers=headers).status == 204
    assert bob.call(*drop, headers=headers).status == 404
    assert ann.call(*drop).status == 404


def test_a_plan_belongs_to_its_principal_and_rights_are_checked_at_each_fetch(guarded: Guarded) -> None:
    guarded.admin.create()
    ann, bob = (guarded.user(name, ("read", table("t"))) for name in ("ann", "bob"))
    plan = ann.post("/namespaces/ns/tables/t/plan", {}).body["plan-id"]
    fetch = f"/namespaces/ns/tables/t/plan/{plan}"
    assert ann.get(fetch).status == 200
    assert bob.get(fetch).error[:2] == (404, "NoSuchPlanIdException")
    guarded.revoke("read", table("t"), "ann")
    assert ann.get(fetch).error[:2] == (404, "NoSuchWarehouseException")


def test_references_do_not_name_tables_that_the_caller_may_not_see(guarded: Guarded) -> None:
    location = guarded.admin.create("secret")["metadata-location"]
    guarded.admin.create("own")
    body = {"files": [location], "other-than": {"namespace": ["ns"], "name": "own"}}
    ann = guarded.user("ann", ("maintain", table("own")))
    answer = ann.post("/tables/references", body).body
    assert [entry["file"] for entry in answer["referenced"]] == [location]
    assert "secret" not in str([entry["table"] for entry in answer["referenced"]])
    assert guarded.admin.post("/tables/references", body).body["referenced"][0]["table"] == "ns.secret"


def test_metrics_do_not_name_tables_to_callers_who_may_not_see_all(guarded: Guarded) -> None:
    counts = {'frazil_upkeep_debt{table="hidden.t"}': 2.0, 'frazil_upkeep_runs_total{outcome="done"}': 1.0}
    guarded.server.app.ctx.telemetry.watch(lambda: dict(counts))
    clients = {
        "admin": guarded.admin,
        "scraper": guarded.user("scraper", ("discover", SERVER)),
        "manager": guarded.user("manager", ("manage", Target("warehouse", "default"))),
        "stranger": guarded.user("stranger"),
    }
    texts = {
        who: client.session.get(f"{guarded.server.uri}/metrics", timeout=60).text for who, client in clients.items()
    }
    assert {who: "hidden.t" in text for who, text in texts.items()} == {
        **dict.fromkeys(("admin", "scraper"), True),
        **dict.fromkeys(("manager", "stranger"), False),
    }
    assert all('frazil_upkeep_runs_total{outcome="done"} 1' in text for text in texts.values())


def test_without_authentication_a_token_makes_no_difference(tmp_path: Path) -> None:
    with running_catalog(tmp_path) as server:
        client = Client(server.uri)
        client.session.headers["Authorization"] = "Bearer whatever"
        client.create()
        assert client.load()
        rows = server.app.ctx.database.read().rows("SELECT grantee FROM grants")
        client.session.close()
    assert rows == [("admin",)]


def test_a_role_gives_its_members_what_it_is_granted_until_they_leave(guarded: Guarded) -> None:
    from frazil.catalog import change_grant, change_member, create_role, drop_role

    guarded.admin.create()
    create_role(guarded.database, "analyst", now_ms=now_ms())
    change_grant(guarded.database, "read", SERVER, "analyst", adding=True, by="test", now_ms=now_ms())
    ann, bob = (guarded.client(guarded.token(name, roles=["analyst"])) for name in ("ann", "bob"))
    assert [client.get("/namespaces/ns/tables/t").status for client in (ann, bob)] == [200, 200]
    change_member(guarded.database, "analyst", "ann", member=False, now_ms=now_ms())
    assert [client.get("/namespaces/ns/tables/t").status for client in (ann, bob)] == [404, 200]
    drop_role(guarded.database, "analyst", now_ms=now_ms())
    assert bob.get("/namespaces/ns/tables/t").status == 404


def test_vended_credentials_have_no_more_rights_than_the_caller(guarded: Guarded) -> None:
    guarded.admin.create()
    ctx, name = guarded.server.app.ctx, Name(("ns",), "t")

    def rights(principal: str, *privileges: str, staged: bool = False, scopes: Sequence[str] = ()) -> Rights:
        token = guarded.token(principal, scopes=scopes)
        for privilege in privileges:
            guarded.grant(privilege, table("t"), principal)
        request = Request("GET", "", {}, headers={b"authorization": f"Bearer {token}".encode()})
        ctx.gate.authenticate(request)
        caller, allowed = allowed_rights(ctx, request, name, staged=staged)
        assert caller == principal
        return allowed

    read, write, delete = Rights.READ, Rights.WRITE, Rights.DELETE
    assert rights("a", "read") == read
    assert rights("b", "write") == read | write
    assert rights("c", "maintain") == rights("d", "manage") == read | write | delete
    assert rights("e", "read", "drop") == read | delete
    assert rights("f", "manage", scopes=["read"]) == read
    assert rights("g", staged=True) == read | write
    for principal, privileges in (("h", ["discover"]), ("i", ["drop"]), ("j", [])):
        with pytest.raises(NotVendable):
            rights(principal, *privileges)
    with pytest.raises(NotVendable):
        rights("k", staged=True, scopes=["discover"])
    assert allowed_rights(ctx, Request("GET", "", {}), name) == ("anonymous", Rights.ALL)


# --- the audit log ---------------------------------------------------------------------------------------------------


def records(guarded: Guarded, **wanted: Any) -> list[tuple[str, str, str, str]]:
    return [
        (record.actor, record.operation, record.decision, record.objects)
        for record in newest_records(guarded.database.read(), limit=1000, **wanted)
    ]


def refusals(guarded: Guarded) -> list[tuple[str, str, str, str]]:
    return [(record.actor, record.operation, record.decision, record.objects) for record in guarded.refusals()]


def test_a_change_is_recorded_in_its_own_transaction(guarded: Guarded) -> None:
    guarded.admin.create()
    ann = guarded.user("ann", ("write", table("t")))
    change = {"action": "set-properties", "updates": {"a": "b"}}
    assert ann.commit(change, headers={"X-Request-ID": "request-7"}).status == 200
    other_table = [{"type": "assert-table-uuid", "uuid": str(uuid.uuid4())}]
    assert ann.commit({"action": "set-properties", "updates": {"c": "d"}}, requirements=other_table).status == 409
    assert records(guarded, actor="ann") == [("ann", "updateTable", "allowed", "write table default: ns.t")]
    (record,) = newest_records(guarded.database.read(), limit=9, actor="ann")
    assert (record.address, record.request_id, record.note) == ("127.0.0.1", "request-7", "status 200")
    assert record.key_id in {key.id for key in list_keys(guarded.database.read()) if key.principal == "ann"}
    operations = [operation for actor, operation, _, _ in records(guarded) if actor in ("root", "test")]
    assert operations == ["createNamespace", "createTable", "grant"]


def test_refusals_are_recorded_on_the_quick_path_too_and_a_flood_is_not(guarded: Guarded) -> None:
    guarded.admin.create()
    ann = guarded.user("ann", ("read", table("t")))
    token = guarded.token("eve")
    revoke_token(guarded.database, token.split("_")[1], now_ms=now_ms())
    assert ann.get("/namespaces/ns/tables/other").status == 404
    assert ann.delete("/namespaces/ns/tables/t").status == 403
    assert guarded.client(token).get("/namespaces/ns/tables/t").status == 401
    assert refusals(guarded) == [
        ("ann", "loadTable", "refused", "read table default: ns.other"),
        ("ann", "dropTable", "refused", "drop table default: ns.t"),
        ("", "loadTable", "refused", ""),
    ]
    last = newest_records(guarded.database.read(), limit=1, decision="refused")[0]
    assert last.key_id == token.split("_")[1]
    for _ in range(100):
        assert ann.get("/namespaces/ns/tables/other").status == 404
    assert len(refusals(guarded)) < 60


def test_a_read_and_a_replayed_drop_are_no_refusals(guarded: Guarded) -> None:
    guarded.admin.create()
    ann = guarded.user("ann", ("manage", table("t")))
    ann.load()
    headers = {"Idempotency-Key": str(uuid.uuid4())}
    assert [ann.call("DELETE", "/namespaces/ns/tables/t", headers=headers).status for _ in range(2)] == [204, 204]
    assert refusals(guarded) == []
    assert records(guarded, actor="ann") == [("ann", "dropTable", "allowed", "drop table default: ns.t")]
