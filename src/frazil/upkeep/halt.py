"""What ends work on a table early: the end of the process, or a lease that another worker has taken."""

from __future__ import annotations

import threading


class Stopped(Exception):
    """The end of the work was requested; what was committed before stays."""


class Halt:
    """A request to end, made once and with its reason; any thread may make it or wait for it.

    >>> halt = Halt()
    >>> halt.check()
    >>> halt.request("the process ends")
    >>> halt.reason, halt.wait(60)
    ('the process ends', True)
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self.reason: str | None = None

    def request(self, reason: str) -> None:
        """Ends the work; the first reason counts."""
        self.reason = self.reason or reason
        self._event.set()

    @property
    def requested(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Waits that long, or until the end is requested; then it is true."""
        return self._event.wait(seconds)

    def check(self) -> None:
        """Raises `Stopped` if the end is requested."""
        if self.requested:
            raise Stopped(self.reason)
