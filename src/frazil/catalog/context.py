"""What every operation gets besides its request: the database, the warehouses, the files, the clock."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from frazil.catalog.http import Request
from frazil.catalog.store.database import Database
from frazil.catalog.telemetry import Telemetry
from frazil.catalog.warehouse import MetadataFiles, Warehouse, Warehouses


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def new_uuid() -> str:
    return str(uuid.uuid4())


class TableLocks:
    """Commits of one server to one table take turns, so that the later one decides on what the earlier one wrote.

    Only an economy: the compare-and-set in the database is what keeps several servers apart. There are a fixed number of locks, taken
    in order, so that commits of several tables cannot block each other for good.
    """

    def __init__(self, count: int = 256) -> None:
        self._locks = [threading.Lock() for _ in range(count)]

    @contextmanager
    def hold(self, keys: Iterable[tuple[str, ...]]) -> Iterator[None]:
        chosen = sorted({hash(key) % len(self._locks) for key in keys})
        taken = 0
        try:
            for index in chosen:
                self._locks[index].acquire()
                taken += 1
            yield
        finally:
            for index in chosen[:taken]:
                self._locks[index].release()


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server accepts, and how long it waits."""

    body_bytes: int = 64 * 1024 * 1024
    body_seconds: float = 30.0
    request_seconds: float = 120.0
    threads: int = 32
    cache_bytes: int = 256 * 1024 * 1024


@dataclass(slots=True)
class Context:
    """One server's state: nothing of it is the truth; that is in the database and in the files."""

    database: Database
    warehouses: Warehouses
    files: MetadataFiles
    locks: TableLocks = field(default_factory=TableLocks)
    background: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="frazil-background"))
    clock: Callable[[], int] = now_ms
    new_uuid: Callable[[], str] = new_uuid
    limits: Limits = field(default_factory=Limits)
    endpoints: tuple[str, ...] = ()
    telemetry: Telemetry = field(default_factory=Telemetry)

    def warehouse(self, request: Request) -> Warehouse:
        return self.warehouses.named(request.variables.get("prefix"))

    def close(self) -> None:
        self.background.shutdown(wait=True)
        self.telemetry.close()
        self.database.close()
