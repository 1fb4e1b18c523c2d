"""An OpenID Connect issuer on the loopback interface: serves its discovery document and keys, and signs tokens."""

from __future__ import annotations

import base64
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa


class LocalIssuer:
    """Signs with RS256 or ES256; `paths` counts what was asked for."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.private: dict[str, Any] = {}
        self.public: list[dict[str, Any]] = []  # what the JWKS shows
        self.paths: list[str] = []
        self.stop: Callable[[], None] = lambda: None  # connections are refused from then on
        self.discovery: dict[str, Any] = {"issuer": uri, "jwks_uri": f"{uri}/jwks"}

    def add_key(self, kid: str, algorithm: str = "ES256", *, publish: bool = True) -> None:
        key: Any = (
            ec.generate_private_key(ec.SECP256R1())
            if algorithm == "ES256"
            else rsa.generate_private_key(public_exponent=65537, key_size=2048)
        )
        self.private[kid] = key
        jwk = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
        if publish:
            self.public.append({**jwk, "kid": kid, "use": "sig", "alg": algorithm})

    def claims(self, **changed: Any) -> dict[str, Any]:
        now = int(time.time())
        claims = {"iss": self.uri, "aud": "lake", "sub": "ann", "iat": now, "exp": now + 300, "groups": ["staff"]}
        return {name: value for name, value in (claims | changed).items() if value is not None}

    def sign(self, *, kid: str = "one", algorithm: str = "ES256", key: Any = None, **changed: Any) -> str:
        headers = {"kid": kid} if kid else {}
        return jwt.encode(self.claims(**changed), key or self.private[kid], algorithm=algorithm, headers=headers)


def sign_by_hand(claims: dict[str, Any], secret: bytes, *, kid: str, typ: str = "JWT") -> str:
    """A token with HS256; the library refuses to take a public key as the secret."""
    parts = [json.dumps(part).encode() for part in ({"alg": "HS256", "kid": kid, "typ": typ}, claims)]
    text = b".".join(_encode(part) for part in parts)
    return (text + b"." + _encode(hmac.digest(secret, text, "sha256"))).decode()


def _encode(part: bytes) -> bytes:
    return base64.urlsafe_b64encode(part).rstrip(b"=")


@contextmanager
def local_issuer() -> Iterator[LocalIssuer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.paths.append(self.path)
            document = issuer.discovery if self.path.endswith("openid-configuration") else {"keys": issuer.public}
            body = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer = LocalIssuer(f"http://127.0.0.1:{server.server_port}")
    issuer.add_key("one")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown()
        thread.join()
        server.server_close()

    issuer.stop = stop
    try:
        yield issuer
    finally:
        if thread.is_alive():
            stop()
