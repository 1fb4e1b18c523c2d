"""A lease on a table, renewed by a thread for as long as its worker lives. A worker that is killed or paused renews
nothing: its lease expires, and another worker takes over.

Nothing depends on a lease but the work that is saved by not doing it twice. A worker that goes on after its lease has
expired is one more concurrent upkeep run, against which every step is safe.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from frazil import metrics
from frazil.catalog.store import upkeep as store
from frazil.catalog.store.database import Database
from frazil.errors import CommitUnknown, Unavailable
from frazil.upkeep import Halt

log = logging.getLogger("frazil.upkeep")
RENEWALS = 3  # tries in the time of one lease


class HeldLease:
    """A lease that is renewed until the block ends. When it is lost, `halt` ends the work."""

    def __init__(
        self,
        database: Database,
        lease: store.Lease,
        *,
        seconds: float,
        halt: Halt,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._seconds, self._halt, self._clock = database, seconds, halt, clock
        self.lease = lease
        self._ended = threading.Event()
        self._valid_until = clock() + seconds
        self._thread = threading.Thread(target=self._renew_often, daemon=True, name="frazil-lease")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _renew_often(self) -> None:
        while not self._ended.wait(self._seconds / RENEWALS):
            if not self._renew():
                metrics.current().count("frazil_upkeep_leases_lost_total")
                facts = {"table_uuid": self.lease.table_uuid, "generation": self.lease.generation}
                log.warning("lost the lease of table %s", self.lease.table_uuid, extra={"fields": facts})
                self._halt.request("another worker has the lease of the table")
                return

    def _renew(self) -> bool:
        """Whether the lease is valid, as far as is known. A database that does not answer is asked again."""
        asked = self._clock()
        try:
            renewed = self._database.write(lambda sql: store.renew(sql, self.lease, lease_ms=int(self._seconds * 1000)))
        except (Unavailable, CommitUnknown):
            return asked < self._valid_until
        self._valid_until = asked + self._seconds
        return renewed
