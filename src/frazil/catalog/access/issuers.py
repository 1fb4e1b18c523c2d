"""OpenID Connect issuers: fetches and keeps their public keys, and verifies the tokens that they sign.

A principal of an issuer is named `ISSUER/SUBJECT`, with the name that the settings give the issuer. No API key has such
a principal and no issuer can name one of another issuer.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import jwt

from frazil.catalog.access.claims import Identity, RefusedToken, decode, end_ms
from frazil.catalog.access.privileges import Privilege
from frazil.catalog.logs import log
from frazil.catalog.warehouse import WouldBlock
from frazil.config import OidcIssuer
from frazil.errors import ConfigError

RETRY_SECONDS = 30.0  # between two questions to an issuer, whatever tokens arrive
FRESH_SECONDS = 600.0  # after which keys are fetched again, while tokens are verified with those that are known
FETCH_SECONDS = 5.0
MOST_DOCUMENT_BYTES = 512 * 1024
MOST_KEYS = 100  # of one issuer
MOST_WAITING = 8  # requests that wait for keys; further ones are refused
_KINDS = ("RSA", "EC", "OKP")  # public keys only: with a shared secret anyone who verifies could sign
_SUBJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@|:+=-]{0,127}")

Fetch = Callable[[str], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _Keys:
    by_id: dict[str, dict[str, Any]]
    fetched: float  # monotonic


class Issuer:
    """One issuer, with what is known of its keys."""

    def __init__(self, name: str, settings: OidcIssuer, *, retry_seconds: float | None = None) -> None:
        check_url(settings.issuer, f"server.oidc.{name}.issuer")
        self.name, self.url, self._settings = name, settings.issuer, settings
        self._retry_seconds = RETRY_SECONDS if retry_seconds is None else retry_seconds
        self._keys = _Keys({}, float("-inf"))
        self._asked = float("-inf")  # when it was last asked, whether it answered or not
        self._asking = threading.Lock()
        self._waiting = threading.BoundedSemaphore(MOST_WAITING)

    @property
    def groups(self) -> dict[str, str]:
        """The role of each group."""
        return dict(self._settings.roles)

    def verify(self, token: str, header: dict[str, Any], *, inline: bool = False) -> Identity:
        """Who a token of this issuer stands for."""
        kid, algorithm = header.get("kid"), header.get("alg")
        if not isinstance(kid, str) or algorithm not in self._settings.algorithms:
            raise RefusedToken(f"{self.name}: expected a kid, and alg one of {', '.join(self._settings.algorithms)}")
        claims = decode(
            token,
            self._key(kid, str(algorithm), inline=inline),
            algorithms=(str(algorithm),),
            issuer=self.url,
            audience=self._settings.audience,
            required=(),
        )
        return Identity(self._principal(claims), None, self._roles(claims), frozenset(Privilege), end_ms(claims))

    def _principal(self, claims: dict[str, Any]) -> str:
        subject = claims.get(self._settings.principal_claim)
        if not isinstance(subject, str) or not _SUBJECT.fullmatch(subject):
            raise RefusedToken(f"{self.name}: the claim {self._settings.principal_claim} is no name of a principal")
        return f"{self.name}/{subject}"

    def _roles(self, claims: dict[str, Any]) -> tuple[str, ...]:
        """The roles that the groups in the token give."""
        groups: Any = claims
        for part in self._settings.groups_claim.split("."):
            groups = groups.get(part) if isinstance(groups, dict) else None
        names = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        roles = self._settings.roles
        return tuple(dict.fromkeys(roles[name] for name in names if isinstance(name, str) and name in roles))

    # --- keys --------------------------------------------------------------------------------------------------------

    def _key(self, kid: str, algorithm: str, *, inline: bool) -> jwt.PyJWK:
        document = self._find(kid, inline=inline)
        if document is None:
            raise RefusedToken(f"{self.name}: no key has this kid")
        if document.get("alg", algorithm) != algorithm:
            raise RefusedToken(f"{self.name}: the key is for {str(document.get('alg'))[:20]}")
        try:
            return jwt.PyJWK(document, algorithm)
        except (jwt.PyJWTError, ValueError, TypeError) as exc:
            raise RefusedToken(f"{self.name}: the key is unusable: {type(exc).__name__}") from None

    def _find(self, kid: str, *, inline: bool) -> dict[str, Any] | None:
        document = self._keys.by_id.get(kid)
        now = time.monotonic()
        if document is not None:
            if now - self._keys.fetched > FRESH_SECONDS and now - self._asked > self._retry_seconds:
                threading.Thread(target=self._ask, name=f"frazil-oidc-{self.name}", daemon=True).start()
            return document
        if now - self._asked <= self._retry_seconds and not self._asking.locked():
            return None
        if inline:
            raise WouldBlock
        if not self._waiting.acquire(blocking=False):
            return None
        try:
            self._ask()
        finally:
            self._waiting.release()
        return self._keys.by_id.get(kid)

    def _ask(self) -> None:
        """Fetches the keys, unless that was just done."""
        with self._asking:
            if time.monotonic() - self._asked <= self._retry_seconds:
                return
            self._asked = time.monotonic()
            try:
                self._keys = _Keys(fetch_keys(self.url), time.monotonic())
            except (OSError, ValueError, http.client.HTTPException) as exc:
                fields = {"issuer": self.name, "reason": f"{type(exc).__name__}: {exc}"[:300]}
                log.warning("cannot fetch the keys of an issuer: those that are known go on", extra={"fields": fields})


def fetch_keys(issuer: str) -> dict[str, dict[str, Any]]:
    """The public keys of an issuer by their ids: those that its discovery document leads to."""
    discovery = _fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    if discovery.get("issuer") != issuer:
        raise ValueError(f"the discovery document is of issuer {str(discovery.get('issuer'))[:200]!r}")
    address = discovery.get("jwks_uri")
    if not isinstance(address, str) or not is_safe_url(address):
        raise ValueError("the discovery document has no jwks_uri with https")
    documents = _fetch(address).get("keys")
    if not isinstance(documents, list):
        raise ValueError("the JWKS has no keys")
    return {
        document["kid"]: document
        for document in documents[:MOST_KEYS]
        if isinstance(document, dict)
        and isinstance(document.get("kid"), str)
        and document.get("kty") in _KINDS
        and document.get("use", "sig") == "sig"
    }


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """An address that leads elsewhere is an error: where keys come from is the operator's decision."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _fetch(url: str) -> dict[str, Any]:
    handlers: list[Any] = [_NoRedirect]
    if _is_loopback(urlsplit(url).hostname):
        handlers.append(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310  # checked: https or loopback
    with urllib.request.build_opener(*handlers).open(request, timeout=FETCH_SECONDS) as response:
        body = response.read(MOST_DOCUMENT_BYTES + 1)
    if len(body) > MOST_DOCUMENT_BYTES:
        raise ValueError(f"{url} has more than {MOST_DOCUMENT_BYTES} bytes")
    document = json.loads(body)
    if not isinstance(document, dict):
        raise ValueError(f"{url} is no JSON object")
    return document


# --- addresses -------------------------------------------------------------------------------------------------------


def is_safe_url(url: str) -> bool:
    """Whether an address is HTTPS, or HTTP on the loopback interface.

    >>> [is_safe_url(url) for url in ("https://id.example.org", "http://127.0.0.1:9", "http://localhost/x")]
    [True, True, True]
    >>> [is_safe_url(url) for url in ("http://id.example.org", "file:///etc/passwd", "https://", "http://127.0.0.1.a")]
    [False, False, False, False]
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host)))


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def check_url(url: str, option: str) -> None:
    if not is_safe_url(url):
        raise ConfigError(
            f"{option}: expected an https address, got {url[:200]!r}",
            hint="keys that come over plain HTTP could be replaced on the way; only loopback addresses may have it",
            option=option,
        )
