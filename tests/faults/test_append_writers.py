"""Many writers of one table whose appends are rebased: PyIceberg with its retries off, and a server that is killed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException

from frazil.catalog.embedded import running_catalog
from frazil.catalog.faults import LISTS_WRITTEN, POINTS
from frazil.protocol import PROPERTY_REBASE_APPENDS
from tests.conftest import Campaign
from tests.faults.test_catalog_kills import KillableServer
from tests.kit.catalog_databases import Client
from tests.kit.catalog_writers import wait_for
from tests.kit.fast_appends import load, prepare, send, snapshot_of
from tools.own_server import own_server

WORKERS = 2
NO_RETRIES = {"commit.retry.num-retries": "0"}
# On a busy machine a writer may take longer for an append; PyIceberg does not send a commit again if the server closes
# the idle connection at that very moment.
PATIENT = {"FRAZIL_SERVER__LIMITS__IDLE_SECONDS": "3600"}
UNHEARD = (500, 502, 503, 504)


def create(uri: str, *, rebases: bool) -> None:
    Client(uri).create(properties={PROPERTY_REBASE_APPENDS: str(rebases).lower(), **NO_RETRIES})


def run_all(works: Sequence[Callable[[], None]]) -> None:
    with ThreadPoolExecutor(len(works)) as threads:
        for done in [threads.submit(work) for work in works]:
            done.result()


@contextmanager
def serving(database: str, folder: Path, *, several: bool) -> Iterator[str]:
    """The address of a catalog of several processes, or in this one."""
    if several:
        with own_server(folder, database=database, workers=WORKERS, variables=PATIENT) as (uri, _):
            yield uri
    else:
        with running_catalog(folder, database=database) as server:
            yield server.uri


class Writers:
    """PyIceberg clients that append a row at a time, each its own ids, all at once."""

    def __init__(self, uri: str, count: int, commits: int) -> None:
        self.uri, self.count, self.commits = uri, count, commits
        self.committed: list[int] = []
        self.refused: list[int] = []
        self._start = threading.Barrier(count)

    def run(self) -> None:
        run_all([lambda number=number: self._append(number) for number in range(self.count)])  # type: ignore[misc]

    def _append(self, number: int) -> None:
        table = load_catalog("lake", type="rest", uri=self.uri).load_table("ns.t")
        schema = table.schema().as_arrow()
        self._start.wait(120)
        for row in range(number * self.commits, (number + 1) * self.commits):
            try:
                table.append(pa.table({"id": [row], "data": [f"of writer {number}"]}, schema=schema))
            except CommitFailedException:
                self.refused.append(row)
                table.refresh()
            else:
                self.committed.append(row)

    def stored(self) -> list[int]:
        ids: list[int] = load(self.uri).scan().to_arrow()["id"].to_pylist()
        return sorted(ids)


@pytest.mark.timeout(900)
def test_every_append_of_many_pyiceberg_writers_without_retries_comes_in_once(
    database: str, tmp_path: Path, campaign: Campaign
) -> None:
    count, commits = campaign.size(short=8, full=32), campaign.size(short=5, full=20)
    with serving(database, tmp_path, several=campaign.full or database.startswith("sqlite")) as uri:
        create(uri, rebases=True)
        writers = Writers(uri, count, commits)
        writers.run()
        assert writers.refused == []
        assert writers.stored() == sorted(writers.committed) == list(range(count * commits))
        snapshots = Client(uri).load()["metadata"]["snapshots"]
    assert [snapshot["sequence-number"] for snapshot in snapshots] == list(range(1, count * commits + 1))
    parents = [None, *(snapshot["snapshot-id"] for snapshot in snapshots)]
    assert [snapshot.get("parent-snapshot-id") for snapshot in snapshots] == parents[:-1]
    assert snapshots[-1]["summary"]["total-records"] == str(count * commits)


def test_without_rebase_some_of_these_appends_are_refused(tmp_path: Path) -> None:
    """The same writers: if this finds no conflict, the test above proves nothing."""
    with running_catalog(tmp_path) as server:
        create(server.uri, rebases=False)
        writers = Writers(server.uri, 8, 2)
        writers.run()
        assert writers.refused
        assert writers.stored() == sorted(writers.committed)


class Repeater:
    """Appends again and again to what it has seen last, and goes on after every answer; it never repeats a request."""

    def __init__(self, uri: str) -> None:
        self.uri, self.acknowledged, self.unheard = uri, list[int](), list[int]()
        self.refused: list[int] = []

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                request = prepare(load(self.uri))
            except Exception:  # the server is away
                stop.wait(0.5)
                continue
            self._send(request)

    def _send(self, request: dict[str, object]) -> None:
        snapshot_id = snapshot_of(request)["snapshot-id"]
        try:
            status = send(self.uri, request).status
        except requests.RequestException:
            self.unheard.append(snapshot_id)
            return
        ends = {200: self.acknowledged, 409: self.refused, **dict.fromkeys(UNHEARD, self.unheard)}
        ends[status].append(snapshot_id)


@pytest.mark.timeout(3000)
def test_a_server_killed_while_it_rebases_loses_and_repeats_nothing(tmp_path: Path, campaign: Campaign) -> None:
    random, points = campaign.random(), (LISTS_WRITTEN, "database.before-commit", *POINTS)
    server = KillableServer(tmp_path, f"sqlite:///{tmp_path / 'catalog.db'}")
    server.start()
    uri = f"http://127.0.0.1:{server.port}"
    create(uri, rebases=True)
    server.stop()
    writers, stop = [Repeater(uri) for _ in range(campaign.size(short=2, full=4))], threading.Event()
    threads = [threading.Thread(target=writer.run, args=(stop,), daemon=True) for writer in writers]
    try:
        for thread in threads:
            thread.start()
        for number in range(campaign.size(short=1, full=100)):
            server.start(f"{points[number % len(points)]}:{random.randint(1, 6)}")
            wait_for(lambda: server.is_dead, seconds=240)
            assert server.process is not None
            assert server.process.returncode == -signal.SIGKILL
        server.start()
        wait_for(lambda: all(writer.acknowledged for writer in writers), seconds=240)
        stop.set()
        for thread in threads:
            thread.join(240)
        check(uri, writers)
    finally:
        stop.set()
        server.stop()


def check(uri: str, writers: Sequence[Repeater]) -> None:
    """What was acknowledged is there once with its file, what was refused is not, and each list can be read."""
    table = load(uri)
    ids = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    assert len(ids) == len(set(ids))
    assert {snapshot for writer in writers for snapshot in writer.acknowledged} <= set(ids)
    assert not {snapshot for writer in writers for snapshot in writer.refused} & set(ids)
    known = {snapshot for writer in writers for snapshot in (*writer.acknowledged, *writer.unheard)}
    assert set(ids) <= known
    parents = [snapshot.parent_snapshot_id for snapshot in table.metadata.snapshots]
    assert parents == [None, *ids[:-1]]
    files = table.inspect.files()["file_path"].to_pylist()
    assert len(files) == len(set(files)) == len(ids)
