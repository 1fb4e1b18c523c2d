"""How requests leave: with an idempotency key where they change something, and again, under the same key, when the
reply was lost.
"""

from __future__ import annotations

import logging
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

from frazil import metrics
from frazil.errors import Unavailable
from frazil.logs import describe_error, redact

log = logging.getLogger("frazil.client")
KEY_HEADER = "Idempotency-Key"
# the field of the configuration by which a server promises to answer a key once
KEY_LIFETIME = "idempotency-key-lifetime"
CONNECT_SECONDS, READ_SECONDS = 10, 120
PAUSES_SECONDS = (0.1, 0.3, 0.9)  # before each repetition
_CHANGING = {"POST", "PUT", "DELETE", "PATCH"}
_DOUBTFUL = {500, 502, 503, 504}
_TRANSIENT = {502, 503, 504}


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
    """Sends requests for PyIceberg's session: those that only read may be repeated, and with `keys` so may those that
    change something.
    """

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
        waits = timeout or (CONNECT_SECONDS, READ_SECONDS)
        options = {"stream": stream, "timeout": waits, "verify": verify, "cert": cert, "proxies": proxies}
        changing = request.method in _CHANGING
        if changing and self.keys:
            request.headers.setdefault(KEY_HEADER, str(uuid7()))
        try:
            if changing and not self.keys:
                return super().send(request, **options)
            return self._send_until_answered(request, options, _DOUBTFUL if changing else _TRANSIENT)
        except (requests.ConnectionError, requests.Timeout) as exc:
            if changing and not was_never_sent(exc):
                raise  # it may have been done: the caller decides what that means
            hint = "start it (frazil up, frazil serve), or correct catalog.uri (frazil config shows it)"
            raise Unavailable(
                f"the catalog does not answer at {request.url}; nothing was changed: {exc}", hint=hint, reason=str(exc)
            ) from exc

    def _send_until_answered(self, request: PreparedRequest, options: dict[str, Any], again: set[int]) -> Response:
        """The answer to a request that may be repeated while its fate is open, for it is done once, or
        changes nothing.
        """
        doubt: requests.RequestException | None = None  # set once a copy was sent that may have been done
        for pause in (*PAUSES_SECONDS, None):
            try:
                response = super().send(request, **options)
                if response.status_code not in again or pause is None:
                    response.frazil_repeated = doubt is not None  # type: ignore[attr-defined]
                    return response
                doubt = doubt or requests.ConnectionError(f"the catalog answered {response.status_code}")
            except (requests.ConnectionError, requests.Timeout) as exc:
                doubt = doubt or (None if was_never_sent(exc) else exc)
                if pause is None and doubt not in (None, exc):
                    raise doubt from exc  # that no further copy can be sent says nothing of the first
                if pause is None:
                    raise
            _report_repeat(request, doubt, pause)
            time.sleep(pause)
        raise AssertionError("the last round returns or raises")


def _report_repeat(request: PreparedRequest, cause: Exception | None, pause: float) -> None:
    metrics.current().count("frazil_client_repeats_total")
    path = redact((request.url or "").partition("?")[0])
    facts = {"method": request.method, "url": path, "wait_seconds": pause}
    reason = describe_error(cause) if cause else "the catalog was not reached"
    log.info("%s %s: again in %.1f s: %s", request.method, path, pause, reason, extra={"fields": facts})
