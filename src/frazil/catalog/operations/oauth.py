"""OAuth2: short-lived tokens for the id and the secret of an API key, and the keys that verify them."""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import TYPE_CHECKING, NoReturn

from frazil.catalog.access import keys
from frazil.catalog.context import Context
from frazil.catalog.http import Request, Response, json_response
from frazil.errors import BadRequest, NotAuthenticated
from frazil.logs import hide_tokens

if TYPE_CHECKING:
    from frazil.catalog.access.tokens import Tokens

CLIENT_CREDENTIALS = "client_credentials"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105  # the name of a grant type
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105  # the name of a kind of token
NO_STORE = (b"cache-control", b"no-store")


class _Refused(Exception):
    """An error of RFC 6749, section 5.2."""

    def __init__(self, error: str, description: str, status: int) -> None:
        self.error, self.description, self.status = error, description, status


def _refuse(error: str, description: str, status: int = 400) -> NoReturn:
    raise _Refused(error, description, status)


def get_token(ctx: Context, request: Request) -> Response:
    """A token for the id and the secret of an API key, or in place of a token that has not ended."""
    try:
        response = json_response(_issue(ctx, request))
    except _Refused as exc:
        if exc.error in ("invalid_client", "invalid_grant"):
            request.refused = True
            ctx.gate.note_refusal(request, NotAuthenticated(exc.description))
        response = json_response({"error": exc.error, "error_description": exc.description}, exc.status)
        if exc.status == 401:
            response.headers.append((b"www-authenticate", b'Basic realm="frazil"'))
    response.headers.append(NO_STORE)
    return response


def get_jwks(ctx: Context, _request: Request) -> Response:
    """The public keys of the tokens that this server issues."""
    response = json_response(ctx.tokens.own.jwks() if ctx.tokens is not None else {"keys": []})
    response.headers.append((b"cache-control", b"public, max-age=3600"))
    return response


def _issue(ctx: Context, request: Request) -> dict[str, object]:
    if not ctx.gate.on:
        _refuse("invalid_request", "Authentication is off: connect without a credential")
    if ctx.tokens is None:
        _refuse("invalid_request", "This server issues no tokens: send the API key itself, or install frazil[oauth]")
    try:
        form = request.form()
    except BadRequest as exc:
        _refuse("invalid_request", exc.message)
    grant = form.get("grant_type", "")
    if grant not in (CLIENT_CREDENTIALS, TOKEN_EXCHANGE):
        _refuse("unsupported_grant_type", f"Expected {CLIENT_CREDENTIALS}, got {hide_tokens(grant)[:80]!r}")
    key = _key_of(request, form)
    if grant == TOKEN_EXCHANGE and key is None:
        return _exchange(ctx, ctx.tokens, form)
    scope = _scope(form)
    try:
        held = ctx.gate.verify_key(ctx.database.read(), key or b"")
    except NotAuthenticated:
        _refuse("invalid_client", "The client id and the secret are not those of a valid API key", 401)
    return _answer(ctx.tokens.own.issue(held.id, held.principal, scope), scope)


def _scope(form: dict[str, str]) -> str:
    from frazil.catalog.access.claims import ceiling_of

    scope = " ".join(form.get("scope", "").split()) or "catalog"
    if ceiling_of(scope) is None:
        _refuse("invalid_scope", f"Expected 'catalog' or names of privileges, got {hide_tokens(scope)[:80]!r}")
    return scope


def _key_of(request: Request, form: dict[str, str]) -> bytes | None:
    """The API key of a client id and a secret, in the body or as Basic credentials; the secret may be the whole key."""
    client, secret = form.get("client_id", ""), form.get("client_secret")
    scheme, _, value = (request.header(b"authorization") or "").partition(" ")
    if secret is None and scheme.lower() == "basic":
        try:
            text = base64.b64decode(value.strip(), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return b""
        client, colon, secret = text.partition(":")
        client, secret = (client, secret) if colon else ("", client)
    if secret is None:
        return None
    key = secret.encode()
    whole = keys.key_id_of(key)
    if whole is None:
        return f"frz_{client}_{secret}".encode()
    return key if not client or hmac.compare_digest(client.encode(), whole.encode()) else b""


def _exchange(ctx: Context, tokens: Tokens, form: dict[str, str]) -> dict[str, object]:
    """A token in place of one that has not ended: how Java clients refresh. An API key needs none, and is returned."""
    from frazil.catalog.access.claims import ceiling_of
    from frazil.catalog.access.tokens import RENEWED_SECONDS

    subject = form.get("subject_token", "").encode()
    sql = ctx.database.read()
    try:
        if keys.key_id_of(subject) is not None:
            ctx.gate.verify_key(sql, subject)
            return {"access_token": subject.decode(), "token_type": "bearer", "issued_token_type": ACCESS_TOKEN}
        identity = tokens.identify(subject)
        if identity is None:
            _refuse("invalid_grant", "The token is not valid, or no longer")
        held = ctx.gate.key_behind(sql, identity)
    except NotAuthenticated:
        _refuse("invalid_grant", "The token is not valid, or no longer")
    if identity.since + RENEWED_SECONDS <= ctx.clock() // 1000:
        _refuse("invalid_grant", "The token was renewed for a day: show the secret again")
    asked = " ".join(form.get("scope", "").split())
    wanted = ceiling_of(asked) if asked else None
    scope = asked if wanted is not None and wanted <= identity.ceiling else identity.scope
    return _answer(tokens.own.issue(held.id, held.principal, scope, since=identity.since), scope)


def _answer(token: str, scope: str) -> dict[str, object]:
    from frazil.catalog.access.tokens import TOKEN_SECONDS

    return {
        "access_token": token,
        "token_type": "bearer",
        "issued_token_type": ACCESS_TOKEN,
        "expires_in": TOKEN_SECONDS,
        "scope": scope,
    }
