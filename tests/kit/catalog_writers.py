"""Writers that append to tables of a catalog while it fails around them, and the record of the answers they got."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import requests

from tests.kit.catalog_databases import Answer, Client, append_change

UNKNOWN = (500, 502, 503, 504)


@dataclass
class Writer:
    """Appends to one table, again and again. With keys, it repeats a request whose end it did not hear, until it hears
    it.
    """

    table: str
    clients: Callable[[], Client]  # the server to ask now; it changes when servers come and go
    keyed: bool = True
    acknowledged: list[int] = field(default_factory=list)
    unheard: list[int] = field(default_factory=list)
    conflicts: int = 0
    # the test has failed: no answer will come
    given_up: threading.Event = field(default_factory=threading.Event)

    def append_once(self, stop: threading.Event) -> None:
        """Tries one append: on a conflict it gives up, on silence it asks again (with a key) or leaves it unheard."""
        main = self._main(stop)
        if main is None:
            return
        parent, sequence = main
        snapshot_id = uuid.uuid4().int >> 66
        key = {"Idempotency-Key": str(uuid.uuid4())} if self.keyed else {}
        body = append_change(snapshot_id, parent=parent, sequence=sequence + 1)
        while True:
            status = self._post(body, key)
            if status == 200:
                self.acknowledged.append(snapshot_id)
                return
            if status is not None and status not in UNKNOWN:
                assert status == 409, f"an append ended in {status}"
                self.conflicts += 1
                return
            if not self.keyed or self.given_up.is_set():
                self.unheard.append(snapshot_id)
                return
            time.sleep(0.02)

    def _post(self, body: object, key: dict[str, str]) -> int | None:
        try:
            return self.clients().post(f"/namespaces/ns/tables/{self.table}", body, headers=key).status
        except requests.RequestException:
            return None

    def _main(self, stop: threading.Event) -> tuple[int | None, int] | None:
        while not stop.is_set():
            try:
                answer = self.clients().get(f"/namespaces/ns/tables/{self.table}", snapshots="refs")
            except requests.RequestException:
                time.sleep(0.02)
                continue
            if answer.status == 200:
                current = answer.body["metadata"]["current-snapshot-id"]
                return (None if current == -1 else current), answer.body["metadata"]["last-sequence-number"]
            assert answer.status in UNKNOWN, answer.body
            time.sleep(0.02)
        return None

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.append_once(stop)


@contextmanager
def running(writers: Sequence[Writer]) -> Iterator[None]:
    """Lets the writers run as long as the block; at its end each finishes what it has begun, so a server must
    be there.
    """
    stop = threading.Event()
    threads = [threading.Thread(target=writer.run, args=(stop,), daemon=True) for writer in writers]
    for thread in threads:
        thread.start()
    try:
        yield
    except BaseException:
        for writer in writers:
            writer.given_up.set()
        raise
    finally:
        stop.set()
        for thread in threads:
            thread.join(120)
    assert not any(thread.is_alive() for thread in threads), "a writer did not come to its end"


def wait_for(done: Callable[[], bool], *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, f"it did not happen within {seconds:g} seconds"
        time.sleep(0.01)


def check_account(client: Client, writers: Sequence[Writer]) -> None:
    """No acknowledged snapshot is missing, none is there twice, none came from nowhere, and every table's history holds
    together.
    """
    for table in {writer.table for writer in writers}:
        metadata = client.load(table)["metadata"]
        result = [s["snapshot-id"] for s in metadata["snapshots"]]
        account = [i for w in writers if w.table == table for i in w.acknowledged]
        unheard = {i for w in writers if w.table == table for i in w.unheard}
        assert len(result) == len(set(result))
        assert set(account) <= set(result)
        assert set(result) <= set(account) | unheard
        assert [s.get("parent-snapshot-id") for s in metadata["snapshots"]] == [None, *result[:-1]][: len(result)]
        assert [e["snapshot-id"] for e in metadata["snapshot-log"]] == result


@dataclass
class Answers:
    """The answers that one client got about the snapshots that it appended to a table of its own."""

    committed: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)

    def add(self, snapshot_id: int, answer: Answer) -> None:
        kinds = {200: self.committed, 409: self.refused, 500: self.unknown, 503: self.unknown}
        kinds[answer.status].append(snapshot_id)


class Appender:
    """Appends snapshots to a table of its own, so that no other client can make a commit conflict."""

    def __init__(self, client: Client, table: str) -> None:
        self.client, self.table, self.answers = client, table, Answers()

    def append(self, *, keyed: bool) -> None:
        loaded = self.client.get(f"/namespaces/ns/tables/{self.table}")
        if loaded.status in UNKNOWN:
            return
        metadata = loaded.body["metadata"]
        parent = None if metadata["current-snapshot-id"] == -1 else metadata["current-snapshot-id"]
        snapshot_id = uuid.uuid4().int >> 66
        change = append_change(snapshot_id, parent=parent, sequence=metadata["last-sequence-number"] + 1)
        headers = {"Idempotency-Key": str(uuid.uuid4())} if keyed else {}
        answer = self.client.post(f"/namespaces/ns/tables/{self.table}", change, headers=headers)
        self.answers.add(snapshot_id, answer)

    def check(self) -> None:
        """Nothing answered as committed is missing; nothing answered as refused is in the table."""
        stored = {snapshot["snapshot-id"] for snapshot in self.client.load(self.table)["metadata"]["snapshots"]}
        assert set(self.answers.committed) - stored == set()
        assert set(self.answers.refused) & stored == set()
        assert stored - {*self.answers.committed, *self.answers.unknown} == set()


def run_together(actions: list[Callable[[], None]]) -> None:
    """Runs each action in a thread of its own; raises the first error."""
    with ThreadPoolExecutor(len(actions)) as pool:
        for done in [pool.submit(action) for action in actions]:
            done.result()
