"""SQLite: WAL mode, one writer at a time, and writes that wait for each other share one transaction and so one fsync."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from frazil.catalog import faults
from frazil.catalog.store.database import ConstraintBroken, Row, Sql
from frazil.errors import CommitUnknown, Unavailable

T = TypeVar("T")
BUSY_MS = 30_000


class SqliteSql:
    """Runs statements on one connection."""

    join_names = "group_concat(name, char(31))"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, *parameters: object) -> list[Row]:
        try:
            return self._connection.execute(statement, parameters).fetchall()
        except sqlite3.Error as exc:
            raise _translate(exc) from exc

    def run(self, statement: str, *parameters: object) -> int:
        try:
            return self._connection.execute(statement, parameters).rowcount
        except sqlite3.Error as exc:
            raise _translate(exc) from exc


@dataclass(slots=True)
class _Ticket:
    """A write that waits for its turn, and later what became of it."""

    work: Callable[[Sql], Any]
    done: bool = False
    result: Any = None
    error: BaseException | None = None


class SqliteDatabase:
    """A file that several threads and several processes of one machine share."""

    dialect = "sqlite"
    local = True

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.is_new = not self.path.exists() or self.path.stat().st_size == 0
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._mutex = threading.Lock()  # guards _waiting and _connections
        self._turn = threading.Lock()  # held by the one thread that writes
        self._waiting: list[_Ticket] = []
        self._writer = self._connect()
        self._writer_sql = SqliteSql(self._writer)
        # Between processes SQLite itself waits by polling, with sleeps of up to 100 ms; a lock of the kernel wakes the next one at once.
        self._gate = os.open(f"{self.path}-gate", os.O_RDWR | os.O_CREAT, 0o644)

    def _connect(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=BUSY_MS / 1000)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA foreign_keys=ON")
        except sqlite3.Error as exc:
            raise Unavailable(f"cannot open the catalog's database {self.path}: {exc}") from exc
        with self._mutex:
            self._connections.append(connection)
        return connection

    def read(self) -> Sql:
        sql: SqliteSql | None = getattr(self._local, "sql", None)
        if sql is None:
            sql = self._local.sql = SqliteSql(self._connect())
        return sql

    def write(self, work: Callable[[Sql], T]) -> T:
        ticket = _Ticket(work)
        with self._mutex:
            self._waiting.append(ticket)
        with self._turn:
            # Whoever comes first runs all that wait; the others find their ticket done when their turn comes.
            if not ticket.done:
                self._run_waiting()
        if ticket.error is not None:
            raise ticket.error
        result: T = ticket.result
        return result

    def _run_waiting(self) -> None:
        with self._mutex:
            batch, self._waiting = self._waiting, []
        fcntl.flock(self._gate, fcntl.LOCK_EX)
        try:
            self._run_batch(batch)
        except sqlite3.Error as exc:
            # A COMMIT that fails for want of room or a lock did not happen; after an I/O error nobody knows.
            doubt = (getattr(exc, "sqlite_errorcode", 0) & 0xFF) == sqlite3.SQLITE_IOERR
            kind = CommitUnknown if doubt else Unavailable
            self._fail(batch, kind(f"the catalog's database {self.path} cannot be written: {exc}"))
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)
            for ticket in batch:
                ticket.done = True

    def _run_batch(self, batch: list[_Ticket]) -> None:
        writer = self._writer
        writer.execute("BEGIN IMMEDIATE")
        for ticket in batch:
            self._run_one(ticket, alone=len(batch) == 1)
        if not writer.in_transaction:  # SQLite undoes everything by itself when the disk is full
            self._fail(batch, Unavailable(f"the catalog's database {self.path} undid a transaction; is its disk full?"))
        elif all(ticket.error for ticket in batch):
            writer.execute("ROLLBACK")
        else:
            faults.reach("database.before-commit")
            writer.execute("COMMIT")
            faults.reach("database.after-commit")

    def _run_one(self, ticket: _Ticket, *, alone: bool) -> None:
        # A write that shares the transaction with others is undone alone when it fails; the only one is undone with it.
        if not alone:
            self._writer.execute("SAVEPOINT one")
        try:
            ticket.result = ticket.work(self._writer_sql)
        except BaseException as exc:
            ticket.error = exc
            if not alone and self._writer.in_transaction:
                self._writer.execute("ROLLBACK TO one")
        if not alone and self._writer.in_transaction:
            self._writer.execute("RELEASE one")

    def _fail(self, batch: list[_Ticket], error: Exception) -> None:
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")
        for ticket in batch:
            ticket.error = ticket.error or error

    def lock_stripe(self, number: int) -> None:
        # A lock on one byte of the gate's file, which belongs to the process; `flock`, the gate itself, does not see it. The kernel
        # takes threads of two processes that wait for each other's stripes for a deadlock: then the commit goes on without.
        with suppress(OSError):
            fcntl.lockf(self._gate, fcntl.LOCK_EX, 1, number)

    def unlock_stripe(self, number: int) -> None:
        with suppress(OSError):
            fcntl.lockf(self._gate, fcntl.LOCK_UN, 1, number)

    def close(self) -> None:
        with self._turn, self._mutex:
            for connection in self._connections:
                connection.close()
            self._connections.clear()
            if self._gate >= 0:
                os.close(self._gate)
                self._gate = -1


def _translate(exc: sqlite3.Error) -> Exception:
    if isinstance(exc, sqlite3.IntegrityError):
        return ConstraintBroken(str(exc))
    return Unavailable(f"the catalog's database failed: {exc}")
