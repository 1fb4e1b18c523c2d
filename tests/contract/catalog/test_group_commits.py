"""Appends to one table that wait for each other, on both databases: one metadata file, one swap, an outcome each."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from frazil.catalog import newest_records
from frazil.catalog.access.recorder import Recorder
from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.catalog.store.database import Sql
from frazil.errors import CommitUnknown, Unavailable
from frazil.protocol import PROPERTY_REBASE_APPENDS
from tests.kit.access import Guarded, guarded_catalog, load_as, namespace, table
from tests.kit.catalog_databases import Answer, Client
from tests.kit.catalog_writers import wait_for
from tests.kit.fast_appends import Json, load, new_file, open_table, prepare, send, snapshot_ids, snapshot_of

KEY = ("default", "ns", "t")


def wait_until_waiting(server: EmbeddedCatalog, count: int) -> None:
    """Returns when `count` requests wait for the table's lock."""
    groups = server.app.ctx.appends.groups
    wait_for(lambda: len(groups._waiting.get(KEY, ())) >= count, seconds=60)


Send = Callable[[], Answer]


def send_together(
    server: EmbeddedCatalog, sends: Sequence[Send], then: Callable[[], object] = lambda: None
) -> list[Answer]:
    """The answers to requests that come while another commit is under way; `then` happens when all wait."""
    answers: list[Future[Answer]] = []
    with ThreadPoolExecutor(len(sends)) as threads:
        with server.app.ctx.locks.hold([KEY]):
            for action in sends:
                answers.append(threads.submit(action))
                wait_until_waiting(server, len(answers))
            then()
        return [answer.result() for answer in answers]


def sending(server: EmbeddedCatalog, requests: Sequence[Json], **headers: str) -> list[Send]:
    return [lambda request=request: send(server.uri, request, **headers) for request in requests]  # type: ignore[misc]


def known_table(server: EmbeddedCatalog) -> Any:
    """A table of one snapshot that the server knows to rebase appends."""
    assert send(server.uri, prepare(open_table(server.uri))).status == 200
    return load(server.uri)


def prepared(server: EmbeddedCatalog, count: int) -> list[Json]:
    """Appends that were prepared on one head."""
    table = known_table(server)
    return [prepare(table) for _ in range(count)]


def ids_of(requests: Sequence[Json]) -> list[int]:
    return [snapshot_of(request)["snapshot-id"] for request in requests]


def metadata_files(server: EmbeddedCatalog) -> int:
    return len(list(Path(server.warehouse.removeprefix("file://")).rglob("*.metadata.json")))


def test_appends_that_wait_are_one_metadata_file_and_a_snapshot_each(server: EmbeddedCatalog) -> None:
    requests = prepared(server, 5)
    files = metadata_files(server)
    answers = send_together(server, sending(server, requests))
    assert [answer.status for answer in answers] == [200] * 5
    assert metadata_files(server) == files + 1
    metadata = Client(server.uri).load()["metadata"]
    snapshots = metadata["snapshots"]
    ids = [snapshot["snapshot-id"] for snapshot in snapshots]
    assert ids[1:] == ids_of(requests)  # in the order in which they came
    assert [snapshot.get("parent-snapshot-id") for snapshot in snapshots] == [None, *ids[:-1]]
    assert [snapshot["sequence-number"] for snapshot in snapshots] == [1, 2, 3, 4, 5, 6]
    assert [entry["snapshot-id"] for entry in metadata["snapshot-log"]] == ids
    assert len(metadata["metadata-log"]) == 2
    for answer, request in zip(answers, requests, strict=True):
        assert snapshot_of(request)["snapshot-id"] in [
            each["snapshot-id"] for each in answer.body["metadata"]["snapshots"]
        ]
    assert len(load(server.uri).inspect.files()) == 6


