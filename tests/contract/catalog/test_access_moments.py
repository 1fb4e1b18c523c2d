"""Grants that end while a request is under way: after what is remembered of them was looked at, and before the
transaction of the change. The check is part of another statement in both cases.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from frazil.catalog import app, faults, newest_records, revoke_token
from frazil.catalog.access.gate import Gate
from frazil.catalog.admitted import AdmittedReads
from frazil.catalog.routes import OWN_ROUTES, ROUTES
from frazil.catalog.store import access
from frazil.catalog.warehouse import MetadataFiles
from tests.kit.access import VIEW, Guarded, after, guarded_catalog, namespace, now_ms, table
from tests.kit.catalog_databases import SCHEMA, Answer, Client

SET = {"action": "set-properties", "updates": {"a": "b"}}
NEW = {"name": "new", "schema": SCHEMA}


def change(name: str, *updates: dict[str, Any]) -> dict[str, Any]:
    return {"identifier": {"namespace": ["ns"], "name": name}, "requirements": [], "updates": list(updates)}


# A request of each operation that confirms what was assumed; none of them has an effect while it is only tried.
REQUESTS: dict[str, Callable[[Client], Answer]] = {
    "listTables": lambda client: client.get("/namespaces/ns/tables"),
    "listViews": lambda client: client.get("/namespaces/ns/views", pageSize="1"),
    "createTable": lambda client: client.post("/namespaces/ns/tables", NEW),
    "createView": lambda client: client.post("/namespaces/ns/views", VIEW | {"name": "new"}),
    "loadTable": lambda client: client.get("/namespaces/ns/tables/t"),
    "updateTable": lambda client: client.commit(SET),
    "commitTransaction": lambda client: client.post(
        "/transactions/commit", {"table-changes": [change("t", SET), change("u", SET)]}
    ),
}


@pytest.fixture
def guarded(guarded: Guarded) -> Guarded:
    for name in ("t", "u"):
        guarded.admin.create(name)
    return guarded


def state(guarded: Guarded) -> tuple[Any, ...]:
    """Everything that the requests above would change."""
    rows = guarded.database.read().rows
    pointers = sorted(rows("SELECT name, kind, metadata_location FROM relations"))
    return (
        pointers,
        sorted(rows("SELECT place FROM places")),
        sorted(rows("SELECT grantee, COALESCE(name, '') FROM grants")),
    )


def actions_of(guarded: Guarded, actor: str) -> list[tuple[str, str, str]]:
    records = newest_records(guarded.database.read(), limit=100, actor=actor, decision="allowed")
    return [(record.operation, record.objects, record.note) for record in records]


def move_pointer(guarded: Guarded, name: str) -> None:
    """What a commit of another server does. One of this server would wait for its turn."""
    rows = guarded.database.read().rows("SELECT metadata_location FROM relations WHERE name = ?", name)
    old = rows[0][0]
    new = f"{old.rpartition('/')[0]}/00001-moved.metadata.json"
    shutil.copy(old.removeprefix("file://"), new.removeprefix("file://"))
    guarded.database.write(lambda sql: sql.run("UPDATE relations SET metadata_location = ? WHERE name = ?", new, name))


def test_every_route_that_confirms_is_tested_here() -> None:
    assert REQUESTS.keys() == {route.operation for route in (*ROUTES, *OWN_ROUTES) if route.confirms}


def test_a_grant_that_ends_after_what_is_remembered_was_looked_at_is_not_used(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = guarded.user("ann", ("manage", namespace("ns")))
    for warm in (ann.post("/namespaces/ns/tables", NEW), ann.get("/namespaces/ns/tables"), ann.commit(SET)):
        assert warm.status == 200
    assert ann.delete("/namespaces/ns/tables/new").status == 204
    before = state(guarded)
    for operation, send in REQUESTS.items():
        assert ann.get("/namespaces/ns/tables/t").status == ann.get("/namespaces/ns/tables").status == 200
        after(monkeypatch, Gate, "remembers", lambda: guarded.revoke("manage", namespace("ns"), "ann"))
        assert (send(ann).status, state(guarded)[:2]) == (404, before[:2]), operation
        guarded.grant("manage", namespace("ns"), "ann")
    assert state(guarded) == before


def test_a_grant_or_key_that_ends_after_a_repeated_read_was_admitted_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with guarded_catalog(tmp_path, f"sqlite:///{tmp_path}/catalog.db") as guarded:
        guarded.admin.create("t")
        path = "/namespaces/ns/tables/t"
        for end, status in (("grant", 404), ("key", 401)):
            token = guarded.token(end)
            ann, key_id = guarded.client(token), token.split("_")[1]
            guarded.grant("read", table("t"), end)
            assert [ann.get(path).status for _ in range(3)] == [200, 200, 200]
            ends: dict[str, Callable[[], object]] = {
                "grant": partial(guarded.revoke, "read", table("t"), end),
                "key": partial(revoke_token, guarded.database, key_id, now_ms=now_ms()),
            }
            after(monkeypatch, AdmittedReads, "admit", ends[end])
            assert [ann.get(path).status for _ in range(2)] == [status, status], end


def test_a_repeated_read_without_a_warehouse_in_its_path_follows_the_default(tmp_path: Path) -> None:
    with guarded_catalog(tmp_path, f"sqlite:///{tmp_path}/catalog.db") as guarded:
        guarded.admin.create("t")
        ann = guarded.user("ann", ("read", table("t")))
        path = "/v1/namespaces/ns/tables/t"
        assert [ann.raw("GET", path).status for _ in range(3)] == [200, 200, 200]
        warehouses = guarded.server.app.ctx.warehouses
        warehouses._served.by_name["default"] = warehouses.named("cold")  # as if it were the default from now on
        assert ann.raw("GET", path).status == 404


def test_a_grant_or_key_that_ends_while_the_body_of_a_read_is_on_its_way_is_not_used(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign = {"method": "GET", "region": "x", "uri": "http://x/", "headers": {}}
    reads = {"plan": {}, "search": {"column": "data", "vectors": [[1.0]]}, "sign": sign, "tasks": {"plan-task": "x"}}
    for number, (operation, body) in enumerate(reads.items()):
        token = guarded.token(f"ann{number}")
        ann, end_key = guarded.client(token), partial(revoke_token, guarded.database, token.split("_")[1])
        guarded.grant("read", table("t"), f"ann{number}")
        guarded.grant("read", table("u"), f"ann{number}")
        path = f"/namespaces/ns/tables/t/{operation}"
        assert [ann.post(path, body).status in (200, 400, 404, 406) for _ in range(2)] == [True, True]
        after(monkeypatch, Gate, "authenticate", partial(guarded.revoke, "read", table("t"), f"ann{number}"))
        assert ann.post(path, body).error[:2] == (404, "NoSuchTableException"), operation
        after(monkeypatch, Gate, "authenticate", partial(end_key, now_ms=now_ms()))
        assert ann.post(path.replace("/t/", "/u/"), body).status == 401, operation


UUID = {"type": "assert-table-uuid", "uuid": "018f5a3e-0000-7000-8000-000000000009"}
# Requests of changes that end without a transaction, and what they answer to who has not lost anything.
UNCHANGED: dict[str, tuple[str, Any, int]] = {
    "nothing to commit": ("/namespaces/ns/tables/t", {"requirements": [], "updates": []}, 200),
    "a stale commit": ("/namespaces/ns/tables/t", {"requirements": [UUID], "updates": []}, 409),
    "nothing in a transaction": ("/transactions/commit", {"table-changes": [change("t"), change("u")]}, 204),
    "a staged table": ("/namespaces/ns/tables", NEW | {"stage-create": True}, 200),
    "a table that exists": ("/namespaces/ns/tables", NEW | {"name": "t"}, 409),
    "the same view": ("/namespaces/ns/views/v", {"requirements": [], "updates": []}, 200),
    "a malformed rename": ("/tables/rename", {"source": {}, "destination": {}}, 400),
}


@pytest.mark.parametrize("padding", [0, 70_000])
def test_a_key_that_ends_while_the_body_of_a_change_is_on_its_way_gets_no_answer(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, padding: int
) -> None:
    guarded.admin.post("/namespaces/ns/views", VIEW)
    before = state(guarded)[:2]
    for number, (what, (path, body, status)) in enumerate(UNCHANGED.items()):
        token = guarded.token(f"ann{number}-{padding}", roles=["admin"])
        ann, sent = guarded.client(token), {**body, "padding": "x" * padding}
        assert ann.post(path, sent).status == status, what
        guarded.server.app.ctx.gate._keys.clear()  # the caller is looked up again
        end_key = partial(revoke_token, guarded.database, token.split("_")[1], now_ms=now_ms())
        after(monkeypatch, Gate, "authenticate", end_key)
        assert ann.post(path, sent).error[:2] == (401, "NotAuthorizedException"), what
    assert state(guarded)[:2] == before


def test_a_grant_that_ends_while_the_body_of_a_change_is_on_its_way_is_not_used(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded.admin.post("/namespaces/ns/views", VIEW)
    ann = guarded.user("ann", ("manage", namespace("ns")))
    for what, (path, body, status) in UNCHANGED.items():
        assert ann.post(path, body).status == status, what
        guarded.server.app.ctx.gate._keys.clear()
        after(monkeypatch, Gate, "authenticate", lambda: guarded.revoke("manage", namespace("ns"), "ann"))
        assert ann.post(path, body).status == (404 if status != 400 else 400), what
        guarded.grant("manage", namespace("ns"), "ann")


REPLAYS: dict[str, tuple[str, Any, tuple[int, int, int]]] = {
    "the answer is kept": ("/namespaces/ns/tables/t", {"requirements": [], "updates": [SET]}, (200, 401, 403)),
    # it took its own grant along, and has no content
    "a rename": (
        "/tables/rename",
        {"source": {"namespace": ["ns"], "name": "u"}, "destination": {"namespace": ["ns"], "name": "w"}},
        (204, 401, 204),
    ),
}


@pytest.mark.parametrize("ends", ["key", "grant"])
@pytest.mark.parametrize("what", REPLAYS)
def test_a_request_is_not_replayed_to_who_lost_access_while_the_body_was_on_its_way(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, what: str, ends: str
) -> None:
    path, body, (status, without_key, without_grant) = REPLAYS[what]
    token = guarded.token("ann")
    for privilege, target in (("manage", table("u")), ("write", table("t")), ("create", namespace("ns"))):
        guarded.grant(privilege, target, "ann")
    ann, once = guarded.client(token), {"Idempotency-Key": "018f5a3e-0000-7000-8000-000000000002"}
    assert [ann.post(path, body, headers=once).status for _ in range(2)] == [status, status]
    end_key = partial(revoke_token, guarded.database, token.split("_")[1], now_ms=now_ms())
    end_grant = partial(guarded.revoke, "write", table("t"), "ann")
    after(monkeypatch, Gate, "authenticate", end_key if ends == "key" else end_grant)
    answer = ann.post(path, body, headers=once)
    assert answer.status == (without_key if ends == "key" else without_grant), answer.body


@pytest.mark.parametrize("path", ["/credentials", "/plan/x", "/grants"])
def test_a_grant_that_ends_while_a_read_waits_for_a_thread_is_not_used(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(app, "KNOWN_SECONDS", 0.0)
    ann = guarded.user("ann", ("manage", table("t")), ("read", table("u")))
    assert [ann.get(f"/namespaces/ns/tables/t{path}").status in (200, 404, 406) for _ in range(2)] == [True, True]
    after(monkeypatch, Gate, "authenticate", lambda: guarded.revoke("manage", table("t"), "ann"))
    assert ann.get(f"/namespaces/ns/tables/t{path}").error[:2] == (404, "NoSuchTableException")


@pytest.mark.parametrize("path", ["/credentials", "/plan/x", "/grants"])
def test_a_grant_that_ends_during_a_long_read_is_not_used(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    ann = guarded.user("ann", ("manage", table("t")), ("read", table("u")))

    def end() -> None:
        guarded.revoke("manage", table("t"), "ann")
        monkeypatch.setattr(app, "KNOWN_SECONDS", 0.0)  # as if the read had taken longer

    after(monkeypatch, Gate, "authorise", end)
    assert ann.get(f"/namespaces/ns/tables/t{path}").error[:2] == (404, "NoSuchTableException")


def test_a_read_during_which_grants_change_each_time_is_to_be_retried(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = guarded.user("ann", ("manage", table("t")))
    monkeypatch.setattr(app, "KNOWN_SECONDS", 0.0)
    authorise = Gate.authorise

    def change_grants(gate: Gate, *arguments: Any) -> None:
        authorise(gate, *arguments)
        guarded.database.write(access.raise_version)

    monkeypatch.setattr(Gate, "authorise", change_grants)
    assert ann.get("/namespaces/ns/tables/t/grants").status == 503


def test_a_caller_who_is_no_longer_known_gets_no_other_answer_than_that(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded.admin.create("new")
    wrong: list[tuple[str, str, Any]] = [
        ("POST", "/namespaces/ns/tables", NEW),  # exists
        ("POST", "/namespaces/none/tables", NEW),
        ("POST", "/namespaces/ns/tables/t", {"requirements": 7, "updates": []}),
        ("POST", "/namespaces/ns/tables/none", {"requirements": [], "updates": []}),
        ("POST", "/transactions/commit", {"table-changes": [change("t", {"action": "?"})]}),
        ("GET", "/namespaces/ns/tables/t?snapshots=some", None),
        ("GET", "/namespaces/none/tables?pageSize=7", None),
    ]
    for number, request in enumerate(wrong):
        token = guarded.token(f"ann{number}", roles=["admin"])
        ann, revoke = guarded.client(token), partial(revoke_token, guarded.database, token.split("_")[1])
        assert [ann.call(*request).status in (400, 404, 409) for _ in range(2)] == [True, True]
        after(monkeypatch, Gate, "recognise", partial(revoke, now_ms=now_ms()))
        assert ann.call(*request).status == 401, request


@pytest.mark.parametrize("operation", ["createTable", "createView", "updateTable", "commitTransaction"])
def test_a_grant_that_ends_before_the_transaction_of_a_change_stops_it(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    ann = guarded.user("ann", ("manage", namespace("ns")))
    before = state(guarded)
    after(monkeypatch, MetadataFiles, "write_versions", lambda: guarded.revoke("manage", namespace("ns"), "ann"))
    assert REQUESTS[operation](ann).status == 404
    guarded.grant("manage", namespace("ns"), "ann")
    assert (state(guarded), actions_of(guarded, "ann")) == (before, [])


def expiring(guarded: Guarded, monkeypatch: pytest.MonkeyPatch, name: str) -> tuple[Client, Callable[[], None]]:
    """A client of the role admin, and what lets its key expire."""
    gate, ends_ms = guarded.server.app.ctx.gate, now_ms() + 3_600_000
    monkeypatch.setattr(gate, "_clock", now_ms)
    client = guarded.client(guarded.token(name, roles=["admin"], expires_ms=ends_ms))
    return client, lambda: monkeypatch.setattr(gate, "_clock", lambda: ends_ms)


# Requests whose caller is always looked up.
OTHER_REQUESTS: dict[str, Callable[[Client], Answer]] = {
    "createNamespace": lambda client: client.post("/namespaces", {"namespace": ["new"]}),
    "changeTableGrants": lambda client: client.post("/namespaces/ns/tables/t/grants", {"grant": []}),
    "planTableScan": lambda client: client.post("/namespaces/ns/tables/t/plan", {}),
    "loadNamespaceMetadata": lambda client: client.get("/namespaces/ns"),
    "loadCredentials": lambda client: client.get("/namespaces/ns/tables/t/credentials"),
    "missing": lambda client: client.post("/namespaces/ns/tables/none/plan", {}),
}


def test_a_key_that_expires_while_the_body_is_on_its_way_is_not_used(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(guarded)
    looked_up = [("authenticate", operation, send) for operation, send in (REQUESTS | OTHER_REQUESTS).items()]
    recognised = [("recognise", operation, send) for operation, send in REQUESTS.items()]
    for moment, operation, send in (*looked_up, *recognised):
        client, expire = expiring(guarded, monkeypatch, f"{operation}-{moment}")
        if moment == "recognise":
            assert client.get("/namespaces/ns/tables").status == client.get("/namespaces/ns/tables/t").status == 200
        after(monkeypatch, Gate, moment, expire)
        assert send(client).error[:2] == (401, "NotAuthorizedException"), (operation, moment)
    assert state(guarded) == before


def test_a_key_that_expires_before_a_request_is_replayed_gets_no_answer(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, expire = expiring(guarded, monkeypatch, "ann")
    once = {"Idempotency-Key": "018f5a3e-0000-7000-8000-000000000001"}
    assert [client.commit(SET, headers=once).status for _ in range(2)] == [200, 200]
    after(monkeypatch, Gate, "authenticate", expire)
    assert client.commit(SET, headers=once).status == 401


@pytest.mark.parametrize("operation", ["createTable", "createView", "updateTable", "commitTransaction"])
def test_a_key_that_expires_before_the_transaction_of_a_change_stops_it(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    client, expire = expiring(guarded, monkeypatch, "ann")
    before = state(guarded)
    after(monkeypatch, MetadataFiles, "write_versions", expire)
    assert REQUESTS[operation](client).status == 401
    assert (state(guarded), actions_of(guarded, "ann")) == (before, [])


def test_a_change_that_was_made_before_the_key_expired_is_not_answered_with_401(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, expire = expiring(guarded, monkeypatch, "ann")
    monkeypatch.setattr(faults, "reach", lambda point: expire() if point == "commit.before-reply" else None)
    assert client.commit(SET).status == 200
    assert client.commit(SET).status == 401


def test_a_change_goes_on_if_what_ended_meanwhile_was_of_others(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = guarded.user("ann", ("write", namespace("ns")), ("create", namespace("ns")))
    for operation, noted in (
        ("createTable", "create namespace default: ns; new table default: ns.new"),
        ("updateTable", "write table default: ns.t"),
        ("commitTransaction", "write table default: ns.t; write table default: ns.u"),
    ):
        guarded.user(f"bob-{operation}", ("read", table("t")))
        revoke = partial(guarded.revoke, "read", table("t"), f"bob-{operation}")
        after(monkeypatch, MetadataFiles, "write_versions", revoke)
        assert REQUESTS[operation](ann).status in (200, 204)
        ((name, objects, note),) = actions_of(guarded, "ann")[-1:]
        assert (name, objects, note[:8]) == (operation, noted, "status 2")
    assert len(actions_of(guarded, "ann")) == 3
    assert ("user:ann", "new") in state(guarded)[2]


def test_a_change_that_loses_a_race_is_decided_again_and_recorded_once(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = guarded.user("ann", ("write", namespace("ns")), ("create", namespace("ns")))
    after(monkeypatch, MetadataFiles, "write_versions", lambda: move_pointer(guarded, "t"))
    assert ann.commit(SET).status == 200
    assert guarded.admin.load()["metadata"]["metadata-log"][-1]["metadata-file"].endswith("moved.metadata.json")
    after(monkeypatch, MetadataFiles, "write_versions", lambda: guarded.admin.create("new"))
    assert REQUESTS["createTable"](ann).status == 409
    assert [name for name, _, _ in actions_of(guarded, "ann")] == ["updateTable"]


def test_a_namespace_that_is_dropped_while_a_table_is_created_in_it_is_missing(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = guarded.user("ann")
    for client in (guarded.admin, ann):
        assert guarded.admin.post("/namespaces", {"namespace": ["late"]}).status == 200
        if client is ann:
            guarded.grant("create", namespace("late"), "ann")
        after(monkeypatch, MetadataFiles, "write_versions", lambda: guarded.admin.delete("/namespaces/late"))
        assert client.post("/namespaces/late/tables", NEW).status == 404


def test_creators_manage_what_they_create_if_they_do_not_already(guarded: Guarded) -> None:
    ann = guarded.user("ann", ("create", namespace("ns")))
    bob = guarded.user("bob", ("manage", namespace("ns")))
    assert [
        client.post("/namespaces/ns/tables", NEW | {"name": name}).status
        for client, name in ((ann, "a1"), (ann, "a2"), (bob, "b1"), (bob, "b2"))
    ] == [200] * 4
    grants = guarded.database.read().rows("SELECT grantee, privilege, name FROM grants WHERE name LIKE '__'")
    assert sorted(grants) == [("user:ann", "manage", "a1"), ("user:ann", "manage", "a2")]
