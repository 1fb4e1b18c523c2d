"""The connections of one server: closes those that keep it waiting, and makes room for new ones.

A connection waits for its client when a request has begun and is not complete, when an answer is not read, or between
requests. Once a second all are looked at, so that the path of a request sets no timers. uvicorn itself closes
connections that are idle between requests.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from frazil.catalog.logs import log
from frazil.config import Limits

SWEEP_SECONDS = 1.0
EVICT_SHARE = 10  # a tenth of the connections makes room at a time, so that a flood does not search for each


class Connection(Protocol):
    """An open connection, as far as its waits are concerned."""

    transport: Any

    def waits_for_client(self) -> bool: ...

    def is_late(self, now: float) -> bool: ...

    def give_up(self) -> None: ...


class Connections:
    """Open connections, the oldest first."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._open: dict[Connection, None] = {}
        self._unsent: dict[Connection, tuple[int, float]] = {}  # unsent bytes, and since when their number stands
        self._bodies: dict[Connection, bytes] = {}  # long answers that may not have been read yet
        self._most_unsent = limits.in_flight_bytes // 2
        self._timer: asyncio.TimerHandle | None = None
        waits = (limits.first_byte_seconds, limits.body_seconds, limits.write_seconds)
        # A piece of a request below that keeps every limit of the head, also together with the piece before.
        self.small_bytes = min(8192, limits.header_bytes // 2, limits.url_bytes // 2)
        self._pause = min(SWEEP_SECONDS, min(waits) / 4)

    def __len__(self) -> int:
        return len(self._open)

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._pause, self._sweep_again)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def opened(self, connection: Connection) -> None:
        if len(self._open) >= self.limits.connections:
            self._make_room()
        if len(self._open) >= self.limits.connections:  # every one is being worked on
            connection.transport.abort()
        self._open[connection] = None

    def closed(self, connection: Connection) -> None:
        self._open.pop(connection, None)
        self._unsent.pop(connection, None)
        self._bodies.pop(connection, None)

    def wrote(self, connection: Connection, body: bytes) -> None:
        """Notes a long answer that its client has still to read. Several may be the same bytes, from the cache."""
        if connection.transport.get_write_buffer_size() > 0:
            self._bodies[connection] = body
            if len(self._bodies) * len(body) > self._most_unsent and self._held() > self._most_unsent:
                self._drop_unread()

    def _held(self) -> int:
        return sum(len(body) for body in {id(body): body for body in self._bodies.values()}.values())

    def _make_room(self) -> None:
        """Closes the oldest connections that wait for their clients. Those whose request is being worked on stay."""
        count = max(1, len(self._open) // EVICT_SHARE)
        waiting = (connection for connection in self._open if connection.waits_for_client())
        victims = [connection for connection, _ in zip(waiting, range(count), strict=False)]
        for connection in victims:
            self.closed(connection)
            connection.transport.abort()
        facts = {"connections": len(self._open), "closed": len(victims)}
        log.warning("too many connections: closed those that waited longest", extra={"fields": facts})

    # --- once a second -----------------------------------------------------------------------------------------------

    def _sweep_again(self) -> None:
        self.start()
        now = asyncio.get_running_loop().time()
        for connection in list(self._open):
            if connection.is_late(now):
                connection.give_up()
            else:
                self._look_at_unsent(connection, now)
        if self._held() > self._most_unsent:
            self._drop_unread()

    def _look_at_unsent(self, connection: Connection, now: float) -> None:
        """Closes the connection when its client has not read on for too long."""
        size = connection.transport.get_write_buffer_size()
        if size == 0:
            self._unsent.pop(connection, None)
            self._bodies.pop(connection, None)
            return
        before = self._unsent.get(connection)
        if before is None or size != before[0]:
            self._unsent[connection] = (size, now)
        elif now - before[1] > self.limits.write_seconds:
            log.info(
                "closed a connection whose client does not read its answer", extra={"fields": {"unsent_bytes": size}}
            )
            connection.transport.abort()
            self._bodies.pop(connection, None)

    def _drop_unread(self) -> None:
        """Closes connections until half of what their long answers take is free: those first that have not read on for
        longest.

        The one that read last stays: a table whose metadata is longer than the limit can be loaded by one client at a
        time.
        """
        if len(self._bodies) < 2:
            return
        now = asyncio.get_running_loop().time()
        waiting = sorted(self._bodies, key=lambda connection: self._unsent.get(connection, (0, now))[1])
        before, closed = self._held(), 0
        while len(waiting) > 1 and self._held() > self._most_unsent // 2:
            for connection in waiting[: max(1, len(waiting) // EVICT_SHARE)]:
                waiting.remove(connection)
                del self._bodies[connection]
                connection.transport.abort()
                closed += 1
        facts = {"unsent_bytes": before, "closed": closed}
        log.warning("closed connections whose clients do not read their answers", extra={"fields": facts})