def test_only_the_request_that_commits_for_all_takes_the_lock_of_the_table(
    server: EmbeddedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its outcome a request need not wait until another worker has given the lock back."""
    requests, database = prepared(server, 5), server.app.ctx.database
    locked: list[int] = []
    lock = database.lock_stripe

    def lock_and_note(number: int) -> None:
        lock(number)
        locked.append(number)

    monkeypatch.setattr(database, "lock_stripe", lock_and_note)
    answers = send_together(server, sending(server, requests))
    assert [answer.status for answer in answers] == [200] * 5
    assert len(locked) == 2  # the test has it while they gather


def test_a_request_that_comes_while_others_are_committed_leads_the_next_ones(
    server: EmbeddedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = prepared(server, 5)
    files, failing = metadata_files(server), Failing(server, monkeypatch)
    late: list[Future[Answer]] = []
    with ThreadPoolExecutor(2) as threads:

        def send_two_more() -> None:
            late.extend(threads.submit(action) for action in sending(server, requests[3:]))
            wait_until_waiting(server, 2)

        failing.between = send_two_more
        answers = send_together(server, sending(server, requests[:3]))
        assert [answer.status for answer in (*answers, *(each.result() for each in late))] == [200] * 5
    assert metadata_files(server) == files + 2
    assert sorted(snapshot_ids(server.uri)[1:]) == sorted(ids_of(requests))


def test_transactions_of_one_table_wait_with_the_others(server: EmbeddedCatalog) -> None:
    requests, key = prepared(server, 3), {"Idempotency-Key": str(uuid.uuid4())}
    files = metadata_files(server)
    changes = [{"identifier": {"namespace": ["ns"], "name": "t"}, **requests[1]}]

    def transact() -> Answer:
        return Client(server.uri).post("/transactions/commit", {"table-changes": changes}, headers=key)

    first, last = sending(server, [requests[0], requests[2]])
    answers = [*send_together(server, [first, transact, last]), transact()]
    assert [answer.status for answer in answers] == [200, 204, 200, 204]
    assert (metadata_files(server), snapshot_ids(server.uri)[1:]) == (files + 1, ids_of(requests))


def test_a_request_that_does_not_qualify_has_its_own_outcome(server: EmbeddedCatalog) -> None:
    table = known_table(server)
    same = new_file(table)
    requests = [
        prepare(table, same),
        prepare(table, same),
        prepare(table, summary={"flink.job-id": "x"}),
        prepare(table),
    ]
    answers = send_together(server, sending(server, requests))
    assert [answer.status for answer in answers] == [200, 409, 409, 200]
    assert snapshot_ids(server.uri)[1:] == [ids_of(requests)[number] for number in (0, 3)]


def test_malformed_requests_do_not_harm_those_that_wait_with_them(server: EmbeddedCatalog) -> None:
    requests = prepared(server, 4)
    requests[1]["updates"][0]["snapshot"]["sequence-number"] = "x"
    requests[2]["requirements"] = [{"type": "assert-nothing"}]
    answers = send_together(server, sending(server, requests))
    assert [answer.status for answer in answers] == [200, 409, 400, 200]


def test_one_request_sent_twice_at_once_with_its_key_is_carried_out_once(server: EmbeddedCatalog) -> None:
    table = known_table(server)
    request, other = prepare(table), prepare(table)
    key = {"Idempotency-Key": str(uuid.uuid4())}
    answers = send_together(server, [*sending(server, [request, request], **key), *sending(server, [other])])
    assert [answer.status for answer in answers] == [200, 200, 200]
    assert sorted(snapshot_ids(server.uri)[1:]) == sorted(ids_of([request, other]))
    again = send(server.uri, request, **key)
    assert again.status == 200
    assert len(snapshot_ids(server.uri)) == 3


def test_a_second_request_with_a_key_is_refused_also_when_the_database_goes_away(
    server: EmbeddedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one must not believe a record of the key that was undone."""
    table = known_table(server)
    key = {"Idempotency-Key": str(uuid.uuid4())}
    sends = [*sending(server, [prepare(table), prepare(table)], **key), *sending(server, [prepare(table)])]
    failing = Failing(server, monkeypatch)
    failing.failures, failing.spared = [Unavailable("away")], 1
    answers = send_together(server, sends)
    assert [answer.status for answer in answers] == [200, 422, 200]
    assert len(snapshot_ids(server.uri)) == 3


def test_each_request_of_a_group_can_be_repeated_with_its_key(server: EmbeddedCatalog) -> None:
    requests = prepared(server, 3)
    keys = [{"Idempotency-Key": str(uuid.uuid4())} for _ in requests]
    sends = [sending(server, [request], **key)[0] for request, key in zip(requests, keys, strict=True)]
    answers = send_together(server, sends)
    repeats = [send(server.uri, request, **key) for request, key in zip(requests, keys, strict=True)]
    assert [answer.status for answer in (*answers, *repeats)] == [200] * 6
    assert [answer.body for answer in repeats] == [answer.body for answer in answers]
    assert len(snapshot_ids(server.uri)) == 4


# --- the one transaction fails ---------------------------------------------------------------------------------------


class Failing:
    """Fails the next transaction of a group: before it, or after it was committed. The uses of keys, which are noted
    in the background, are none.
    """

    def __init__(self, server: EmbeddedCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
        self._write = server.app.ctx.database.write
        self.failures: list[Exception] = []
        self.after = False
        self.spared = 0  # transactions that do not fail yet
        self.between: Callable[[], object] | None = None
        monkeypatch.setattr(server.app.ctx.database, "write", self.write)

    def write(self, work: Callable[[Sql], Any]) -> Any:
        if work.__module__ == Recorder.__module__:
            return self._write(work)
        if self.between is not None:
            between, self.between = self.between, None
            between()
        if not self.failures or self.spared > 0:
            self.spared -= 1
            return self._write(work)
        failure = self.failures.pop()
        if self.after:
            self._write(work)
        raise failure


def test_a_database_that_is_away_is_a_conflict_for_each(
    server: EmbeddedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = prepared(server, 3)
    Failing(server, monkeypatch).failures = [Unavailable("away")]
    answers = send_together(server, sending(server, requests))
    assert [answer.status for answer in answers] == [409, 409, 409]
    assert len(snapshot_ids(server.uri)) == 1


def test_a_commit_whose_answer_was_lost_is_acknowledged_to_each(
    server: EmbeddedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = prepared(server, 3)
    failing = Failing(server, monkeypatch)
    failing.failures, failing.after = [CommitUnknown("lost")], True
    answers = send_together(server, sending(server, requests))
    assert [answer.status for answer in answers] == [200, 200, 200]
    assert snapshot_ids(server.uri)[1:] == ids_of(requests)


def test_a_commit_in_doubt_is_unknown_to_each_and_its_files_stay(
    server: EmbeddedCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = known_table(server)
    requests = [prepare(table), prepare(table), prepare(table, summary={"flink.job-id": "x"})]
    files = metadata_files(server)
    Failing(server, monkeypatch).failures = [CommitUnknown("lost")]
    answers = send_together(server, sending(server, requests))
    assert [answer.status for answer in answers] == [500, 500, 409]
    assert [answer.error[1] for answer in answers[:2]] == ["CommitStateUnknownException"] * 2
    assert metadata_files(server) == files + 1
    assert len(snapshot_ids(server.uri)) == 1


def test_a_group_that_loses_the_race_against_another_server_is_planned_again(
    server: EmbeddedCatalog, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process moves the pointer while this one holds its own lock."""
    table = known_table(server)
    requests, other = [prepare(table) for _ in range(3)], prepare(table)
    failing = Failing(server, monkeypatch)
    failing.between = lambda: commit_by_another_server(server, database, other)
    answers = send_together(server, sending(server, requests))
    assert [answer.status for answer in answers] == [200, 200, 200]
    assert snapshot_ids(server.uri)[1:] == ids_of([other, *requests])
    lists = [each["manifest-list"] for each in Client(server.uri).load()["metadata"]["snapshots"]]
    folder = Path(lists[0].removeprefix("file://")).parent
    there = {str(path) for path in folder.glob("snap-*-0-*.avro")}
    own = {snapshot_of(request)["manifest-list"].removeprefix("file://") for request in (*requests, other)}
    assert there - own == {path.removeprefix("file://") for path in lists} - own  # those of the lost race are gone


def commit_by_another_server(server: EmbeddedCatalog, database: str, request: Json) -> None:
    """Commits through another server of the same database and warehouse."""
    warehouses = {"default": server.warehouse.removeprefix("file://")}
    with running_catalog(server.folder / "another", database=database, warehouses=warehouses) as other:
        assert send(other.uri, request).status == 200


# --- rights ----------------------------------------------------------------------------------------------------------


def revoke_before_the_transaction(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    Failing(guarded.server, monkeypatch).between = lambda: guarded.revoke("write", namespace("ns"), "ben")


def revoke_while_they_wait(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    guarded.revoke("write", namespace("ns"), "ben")


@pytest.mark.parametrize("revoke", [revoke_while_they_wait, revoke_before_the_transaction], ids=lambda f: f.__name__)
def test_each_request_of_a_group_is_checked_and_recorded_by_itself(
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    revoke: Callable[[Guarded, pytest.MonkeyPatch], None],
) -> None:
    with guarded_catalog(tmp_path, database) as guarded:
        guarded.admin.create(properties={PROPERTY_REBASE_APPENDS: "true"})
        users = {name: guarded.user(name, ("write", namespace("ns"))) for name in ("ann", "ben", "cat")}
        assert send("", prepare(load_as(guarded)), client=guarded.admin).status == 200
        stale = load_as(guarded)
        requests = {name: prepare(stale) for name in users}
        sends = [
            lambda name=name, client=client: send("", requests[name], client=client)  # type: ignore[misc]
            for name, client in users.items()
        ]
        answers = send_together(guarded.server, sends, lambda: revoke(guarded, monkeypatch))
        assert [answer.status for answer in answers] == [200, 404, 200]
        ids = [snapshot["snapshot-id"] for snapshot in guarded.admin.load()["metadata"]["snapshots"]]
        assert sorted(ids[1:]) == sorted(ids_of([requests["ann"], requests["cat"]]))
        records = newest_records(guarded.database.read(), limit=2, decision="allowed")
        assert sorted((record.actor, record.objects) for record in records) == [
            ("ann", f"write {table('t')}"),
            ("cat", f"write {table('t')}"),
        ]


def test_who_was_revoked_meanwhile_is_refused_also_when_the_commit_of_the_others_is_in_doubt(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with guarded_catalog(tmp_path, database) as guarded:
        guarded.admin.create(properties={PROPERTY_REBASE_APPENDS: "true"})
        ann, ben, cat = (guarded.user(name, ("write", namespace("ns"))) for name in ("ann", "ben", "cat"))
        assert send("", prepare(load_as(guarded)), client=guarded.admin).status == 200
        stale = load_as(guarded)

        def revoke_and_send() -> Answer:
            guarded.revoke("write", namespace("ns"), "ben")
            return send("", prepare(stale), client=ann)

        sends = [
            lambda: send("", prepare(stale), client=ben),
            revoke_and_send,
            lambda: send("", prepare(stale), client=cat),
        ]
        failing = Failing(guarded.server, monkeypatch)
        answers = send_together(guarded.server, sends, lambda: failing.failures.append(CommitUnknown("lost")))
        assert [answer.status for answer in answers] == [404, 500, 500]
