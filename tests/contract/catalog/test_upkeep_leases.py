"""Leases of upkeep workers, on each database: one worker per table at a time, and takeover from a dead one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from frazil.catalog.embedded import EmbeddedCatalog
from frazil.catalog.store import open_database
from frazil.catalog.store import upkeep as store
from frazil.catalog.store.database import Database
from frazil.catalog.upkeep.leases import HeldLease
from frazil.catalog.upkeep.record import Asked, asked_of
from frazil.errors import Unavailable
from frazil.processes import wait_until
from frazil.upkeep import Halt
from tests.kit.catalog_databases import Client

HOUR_MS = 3_600_000


@pytest.fixture
def uuid(client: Client) -> str:
    """The UUID of a table whose debt is twice what makes it due."""
    created: str = client.create()["metadata"]["table-uuid"]
    return created


@pytest.fixture
def opened(server: EmbeddedCatalog, database: str, uuid: str) -> Iterator[Database]:
    """A second connection to the database, as a worker of its own has it; the table has a score."""
    other = open_database(database)
    other.write(lambda sql: store.save_score(sql, uuid, location="somewhere", score=2 * store.DUE, debt="{}"))
    yield other
    other.close()


def take(database: Database, uuid: str, owner: str, lease_ms: int = HOUR_MS) -> store.Lease | None:
    return database.write(lambda sql: store.take(sql, uuid, owner, lease_ms=lease_ms))


def due(database: Database, quiet_ms: int = 0) -> list[str]:
    return [table.label for table in store.list_due(database.read(), quiet_ms=quiet_ms, limit=10)]


def test_of_many_workers_one_gets_the_lease(opened: Database, uuid: str) -> None:
    start = threading.Barrier(8)

    def try_it(number: int) -> store.Lease | None:
        start.wait(60)
        return take(opened, uuid, f"worker {number}")

    with ThreadPoolExecutor(8) as pool:
        leases = [lease for lease in pool.map(try_it, range(8)) if lease is not None]
    assert [lease.generation for lease in leases] == [1]
    assert (due(opened), store.find(opened.read(), uuid)[0].holder) == ([], leases[0].owner)


def test_a_released_table_is_free_after_its_pause(opened: Database, uuid: str) -> None:
    first = take(opened, uuid, "a")
    assert first is not None
    assert opened.write(lambda sql: store.release(sql, first, run='{"n": 1}', wait_ms=0))
    second = take(opened, uuid, "b")
    assert second == store.Lease(uuid, "b", 2)
    assert opened.write(lambda sql: store.release(sql, second, wait_ms=HOUR_MS))
    assert (take(opened, uuid, "c"), due(opened)) == (None, [])
    assert store.find(opened.read(), uuid)[0].run == '{"n": 1}'


def asked(by: str, *steps: str) -> Asked:
    return Asked(f"request of {by}", steps, by, 7)


def test_what_someone_asked_for_is_taken_first_and_without_a_pause(opened: Database, client: Client, uuid: str) -> None:
    wanted, other = asked("ann", "compact"), client.create("other")["metadata"]["table-uuid"]
    first = take(opened, uuid, "a")
    assert first is not None
    assert opened.write(lambda sql: store.release(sql, first, wait_ms=HOUR_MS))
    opened.write(lambda sql: store.save_score(sql, other, location="", score=9 * store.DUE, debt="{}"))
    assert due(opened) == ["ns.other"]
    opened.write(lambda sql: store.save_request(sql, uuid, wanted.to_json()))
    assert due(opened, quiet_ms=HOUR_MS) == ["ns.t", "ns.other"]
    assert [asked_of(table.request) for table in store.list_requested(opened.read())] == [wanted]
    second = take(opened, uuid, "b")
    assert second is not None
    newer = asked("bob", "expire")
    opened.write(lambda sql: store.save_request(sql, uuid, newer.to_json()))
    assert opened.write(lambda sql: store.release(sql, second, request=wanted.to_json()))
    assert asked_of(store.find(opened.read(), uuid)[0].request) == newer, "it came while the other one was done"
    third = take(opened, uuid, "c")
    assert third is not None
    assert opened.write(lambda sql: store.release(sql, third, request=newer.to_json()))
    assert store.list_requested(opened.read()) == []


def test_a_table_that_no_worker_has_scored_can_be_asked_for(opened: Database, client: Client) -> None:
    created: str = client.create("new")["metadata"]["table-uuid"]
    opened.write(lambda sql: store.save_request(sql, created, asked("ann", "compact").to_json()))
    changed = store.list_changed(opened.read(), rescore_ms=HOUR_MS, limit=9)
    assert "ns.new" in [table.label for table in changed], "its score is not known yet"
    assert take(opened, created, "a") is not None


def test_workers_are_counted_that_look_for_tables_or_are_at_one(opened: Database, uuid: str) -> None:
    assert store.count_workers(opened.read()) == 0
    opened.write(lambda sql: store.note_worker(sql, "a", for_ms=HOUR_MS))
    opened.write(lambda sql: store.note_worker(sql, "b", for_ms=-1))
    assert store.count_workers(opened.read()) == 1
    take(opened, uuid, "a")
    take(opened, uuid, "c", lease_ms=0)
    assert store.count_workers(opened.read()) == 1
    opened.write(lambda sql: store.forget_worker(sql, "a"))
    assert store.count_workers(opened.read()) == 1


def test_an_expired_lease_is_taken_over_and_its_former_owner_can_do_nothing_with_it(
    opened: Database, uuid: str
) -> None:
    dead = take(opened, uuid, "dead", lease_ms=0)
    assert dead is not None
    assert due(opened) == ["ns.t"]
    new = take(opened, uuid, "new")
    assert new == store.Lease(uuid, "new", 2)
    assert not opened.write(lambda sql: store.renew(sql, dead, lease_ms=HOUR_MS))
    assert not opened.write(lambda sql: store.release(sql, dead, run='{"of": "dead"}'))
    table = store.find(opened.read(), uuid)[0]
    assert (table.holder, table.run) == ("new", None)


def test_a_held_lease_is_renewed_and_a_lost_one_ends_the_work(opened: Database, uuid: str) -> None:
    lease, halt = take(opened, uuid, "a", lease_ms=300), Halt()
    assert lease is not None
    first = store.find(opened.read(), uuid)[0].expires_ms
    with HeldLease(opened, lease, seconds=0.3, halt=halt):
        assert wait_until(lambda: store.find(opened.read(), uuid)[0].expires_ms > first + 300, 60)
        assert not halt.requested
        opened.write(lambda sql: sql.run("UPDATE upkeep SET owner = 'b', generation = generation + 1"))
        assert halt.wait(60)
    assert halt.reason == "another worker has the lease of the table"


class Unreachable:
    """A database that no write reaches."""

    def write(self, work: object) -> object:
        raise Unavailable("gone")


def test_a_lease_that_cannot_be_renewed_ends_when_it_has_expired() -> None:
    now, halt = [0.0], Halt()
    lease = HeldLease(Unreachable(), store.Lease("u", "a", 1), seconds=30, halt=halt, clock=lambda: now[0])  # type: ignore[arg-type]
    assert lease._renew()
    now[0] = 29.9
    assert lease._renew()
    now[0] = 30.0
    assert not lease._renew()


def test_a_table_that_is_being_written_waits_for_twice_the_debt(opened: Database, uuid: str) -> None:
    def save(score: int, location: str) -> None:
        opened.write(lambda sql: store.save_score(sql, uuid, location=location, score=score, debt="{}"))

    save(store.DUE, "next")
    assert (due(opened, quiet_ms=HOUR_MS), due(opened)) == ([], ["ns.t"])
    save(2 * store.DUE, "next")
    assert due(opened, quiet_ms=HOUR_MS) == ["ns.t"]


def test_what_is_known_of_a_dropped_table_is_forgotten_unless_a_worker_is_at_it(
    opened: Database, uuid: str, client: Client
) -> None:
    lease = take(opened, uuid, "a")
    assert lease is not None
    client.delete("/namespaces/ns/tables/t")
    assert opened.write(store.forget_dropped) == 0
    opened.write(lambda sql: store.release(sql, lease))
    assert opened.write(store.forget_dropped) == 1


def test_a_renamed_table_keeps_its_upkeep(opened: Database, uuid: str, client: Client) -> None:
    names = ({"namespace": ["ns"], "name": name} for name in ("t", "other"))
    client.post("/tables/rename", dict(zip(("source", "destination"), names, strict=True)))
    assert due(opened) == ["ns.other"]


def test_a_moved_pointer_is_found_and_a_scored_one_is_not(opened: Database, uuid: str, client: Client) -> None:
    def changed() -> list[str]:
        return [table.label for table in store.list_changed(opened.read(), rescore_ms=HOUR_MS, limit=10)]

    location = client.load()["metadata-location"]
    opened.write(lambda sql: store.save_score(sql, uuid, location=location, score=0, debt="{}"))
    assert changed() == []
    client.commit({"action": "set-properties", "updates": {"a": "b"}})
    assert changed() == ["ns.t"]
