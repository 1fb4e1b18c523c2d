"""A worker of upkeep by the catalog: it scores tables that have changed, takes the lease of one that someone asked for,
or of the one with the largest debt, runs the steps, and goes on. Any number of workers share one database.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from frazil.catalog.names import Name
from frazil.catalog.store import access
from frazil.catalog.store import places as place_store
from frazil.catalog.store import upkeep as store
from frazil.catalog.store.database import Database
from frazil.catalog.store.upkeep import Kept, Lease
from frazil.catalog.upkeep.leases import HeldLease
from frazil.catalog.upkeep.record import Asked, Run, asked_of, memory_of
from frazil.catalog.upkeep.scores import Scores
from frazil.catalog.upkeep.table_run import TableRun
from frazil.config import UpkeepSettings
from frazil.errors import CommitUnknown, Unavailable
from frazil.scan.manifests import folders_of
from frazil.upkeep import Debt, Engine, Halt, own_file_io

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table

    from frazil.client import FrazilCatalog

log = logging.getLogger("frazil.upkeep")
CANDIDATES = 20
LONGEST_WAIT_SECONDS = 3600.0
FORGET_SECONDS = 3600.0  # between looks for tables that were dropped
NOTED_SECONDS = 60.0  # that a worker is taken to look for tables after it has said so
ASK_SECONDS = 1.0  # between looks of a worker that is there for requests, at tables that others work on


def new_owner() -> str:
    """A name for a worker, for `frazil upkeep status`: host, process, and a part that no other one has."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:6]}"


def _clock_from(start_ms: int) -> Callable[[], int]:
    """The database's clock, which showed this just now."""
    started = time.monotonic()
    return lambda: start_ms + int((time.monotonic() - started) * 1000)


