"""Access tokens (JWT): those that the server issues for an API key, and those of OpenID Connect issuers.

The server's own are signed with ES256. The signing keys are derived from the pepper, one for each period, so that all
servers of a database have the same ones and none is stored. Tokens of the period before and after are accepted too.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from frazil.catalog.access.claims import Identity, RefusedToken, ceiling_of, decode, end_ms
from frazil.catalog.access.issuers import Issuer
from frazil.catalog.access.keys import check_of
from frazil.catalog.logs import log

TOKEN_SECONDS = 15 * 60
RENEWED_SECONDS = 24 * 60 * 60  # that a token can be renewed by itself, without the secret
PERIOD_SECONDS = 30 * 24 * 60 * 60  # of a signing key
MOST_BYTES = 16 * 1024  # of a token
_TYPE = "at+jwt"  # RFC 9068
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256


class OwnTokens:
    """Issues and verifies the tokens of this server and of all others on its database."""

    def __init__(self, pepper: bytes, *, clock: Callable[[], int]) -> None:
        self._pepper, self._clock = pepper, clock
        self.issuer = f"urn:frazil:{check_of(pepper)}"

    def issue(self, key_id: str, principal: str, scope: str, *, since: int | None = None) -> str:
        """A token for the holder of a key."""
        now = self._clock() // 1000
        claims = {
            "iss": self.issuer,
            "aud": self.issuer,
            "sub": principal,
            "client_id": key_id,
            "scope": scope,
            "iat": now,
            "exp": now + TOKEN_SECONDS,
            "auth_time": now if since is None else since,
            "jti": secrets.token_hex(16),
        }
        period = now // PERIOD_SECONDS
        headers = {"kid": str(period), "typ": _TYPE}
        text: str = jwt.encode(claims, _signing_key(self._pepper, period), algorithm="ES256", headers=headers)
        return text

    def verify(self, token: str, header: dict[str, Any]) -> Identity:
        """Who the token stands for. Whether the API key behind it is still valid is for the caller to find out."""
        kid, periods = header.get("kid"), {str(period): period for period in self._periods()}
        if header.get("typ") != _TYPE or kid not in periods:
            raise RefusedToken("not a token of this server, or of an old signing key")
        claims = decode(
            token,
            _signing_key(self._pepper, periods[kid]).public_key(),
            algorithms=("ES256",),
            issuer=self.issuer,
            audience=self.issuer,
            required=("client_id", "scope", "jti", "iat", "auth_time"),
        )
        scope = str(claims["scope"])
        ceiling = ceiling_of(scope)
        if ceiling is None:
            raise RefusedToken("the scope is unknown")
        since = int(claims["auth_time"])
        return Identity(claims["sub"], str(claims["client_id"]), (), ceiling, end_ms(claims), since, scope)

    def jwks(self) -> dict[str, Any]:
        """The public keys: that of now, the one before and the next one."""
        algorithm = jwt.get_algorithm_by_name("ES256")
        return {
            "keys": [
                {
                    **algorithm.to_jwk(_signing_key(self._pepper, period).public_key(), as_dict=True),
                    "kid": str(period),
                    "use": "sig",
                    "alg": "ES256",
                }
                for period in self._periods()
            ]
        }

    def _periods(self) -> Sequence[int]:
        now = self._clock() // 1000 // PERIOD_SECONDS
        return now - 1, now, now + 1


@lru_cache(maxsize=16)
def _signing_key(pepper: bytes, period: int) -> ec.EllipticCurvePrivateKey:
    """The private key of a period: FIPS 186-5, A.2.1, with bits that HKDF derives from the pepper."""
    info = b"frazil access tokens, period %d" % period
    bits = int.from_bytes(HKDF(SHA512(), length=48, salt=None, info=info).derive(pepper), "big")
    return ec.derive_private_key(bits % (_ORDER - 1) + 1, ec.SECP256R1())


class Tokens:
    """The tokens that a server accepts."""

    def __init__(self, own: OwnTokens, issuers: Sequence[Issuer] = ()) -> None:
        self.own = own
        self._issuers = {issuer.url: issuer for issuer in issuers}

    def groups(self) -> dict[str, dict[str, str]]:
        """The roles of the groups of each issuer."""
        return {issuer.name: issuer.groups for issuer in self._issuers.values()}

    def identify(self, token: bytes, *, inline: bool = False) -> Identity | None:
        """Who a token stands for; None when it is not valid, which the log has the reason of. In the event loop
        (`inline`), WouldBlock means that keys must be fetched first.
        """
        try:
            return self._verify(token, inline=inline)
        except RefusedToken as exc:
            log.info("token refused", extra={"fields": {"reason": str(exc)[:200]}})
            return None

    def _verify(self, token: bytes, *, inline: bool) -> Identity:
        if len(token) > MOST_BYTES:
            raise RefusedToken(f"{len(token)} bytes are too many")
        try:
            text = token.decode("ascii")
            header = jwt.get_unverified_header(text)
            claimed = jwt.decode(text, options={"verify_signature": False}).get("iss")
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as exc:
            raise RefusedToken(f"malformed: {type(exc).__name__}") from None
        if claimed == self.own.issuer:
            return self.own.verify(text, header)
        issuer = self._issuers.get(claimed) if isinstance(claimed, str) else None
        if issuer is None:
            raise RefusedToken("the issuer is not one of server.oidc")
        return issuer.verify(text, header, inline=inline)
