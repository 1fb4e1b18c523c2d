"""PostgreSQL: connections that are kept, and the truth about a COMMIT whose answer was lost.

Each write asks for its transaction's id. When the connection breaks while COMMIT is on its way, another connection asks
the server what became of that id (`pg_xact_status`): committed, aborted, or still in progress. The
outcome is unknown only if the server does not answer.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from frazil.catalog import faults
from frazil.catalog.locations import keys_above
from frazil.catalog.store.database import ConstraintBroken, Row, Sql, Statement
from frazil.config import redact_url
from frazil.errors import BadRequest, CommitUnknown, Unavailable

T = TypeVar("T")
Connection = psycopg.Connection[Row]

MAX_CONNECTIONS = 16
WAIT_SECONDS = 10.0  # for a connection, and for the truth about a lost COMMIT
# A server that vanished without a word must not hold a commit, nor its locks, for TCP's own timeout of two hours.
CONNECT = {
    "connect_timeout": 5,
    "tcp_user_timeout": 20_000,
    "keepalives_idle": 20,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
SETTINGS = "SET idle_in_transaction_session_timeout = '20s'; SET lock_timeout = '15s'; SET statement_timeout = '60s'"

_LOCK_NUMBERS = (
    "SELECT CASE WHEN alone THEN pg_advisory_xact_lock(number)::text ELSE pg_advisory_xact_lock_shared(number)::text "
    "END "
    "FROM unnest(?::bigint[], ?::boolean[]) AS wanted (number, alone)"
)


@functools.lru_cache(maxsize=1024)
def _recorded(change: str, record: str) -> str:
    """One statement for a change of at most one row and for its record."""
    return f"WITH changed AS ({change} RETURNING 1) {record} FROM changed"


@functools.cache
def _adapt(statement: str) -> str:
    """The statement in psycopg's style of parameters."""
    return statement.replace("?", "%s")


class PostgresSql:
    """Runs statements on one connection."""

    join_names = "string_agg(name, chr(31))"
    now_ms = "CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT)"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, *parameters: object) -> list[Row]:
        return self._execute(statement, parameters).fetchall()

    def run(self, statement: str, *parameters: object) -> int:
        return self._execute(statement, parameters).rowcount

    def run_recorded(self, change: Statement, record: Statement) -> int:
        return self.run(_recorded(change[0], record[0]), *change[1], *record[1])

    def run_locked(
        self,
        statements: Sequence[Statement],
        *,
        places: Sequence[str],
        first: Statement | None = None,
        record: Statement | None = None,
    ) -> list[int]:
        if first is not None and record is not None:
            first = _recorded(first[0], record[0]), (*first[1], *record[1])
        # In one order everywhere, so that two transactions cannot wait for each other.
        exclusive = {_lock_number(key) for key in places}
        shared = {_lock_number(above) for key in places for above in keys_above(key)} - exclusive
        wanted = sorted([(number, False) for number in shared] + [(number, True) for number in exclusive])
        locks = ([number for number, _ in wanted], [alone for _, alone in wanted])
        # One after the other on the server: each sees what was committed before it began, so also before the locks were
        # had.
        try:
            with self._connection.pipeline() if psycopg.Pipeline.is_supported() else contextlib.nullcontext():
                cursors = [self._execute(first[0], tuple(first[1]))] if first else []
                self._execute(_LOCK_NUMBERS, locks)
                cursors += [self._execute(statement, tuple(parameters)) for statement, parameters in statements]
        except (psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded) as exc:
            raise _translate(exc) from exc
        return [cursor.rowcount for cursor in cursors]

    def _execute(self, statement: str, parameters: tuple[object, ...]) -> psycopg.Cursor[Row]:
        try:
            return self._connection.execute(_adapt(statement), parameters)
        except (psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded) as exc:
            raise _translate(exc) from exc
        except (psycopg.DataError, UnicodeEncodeError) as exc:
            if all(_can_be_held(text) for text in parameters if isinstance(text, str)):
                raise
            raise BadRequest("A text of the request has a character that the catalog's database cannot hold") from exc


def _can_be_held(text: str) -> bool:
    """Whether PostgreSQL can hold a text: it has no NUL, and no half of a surrogate pair.

    >>> [_can_be_held(text) for text in ("é", "a\\0", "\\ud800")]
    [True, False, False]
    """
    return not re.search("[\0\ud800-\udfff]", text)


def _translate(exc: psycopg.Error) -> Exception:
    if isinstance(exc, psycopg.IntegrityError):
        return ConstraintBroken(str(exc))
    # An index holds at most 2704 bytes of a row.
    return BadRequest(f"The name is too long for the catalog's database: {_first_line(exc)}")


class _PooledSql:
    """Runs each statement on whatever connection is free. A read may be repeated: one that broke is."""

    join_names = PostgresSql.join_names
    now_ms = PostgresSql.now_ms

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def rows(self, statement: str, *parameters: object) -> list[Row]:
        return self._database.on_connection(lambda connection: PostgresSql(connection).rows(statement, *parameters))

    def run(self, statement: str, *parameters: object) -> int:
        return self._database.on_connection(lambda connection: PostgresSql(connection).run(statement, *parameters))

    def run_recorded(self, change: Statement, record: Statement) -> int:
        return self._database.on_connection(lambda connection: PostgresSql(connection).run_recorded(change, record))

    def run_locked(
        self,
        statements: Sequence[Statement],
        *,
        places: Sequence[str],
        first: Statement | None = None,
        record: Statement | None = None,
    ) -> list[int]:
        raise AssertionError("locks belong to a transaction")


