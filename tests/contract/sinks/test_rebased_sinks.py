"""Sinks of several parts on a table that rebases appends: commits of other parts cost no retry, and who was fenced, has
committed before or was rolled back gets the conflict.
"""

from __future__ import annotations

import re
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from frazil import Lake
from frazil.catalog.appends.progress import PartCommit
from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.client import FrazilCatalog
from frazil.errors import CommitConflict, CommitUnknown, WriterFenced
from frazil.history.rollback import perform_rollback
from frazil.sinks import open as open_sink
from frazil.sinks.bytewax import IcebergSink, IcebergSinkConfig, SourceRows
from frazil.write.commit.progress import read_progress
from frazil.write.commit.publish import RetryPolicy
from frazil.write.files.layout import TableLayout
from tests.contract.test_sink_publish import Faulty, PublishedTable, Writer, lose_reply
from tests.kit.catalog_writers import wait_for
from tests.kit.raising import raises

Commit = Callable[[], None]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCatalog]:
    with running_catalog(tmp_path_factory.mktemp("lake"), rebase_appends=True) as running:
        FrazilCatalog("lake", **running.properties).create_namespace("lake")
        yield running


@pytest.fixture
def lake(server: EmbeddedCatalog) -> PublishedTable:
    table = PublishedTable(FrazilCatalog("lake", **server.properties))
    table.create()
    return table


@pytest.fixture
def rebases(server: EmbeddedCatalog) -> Callable[[], int]:
    """How many appends the catalog has rebased since the test began."""

    def count() -> int:
        with urllib.request.urlopen(f"{server.uri}/metrics") as reply:
            (text,) = re.findall(r'^frazil_rebases_total\{outcome="rebased"\} (\S+)$', reply.read().decode(), re.M)
        return int(float(text))

    before = count()
    return lambda: count() - before


def writer_with(lake: PublishedTable, *faults: Callable[[Commit], None], part: str = "s/0") -> Writer:
    """A writer that has taken its part over, and what happens to its next commits."""
    catalog = Faulty(lake.catalog)
    writer = lake.writer(part, catalog=catalog)
    catalog.plan += faults
    return writer


def after(*events: Callable[[], object]) -> Callable[[Commit], None]:
    """The request arrives after these."""

    def arrive_late(commit: Commit) -> None:
        for event in events:
            event()
        commit()

    return arrive_late


def offsets(lake: PublishedTable) -> dict[str, int]:
    return {name: part.offsets["p"] for name, part in read_progress(lake.table().metadata).parts.items()}


def test_commits_of_other_parts_cost_no_second_attempt(lake: PublishedTable, rebases: Callable[[], int]) -> None:
    others = [lake.writer(f"s/{number}") for number in (1, 2)]
    late = writer_with(lake, after(*(lambda other=other: other.write(2, base=100) for other in others)))  # type: ignore[misc]
    claim = late.claim(3)
    published = late.publisher.publish(late.append(claim), claim)
    assert (published.attempts, rebases()) == (1, 1)
    assert lake.ids() == [0, 1, 2, 100, 100, 101, 101]
    assert (offsets(lake), lake.problems()) == ({"s/0": 3, "s/1": 2, "s/2": 2}, ())
    head = lake.table().current_snapshot()
    assert head is not None
    assert head.snapshot_id == published.snapshot_id


def test_a_rebased_writer_and_the_others_go_on(lake: PublishedTable, rebases: Callable[[], int]) -> None:
    other = lake.writer("s/1")
    late = writer_with(lake, *[after(lambda: other.write(1, base=100))] * 3)
    for _ in range(3):
        late.write(2)
    assert (lake.ids(), rebases()) == ([*range(6), 100, 101, 102], 3)
    assert (offsets(lake), lake.problems()) == ({"s/0": 6, "s/1": 3}, ())


def test_an_append_of_another_program_costs_no_second_attempt(lake: PublishedTable, rebases: Callable[[], int]) -> None:
    def append() -> None:
        table = lake.table()
        table.append(pa.table({"id": [50]}, schema=TableLayout.of(table).arrow))

    writer_with(lake, after(append)).write(2)
    assert (lake.ids(), rebases(), lake.problems()) == ([0, 1, 50], 1, ())


def test_a_sink_with_a_part_for_each_process_is_rebased(
    server: EmbeddedCatalog, lake: PublishedTable, rebases: Callable[[], int]
) -> None:
    catalog = Faulty(lake.catalog)
    catalog.name = "lake"  # type: ignore[attr-defined]
    with (
        open_sink(lake.name, name="s", part=0, catalog=catalog, flush_rows=None) as first,  # type: ignore[arg-type]
        open_sink(lake.name, name="s", part=1, catalog=lake.catalog, flush_rows=None) as second,
    ):
        first.write([{"id": 0}], position=1)
        second.write([{"id": 1}], position=1)
        catalog.plan.append(after(second.commit))
        first.commit()
        first.write([{"id": 2}], position=2)
    assert (lake.ids(), rebases(), lake.problems()) == ([0, 1, 2], 1, ())


