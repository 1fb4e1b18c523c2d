"""Limits per principal: requests, bytes of bodies and planned files per second, each as a bucket that fills again.

A principal may spend what it has saved, up to `BURST_SECONDS` of its rate, and go into debt by one request, whose cost
is known only afterwards. While it is in debt it is refused, and told when to come back. Each worker counts by itself.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from frazil.errors import QuotaExceeded

BURST_SECONDS = 5.0
MOST_PRINCIPALS = 10_000


class Quota:
    """What each principal may still spend of one thing."""

    def __init__(self, rate: float, unit: str, *, now: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._unit, self._now = rate, unit, now
        self._most = rate * BURST_SECONDS
        self._left: dict[str, tuple[float, float]] = {}  # (amount, at) by principal
        self._lock = threading.Lock()

    def check(self, principal: str) -> None:
        """Passes when the principal is not in debt."""
        self.take(principal, 0)

    def take(self, principal: str, cost: float) -> None:
        """Spends an amount; raises QuotaExceeded, and spends nothing, when the principal is in debt."""
        with self._lock:
            now = self._now()
            amount, at = self._left.get(principal, (self._most, now))
            amount = min(self._most, amount + (now - at) * self._rate)
            if amount < 0:
                raise QuotaExceeded(principal, f"{self._rate:g} {self._unit}", max(1, math.ceil(-amount / self._rate)))
            if len(self._left) >= MOST_PRINCIPALS and principal not in self._left:
                self._left = {}
            self._left[principal] = (amount - cost, now)

    def spend(self, principal: str, cost: float) -> None:
        """Spends an amount for work that `check` has let begin, and that goes on in debt."""
        self.give_back(principal, -cost)

    def give_back(self, principal: str, cost: float) -> None:
        """Undoes what was spent for work that begins again."""
        with self._lock:
            if principal in self._left:
                amount, at = self._left[principal]
                self._left[principal] = (amount + cost, at)


def quota_of(rate: float, unit: str) -> Quota | None:
    """The quota; None where there is no limit."""
    return Quota(rate, unit) if rate else None
