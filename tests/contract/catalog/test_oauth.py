"""OAuth2 client credentials: tokens for the id and the secret of an API key."""

from __future__ import annotations

import base64
import gzip
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jwt
import pytest
import requests
from pyiceberg.catalog import load_catalog

from frazil.catalog import revoke_token, running_catalog
from frazil.catalog.access.gate import Gate
from frazil.catalog.access.tokens import PERIOD_SECONDS, RENEWED_SECONDS, OwnTokens, Tokens, _signing_key
from frazil.catalog.store.audit import newest_records
from tests.kit.access import Guarded, after, guarded_catalog, now_ms, table
from tests.kit.issuer import sign_by_hand

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
PATHS = ("/oauth/token", "/v1/oauth/tokens")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("oauth")
    with guarded_catalog(folder, f"sqlite:///{folder / 'catalog.db'}") as running:
        running.admin.create()
        yield running


def ask(
    guarded: Guarded, path: str = PATHS[0], headers: dict[str, str] | None = None, **form: str
) -> requests.Response:
    return requests.post(guarded.server.uri + path, data=form, headers=headers, timeout=60)


def credentials(key: str) -> dict[str, str]:
    _, key_id, secret = key.split("_")
    return {"grant_type": "client_credentials", "client_id": key_id, "client_secret": secret}


def token_of(guarded: Guarded, key: str, **form: str) -> str:
    reply = ask(guarded, **(credentials(key) | form))
    assert reply.status_code == 200, reply.text
    return str(reply.json()["access_token"])


def own(guarded: Guarded, *, offset_ms: int = 0) -> OwnTokens:
    return OwnTokens(guarded.pepper, clock=lambda: now_ms() + offset_ms)


@pytest.mark.parametrize("path", PATHS)
def test_an_id_and_a_secret_give_a_token_of_15_minutes(guarded: Guarded, path: str) -> None:
    key = guarded.token("ann", roles=["admin"])
    reply = ask(guarded, path, **credentials(key))
    answer = reply.json()
    assert (reply.status_code, answer["token_type"], answer["expires_in"]) == (200, "bearer", 900)
    assert reply.headers["cache-control"] == "no-store"
    jwks = requests.get(f"{guarded.server.uri}/.well-known/jwks.json", timeout=60).json()
    kid = jwt.get_unverified_header(answer["access_token"])["kid"]
    [public] = [document for document in jwks["keys"] if document["kid"] == kid]
    assert "d" not in public
    issuer = own(guarded).issuer
    claims = jwt.decode(answer["access_token"], jwt.PyJWK(public), algorithms=["ES256"], audience=issuer, issuer=issuer)
    assert claims["exp"] - claims["iat"] == 900
    assert {"sub": "ann", "client_id": key.split("_")[1], "scope": "catalog"}.items() <= claims.items()
    assert guarded.client(answer["access_token"]).load()["metadata"]["format-version"] == 2


def test_the_secret_may_be_the_whole_key_or_come_as_basic_credentials(guarded: Guarded) -> None:
    key = guarded.token("ann")
    form = credentials(key)
    pair = base64.b64encode(f"{form['client_id']}:{form['client_secret']}".encode()).decode()
    forms: list[tuple[dict[str, str], dict[str, str]]] = [
        ({"client_secret": key}, {}),
        ({"client_secret": key, "client_id": form["client_id"]}, {}),
        ({}, {"Authorization": f"Basic {pair}"}),
    ]
    for fields, headers in forms:
        reply = ask(guarded, headers=headers, grant_type="client_credentials", **fields)
        assert reply.status_code == 200, reply.text


def test_wrong_secrets_are_refused_in_the_words_of_oauth(guarded: Guarded) -> None:
    key, other = guarded.token("ann"), guarded.token("bob")
    form = credentials(key)
    expired = guarded.token("old", expires_ms=now_ms() - 1)
    wrong: list[dict[str, str]] = [
        {**form, "client_secret": "x" * 43},
        {**form, "client_id": "0" * 16},
        {**form, "client_id": other.split("_")[1]},
        {**form, "client_id": other.split("_")[1], "client_secret": key},
        {**form, "client_id": "", "client_secret": ""},
        {**form, "client_id": "é\x00", "client_secret": "%"},
        {"grant_type": "client_credentials"},
        credentials(expired),
    ]
    for fields in wrong:
        reply = ask(guarded, **fields)
        assert (reply.status_code, reply.json()["error"]) == (401, "invalid_client"), fields
        assert key not in reply.text
    basic = ask(guarded, headers={"Authorization": "Basic %%%"}, grant_type="client_credentials")
    assert (basic.status_code, basic.json()["error"]) == (401, "invalid_client")
    assert ask(guarded, grant_type="password").json()["error"] == "unsupported_grant_type"
    assert ask(guarded, **form, scope="everything").json()["error"] == "invalid_scope"
    twice = requests.post(
        guarded.server.uri + PATHS[0],
        data="grant_type=client_credentials&grant_type=x",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
        timeout=60,
    )
    assert twice.status_code == 400
    assert requests.post(guarded.server.uri + PATHS[0], json=form, timeout=60).status_code == 415


