"""Grants on each kind of object: what `manage` on it opens, by every route, and what it leaves closed."""

from __future__ import annotations

import pytest

from frazil.catalog import Target, change_grant, create_warehouse, drop_warehouse
from frazil.catalog.routes import OWN_ROUTES, ROUTES
from frazil.catalog.storage.manage import Operator
from tests.contract.catalog.test_access import ABOVE, MATRIX, UNSEEN, kind_of, restore, send
from tests.contract.catalog.test_indexes import record
from tests.kit.access import SERVER, Guarded, namespace, now_ms, pair, table

OBJECTS = {
    "server": SERVER,
    "warehouse": Target("warehouse", "default"),
    "namespace": namespace("own"),
    "table": table("t", "own"),
    "view": Target("view", "default", "own", "v"),
    "index": Target("index", "default", "own", "t", "i"),
}
INSIDE = {
    "server": set(OBJECTS),
    "warehouse": set(OBJECTS) - {"server"},
    "namespace": {"namespace", "table", "view", "index"},
    "table": {"table", "index"},
    "view": {"view"},
    "index": {"index"},
}
# Operations that are about something else than the last object in their path, in the order in which it is asked for.
IN_BODIES = {
    "renameTable": ("table", "namespace"),
    "renameView": ("view", "namespace"),
    "commitTransaction": ("table",),
    "findReferences": ("table",),
    "listNamespaces": ("namespace",),
    "createNamespace": ("namespace",),
}
TEMPLATES = {route.operation: route.template for route in (*ROUTES, *OWN_ROUTES)}
WRITES = {route.operation for route in (*ROUTES, *OWN_ROUTES) if route.writes}


def objects_of(operation: str) -> tuple[str, ...]:
    """What an operation needs a privilege on."""
    if operation in IN_BODIES or operation in ABOVE:
        return IN_BODIES.get(operation) or (ABOVE[operation],)
    return (next(kind for kind in ("index", "table", "view", "namespace") if f"{{{kind}}}" in TEMPLATES[operation]),)


def expected(operation: str, granted: str) -> int:
    """The status for who manages an object of this kind; 200 stands for what is not refused."""
    for kind in objects_of(operation):
        if kind in INSIDE[granted]:
            continue
        if kind != "server" and granted not in INSIDE[kind]:
            return 404
        if MATRIX.get(operation) != "discover":  # what holds something that can be seen can be seen itself
            return 403
    return 200


def prepare(guarded: Guarded, kind: str) -> None:
    """All objects as they were, and the grant on one of them, which ends if the object is dropped."""
    for ns in ("own", "foreign"):
        restore(guarded.admin, ns)
        location = guarded.admin.load("t", ns)["metadata"]["location"]
        guarded.admin.post(f"/namespaces/{ns}/tables/t/indexes", {"name": "i", "record": record(location)})
    change_grant(guarded.database, "manage", OBJECTS[kind], f"user:{kind}", adding=True, by="test", now_ms=now_ms())


@pytest.mark.parametrize("kind", OBJECTS)
def test_manage_on_an_object_opens_it_and_what_is_in_it_by_every_route(guarded: Guarded, kind: str) -> None:
    client = guarded.user(kind)
    prepare(guarded, kind)
    for operation in (*MATRIX, *ABOVE):
        answer = client.raw(*send(operation, "own"))
        case = (kind, operation, answer.status, answer.body)
        wanted = expected(operation, kind)
        assert answer.status == wanted if wanted != 200 else answer.status not in (401, 403), case
        assert wanted == 404 or kind_of(answer) not in UNSEEN, case
        if answer.status < 300 and operation in WRITES:
            prepare(guarded, kind)
        if operation in MATRIX and kind not in ("server", "warehouse"):
            foreign = client.raw(*send(operation, "foreign"))
            assert (foreign.status, kind_of(foreign) in (*UNSEEN, "")) == (404, True), case


def test_grants_on_the_server_and_on_a_warehouse_are_changed_over_rest(guarded: Guarded) -> None:
    guarded.admin.create()
    ann, bob = guarded.user("ann"), guarded.user("bob")
    change = {"grant": [pair("user:ann", "read")]}
    assert guarded.admin.raw("POST", "/access/grants/default", change).body["grants"] == [
        {"grantee": "user:ann", "privilege": "read", "creator": False}
    ]
    assert (ann.get("/namespaces/ns/tables/t").status, bob.get("/namespaces/ns/tables/t").status) == (200, 404)
    assert [ann.raw("GET", path).status for path in ("/access/grants/default", "/access/grants")] == [403, 403]
    assert bob.raw("GET", "/access/grants/default").error[:2] == (404, "NoSuchWarehouseException")
    assert guarded.admin.raw("POST", "/access/grants", {"grant": [pair("user:bob", "manage")]}).status == 200
    listed = bob.raw("GET", "/access/grants").body["grants"]
    assert [(grant["grantee"], grant["privilege"]) for grant in listed] == [("admin", "manage"), ("user:bob", "manage")]
    assert bob.raw("POST", "/access/grants/default", {"revoke": change["grant"]}).body == {"grants": []}
    assert ann.get("/namespaces/ns/tables/t").status == 404
    assert bob.raw("POST", "/access/grants", {"revoke": [pair("user:bob", "manage")]}).status == 200
    assert bob.raw("GET", "/access/grants").status == 403


@pytest.mark.parametrize("change", ["grant", "revoke"])
def test_names_that_do_not_exist_are_errors_of_every_route_of_grants(guarded: Guarded, change: str) -> None:
    guarded.admin.create()
    for path in ("/access/grants", "/access/grants/default", "/v1/default/namespaces/ns/tables/t/grants"):
        for wrong in (pair("stranger", "read"), pair("user:stranger", "read"), pair("admin", "everything")):
            answer = guarded.admin.raw("POST", path, {change: [wrong]})
            assert answer.error[:2] == (400, "BadRequestException"), (path, wrong)
        assert guarded.admin.raw("POST", path, {change: [pair("user:corp/new", "read")]}).status == 200
    for path in ("/access/grants/none", "/v1/none/namespaces/ns/grants"):
        answer = guarded.admin.raw("POST", path, {change: [pair("admin", "read")]})
        assert answer.error[:2] == (404, "NoSuchWarehouseException"), path


def test_a_warehouse_that_was_dropped_gets_no_grant_from_a_server_that_has_not_noticed(guarded: Guarded) -> None:
    operator, body = Operator("test", now_ms()), {"grant": [pair("user:root", "read")]}
    create_warehouse(guarded.database, "stored", f"{guarded.server.folder}/stored", {}, None, operator)
    assert guarded.admin.raw("POST", "/access/grants/stored", body).status == 200
    guarded.server.app.ctx.stored.close()  # type: ignore[union-attr]  # it looks no more
    drop_warehouse(guarded.database, "stored", operator)
    assert guarded.admin.raw("POST", "/access/grants/stored", body).error[:2] == (404, "NoSuchWarehouseException")
    assert guarded.database.read().rows("SELECT count(*) FROM grants WHERE warehouse = 'stored'")[0][0] == 0
