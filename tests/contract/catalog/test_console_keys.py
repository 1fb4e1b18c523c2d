"""Keys and roles over HTTP: for those who manage the server, recorded, and with secrets that are kept nowhere."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from frazil.catalog import (
    ACCESS_OPERATIONS,
    Target,
    all_members,
    app,
    create_role,
    list_keys,
    newest_records,
    revoke_token,
)
from frazil.catalog.access.gate import Gate
from frazil.catalog.routes import OWN_ROUTES
from frazil.catalog.routes import ROUTES as REST_ROUTES
from frazil.console import ROUTES
from tests.kit.access import SERVER, Guarded, after, guarded_catalog, now_ms, pair
from tests.kit.catalog_databases import Answer, Client

API = "/console/api/access"
CHANGES = {
    "tokens": {"principal": "mallory", "roles": ["admin"]},
    "tokens/rotate": {"id": "0123456789abcdef", "keep_seconds": 60},
    "tokens/revoke": {"id": "0123456789abcdef"},
    "roles": {"name": "made"},
    "roles/drop": {"name": "admin"},
    "members": {"role": "admin", "principal": "mallory", "member": True},
}
KEY = f"frz_0123456789abcdef_{43 * 'x'}"  # a key in the wrong place


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def guarded(folder: Path) -> Iterator[Guarded]:
    database = f"sqlite:///{folder / 'catalog.db'}"
    with guarded_catalog(folder, database, routes_of=["frazil.console"]) as guarded:
        yield guarded


def test_who_manages_a_warehouse_or_has_a_limited_key_makes_no_keys(guarded: Guarded) -> None:
    mallory = guarded.user("mallory", *(("manage", Target("warehouse", name)) for name in ("default", "cold")))
    limited = guarded.client(guarded.token("chief", roles=["admin"], scopes=["maintain", "create", "purge"]))
    keys = len(list_keys(guarded.database.read()))
    for caller in (mallory, limited):
        for path, body in CHANGES.items():
            assert caller.raw("POST", f"{API}/{path}", body).status == 403, path
        for path in ("", "/explain?privilege=read"):
            assert caller.raw("GET", f"{API}{path}").status == 403, path
    refused = [(record.operation, record.objects) for record in guarded.refusals() if record.actor == "mallory"]
    assert refused[0] == ("createToken", "manage server")
    assert len(refused) == len(CHANGES) + 2
    assert len(list_keys(guarded.database.read())) == keys
    assert all_members(guarded.database.read())["admin"] == ["chief", "root"]


def test_a_new_key_is_in_its_answer_alone(guarded: Guarded, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Not even where the client sends an idempotency key, which has other answers kept."""
    session, asked = guarded.admin.session, {"principal": "etl", "scopes": ["read"], "expires_seconds": 3600}
    session.headers["Idempotency-Key"] = str(uuid.uuid4())
    answers = [guarded.admin.raw("POST", f"{API}/tokens", asked) for _ in range(2)]
    del session.headers["Idempotency-Key"]
    assert answers[0].headers["cache-control"] == "no-store"
    tokens = [answer.body["token"] for answer in answers]
    assert tokens[0] != tokens[1]
    listed = guarded.admin.raw("GET", API).body
    assert sorted(key["scopes"] for key in listed["keys"] if key["principal"] == "etl") == [["read"], ["read"]]
    secrets = [token.rpartition("_")[2] for token in tokens]
    with sqlite3.connect(folder / "catalog.db") as database:
        dump = "\n".join(database.iterdump())
    written = dump + str(listed) + "".join(capfd.readouterr())
    assert not any(secret in written for secret in secrets)


def test_what_is_refused_changes_nothing(guarded: Guarded) -> None:
    wrong = [
        ("tokens", {"principal": "a b"}),
        ("tokens", {"principal": "corp/ann"}),
        ("tokens", {"principal": "frazil:upkeep"}),
        ("tokens", {"principal": "ann", "roles": ["missing"]}),
        *((path, {name: KEY}) for path, name in (("tokens", "principal"), ("roles", "name"))),  # lists show names
        ("tokens", {"principal": "ann", "scopes": ["everything"]}),
        ("tokens", {"principal": "ann", "expires_seconds": 0}),
        ("tokens/rotate", {"id": "0123456789abcdef", "keep_seconds": -1}),
        *((path, CHANGES[path]) for path in ("tokens/rotate", "tokens/revoke", "roles/drop", "members")),
    ]
    before = newest_records(guarded.database.read(), limit=100)
    for path, body in wrong:
        answer = guarded.admin.raw("POST", f"{API}/{path}", body)
        assert (answer.status, KEY in str(answer.body)) == (400, False), (path, body)
    assert newest_records(guarded.database.read(), limit=100) == before
    assert [key.principal for key in list_keys(guarded.database.read())] == ["root"]


def test_the_last_use_of_a_key_is_noted(guarded: Guarded) -> None:
    used, idle = guarded.token("used"), guarded.token("idle")
    guarded.grant("discover", SERVER, "used")
    assert guarded.client(used).raw("GET", "/console/api/session").status == 200
    guarded.refusals()  # what the recorder has to write is written
    times = {key.id: key.used_ms for key in list_keys(guarded.database.read())}
    created = {key.id: key.created_ms for key in list_keys(guarded.database.read())}
    key_id = used.split("_")[1]
    assert times[idle.split("_")[1]] is None
    assert times[key_id] is not None
    assert times[key_id] >= created[key_id]