@dataclass
class UpkeepWorker:
    """One worker. `run` works until `stop` is called, from a signal's handler or from another thread."""

    database: Database
    connect: Callable[[str], FrazilCatalog]  # by warehouse
    settings: UpkeepSettings = field(default_factory=UpkeepSettings)
    large: Callable[[], Engine] | None = None  # where much is rewritten: Spark
    owner: str = field(default_factory=new_owner)
    requested_only: bool = False  # works on tables that someone asked for, then ends
    on_step: Callable[[str], None] = lambda _: None  # is called at each step of a commit, and of the worker itself
    _halt: Halt = field(default_factory=Halt)  # of the worker
    _run_halt: Halt = field(default_factory=Halt)  # of the run at hand
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _lease: Lease | None = None
    _catalogs: dict[str, FrazilCatalog] = field(default_factory=dict)
    _forgot: float = -FORGET_SECONDS
    _noted: float = -NOTED_SECONDS

    def __post_init__(self) -> None:
        self._scores = Scores(self.database, self.catalog, self.settings)

    def run(self, *, once: bool = False) -> None:
        """Works until `stop` is called; with `once`, until no table is due."""
        log.info("upkeep worker %s has started", self.owner, extra={"fields": {"owner": self.owner}})
        try:
            if self.requested_only:
                self._work_on_requested()
            else:
                self._work_on_due(once=once)
        finally:
            if self._noted > 0:
                with suppress(Unavailable, CommitUnknown):
                    self.database.write(lambda sql: store.forget_worker(sql, self.owner))
        log.info("upkeep worker %s has ended", self.owner, extra={"fields": {"owner": self.owner}})

    def _work_on_due(self, *, once: bool) -> None:
        while not self._halt.requested:
            try:
                if not once:
                    self._note()
                scored, worked = self._turn(quiet_seconds=0 if once else self.settings.quiet_seconds)
            except (Unavailable, CommitUnknown) as exc:
                log.warning("upkeep waits: %s", exc.message)
                if once:
                    raise
                scored, worked = 0, False
            if once and not scored and not worked:
                break
            if not worked:
                self._halt.wait(0 if once else self.settings.poll_seconds)

    def _work_on_requested(self) -> None:
        """Works until nothing is asked for any more. A request for a table that another worker is at may be newer than
        what that worker does.
        """
        while not self._halt.requested and (tables := store.list_requested(self.database.read())):
            if not any(self._work_on(table) for table in tables if not self._halt.requested):
                self._halt.wait(ASK_SECONDS)

    def _note(self) -> None:
        """Says now and then that this worker looks for tables."""
        now = time.monotonic()
        if now - self._noted >= NOTED_SECONDS / 3:
            for_ms = int((NOTED_SECONDS + 2 * self.settings.poll_seconds) * 1000)
            self.database.write(lambda sql: store.note_worker(sql, self.owner, for_ms=for_ms))
            self._noted = now

    def stop(self, reason: str = "the worker ends") -> None:
        """Ends the worker: finished groups are committed, the one at hand is given up."""
        with self._lock:
            self._halt.request(reason)
            self._run_halt.request(reason)

    def abandon(self) -> None:
        """Gives the lease back, for a process that is about to end without waiting for the work."""
        if (lease := self._lease) is not None:
            self.database.write(lambda sql: store.release(sql, lease))

    def _turn(self, *, quiet_seconds: float) -> tuple[int, bool]:
        """How many tables were scored, and whether one was worked on."""
        if time.monotonic() - self._forgot >= FORGET_SECONDS:
            self.database.write(store.forget_dropped)
            self._forgot = time.monotonic()
        scored = self._scores.update()
        due = store.list_due(self.database.read(), quiet_ms=int(quiet_seconds * 1000), limit=CANDIDATES)
        for table in due:
            if self._halt.requested:
                break
            if self._work_on(table):
                return scored, True
        return scored, False

    def _work_on(self, table: Kept) -> bool:
        """Whether the lease was free, and the table was worked on."""
        lease_ms = int(self.settings.lease_seconds * 1000)
        lease = self.database.write(lambda sql: store.take(sql, table.uuid, self.owner, lease_ms=lease_ms))
        if lease is None:
            return False
        with self._lock:
            self._run_halt, self._lease = Halt(), lease
            if self._halt.requested:
                self._run_halt.request(self._halt.reason or "")
        self.on_step("lease taken")
        try:
            with HeldLease(self.database, lease, seconds=self.settings.lease_seconds, halt=self._run_halt):
                self._finish(lease, table, self._maintain(table))
        except Unavailable:
            with suppress(Unavailable, CommitUnknown):
                self.abandon()
            raise
        finally:
            self._lease = None
        return True

    def _maintain(self, table: Kept) -> Run | None:
        """The run; None if there is nothing to do any more: another worker was here since the table was listed."""
        same = store.find(self.database.read(), table.uuid)
        now = next(iter(same), table)
        debt, asked, memory = self._scores.score(now), asked_of(now.request), memory_of(now.run)
        if asked is None and (debt is None or debt.score < 1):
            return None
        if len(same) > 1:  # asked for: what is due is only what has a score
            message = "other tables have the UUID of this one, and so its files"
            return Run("failed", memory, self.owner, now.now_ms, message=message, asked=asked)
        self._say_begin(now, debt, asked)
        catalog = self.catalog(now.warehouse)
        work = TableRun(catalog, now.identifier, self.settings, self._run_halt, memory, self.owner, self.large)
        work.on_step, work.uuid, work.clock_ms = self.on_step, now.uuid, _clock_from(now.now_ms)
        work.asked = asked
        return work.run(debt or Debt())

    def _say_begin(self, table: Kept, debt: Debt | None, asked: Asked | None) -> None:
        facts: dict[str, object] = {"table": table.label, "owner": self.owner}
        if asked is not None:
            facts |= {"asked_by": asked.by, "steps": asked.steps}
            log.info("%s: upkeep: %s asked for %s", table.label, asked.by, asked.steps, extra={"fields": facts})
        elif debt is not None:
            facts["score"] = debt.score
            log.info("%s: upkeep: %s", table.label, "; ".join(debt.reasons), extra={"fields": facts})

    def _finish(self, lease: Lease, table: Kept, run: Run | None) -> None:
        wait = 0.0 if run is None else self._wait_seconds(run)
        text = run.to_json() if run is not None else None
        # What was cut short because the worker ends is left to another one.
        done = run.asked.to_json() if run is not None and run.asked is not None and not self._halt.requested else None
        held = self.database.write(
            lambda sql: store.release(sql, lease, run=text, wait_ms=int(wait * 1000), request=done)
        )
        if run is not None:
            facts = {"table": table.label, "outcome": run.outcome, "seconds": round(run.seconds, 3), "held": held}
            log.info("%s: upkeep: %s", table.label, run.message or run.outcome, extra={"fields": facts})
        if held and (now := store.find(self.database.read(), table.uuid)):
            self._scores.score(now[0])

    def _wait_seconds(self, run: Run) -> float:
        """How long the table is left alone: longer after conflicts and errors, not at all if the run was cut short."""
        if run.outcome == "stopped":
            return 0.0
        longest = max(LONGEST_WAIT_SECONDS, self.settings.table_seconds)
        pause = self.settings.table_seconds
        return min(max(pause, 1.0) * 2**run.memory.backoff, longest) if run.memory.backoff else pause

    def catalog(self, warehouse: str) -> FrazilCatalog:
        """The client for a warehouse, which reads no more files than the worker may."""
        if warehouse not in self._catalogs:
            self._catalogs[warehouse] = catalog = self.connect(warehouse)
            catalog.limit_files(lambda table: self._access(warehouse, table))
        return self._catalogs[warehouse]

    def _access(self, warehouse: str, table: Table) -> FileIO:
        """How the files of a table are reached. If keys were made for the catalog, only those in its own places: who
        may write the table may not read what the worker may.
        """
        sql = self.database.read()
        if access.pepper_check(sql) is None:
            return table.io
        *levels, name = table.name()
        places = place_store.list_own(sql, warehouse=warehouse, name=Name(tuple(levels), name))
        folders = folders_of(table.location(), table.metadata.properties)
        return own_file_io(dict(table.io.properties), (*folders, *map(location_of, places)))


def location_of(place: str) -> str:
    """The location of a place (`Place.key`).

    >>> location_of("s3:/lake/t/"), location_of("file:/w/t/")
    ('s3://lake/t', 'file:///w/t')
    """
    scheme, _, path = place.rstrip("/").partition(":/")
    return f"s3://{path}" if scheme == "s3" else f"{scheme}:///{path}"
