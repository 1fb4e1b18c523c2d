"""JSON answers of the console: never cached, and never for pages of other sites."""

from __future__ import annotations

from typing import Any

import orjson

from frazil.catalog import Request, Response
from frazil.errors import OriginRefused

JSON_HEADERS = (
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
OTHER_SITES = ("cross-site", "same-site")


def console_json(value: Any) -> Response:
    """A JSON answer with the headers of the console's data; `bytes` are JSON already."""
    return Response(200, value if isinstance(value, bytes) else orjson.dumps(value), [*JSON_HEADERS])


def console_answer(response: Response) -> Response:
    """The answer of an operation of the catalog with the headers of the console's data."""
    return Response(response.status, response.body, [*JSON_HEADERS])


def refuse_other_sites(request: Request) -> None:
    """Refuses a request that a page of another origin made, as the browser says in Sec-Fetch-Site. Other clients do not
    send the header.
    """
    site = (request.header(b"sec-fetch-site") or "").strip().lower()
    if site in OTHER_SITES:
        raise OriginRefused(request.header(b"origin") or site)