class _Connections:
    """Connections that are lent one caller at a time and kept for the next. When one breaks, all that lie idle are
    thrown away: they broke with it, and the next caller should not have to find out one by one.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._room = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._in_use, self._waits, self._waited_seconds = 0, 0, 0.0

    def gauges(self) -> dict[str, float]:
        with self._lock:
            return {
                'frazil_database_connections{state="in_use"}': self._in_use,
                'frazil_database_connections{state="idle"}': len(self._idle),
                "frazil_database_waits_total": self._waits,
                "frazil_database_wait_seconds_total": self._waited_seconds,
            }

    def _wait_for_room(self) -> bool:
        if self._room.acquire(blocking=False):
            return True
        start = time.monotonic()
        try:
            return self._room.acquire(timeout=WAIT_SECONDS)
        finally:
            with self._lock:
                self._waits += 1
                self._waited_seconds += time.monotonic() - start

    def lend(self, action: Callable[[Connection], T]) -> T:
        if not self._wait_for_room():
            raise Unavailable(
                f"all {MAX_CONNECTIONS} connections to the catalog's database were busy for {WAIT_SECONDS:g} seconds"
            )
        try:
            connection = self._take()
            try:
                return action(connection)
            finally:
                self._give_back(connection)
        finally:
            with self._lock:
                self._in_use -= 1
            self._room.release()

    def _take(self) -> Connection:
        with self._lock:
            self._in_use += 1
            if self._idle:
                return self._idle.pop()
        connection: Connection = psycopg.connect(self._url, autocommit=True, **CONNECT)  # type: ignore[arg-type]
        connection.execute(SETTINGS)
        return connection

    def _give_back(self, connection: Connection) -> None:
        if connection.closed or connection.info.transaction_status != TransactionStatus.IDLE:
            connection.close()
            self.close()
            return
        with self._lock:
            self._idle.append(connection)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


class PostgresDatabase:
    """A database that any number of servers share."""

    dialect = "postgresql"
    local = False

    def __init__(self, url: str) -> None:
        self._url = url
        self._shown = redact_url(url)
        self._connections = _Connections(url)
        self._sql = _PooledSql(self)
        self._closed = threading.Event()
        try:
            self._sql.rows("SELECT 1")
        except Unavailable as exc:
            raise Unavailable(exc.message, hint="is PostgreSQL running, and is the URL right?") from exc

    def check(self) -> None:
        self.read().rows("SELECT 1")

    def read(self) -> Sql:
        return self._sql

    def on_connection(self, action: Callable[[Connection], T]) -> T:
        """The action's result; it is run once more when its connection turns out to be broken."""
        try:
            return self._connections.lend(action)
        except (psycopg.OperationalError, psycopg.InterfaceError):
            try:
                return self._connections.lend(action)
            except psycopg.Error as exc:
                raise Unavailable(f"the catalog's database {self._shown} failed: {_first_line(exc)}") from exc
        except psycopg.Error as exc:
            raise Unavailable(f"the catalog's database {self._shown} failed: {_first_line(exc)}") from exc

    def write(self, work: Callable[[Sql], T]) -> T:
        return self.on_connection(lambda connection: self._transact(connection, work))

    def _transact(self, connection: Connection, work: Callable[[Sql], T]) -> T:
        # Whatever breaks before COMMIT is sent undoes the transaction: it may be run again. After that, only the server
        # knows.
        xid = _begin(connection)
        try:
            result = work(PostgresSql(connection))
            faults.reach("database.before-commit")
        except BaseException:
            if not connection.closed:
                _rollback(connection)
            raise
        try:
            ended = connection.execute("COMMIT").statusmessage
        except psycopg.Error as exc:
            ended = "COMMIT" if self._was_committed(xid) else _first_line(exc)
        if ended != "COMMIT":
            raise Unavailable(f"the catalog's database {self._shown} did not commit: {ended}")
        faults.reach("database.after-commit")
        return result

    def _was_committed(self, xid: str) -> bool:
        """Whether a transaction with a lost reply was committed; raises CommitUnknown if that is not known in time."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline and not self._closed.is_set():
            try:
                with psycopg.connect(self._url, autocommit=True, **CONNECT) as connection:  # type: ignore[arg-type]
                    row = connection.execute("SELECT pg_xact_status(%s::text::xid8)", (xid,)).fetchone()
            except psycopg.Error:
                row = None
            if row is not None and row[0] in ("committed", "aborted"):
                return bool(row[0] == "committed")
            time.sleep(0.1)
        raise CommitUnknown(
            f"the catalog's database {self._shown} was disconnected while committing, and has not answered since"
        )

    def lock_stripe(self, number: int) -> None:
        """Nothing: a lock would cost a round trip in every commit, to save a file in a few."""

    def unlock_stripe(self, number: int) -> None: ...

    def gauges(self) -> dict[str, float]:
        return self._connections.gauges()

    def close(self) -> None:
        self._closed.set()
        self._connections.close()


@functools.lru_cache(maxsize=4096)  # the folders above a place are the same for many tables
def _lock_number(key: str) -> int:
    """The number that stands for a place in advisory locks: 64 bits, signed."""
    return int.from_bytes(
        hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True
    )


def _begin(connection: Connection) -> str:
    """The new transaction's id; both statements travel together."""
    cursor = connection.execute("BEGIN; SELECT pg_current_xact_id()::text")
    cursor.nextset()
    row = cursor.fetchone()
    assert row is not None
    return str(row[0])


def _rollback(connection: Connection) -> None:
    try:
        connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()  # the server undoes what a closed connection has not committed


def _first_line(exc: BaseException) -> str:
    return str(exc).strip().split("\n", 1)[0]
