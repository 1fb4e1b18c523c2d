"""How requests leave: with an idempotency key where they change something, and again, under the same key, when the reply was lost."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping
from typing import Any

import requests
from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter
from urllib3.exceptions import ConnectTimeoutError as UrllibConnectTimeout
from urllib3.exceptions import MaxRetryError, NewConnectionError

KEY_HEADER = "Idempotency-Key"
KEY_LIFETIME = "idempotency-key-lifetime"  # the field of the configuration by which a server promises to answer a key once
CONNECT_SECONDS, READ_SECONDS = 10, 120
PAUSES_SECONDS = (0.1, 0.3, 0.9)  # before each repetition
_CHANGING = {"POST", "PUT", "DELETE", "PATCH"}
_DOUBTFUL = {500, 502, 503, 504}


def uuid7(*, now_ms: int | None = None, noise: bytes | None = None) -> uuid.UUID:
    """A new UUID of version 7 (RFC 9562): its first 48 bits are the time.

    >>> uuid7(now_ms=0x017F22E279B0, noise=bytes.fromhex("00000000000000000cc3" "18c4dc0c0c07398f")[-10:])
    UUID('017f22e2-79b0-7cc3-98c4-dc0c0c07398f')
    """
    now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    bits = int.from_bytes(os.urandom(10) if noise is None else noise)
    number = (now_ms & (1 << 48) - 1) << 80 | bits
    number = number & ~(0xF << 76) | 0x7 << 76  # the version
    number = number & ~(0x3 << 62) | 0x2 << 62  # the variant
    return uuid.UUID(int=number)


def was_repeated(response: Response) -> bool:
    """Whether an earlier copy of this request was sent and its reply lost."""
    return bool(getattr(response, "frazil_repeated", False))


def was_never_sent(error: requests.RequestException) -> bool:
    """Whether no server got the request at all."""
    cause = error.args[0] if error.args else None
    reason = cause.reason if isinstance(cause, MaxRetryError) else cause
    return isinstance(reason, NewConnectionError | UrllibConnectTimeout)


class Transport(HTTPAdapter):
    """Sends requests for PyIceberg's session. With `keys`, those that change something carry a key and may be repeated."""

    def __init__(self, *, keys: bool) -> None:
        self.keys = keys
        super().__init__()

    def send(
        self,
        request: PreparedRequest,
        stream: bool = False,
        timeout: Any = None,  # requests' own type is a union of six
        verify: Any = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> Response:
        options = {
            "stream": stream,
            "timeout": timeout or (CONNECT_SECONDS, READ_SECONDS),
            "verify": verify,
            "cert": cert,
            "proxies": proxies,
        }
        if request.method not in _CHANGING or not self.keys:
            return super().send(request, **options)
        request.headers.setdefault(KEY_HEADER, str(uuid7()))
        return self._send_until_answered(request, options)

    def _send_until_answered(self, request: PreparedRequest, options: dict[str, Any]) -> Response:
        """The answer to one key: the request is repeated while its fate is open, for the server does its work once."""
        repeated = False
        for pause in (*PAUSES_SECONDS, None):
            try:
                response = super().send(request, **options)
                if response.status_code not in _DOUBTFUL or pause is None:
                    response.frazil_repeated = repeated  # type: ignore[attr-defined]
                    return response
                repeated = True
            except (requests.ConnectionError, requests.Timeout) as exc:
                repeated = repeated or not was_never_sent(exc)
                if pause is None:
                    raise
            time.sleep(pause)
        raise AssertionError("the last round returns or raises")
