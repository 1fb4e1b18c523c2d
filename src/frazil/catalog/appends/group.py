"""Appends to one table that wait for its lock, until one of them commits all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frazil.catalog.commit import Change

if TYPE_CHECKING:
    from frazil.catalog.http import Request, Response

MOST_TICKETS = 64  # in one group; the others are the next one

Key = tuple[str, ...]  # of a table


@dataclass(slots=True, eq=False)
class Ticket:
    """A request that waits for its turn, and later its outcome."""

    request: Request
    change: Change
    respond: Callable[[Any], Response]
    answer: Response | None = None
    error: Exception | None = None

    @property
    def done(self) -> bool:
        return self.answer is not None or self.error is not None

    def result(self) -> Response:
        """The answer, or the error raised."""
        if self.error is not None:
            raise self.error
        assert self.answer is not None, "the group has ended"
        return self.answer


class Left(Exception):
    """A request cannot be part of its group's transaction, which was undone: the others go on without it."""

    def __init__(self, ticket: Ticket, cause: Exception) -> None:
        super().__init__(str(cause))
        self.ticket, self.cause = ticket, cause


class Groups:
    """The tickets that wait, by table, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: dict[Key, list[Ticket]] = {}
        self._lock = threading.Lock()

    def add(self, key: Key, ticket: Ticket) -> None:
        with self._lock:
            self._waiting.setdefault(key, []).append(ticket)

    def take(self, key: Key, own: Ticket) -> list[Ticket]:
        """Those that have waited longest, and the caller's own: they do not wait any more."""
        with self._lock:
            waiting = self._waiting.pop(key, [])
            taken = waiting[:MOST_TICKETS]
            if own not in taken:
                taken[-1] = own
            left = [ticket for ticket in waiting if ticket not in taken]
            if left:
                self._waiting[key] = left
        return taken