# Requests that change access, each with an effect: path and body, where ID is a key and `made` and `bob` are there.
ROLES = {"principal": "bob", "roles": ["made"]}
CHANGES_ACCESS: dict[str, tuple[str, dict[str, Any]]] = {
    "createToken": (f"{API}/tokens", ROLES),
    "rotateToken": (f"{API}/tokens/rotate", {"id": "ID", "keep_seconds": 60}),
    "revokeToken": (f"{API}/tokens/revoke", {"id": "ID"}),
    "createRole": (f"{API}/roles", {"name": "new"}),
    "changeMember": (f"{API}/members", {"role": "made", "principal": "bob", "member": True}),
    "dropRole": (f"{API}/roles/drop", {"name": "made"}),
    "changeServerGrants": ("/access/grants", {"grant": [pair("made", "read")]}),
    "changeWarehouseGrants": ("/access/grants/default", {"grant": [pair("made", "read")]}),
    "changeNamespaceGrants": ("/v1/default/namespaces/ns/grants", {"grant": [pair("made", "read")]}),
    "changeTableGrants": ("/v1/default/namespaces/ns/tables/t/grants", {"grant": [pair("made", "read")]}),
}
# Routes that change it with the same function as one above, on objects that take long to make.
LIKE_OTHERS = {"changeViewGrants", "changeIndexGrants"}
# Routes that neither say that they change something nor that they stop when their client leaves. These change nothing,
# or keep what may be kept twice.
HARMLESS = {"getToken", "issueToken", "signRequest", "findReferences", "cancelPlanning", "reportMetrics"}
ALL_ROUTES = (*REST_ROUTES, *OWN_ROUTES, *ROUTES)


def access_state(guarded: Guarded) -> tuple[Any, ...]:
    """Keys, roles and grants, and what the audit log has of changes."""
    sql = guarded.database.read()
    keys = [(key.id, key.principal, key.expires_ms, key.revoked_ms) for key in list_keys(sql)]
    grants = sorted(sql.rows("SELECT grantee, privilege, COALESCE(name, '') FROM grants"))
    return keys, all_members(sql), grants, newest_records(sql, limit=1000, decision="allowed")


def made_roles(guarded: Guarded) -> str:
    """The id of a key of bob, in a catalog that has a role `made`."""
    bob = guarded.token("bob").split("_")[1]
    guarded.admin.create("t")
    assert create_role(guarded.database, "made", now_ms=now_ms())
    return bob


def send_change(client: Client, operation: str, key_id: str) -> Answer:
    path, body = CHANGES_ACCESS[operation]
    return client.raw("POST", path, {**body, "id": key_id} if "id" in body else body)


def test_every_change_of_access_is_tried_late() -> None:
    changes = {route.operation for route in ALL_ROUTES if "Grants" in route.operation and route.writes}
    assert changes | {name for name in ACCESS_OPERATIONS if name[:4] not in ("list", "expl")} == (
        CHANGES_ACCESS.keys() | LIKE_OTHERS
    )
    # and no other route changes anything without saying so
    others = [route for route in ALL_ROUTES if route.method not in ("GET", "HEAD") and not route.writes]
    silent = {route.operation for route in others if not route.stops}
    assert silent - HARMLESS == ACCESS_OPERATIONS.keys() & CHANGES_ACCESS.keys()


def test_a_late_change_of_access_is_made_once(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    """The change itself is no reason to look at its caller again, and to make it again."""
    key_id = made_roles(guarded)
    monkeypatch.setattr(app, "KNOWN_SECONDS", -1.0)  # each caller was looked up long ago
    keys = len(list_keys(guarded.database.read()))
    for operation in sorted(CHANGES_ACCESS, key=lambda name: name in ("revokeToken", "dropRole")):
        answer = send_change(guarded.admin, operation, key_id)
        assert answer.status == 200, (operation, answer.body)
        records = newest_records(guarded.database.read(), limit=1000, actor="root", decision="allowed")
        assert [record.note for record in records if record.operation == operation].count("status 200") == 1, operation
    assert len(list_keys(guarded.database.read())) == keys + 2
    assert "made" not in all_members(guarded.database.read())


@pytest.mark.parametrize("seconds", [-1.0, app.KNOWN_SECONDS])
def test_a_key_that_ends_before_the_transaction_changes_no_access(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    key_id = made_roles(guarded)
    monkeypatch.setattr(app, "KNOWN_SECONDS", seconds)
    for operation in CHANGES_ACCESS:
        token = guarded.token(f"chief-{operation}", roles=["admin"])
        chief, end_key = guarded.client(token), partial(revoke_token, guarded.database, token.split("_")[1])
        before = access_state(guarded)
        after(monkeypatch, Gate, "authorise", partial(end_key, now_ms=now_ms()))
        assert send_change(chief, operation, key_id).error[:2] == (401, "NotAuthorizedException"), operation
        keys, members, grants, records = access_state(guarded)
        assert (members, grants) == before[1:3], operation
        assert len(keys) == len(before[0]), operation
        assert [record.operation for record in records[len(before[3]) :]] == ["revokeToken"], operation