def test_a_token_that_ends_while_the_body_is_on_its_way_is_not_used(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    issued_s = now_ms() // 1000
    monkeypatch.setattr(guarded.server.app.ctx.gate, "_clock", now_ms)
    client = guarded.client(own(guarded).issue(guarded.token("ann", roles=["admin"]).split("_")[1], "ann", "catalog"))
    for clock_ms, status in (((issued_s + 900 + 29) * 1000, 200), ((issued_s + 900 + 40) * 1000, 401)):
        tick = partial(monkeypatch.setattr, guarded.server.app.ctx.gate, "_clock", lambda ms=clock_ms: ms)
        after(monkeypatch, Gate, "authenticate", tick)
        assert client.post("/namespaces/ns/tables/t/plan", {}).status == status


def test_a_token_ends_at_once_with_its_key(guarded: Guarded) -> None:
    key = guarded.token("ann", roles=["admin"])
    client = guarded.client(token_of(guarded, key))
    assert client.get("/namespaces").status == 200
    revoke_token(guarded.database, key.split("_")[1], now_ms=now_ms())
    assert client.get("/namespaces").status == 401


def test_a_scope_is_a_ceiling_below_that_of_the_key(guarded: Guarded) -> None:
    key = guarded.token("reader", roles=["admin"], scopes=["write"])
    narrow, wide = (guarded.client(token_of(guarded, key, scope=scope)) for scope in ("read", "manage"))
    update = {"updates": {"owner": "x"}}
    assert narrow.get("/namespaces/ns").status == 200
    assert narrow.post("/namespaces/ns/properties", update).status == 403
    assert wide.post("/namespaces/ns/properties", update).status == 200
    assert wide.post("/namespaces", {"namespace": ["more"]}).status == 403


def without(claims: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in claims.items() if key != name}


def test_tokens_that_this_server_did_not_sign_for_now_are_refused(guarded: Guarded) -> None:
    key = guarded.token("ann", roles=["admin"])
    key_id, good = key.split("_")[1], own(guarded)
    token = good.issue(key_id, "ann", "catalog")
    assert guarded.client(token).get("/namespaces").status == 200
    header, claims, signature = token.split(".")
    plain = jwt.decode(token, options={"verify_signature": False})
    public = requests.get(f"{guarded.server.uri}/.well-known/jwks.json", timeout=60).text
    kid = jwt.get_unverified_header(token)["kid"]
    signing: dict[str, Any] = {"key": _signing_key(guarded.pepper, int(kid)), "algorithm": "ES256"}
    signing["headers"] = {"kid": kid, "typ": "at+jwt"}
    assert guarded.client(jwt.encode(plain, **signing)).get("/namespaces").status == 200
    unsigned = jwt.encode(plain, None, algorithm="none", headers={"kid": kid, "typ": "at+jwt"})
    wrong: dict[str, Any] = {
        "another pepper": OwnTokens(b"x" * 32, clock=now_ms).issue(key_id, "ann", "catalog"),
        "another principal": good.issue(key_id, "root", "catalog"),
        "no such key": good.issue("0" * 16, "ann", "catalog"),
        "an unknown scope": good.issue(key_id, "ann", "everything"),
        "expired": own(guarded, offset_ms=-1_000_000).issue(key_id, "ann", "catalog"),
        "not yet valid": own(guarded, offset_ms=120_000).issue(key_id, "ann", "catalog"),
        "an old signing key": own(guarded, offset_ms=-2 * PERIOD_SECONDS * 1000).issue(key_id, "ann", "catalog"),
        "another audience": jwt.encode(plain | {"aud": "urn:frazil:other"}, **signing),
        **{f"no {name}": jwt.encode(without(plain, name), **signing) for name in ("aud", "exp", "iss", "iat")},
        "alg none": unsigned,
        "alg none without a signature": f"{unsigned.split('.')[0]}.{claims}.",
        "the public key as a secret": sign_by_hand(plain, public.encode(), kid=kid, typ="at+jwt"),
        "no signature": f"{header}.{claims}.",
        "a signature of zeros": f"{header}.{claims}.{'A' * len(signature)}",
        "two parts": f"{header}.{claims}",
        "four parts": f"{token}.{signature}",
        "no JSON": "a.b.c",
        "dots": "..",
        "huge": f"{header}.{'A' * 30_000}.{signature}",
    }
    for name, text in wrong.items():
        assert guarded.client(text).get("/namespaces").status in (401, 431), name


def test_signing_keys_change_with_time_and_tokens_of_the_one_before_stay_valid(guarded: Guarded) -> None:
    now = own(guarded)
    later = Tokens(OwnTokens(guarded.pepper, clock=lambda: now_ms() + PERIOD_SECONDS * 1000))
    token = now.issue("0" * 16, "ann", "catalog")
    kids = [[document["kid"] for document in tokens.jwks()["keys"]] for tokens in (now, later.own)]
    assert kids[0][1:] == kids[1][:2]
    identity = later.identify(token.encode())
    assert identity is not None
    assert identity.principal == "ann"


def test_a_token_is_renewed_by_itself_for_a_day_and_by_the_secret_forever(guarded: Guarded) -> None:
    key = guarded.token("ann", roles=["admin"])
    key_id, tokens = key.split("_")[1], own(guarded)
    now = int(time.time())
    narrow = tokens.issue(key_id, "ann", "read", since=now - 100)
    renewed = ask(guarded, grant_type=EXCHANGE, subject_token=narrow, scope="catalog").json()
    claims = jwt.decode(renewed["access_token"], options={"verify_signature": False})
    assert (renewed["scope"], claims["auth_time"]) == ("read", now - 100)
    old = tokens.issue(key_id, "ann", "catalog", since=now - RENEWED_SECONDS)
    refused = ask(guarded, grant_type=EXCHANGE, subject_token=old)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")
    pair = base64.b64encode(f"{key_id}:{key.split('_')[2]}".encode()).decode()
    by_secret = ask(guarded, headers={"Authorization": f"Basic {pair}"}, grant_type=EXCHANGE, subject_token="expired")
    assert by_secret.status_code == 200
    same = ask(guarded, grant_type=EXCHANGE, subject_token=key).json()
    assert (same["access_token"], same.get("expires_in")) == (key, None)


@pytest.mark.filterwarnings("ignore:Deprecated in 0.8.0")  # without oauth2-server-uri, it warns of the path
def test_pyiceberg_connects_with_a_credential(guarded: Guarded) -> None:
    key = guarded.token("py")
    guarded.grant("read", table("t"), "py")
    _, key_id, secret = key.split("_")
    uri = guarded.server.uri
    for properties in ({}, {"oauth2-server-uri": f"{uri}/oauth/token"}, {"scope": "read"}):
        catalog = load_catalog("lake", type="rest", uri=uri, credential=f"{key_id}:{secret}", **properties)
        assert catalog.list_tables("ns") == [("ns", "t")]
        assert catalog.load_table("ns.t").schema().fields
    assert catalog.properties["oauth2-server-uri"] == f"{uri}/oauth/token"


def test_without_authentication_there_are_no_tokens(tmp_path: Path) -> None:
    with running_catalog(tmp_path) as server:
        reply = requests.post(f"{server.uri}/oauth/token", data={"grant_type": "client_credentials"}, timeout=60)
        assert (reply.status_code, reply.json()["error"]) == (400, "invalid_request")
        assert requests.get(f"{server.uri}/.well-known/jwks.json", timeout=60).json() == {"keys": []}
        config = requests.get(f"{server.uri}/v1/config", timeout=60).json()
        assert "oauth2-server-uri" not in config["defaults"]


def test_a_wrong_secret_is_in_the_audit_log_and_the_secret_is_not(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'catalog.db'}"
    with guarded_catalog(tmp_path, database) as guarded:
        secret = "s" * 43
        assert (
            ask(guarded, grant_type="client_credentials", client_id="0" * 16, client_secret=secret).status_code == 401
        )
        guarded.server.app.ctx.gate.close()  # waits until the refusal is written
        [record] = newest_records(guarded.database.read(), limit=10, decision="refused")
        assert (record.operation, record.address) == ("issueToken", "127.0.0.1")
        assert secret not in str(record)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("packed", [False, True])
def test_an_unknown_caller_cannot_send_a_long_form(guarded: Guarded, path: str, packed: bool) -> None:
    def send(size: int) -> int:
        body = b"grant_type=x&a=" + b"a" * size
        headers = {"Content-Type": "application/x-www-form-urlencoded"} | (
            {"Content-Encoding": "gzip"} if packed else {}
        )
        data = gzip.compress(body) if packed else body
        return requests.post(guarded.server.uri + path, data=data, headers=headers, timeout=60).status_code

    assert (send(60 * 1024), send(64 * 1024)) == (400, 413)
