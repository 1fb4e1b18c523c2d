"""Grants that end while a request is under way: after what is remembered of them was looked at, and before the
transaction of the change. The check is part of another statement in both cases.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from frazil.catalog import app, newest_records, revoke_token
from frazil.catalog.access.gate import Gate
from frazil.catalog.routes import OWN_ROUTES, ROUTES
from frazil.catalog.warehouse import MetadataFiles
from tests.contract.catalog.test_access import VIEW
from tests.kit.access import Guarded, namespace, now_ms, table
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


def after(monkeypatch: pytest.MonkeyPatch, owner: type, method: str, action: Callable[[], object]) -> None:
    """Does something once, right after a method has returned."""
    original = getattr(owner, method)

    def call(self: Any, *arguments: Any) -> Any:
        result = original(self, *arguments)
        monkeypatch.setattr(owner, method, original)
        action()
        return result

    monkeypatch.setattr(owner, method, call)


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


@pytest.mark.parametrize("path", ["/credentials", "/plan/x", "/grants"])
def test_a_grant_that_ends_while_a_read_waits_for_a_thread_is_not_used(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(app, "KNOWN_SECONDS", 0.0)
    ann = guarded.user("ann", ("manage", table("t")), ("read", table("u")))
    assert [ann.get(f"/namespaces/ns/tables/t{path}").status in (200, 404, 406) for _ in range(2)] == [True, True]
    after(monkeypatch, Gate, "authenticate", lambda: guarded.revoke("manage", table("t"), "ann"))
    assert ann.get(f"/namespaces/ns/tables/t{path}").error[:2] == (404, "NoSuchTableException")


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
