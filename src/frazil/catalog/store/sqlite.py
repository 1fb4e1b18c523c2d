"""SQLite: WAL mode, one writer at a time, and writes that wait for each other share one transaction and so one fsync.

After some errors (disk full, I/O error, out of memory) SQLite rolls back the whole transaction by itself, and the next
statement would open a new one. So a shared transaction that SQLite rolled back ends at once, and each of its writes
runs again in its own transaction. See https://www.sqlite.org/lang_transaction.html, section 3.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from frazil.catalog import faults
from frazil.catalog.store.database import ConstraintBroken, Row, Sql, Statement
from frazil.errors import CommitUnknown, Unavailable
from frazil.local_stack import FOLDER_NAME, make_private_folder

T = TypeVar("T")
log = logging.getLogger(__name__)
BUSY_MS = 30_000
# COMMIT fails with these codes before the commit record is in the log. After any other error the record may be there
# already.
NOT_COMMITTED = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY)


class RolledBack(Exception):
    """SQLite rolled back the transaction by itself; nothing of it is in the database."""


class SqliteSql:
    """Runs statements on one connection."""

    join_names = "group_concat(name, char(31))"
    now_ms = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, *parameters: object) -> list[Row]:
        try:
            return self._connection.execute(statement, parameters).fetchall()
        except (sqlite3.Error, MemoryError) as exc:
            raise _translate(exc) from exc

    def run(self, statement: str, *parameters: object) -> int:
        try:
            return self._connection.execute(statement, parameters).rowcount
        except (sqlite3.Error, MemoryError) as exc:
            raise _translate(exc) from exc

    def run_recorded(self, change: Statement, record: Statement) -> int:
        count = self.run(change[0], *change[1])
        if count:
            self.run(record[0], *record[1])
        return count

    def run_locked(
        self,
        statements: Sequence[Statement],
        *,
        places: Sequence[str],
        first: Statement | None = None,
        record: Statement | None = None,
    ) -> list[int]:
        counts = []
        if first is not None:
            counts = [self.run_recorded(first, record) if record is not None else self.run(first[0], *first[1])]
        return counts + [self.run(statement, *parameters) for statement, parameters in statements]


class _WriterSql(SqliteSql):
    """Runs statements inside the writer's transaction only: outside of it, SQLite would commit each statement by
    itself.
    """

    def rows(self, statement: str, *parameters: object) -> list[Row]:
        self._check()
        return super().rows(statement, *parameters)

    def run(self, statement: str, *parameters: object) -> int:
        self._check()
        return super().run(statement, *parameters)

    def _check(self) -> None:
        if not self._connection.in_transaction:
            raise Unavailable("the catalog's database rolled back the transaction")


@dataclass(slots=True)
class _Ticket:
    """A write that waits for its turn, and later its outcome. Without an outcome, it is unknown whether the write was
    committed.
    """

    work: Callable[[Sql], Any]
    done: bool = False
    committed: bool = False
    result: Any = None
    error: BaseException | None = None


class SqliteDatabase:
    """A file that several threads and several processes of one machine share."""

    dialect = "sqlite"
    local = True

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.is_new = not self.path.exists() or self.path.stat().st_size == 0
        _make_private(self.path)
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._mutex = threading.Lock()  # guards _waiting and _connections
        self._turn = threading.Lock()  # held by the one thread that writes
        self._waiting: list[_Ticket] = []
        self._waits = 0
        self._path_text = str(self.path)
        self._file = _identity(self._path_text)
        self._writer = self._connect()
        self._writer_sql = _WriterSql(self._writer)
        # Between processes SQLite itself waits by polling, with sleeps of up to 100 ms; a lock of the kernel wakes the
        # next one at once.
        self._gate = os.open(f"{self.path}-gate", os.O_RDWR | os.O_CREAT, 0o600)

    def check(self) -> None:
        self._check_file()
        self.read().rows("SELECT 1")

    def _check_file(self) -> None:
        """Raises Unavailable if the path leads to another file than the one that is open, or to none: SQLite would go
        on with the old one, which the next start of the server does not find, and a new connection would open, or
        create, the other one.
        """
        if _identity(self._path_text) != self._file:
            raise Unavailable(
                f"the catalog's database {self.path} was moved, deleted or replaced",
                hint="put it back, or restart",
                path=str(self.path),
            )

    def _connect(self) -> sqlite3.Connection:
        self._check_file()
        try:
            connection = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=BUSY_MS / 1000
            )
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA foreign_keys=ON")
        except sqlite3.Error as exc:
            raise Unavailable(
                f"cannot open the catalog's database {self.path}: {exc}", path=str(self.path), reason=str(exc)
            ) from exc
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
            self._waits += bool(self._waiting)  # another write has come before, and has not begun
            self._waiting.append(ticket)
        with self._turn:
            # The first thread runs all that wait; the others find their ticket done when their turn comes.
            if not ticket.done:
                self._run_waiting()
        if ticket.error is not None:
            raise ticket.error
        if not ticket.committed:
            raise CommitUnknown(f"the catalog's database {self.path} stopped while committing", path=str(self.path))
        result: T = ticket.result
        return result

    def _run_waiting(self) -> None:
        with self._mutex:
            batch, self._waiting = self._waiting, []
        try:
            fcntl.flock(self._gate, fcntl.LOCK_EX)
            try:
                self._run_batch(batch)
            finally:
                fcntl.flock(self._gate, fcntl.LOCK_UN)
        finally:
            for ticket in batch:
                ticket.done = True

    def _run_batch(self, batch: list[_Ticket]) -> None:
        """Runs the writes in one transaction. If it is rolled back as a whole, each write runs again in its own
        transaction.
        """
        try:
            self._check_file()
            self._writer.execute("BEGIN IMMEDIATE")
        except (sqlite3.Error, MemoryError, Unavailable) as exc:
            self._roll_back()
            for ticket in batch:
                ticket.error = self._unavailable(exc)
            return
        try:
            self._run_transaction(batch)
        except (RolledBack, sqlite3.Error, MemoryError) as exc:
            self._roll_back()
            self._run_again(batch, exc)

    def _run_transaction(self, batch: list[_Ticket]) -> None:
        for ticket in batch:
            self._run_one(ticket, alone=len(batch) == 1)
        if all(ticket.error for ticket in batch):
            self._roll_back()
            return
        faults.reach("database.before-commit")
        try:
            self._writer.execute("COMMIT")
        except (sqlite3.Error, MemoryError) as exc:
            if _error_code(exc) in NOT_COMMITTED:
                raise
            self._fail_in_doubt(batch, exc)
            return
        for ticket in batch:
            ticket.committed = True
        faults.reach("database.after-commit")

    def _run_one(self, ticket: _Ticket, *, alone: bool) -> None:
        # A write that shares the transaction with others is undone alone when it fails; the only one is undone with it.
        if not alone:
            self._writer.execute("SAVEPOINT one")
        try:
            ticket.result = ticket.work(self._writer_sql)
        except BaseException as exc:
            ticket.error = exc
        if not self._writer.in_transaction:
            raise RolledBack(str(ticket.error or "SQLite rolled back the transaction")) from ticket.error
        if not alone:
            if ticket.error is not None:
                self._writer.execute("ROLLBACK TO one")
            self._writer.execute("RELEASE one")

    def _run_again(self, batch: list[_Ticket], cause: BaseException) -> None:
        """Runs each write of a rolled back batch by itself, also those that failed: they may have seen what the others
        had changed.
        """
        log.warning(
            "SQLite rolled back a transaction",
            extra={"fields": {"database": str(self.path), "writes": len(batch), "reason": str(cause)}},
        )
        if len(batch) == 1:
            batch[0].error = batch[0].error or self._unavailable(cause)
            return
        for ticket in batch:
            ticket.result = ticket.error = None
            self._run_batch([ticket])

    def _fail_in_doubt(self, batch: list[_Ticket], cause: BaseException) -> None:
        """The COMMIT failed and may have happened. A write that had failed changed nothing, but its reason may never
        have been true.
        """
        self._roll_back()
        for ticket in batch:
            if ticket.error is not None:
                ticket.error = self._unavailable(cause)
            else:
                ticket.error = CommitUnknown(
                    f"the catalog's database {self.path} failed while committing: {cause}", path=str(self.path)
                )

    def _roll_back(self) -> None:
        """No transaction is open on the writer's connection."""
        if not self._writer.in_transaction:
            return
        try:
            self._writer.execute("ROLLBACK")
        except (sqlite3.Error, MemoryError):
            self._replace_writer()

    def _replace_writer(self) -> None:
        # Closing a connection rolls its transaction back.
        with self._mutex:
            self._connections.remove(self._writer)
        self._writer.close()
        self._writer = self._connect()
        self._writer_sql = _WriterSql(self._writer)

    def _unavailable(self, cause: BaseException) -> Unavailable:
        return Unavailable(f"the catalog's database {self.path} cannot be written: {cause}", path=str(self.path))

    def lock_stripe(self, number: int) -> None:
        # A lock on one byte of the gate's file, which belongs to the process; `flock`, the gate itself, does not see
        # it. The kernel takes threads of two processes that wait for each other's stripes for a deadlock: then the
        # commit goes on without.
        with suppress(OSError):
            fcntl.lockf(self._gate, fcntl.LOCK_EX, 1, number)

    def unlock_stripe(self, number: int) -> None:
        with suppress(OSError):
            fcntl.lockf(self._gate, fcntl.LOCK_UN, 1, number)

    def gauges(self) -> dict[str, float]:
        with self._mutex:
            return {
                'frazil_database_connections{state="open"}': len(self._connections),
                "frazil_database_waits_total": self._waits,
            }

    def close(self) -> None:
        with self._turn, self._mutex:
            for connection in self._connections:
                connection.close()
            self._connections.clear()
            if self._gate >= 0:
                os.close(self._gate)
                self._gate = -1


def _make_private(path: Path) -> None:
    """The file exists. A new one can be read by its owner only; SQLite gives its log and its shared memory the same
    mode.
    """
    try:
        make_private_folder(path.parent) if _in_own_folder(path) else path.parent.mkdir(parents=True, exist_ok=True)
        # Only a file that is not open: closing it would give up the locks that this process has on it.
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return  # another process was faster
    except OSError as exc:
        raise Unavailable(f"cannot open the catalog's database {path}: {exc}", path=str(path), reason=str(exc)) from exc


def _identity(path: str) -> tuple[int, int] | None:
    """The file itself, whatever its name is later; None if there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116  # a Path object costs more than the call
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _in_own_folder(path: Path) -> bool:
    return FOLDER_NAME in path.absolute().parts


def _error_code(exc: BaseException) -> int:
    """SQLite's primary result code; 0 for an error without one."""
    return int(getattr(exc, "sqlite_errorcode", 0)) & 0xFF


def _translate(exc: sqlite3.Error | MemoryError) -> Exception:
    if isinstance(exc, sqlite3.IntegrityError):
        return ConstraintBroken(str(exc))
    return Unavailable(f"the catalog's database failed: {exc}", reason=str(exc))