def test_two_parts_of_a_dataflow_are_rebased(
    server: EmbeddedCatalog, lake: PublishedTable, rebases: Callable[[], int]
) -> None:
    """The parts of two workers of Bytewax: one makes its checkpoint while the other one's commit is on its way."""
    meanwhile: list[Callable[[], object]] = []

    def on_step(step: str) -> None:
        if step == "before commit" and meanwhile:
            meanwhile.pop()()

    name, retry = ".".join(lake.name), RetryPolicy(on_step=on_step)
    options: dict[str, Any] = {"catalog_properties": server.properties, "num_partitions": 2, "retry": retry}
    host = IcebergSink(IcebergSinkConfig(server.uri, "rest", None, name, **options))
    first, second = (host.build_part("flow.lake", part, None) for part in host.list_parts())
    sources = {host.part_of(source): source for source in ("e/0", "e/1")}
    for offset in range(3):
        for number, part in enumerate((first, second)):
            rows = [{"id": 10 * number + offset}]
            part.write_batch([SourceRows(rows, sources[f"part-{number}"], [offset])])
        meanwhile.append(second.snapshot)
        assert first.snapshot() == {"position": {sources["part-0"]: offset + 1}}
    assert (lake.ids(), rebases(), lake.problems()) == ([0, 1, 2, 10, 11, 12], 3, ())


# --- groups ----------------------------------------------------------------------------------------------------------


def test_parts_that_wait_for_each_other_are_one_commit_and_a_fenced_one_has_its_conflict(
    server: EmbeddedCatalog, lake: PublishedTable, rebases: Callable[[], int]
) -> None:
    """Four tickets in a group: three parts, and a writer whose part was taken over while its commit was on its way."""
    key, groups = ("default", *lake.name), server.app.ctx.appends.groups
    prepared, taken_over = threading.Event(), threading.Event()

    def wait_for_takeover(commit: Commit) -> None:
        prepared.set()
        assert taken_over.wait(60)
        commit()

    def wait_until_waiting(count: int) -> None:
        wait_for(lambda: len(groups._waiting.get(key, ())) >= count, seconds=60)

    writers = [lake.writer(f"s/{number}") for number in (1, 2, 3)]
    zombie = writer_with(lake, wait_for_takeover)
    with ThreadPoolExecutor(4) as threads:
        fenced = threads.submit(zombie.write, 9)
        assert prepared.wait(60)
        lake.writer().write(1, base=50)
        files, snapshots = metadata_files(lake), len(lake.table().snapshots())
        with server.app.ctx.locks.hold([key]):
            taken_over.set()
            wait_until_waiting(1)
            written = []
            for number, writer in enumerate(writers, start=1):
                written.append(threads.submit(writer.write, number, base=100 * number))
                wait_until_waiting(1 + number)
        with raises(WriterFenced, current=2, ours=1):
            fenced.result()
        for result in written:
            result.result()
    assert (metadata_files(lake), len(lake.table().snapshots())) == (files + 1, snapshots + 3)
    assert (lake.ids(), rebases(), lake.problems()) == ([50, 100, 200, 201, 300, 301, 302], 2, ())
    assert offsets(lake) == {"s/0": 1, "s/1": 1, "s/2": 2, "s/3": 3}


def metadata_files(lake: PublishedTable) -> int:
    """Metadata files of the table on disk."""
    return len(list(Path(lake.table().location().removeprefix("file://")).rglob("*.metadata.json")))


# --- zombies ---------------------------------------------------------------------------------------------------------


def wake_a_zombie(lake: PublishedTable) -> None:
    """A writer has prepared its commit; another one takes its part over and brings the same rows in, and a writer of
    another part commits, before that commit arrives.
    """
    other = lake.writer("s/1")
    zombie = writer_with(lake, after(lambda: lake.writer().write(3), lambda: other.write(1, base=100)))
    zombie.write(3)


def test_a_fenced_writer_is_not_rebased_though_another_part_came_last(
    lake: PublishedTable, rebases: Callable[[], int]
) -> None:
    with raises(WriterFenced, current=2, ours=1):
        wake_a_zombie(lake)
    assert (lake.ids(), rebases()) == ([0, 1, 2, 100], 0)


