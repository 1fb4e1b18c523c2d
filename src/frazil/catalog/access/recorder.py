"""Records refusals in the audit log, not more of one caller or address than a limit: a flood must not fill the disk.
Also notes when a key was last used.

A refusal is not part of a transaction. It is written by a thread of its own, so that no answer waits for it.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from frazil.catalog.store import access, audit
from frazil.catalog.store.audit import Record
from frazil.catalog.store.database import Database
from frazil.errors import FrazilError

log = logging.getLogger("frazil.catalog")
BURST, PER_SECOND = 20.0, 1.0  # records of one caller or address
MOST_SENDERS, MOST_WAITING = 10_000, 1_000


class Recorder:
    """Writes refusals of one server process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="frazil-audit")
        self._lock = threading.Lock()
        self._senders: dict[str, tuple[float, float, int]] = {}  # (records left, when, refusals left out)
        self._waiting = 0

    def note(self, record: Record) -> None:
        """Writes the record soon, or counts it with the next one of its sender."""
        left_out = self._take(record.actor or record.address)
        if left_out is None:
            return
        with self._lock:
            self._waiting += 1
        self._thread.submit(self._write, record, left_out)

    def note_use(self, key_id: str, *, now_ms: int) -> None:
        """Notes soon that a key is in use, unless much waits to be written."""
        with self._lock:
            if self._waiting >= MOST_WAITING:
                return
            self._waiting += 1
        self._thread.submit(self._write_use, key_id, now_ms)

    def _write_use(self, key_id: str, now_ms: int) -> None:
        try:
            self._database.write(lambda sql: access.note_use(sql, key_id, now_ms=now_ms))
        except FrazilError as exc:
            log.warning("the use of the key %s could not be noted: %s", key_id, exc.message)
        finally:
            with self._lock:
                self._waiting -= 1

    def _take(self, sender: str) -> int | None:
        """How many refusals of the sender were left out before this one; None if this one is, too."""
        now = time.monotonic()
        with self._lock:
            if len(self._senders) >= MOST_SENDERS:
                self._senders.clear()
            left, before, left_out = self._senders.get(sender, (BURST, now, 0))
            left = min(BURST, left + (now - before) * PER_SECOND)
            if left < 1 or self._waiting >= MOST_WAITING:
                self._senders[sender] = (left, now, left_out + 1)
                return None
            self._senders[sender] = (left - 1, now, 0)
            return left_out

    def _write(self, record: Record, left_out: int) -> None:
        note = f"{record.note}; {left_out} more were not recorded" if left_out else record.note
        row = replace(record, note=note)
        try:
            self._database.write(lambda sql: audit.add(sql, row))
        except FrazilError as exc:
            log.warning("a refusal could not be recorded: %s", exc.message)
        finally:
            with self._lock:
                self._waiting -= 1

    def close(self) -> None:
        """Waits for what is to be written."""
        self._thread.shutdown(wait=True)
