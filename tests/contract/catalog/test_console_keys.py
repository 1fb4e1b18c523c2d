"""Keys and roles over HTTP: for those who manage the server, recorded, and with secrets that are kept nowhere."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.catalog import Target, all_members, list_keys, newest_records
from tests.kit.access import SERVER, Guarded, guarded_catalog

API = "/console/api/access"
CHANGES = {
    "tokens": {"principal": "mallory", "roles": ["admin"]},
    "tokens/rotate": {"id": "0123456789abcdef", "keep_seconds": 60},
    "tokens/revoke": {"id": "0123456789abcdef"},
    "roles": {"name": "made"},
    "roles/drop": {"name": "admin"},
    "members": {"role": "admin", "principal": "mallory", "member": True},
}


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
        ("tokens", {"principal": "ann", "scopes": ["everything"]}),
        ("tokens", {"principal": "ann", "expires_seconds": 0}),
        ("tokens/rotate", {"id": "0123456789abcdef", "keep_seconds": -1}),
        *((path, CHANGES[path]) for path in ("tokens/rotate", "tokens/revoke", "roles/drop", "members")),
    ]
    before = newest_records(guarded.database.read(), limit=100)
    for path, body in wrong:
        assert guarded.admin.raw("POST", f"{API}/{path}", body).status == 400, (path, body)
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
