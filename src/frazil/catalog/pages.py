"""Pagination: the token is the last name of the page before, so that a listing stays right while names come and go."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TypeVar

from frazil.catalog.http import Request
from frazil.errors import BadRequest

T = TypeVar("T")
DEFAULT_SIZE = 1000
MAX_SIZE = 10_000
ALL = 2**31 - 2  # a client that asks for no pages gets everything


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a listing is asked for: the names after `after`, at most `size`."""

    after: str
    size: int

    @property
    def limit(self) -> int:
        """One more than is shown: whether it exists tells whether there is a next page."""
        return self.size + 1

    @property
    def is_all(self) -> bool:
        return self.size == ALL

    def cut(self, names: list[str]) -> tuple[list[str], str | None]:
        """The names to show, and the token of the next page."""
        if len(names) <= self.size:
            return names, None
        return names[: self.size], _encode(names[self.size - 1])


def page_of(request: Request) -> Page:
    query = request.query
    if "pageToken" not in query and "pageSize" not in query:
        return Page("", ALL)
    return Page(_decode(query.get("pageToken", "")), _size(query.get("pageSize")))


def _size(text: str | None) -> int:
    if text is None:
        return DEFAULT_SIZE
    if not text.isascii() or not text.isdigit() or int(text[:10]) < 1:
        raise BadRequest(f"Invalid pageSize {text[:20]!r}: expected a number from 1")
    return min(int(text[:10]), MAX_SIZE)


def _encode(name: str) -> str:
    """
    >>> _decode(_encode("orders"))
    'orders'
    """
    return base64.urlsafe_b64encode(name.encode()).decode().rstrip("=")


def _decode(token: str) -> str:
    try:
        padded = token + "=" * (-len(token) % 4)
        name = base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError) as exc:
        raise BadRequest(f"Invalid pageToken {token[:60]!r}: use the next-page-token of the previous page") from exc
    if "\x00" in name:
        raise BadRequest(f"Invalid pageToken {token[:60]!r}: use the next-page-token of the previous page")
    return name
