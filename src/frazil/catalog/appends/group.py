"""Appends to one table that wait until one of them, which leads, has the table's lock and commits all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from frazil.catalog.commit import Change

if TYPE_CHECKING:
    from frazil.catalog.http import Request, Response

MOST_TICKETS = 64  # in one group; the others are the next one

Key = tuple[str, ...]  # of a table


@dataclass(slots=True, eq=False)
class Ticket:
    """A request that waits for its turn, and later its outcome. The turn comes when it has its outcome, or is to lead:
    who has an outcome waits for no lock.
    """

    request: Request
    change: Change
    respond: Callable[[Any], Response]
    answer: Response | None = None
    error: Exception | None = None
    turn: threading.Event = field(default_factory=threading.Event)

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
    """The tickets that wait, by table, in the order in which they came. One of each table leads: it takes the table's
    lock, and commits for those that wait by then. When it has ended, the one that has waited longest leads.
    """

    def __init__(self) -> None:
        self._waiting: dict[Key, list[Ticket]] = {}
        self._led: set[Key] = set()
        self._lock = threading.Lock()

    def add(self, key: Key, ticket: Ticket) -> None:
        """The ticket waits. It leads if no other one does."""
        with self._lock:
            self._waiting.setdefault(key, []).append(ticket)
            if key not in self._led:
                self._led.add(key)
                ticket.turn.set()

    def take(self, key: Key) -> list[Ticket]:
        """Those that have waited longest, the one that leads among them: they do not wait any more."""
        with self._lock:
            waiting = self._waiting.pop(key)
            if left := waiting[MOST_TICKETS:]:
                self._waiting[key] = left
        return waiting[:MOST_TICKETS]

    def end(self, key: Key, leader: Ticket, taken: Sequence[Ticket]) -> None:
        """It is the turn of those that were taken, and of the next one that leads."""
        for ticket in taken:
            ticket.turn.set()
        with self._lock:
            waiting = self._waiting.pop(key, [])
            if leader in waiting:  # it got no lock
                waiting.remove(leader)
            if waiting:
                self._waiting[key] = waiting
                waiting[0].turn.set()
            else:
                self._led.discard(key)
