"""SQLite: writes that wait for each other share a transaction, and each is undone alone."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from frazil.catalog.store import migrations, open_database
from frazil.catalog.store.database import ConstraintBroken, Sql
from frazil.catalog.store.migrations import _take as take_step
from frazil.catalog.store.migrations import current_version, latest_version, migrate, steps
from frazil.catalog.store.sqlite import SqliteDatabase
from frazil.errors import ConfigError, Unavailable
from tests.kit.raising import raises


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    opened = SqliteDatabase(str(tmp_path / "x.db"))
    opened.write(lambda sql: sql.run("CREATE TABLE t (n INTEGER PRIMARY KEY)"))
    yield opened
    opened.close()


def numbers(database: SqliteDatabase) -> list[int]:
    return [row[0] for row in database.read().rows("SELECT n FROM t ORDER BY n")]


def insert(number: int) -> Callable[[Sql], object]:
    return lambda sql: sql.run("INSERT INTO t (n) VALUES (?)", number)


def test_writes_that_wait_share_a_transaction_and_only_the_failing_one_is_undone(database: SqliteDatabase) -> None:
    """The first write holds the turn until the others have queued up behind it."""
    begun, queued, failures = threading.Event(), threading.Event(), []

    def slow(sql: Sql) -> None:
        begun.set()
        queued.wait(60)
        sql.run("INSERT INTO t (n) VALUES (0)")

    def write(number: int) -> None:
        def work(sql: Sql) -> None:
            sql.run("INSERT INTO t (n) VALUES (?)", number)
            if number == 3:
                raise ValueError("three is refused")

        try:
            database.write(work)
        except ValueError as exc:
            failures.append(str(exc))

    threads = [threading.Thread(target=database.write, args=(slow,))]
    threads[0].start()
    begun.wait()
    threads += [threading.Thread(target=write, args=(number,)) for number in range(1, 6)]
    for thread in threads[1:]:
        thread.start()
    while len(database._waiting) < 5:
        pass
    queued.set()
    for thread in threads:
        thread.join(60)
    assert (numbers(database), failures) == ([0, 1, 2, 4, 5], ["three is refused"])


def run_group(database: SqliteDatabase, works: list[Callable[[Sql], object]]) -> list[object]:
    """The result or the error of each write; all of them wait for their turn together, so that they share a
    transaction.
    """
    begun, queued = threading.Event(), threading.Event()
    outcomes: list[object] = [None] * len(works)

    def hold(sql: Sql) -> None:
        begun.set()
        queued.wait(60)

    def write(number: int) -> None:
        try:
            outcomes[number] = database.write(works[number])
        except Exception as exc:
            outcomes[number] = exc

    threads = [threading.Thread(target=database.write, args=(hold,))]
    threads[0].start()
    begun.wait()
    for number in range(len(works)):
        threads.append(threading.Thread(target=write, args=(number,)))
        threads[-1].start()
        while len(database._waiting) <= number:
            pass
    queued.set()
    for thread in threads:
        thread.join(60)
    return outcomes


def fill_up(database: SqliteDatabase) -> None:
    """The file cannot grow any more: SQLite answers SQLITE_FULL, as on a full disk."""
    (pages,) = database._writer.execute("PRAGMA page_count").fetchone()
    database._writer.execute(f"PRAGMA max_page_count={pages}")


def insert_large(sql: Sql) -> object:
    return sql.run("INSERT INTO large (text) VALUES (?)", "x" * 100_000)


def test_a_write_that_finds_the_disk_full_fails_alone(database: SqliteDatabase) -> None:
    """SQLite rolls the whole transaction back: writes before and after the failing one are committed all the same,
    once.
    """
    database.write(lambda sql: sql.run("CREATE TABLE large (text TEXT)"))
    fill_up(database)
    outcomes = run_group(database, [insert(1), insert(2), insert_large, insert(3), insert_large, insert(4)])
    assert [type(outcome) for outcome in outcomes] == [int, int, Unavailable, int, Unavailable, int]
    assert numbers(database) == [1, 2, 3, 4]


def test_a_failure_that_rests_on_a_rolled_back_write_is_not_reported(database: SqliteDatabase) -> None:
    """The second write is refused because of what the first one inserted; the first one is then rolled back
    for good.
    """
    database.write(lambda sql: sql.run("CREATE TABLE large (text TEXT)"))
    fill_up(database)

    def insert_and_fill(sql: Sql) -> None:
        sql.run("INSERT INTO t (n) VALUES (1)")
        if first.is_set():
            insert_large(sql)
        first.set()

    first = threading.Event()
    outcomes = run_group(database, [insert_and_fill, insert(1), insert_large])
    assert [type(outcome) for outcome in outcomes] == [Unavailable, int, Unavailable]
    assert numbers(database) == [1]


def test_a_write_cannot_go_on_after_its_transaction_was_rolled_back(database: SqliteDatabase) -> None:
    database.write(lambda sql: sql.run("CREATE TABLE large (text TEXT)"))
    fill_up(database)

    def careless(sql: Sql) -> None:
        with suppress(Unavailable):
            insert_large(sql)
        sql.run("INSERT INTO t (n) VALUES (5)")

    with pytest.raises(Unavailable):
        database.write(careless)
    assert numbers(database) == []


def test_a_write_that_fails_alone_leaves_nothing_and_the_next_one_works(database: SqliteDatabase) -> None:
    def broken(sql: Sql) -> None:
        sql.run("INSERT INTO t (n) VALUES (1)")
        sql.run("INSERT INTO t (n) VALUES (1)")

    with pytest.raises(ConstraintBroken):
        database.write(broken)
    database.write(insert(2))
    assert numbers(database) == [2]


def test_two_processes_wait_for_each_other(tmp_path: Path, database: SqliteDatabase) -> None:
    """Two databases objects on one file stand for two processes: each has its own connection and its own gate."""
    other = SqliteDatabase(str(tmp_path / "x.db"))
    threads = [threading.Thread(target=(database, other)[n % 2].write, args=(insert(n),)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    other.close()
    assert numbers(database) == list(range(20))


def test_a_lock_that_a_stranger_holds_is_waited_for_and_then_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("frazil.catalog.store.sqlite.BUSY_MS", 200)
    opened = SqliteDatabase(str(tmp_path / "y.db"))
    stranger = sqlite3.connect(tmp_path / "y.db", isolation_level=None)
    stranger.execute("BEGIN IMMEDIATE")
    with raises(Unavailable, path=str(tmp_path / "y.db")):
        opened.write(lambda sql: sql.run("CREATE TABLE t (n INTEGER)"))
    stranger.close()
    opened.close()


def test_every_commit_reaches_the_disk(database: SqliteDatabase) -> None:
    """WAL with synchronous=FULL: the log is synced at each commit."""
    rows = database.read().rows
    assert (rows("PRAGMA journal_mode"), rows("PRAGMA synchronous"), rows("PRAGMA foreign_keys")) == (
        [("wal",)],
        [(2,)],
        [(1,)],
    )


def test_migrations_are_numbered_without_a_gap_and_taken_once(tmp_path: Path) -> None:
    opened = SqliteDatabase(str(tmp_path / "z.db"))
    numbers = sorted(int(file.name[:4]) for file in Path(migrations.__file__).parent.glob("*.sql"))
    assert numbers == list(steps()) == list(range(1, latest_version() + 1))
    assert current_version(opened) == 0
    assert len(migrate(opened)) == latest_version()
    assert migrate(opened) == []
    opened.close()


def test_tables_are_found_by_their_uuid_without_a_look_at_the_others(tmp_path: Path) -> None:
    opened = SqliteDatabase(str(tmp_path / "z.db"))
    migrate(opened)
    explain = "EXPLAIN QUERY PLAN SELECT * FROM {} WHERE uuid = ?"
    # On the connection that migrates: another one would plan with the schema that it knows.
    plans = opened.write(
        lambda sql: [sql.rows(explain.format(name), "u")[0][3] for name in ("relations", "former_versions")]
    )
    assert [plan.split(" (")[0] for plan in plans] == [
        "SEARCH relations USING INDEX relations_by_uuid",
        "SEARCH former_versions USING INDEX former_versions_by_uuid",
    ]
    opened.close()


def test_the_places_of_tables_survive_the_migration_that_rebuilds_their_table(tmp_path: Path) -> None:
    opened = SqliteDatabase(str(tmp_path / "x.db"))
    for version in range(1, 5):
        opened.write(
            lambda sql, version=version: take_step(sql, dialect="sqlite", version=version, text=steps()[version][1])
        )  # type: ignore[misc]
    opened.write(lambda sql: sql.run("INSERT INTO namespaces VALUES ('w', 'ns', NULL, '{}')"))
    for name in ("a", "b"):
        row = ("w", "ns", name, "table", name, "m", None, f"/{name}", 1)
        opened.write(lambda sql, row=row: sql.run("INSERT INTO relations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *row))  # type: ignore[misc]
        place = (f"file:/{name}/", "w", "ns", name)
        opened.write(lambda sql, place=place: sql.run("INSERT INTO places VALUES (?, ?, ?, ?)", *place))  # type: ignore[misc]
    migrate(opened)
    opened.write(lambda sql: sql.run("UPDATE relations SET name = 'c' WHERE name = 'a'"))
    opened.write(lambda sql: sql.run("DELETE FROM relations WHERE name = 'b'"))
    assert opened.read().rows("SELECT place, warehouse, namespace, name FROM places") == [("file:/a/", "w", "ns", "c")]
    opened.close()


@pytest.mark.parametrize("url", ["mysql://x", "sqlite://", "sqlite:///", "catalog.db", ""])
def test_a_database_that_cannot_be_is_refused(url: str) -> None:
    with raises(ConfigError, option="server.database"):
        open_database(url)


def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is not a database, and it is long enough to be read as one" * 20)
    with raises(Unavailable, path=str(tmp_path / "text.db")):
        open_database(f"sqlite:///{tmp_path / 'text.db'}")


def test_the_files_of_a_new_database_can_be_read_by_their_owner_only(tmp_path: Path) -> None:
    database = SqliteDatabase(str(tmp_path / ".frazil" / "catalog" / "catalog.db"))
    database.write(lambda sql: sql.run("CREATE TABLE t (n INTEGER)"))
    files = {path.name: path.stat().st_mode & 0o777 for path in database.path.parent.iterdir()}
    database.close()
    assert files == dict.fromkeys(("catalog.db", "catalog.db-wal", "catalog.db-shm", "catalog.db-gate"), 0o600)
    assert (tmp_path / ".frazil").stat().st_mode & 0o777 == 0o700