def test_a_catalog_that_does_not_compare_the_part_would_bring_rows_in_twice(
    lake: PublishedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same zombie without the rule: if nothing were wrong here, the test above would prove nothing."""
    monkeypatch.setattr(PartCommit, "follows", lambda *_: True)
    wake_a_zombie(lake)
    assert lake.ids() == [0, 0, 1, 1, 2, 2, 100]


def test_a_lost_reply_to_a_rebased_commit_repeats_no_row(lake: PublishedTable, rebases: Callable[[], int]) -> None:
    other = lake.writer("s/1")

    def arrive_and_lose_the_reply(commit: Commit) -> None:
        other.write(1, base=100)
        lose_reply(commit)

    writer_with(lake, arrive_and_lose_the_reply).write(3)
    assert (lake.ids(), rebases(), lake.problems()) == ([0, 1, 2, 100], 1, ())


def test_a_request_that_arrives_after_its_repetition_and_other_parts_is_refused(lake: PublishedTable) -> None:
    other, late = lake.writer("s/1"), list[Commit]()

    def delay(commit: Commit) -> None:
        late.append(commit)
        other.write(1, base=100)
        raise CommitUnknown("no reply in time")

    writer_with(lake, delay).write(3)
    other.write(1, base=100)
    with pytest.raises(CommitConflict):
        late[0]()
    assert (lake.ids(), lake.problems()) == ([0, 1, 2, 100, 101], ())


def test_a_request_that_arrives_before_its_repetition_is_found(
    lake: PublishedTable, rebases: Callable[[], int]
) -> None:
    """It is rebased while the writer prepares the repetition, which then finds the rows in."""
    other, late = lake.writer("s/1"), list[Commit]()

    def delay(commit: Commit) -> None:
        late.append(commit)
        other.write(1, base=100)
        raise CommitUnknown("no reply in time")

    writer = writer_with(lake, delay, after(lambda: late[0]()))
    writer.write(3)
    writer.write(1)
    assert (lake.ids(), rebases(), lake.problems()) == ([0, 1, 2, 3, 100], 1, ())


def roll_back_on_the_way(server: EmbeddedCatalog, lake: PublishedTable, *, with_progress: bool) -> Writer:
    """A writer whose commit arrives after a rollback to the snapshot that it was prepared on."""
    other, catalog = lake.writer("s/1"), FrazilCatalog("lake", **server.properties)

    def roll_back() -> None:
        before = lake.table().current_snapshot()
        assert before is not None
        other.write(1, base=100)
        plan = Lake(catalog=catalog).table(lake.name).plan_rollback(before.snapshot_id)
        perform_rollback(catalog, plan, with_progress=with_progress)

    return writer_with(lake, after(roll_back))


def test_a_commit_from_before_a_rollback_is_not_rebased(
    server: EmbeddedCatalog, lake: PublishedTable, rebases: Callable[[], int]
) -> None:
    writer = roll_back_on_the_way(server, lake, with_progress=False)
    claim = writer.claim(2)
    published = writer.publisher.publish(writer.append(claim), claim)
    assert (published.attempts, rebases(), lake.ids()) == (2, 0, [0, 1])


def test_a_rollback_of_the_progress_fences_a_commit_on_its_way(
    server: EmbeddedCatalog, lake: PublishedTable, rebases: Callable[[], int]
) -> None:
    with pytest.raises(WriterFenced):
        roll_back_on_the_way(server, lake, with_progress=True).write(2)
    assert (lake.ids(), rebases()) == ([], 0)


# --- what depends on more than the part ------------------------------------------------------------------------------


def test_a_first_commit_that_takes_over_is_not_rebased(lake: PublishedTable, rebases: Callable[[], int]) -> None:
    other = lake.writer("s/1")
    planner = lake.planner(catalog=Faulty(lake.catalog, [after(lambda: other.write(1, base=100))]))
    planner.write(2)
    assert (lake.ids(), rebases()) == ([0, 1, 100], 0)


def test_a_commit_to_a_branch_is_not_rebased(lake: PublishedTable, rebases: Callable[[], int]) -> None:
    lake.writer("s/9").write(1, base=90)
    table = lake.table()
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "audit").commit()  # type: ignore[union-attr]
    catalog, other = Faulty(lake.catalog), lake.writer("s/1", ref="audit")
    writer = lake.writer(catalog=catalog, ref="audit")
    catalog.plan.append(after(lambda: other.write(1, base=100)))
    writer.write(2)
    assert (lake.ids("audit"), rebases()) == ([0, 1, 90, 100], 0)


def test_a_table_that_does_not_rebase_appends_refuses_those_of_sinks_too(
    server: EmbeddedCatalog, rebases: Callable[[], int]
) -> None:
    lake = PublishedTable(FrazilCatalog("lake", **server.properties))
    lake.create(**{"commit.rebase-appends.enabled": "false"})
    other = lake.writer("s/1")
    writer = writer_with(lake, after(lambda: other.write(1, base=100)))
    claim = writer.claim(2)
    assert writer.publisher.publish(writer.append(claim), claim).attempts == 2
    assert (lake.ids(), rebases()) == ([0, 1, 100], 0)
