"""What a JWT says once its signature, issuer, audience and time are verified: who its bearer is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jwt

from frazil.catalog.access.privileges import Privilege, included

LEEWAY_SECONDS = 30  # between clocks
# what clients ask for when nothing is configured; "sign": Java clients, for the requests that they have signed
ALL_SCOPES = frozenset(("catalog", "sign", "PRINCIPAL_ROLE:ALL"))


class RefusedToken(Exception):
    """A token is not valid. The reason is for the log; the client learns nothing of it."""


class Identity(NamedTuple):
    """Who a token stands for."""

    principal: str
    key_id: str | None  # of the API key that the server's own token was issued for
    roles: tuple[str, ...]  # that an issuer's groups give
    ceiling: frozenset[Privilege]
    expires_ms: int
    since: int = 0  # when the secret was shown, in seconds
    scope: str = ""


def ceiling_of(scope: str) -> frozenset[Privilege] | None:
    """What a token of this scope is good for; None when the scope has a name that means nothing here.

    >>> sorted(map(str, ceiling_of("read") or ())), ceiling_of("catalog") == frozenset(Privilege), ceiling_of("x")
    (['discover', 'read'], True, None)
    """
    names = set(scope.split())
    if not names or names & ALL_SCOPES:
        return frozenset(Privilege) if names <= {*ALL_SCOPES, *Privilege} else None
    return included(names) if names <= {privilege.value for privilege in Privilege} else None


def decode(
    token: str,
    key: Any,
    *,
    algorithms: Sequence[str],
    issuer: str,
    audience: str | Sequence[str],
    required: Sequence[str],
) -> dict[str, Any]:
    """The claims of a token, when signature, issuer, audience and time are right."""
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=list(algorithms),
            issuer=issuer,
            audience=audience,
            leeway=LEEWAY_SECONDS,
            options={"require": ["iss", "aud", "exp", "sub", *required], "enforce_minimum_key_length": True},
        )
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError) as exc:
        raise RefusedToken(str(exc)) from None
    if not isinstance(claims["exp"], int | float):  # the library takes a number in a text, too
        raise RefusedToken("expected a number as exp")
    return claims | {"exp": int(claims["exp"])}


def end_ms(claims: dict[str, Any]) -> int:
    """When a token ends here: as late as another clock may say that it does.

    >>> end_ms({"exp": 1000})
    1030000
    """
    return (int(claims["exp"]) + LEEWAY_SECONDS) * 1000
