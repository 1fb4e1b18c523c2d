"""Tokens of OpenID Connect issuers: which are accepted, and what their principals may do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jwt
import pytest
import requests
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pydantic import ValidationError

from frazil.catalog import Target, change_grant, create_role, running_catalog
from frazil.catalog.access import issuers
from frazil.catalog.access.claims import RefusedToken
from frazil.catalog.access.gate import Gate
from frazil.catalog.access.issuers import Issuer
from frazil.config import OidcIssuer
from frazil.errors import ConfigError
from tests.kit.access import Guarded, after, guarded_catalog, now_ms
from tests.kit.issuer import LocalIssuer, local_issuer, sign_by_hand

NAMESPACE = Target("namespace", "default", "ns")


@dataclass
class Lake:
    """A catalog that trusts two issuers; the role `analyst`, which the group `staff` of both has, reads `ns`."""

    guarded: Guarded
    first: LocalIssuer
    second: LocalIssuer

    def status(self, token: str, path: str = "/namespaces/ns") -> int:
        return self.guarded.client(token).get(path).status


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("oidc")
    with local_issuer() as first, local_issuer() as second:
        oidc = {
            "first": OidcIssuer(issuer=first.uri, audience=("lake", "other"), roles={"staff": "analyst"}),
            "second": OidcIssuer(
                issuer=second.uri, audience=("lake",), groups_claim="realm.roles", roles={"staff": "analyst"}
            ),
        }
        with guarded_catalog(folder, f"sqlite:///{folder / 'catalog.db'}", oidc=oidc) as guarded:
            guarded.admin.create()
            create_role(guarded.database, "analyst", now_ms=now_ms())
            grant(guarded, "read", "analyst")
            yield Lake(guarded, first, second)


def grant(guarded: Guarded, privilege: str, grantee: str, *, adding: bool = True) -> None:
    change_grant(guarded.database, privilege, NAMESPACE, grantee, adding=adding, by="test", now_ms=now_ms())


def refusal(issuer: Issuer, token: str) -> str:
    with pytest.raises(RefusedToken) as caught:
        issuer.verify(token, jwt.get_unverified_header(token))
    return str(caught.value)


def test_a_group_of_an_issuer_is_a_role_here(lake: Lake) -> None:
    assert lake.status(lake.first.sign()) == 200
    assert lake.status(lake.first.sign(groups=["guests"])) == 404
    assert lake.status(lake.first.sign(groups="staff")) == 200
    assert lake.status(lake.second.sign(realm={"roles": ["staff"]})) == 200
    assert lake.status(lake.second.sign(groups=["staff"])) == 404  # it is not the claim of this issuer
    for odd in ({"staff": 1}, 1, [["staff"]], [None], None):
        assert lake.status(lake.first.sign(groups=odd)) == 404
    assert lake.guarded.client(lake.first.sign()).post("/namespaces/ns/properties", {"updates": {}}).status == 403


def test_a_token_that_ends_while_the_body_is_on_its_way_is_not_used(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, ends_s = lake.guarded.server.app.ctx.gate, int(time.time()) + 300
    monkeypatch.setattr(gate, "_clock", now_ms)
    client = lake.guarded.client(lake.first.sign(exp=ends_s))
    for clock_ms, status in (((ends_s + 29) * 1000, 200), ((ends_s + 30) * 1000, 401)):
        tick = partial(monkeypatch.setattr, gate, "_clock", lambda ms=clock_ms: ms)
        after(monkeypatch, Gate, "authenticate", tick)
        assert client.post("/namespaces/ns/tables/t/plan", {}).status == status


def test_two_issuers_have_no_principal_in_common(lake: Lake) -> None:
    grant(lake.guarded, "read", "user:first/cleo")
    assert lake.status(lake.first.sign(sub="cleo", groups=[])) == 200
    assert lake.status(lake.second.sign(sub="cleo")) == 404
    assert lake.status(lake.second.sign(sub="first/cleo")) == 401
    grant(lake.guarded, "read", "user:first/cleo", adding=False)
    assert lake.status(lake.first.sign(sub="cleo", groups=[])) == 404


def test_forged_and_foreign_tokens_are_401(lake: Lake) -> None:
    first, now = lake.first, int(time.time())
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = first.private["one"].public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header, claims, _ = first.sign().split(".")
    good = first.sign()
    assert lake.status(good) == 200
    wrong = {
        "another key": lake.second.sign(iss=first.uri),
        "expired": first.sign(exp=now - 60),
        "no end": first.sign(exp=None),
        "an end as text": first.sign(exp=str(now + 600)),
        "an end that never comes": first.sign(exp=float("inf")),
        "not yet valid": first.sign(nbf=now + 120),
        "issued in the future": first.sign(iat=now + 120),
        "another audience": first.sign(aud="elsewhere"),
        "no audience": first.sign(aud=None),
        "another issuer": first.sign(iss="https://id.example.org"),
        "almost the issuer": first.sign(iss=first.uri + "/"),
        "the issuer as a list": good_with_list(first),
        "no subject": first.sign(sub=None),
        "an odd subject": first.sign(sub="a b"),
        "alg none": jwt.encode(first.claims(), None, algorithm="none", headers={"kid": "one"}),
        "HS256 with the public key": sign_by_hand(first.claims(), pem, kid="one"),
        "an algorithm that is not allowed": first.sign(key=stranger, algorithm="RS512"),
        "an algorithm of another kind of key": first.sign(key=stranger, algorithm="RS256"),
        "no kid": first.sign(kid="", key=first.private["one"]),
        "an unknown kid": first.sign(kid="two", key=first.private["one"]),
        "no signature": f"{header}.{claims}.",
        "huge": first.sign(filler="x" * 30_000),
    }
    for name, token in wrong.items():
        assert lake.status(token) in (401, 431), name
    assert lake.status(good) == 200


def good_with_list(issuer: LocalIssuer) -> str:
    """A token whose issuer is a list: the library would not sign it, another one may."""
    from jwt.api_jws import PyJWS

    claims = str(issuer.claims()).replace("'", '"').replace(f'"{issuer.uri}"', f'["{issuer.uri}"]', 1)
    return PyJWS().encode(claims.encode(), issuer.private["one"], algorithm="ES256", headers={"kid": "one"})


def test_an_unknown_key_is_looked_for_at_most_once_per_interval(lake: Lake) -> None:
    assert lake.status(lake.second.sign()) == 404
    lake.second.paths.clear()
    key = lake.second.private["one"]
    assert {lake.status(lake.second.sign(kid=f"kid-{number}", key=key)) for number in range(20)} == {401}
    assert lake.second.paths == []  # the interval since the first question is not over


def test_a_key_that_an_issuer_adds_is_found() -> None:
    with local_issuer() as source:
        issuer = Issuer("x", OidcIssuer(issuer=source.uri, audience=("lake",)), retry_seconds=0)
        for kid, algorithm in (("one", "ES256"), ("two", "RS256")):
            if kid not in source.private:
                source.add_key(kid, algorithm)
            token = source.sign(kid=kid, algorithm=algorithm)
            assert issuer.verify(token, jwt.get_unverified_header(token)).principal == "x/ann"
        del source.public[0]
        source.add_key("three", publish=False)
        assert "no key has this kid" in refusal(issuer, source.sign(kid="three"))
        assert "no key has this kid" in refusal(issuer, source.sign())  # a key that is withdrawn is forgotten


def test_known_keys_go_on_when_the_issuer_is_down(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(issuers, "RETRY_SECONDS", 0.0)
    with local_issuer() as source:
        oidc = {"x": OidcIssuer(issuer=source.uri, audience=("lake",), roles={"staff": "admin"})}
        with guarded_catalog(tmp_path, f"sqlite:///{tmp_path / 'catalog.db'}", oidc=oidc) as guarded:
            assert guarded.client(source.sign()).get("/namespaces").status == 200
            source.add_key("two")
            source.stop()
            with pytest.raises(requests.ConnectionError):
                requests.get(f"{source.uri}/jwks", timeout=60)
            assert guarded.client(source.sign()).get("/namespaces").status == 200
            assert guarded.client(source.sign(kid="two")).get("/namespaces").status == 401


def test_what_an_issuer_says_of_its_keys_is_not_trusted_further_than_its_address() -> None:
    with local_issuer() as source, local_issuer() as other:
        issuer = Issuer("x", OidcIssuer(issuer=source.uri, audience=("lake",)), retry_seconds=0)
        token = source.sign()
        for discovery in (
            {"issuer": other.uri, "jwks_uri": f"{source.uri}/jwks"},
            {"issuer": source.uri, "jwks_uri": "http://id.example.org/jwks"},
            {"issuer": source.uri, "jwks_uri": "file:///etc/passwd"},
            {"issuer": source.uri},
        ):
            source.discovery = discovery
            assert "no key has this kid" in refusal(issuer, token)
        secret = {"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXM", "kid": "shared", "alg": "HS256"}
        source.discovery = {"issuer": source.uri, "jwks_uri": f"{source.uri}/jwks"}
        source.public.append(secret)
        assert issuers.fetch_keys(source.uri).keys() == {"one"}


def test_settings_that_would_weaken_the_check_are_refused(tmp_path: Path) -> None:
    for algorithm in ("HS256", "none", "ES256K"):
        with pytest.raises(ValidationError):
            OidcIssuer(issuer="https://id.example.org", audience=("lake",), algorithms=(algorithm,))  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        OidcIssuer(issuer="https://id.example.org", audience=())
    plain = {"x": OidcIssuer(issuer="http://id.example.org", audience=("lake",))}
    with pytest.raises(ConfigError) as caught, guarded_catalog(tmp_path, f"sqlite:///{tmp_path / 'c.db'}", oidc=plain):
        pass
    assert caught.value.option == "server.oidc.x.issuer"
    with pytest.raises(ConfigError) as caught, running_catalog(tmp_path / "off", oidc=plain):
        pass
    assert caught.value.option == "server.oidc"


def test_the_token_of_an_issuer_is_not_exchanged(lake: Lake) -> None:
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": lake.first.sign()}
    reply = requests.post(f"{lake.guarded.server.uri}/oauth/token", data=form, timeout=60)
    assert (reply.status_code, reply.json()["error"]) == (400, "invalid_grant")
