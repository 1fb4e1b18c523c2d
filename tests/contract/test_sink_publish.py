"""The commit core on real catalogs: ours, and PyIceberg's plain client."""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.types import LongType, NestedField

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.client import FrazilCatalog
from frazil.client.changes import Change
from frazil.errors import CommitConflict, CommitUnknown, ProgressMismatch, SinkError, Unavailable, WriterFenced
from frazil.sinks import open as open_sink
from frazil.sinks.audit import audit
from frazil.write.commit.progress import Claim, PartProgress, progress_at, read_progress
from frazil.write.commit.publish import (
    CommitCatalog,
    Overtaken,
    Publisher,
    RetryPolicy,
    SingleTableCatalog,
    until_decided,
)
from frazil.write.commit.snapshots import Append, Move
from frazil.write.files.layout import TableLayout
from frazil.write.files.parquet import write_files
from frazil.write.files.partitioning import partition_spec
from tests.faults.broken_rules import without
from tests.kit.lake import LakeTable
from tests.kit.raising import raises

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True))
IMPATIENT = RetryPolicy(give_up_seconds=120, longest_pause_seconds=0.05)


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedCatalog]:
    # Appends are rebased where they may be, those of sinks included.
    with running_catalog(rebase_appends=True) as running:
        yield running


@pytest.fixture(scope="module")
def ours(server: EmbeddedCatalog) -> FrazilCatalog:
    catalog = FrazilCatalog("lake", **server.properties)
    catalog.create_namespace_if_not_exists("lake")
    return catalog


@pytest.fixture(scope="module")
def theirs(server: EmbeddedCatalog) -> SingleTableCatalog:
    """A catalog as PyIceberg gives it: single tables, its own errors."""
    catalog = load_catalog("plain", **server.properties)
    catalog.create_namespace_if_not_exists("lake")
    return SingleTableCatalog(catalog)


@dataclass
class PublishedTable(LakeTable):
    """A table, and writers of it."""

    def create(self, name: tuple[str, ...] | None = None, **properties: str) -> Table:
        maker = self.catalog.catalog if isinstance(self.catalog, SingleTableCatalog) else self.catalog
        return maker.create_table(name or self.name, SCHEMA, properties=properties)  # type: ignore[attr-defined]

    def writer(self, part: str = "s/0", *, catalog: CommitCatalog | None = None, ref: str = "main") -> Writer:
        publisher = Publisher(catalog or self.catalog, self.name, ref, IMPATIENT)
        token = uuid.uuid4().hex
        return Writer(publisher, self, part, token, publisher.take_over(part, token))

    def planner(self, part: str = "s/0", *, catalog: CommitCatalog | None = None, ref: str = "main") -> Writer:
        """A writer whose first commit is its takeover."""
        publisher = Publisher(catalog or self.catalog, self.name, ref, IMPATIENT)
        token = uuid.uuid4().hex
        planned = publisher.plan_takeover(part, token)
        return Writer(publisher, self, part, token, planned.own, planned.before)


@dataclass
class Writer:
    """A writer of the numbers from where the table stands; it remembers only what a real one would."""

    publisher: Publisher
    lake: PublishedTable
    part: str
    token: str
    progress: PartProgress
    planned: PartProgress | None = None

    def claim(self, count: int, *, source: str = "p") -> Claim:
        start = {name: offset for name, offset in self.progress.offsets.items() if name == source}
        end = {source: start.get(source, 0) + count}
        number = self.progress.commits + 1
        return Claim(self.part, self.token, self.progress.generation, number, start, end, takes_over=self.planned)

    def append(self, claim: Claim, *, base: int = 0) -> Append:
        ids = [base + number for number in range(claim.start.get("p", 0), claim.end["p"])]
        return Append(self.lake.name, self.files(ids), self.publisher.ref)

    def files(self, ids: list[int]) -> list[object]:
        layout = TableLayout.of(self.lake.table())
        return write_files(pa.table({"id": ids}, schema=layout.arrow), layout)  # type: ignore[return-value]

    def write(self, count: int, *, base: int = 0) -> None:
        claim = self.claim(count)
        self.progress, self.planned = self.publisher.publish(self.append(claim, base=base), claim).progress, None


@dataclass
class Faulty:
    """A catalog on a bad line: what it does with the next commits is written in `plan`."""

    catalog: CommitCatalog
    plan: list[Callable[[Callable[[], None]], None]] = field(default_factory=list)

    def load_table(self, identifier: object) -> Table:
        return self.catalog.load_table(identifier)  # type: ignore[arg-type]

    def commit_changes(self, changes: Sequence[Change]) -> None:
        fault = self.plan.pop(0) if self.plan else (lambda commit: commit())
        fault(lambda: self.catalog.commit_changes(changes))


def lose_reply(commit: Callable[[], None]) -> None:
    commit()
    raise CommitUnknown("the reply was lost")


def lose_request(commit: Callable[[], None]) -> None:
    raise CommitUnknown("the request was lost")


@pytest.fixture(params=["frazil", "pyiceberg"])
def lake(request: pytest.FixtureRequest, ours: FrazilCatalog, theirs: SingleTableCatalog) -> PublishedTable:
    published_table = PublishedTable(ours if request.param == "frazil" else theirs)
    published_table.create()
    return published_table


@pytest.fixture
def rest_lake(ours: FrazilCatalog) -> PublishedTable:
    published_table = PublishedTable(ours)
    published_table.create()
    return published_table


def test_rows_and_progress_come_in_one_commit(lake: PublishedTable) -> None:
    writer = lake.writer()
    writer.write(3)
    writer.write(2)
    table = lake.table()
    assert lake.ids() == [0, 1, 2, 3, 4]
    assert read_progress(table.metadata).part("s/0") == PartProgress(1, writer.token, 2, {"p": 5})
    assert [snapshot.summary["total-records"] for snapshot in table.snapshots()] == ["0", "3", "5"]
    assert progress_at(table.metadata, table.current_snapshot()) == read_progress(table.metadata)


def test_a_lost_reply_repeats_no_row(lake: PublishedTable) -> None:
    writer = lake.writer(catalog=Faulty(lake.catalog, [lambda commit: commit(), lose_reply, lose_reply]))
    writer.write(3)
    writer.write(2)
    assert lake.ids() == [0, 1, 2, 3, 4]
    assert len(lake.table().snapshots()) == 3


def test_a_lost_request_loses_no_row(lake: PublishedTable) -> None:
    writer = lake.writer(catalog=Faulty(lake.catalog, [lambda commit: commit(), lose_request, lose_request]))
    writer.write(3)
    assert lake.ids() == [0, 1, 2]


def test_a_request_that_arrives_after_its_repetition_is_refused(lake: PublishedTable) -> None:
    late: list[Callable[[], None]] = []

    def delay(commit: Callable[[], None]) -> None:
        late.append(commit)
        raise CommitUnknown("no reply in time")

    writer = lake.writer(catalog=Faulty(lake.catalog, [lambda commit: commit(), delay]))
    writer.write(3)
    with pytest.raises(CommitConflict):
        late[0]()
    assert lake.ids() == [0, 1, 2]


@pytest.mark.requirement("sink.conflict")
def test_writers_of_two_parts_get_out_of_each_others_way(lake: PublishedTable) -> None:
    writers = [lake.writer(f"s/{number}") for number in range(3)]

    def write(number: int) -> None:
        for _ in range(4):
            writers[number].write(2, base=100 * number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lake.ids() == [*range(8), *range(100, 108), *range(200, 208)]
    assert {name: part.offsets["p"] for name, part in read_progress(lake.table().metadata).parts.items()} == {
        "s/0": 8,
        "s/1": 8,
        "s/2": 8,
    }


def test_a_writer_that_wakes_after_a_takeover_is_fenced(lake: PublishedTable) -> None:
    old = lake.writer()
    old.write(3)
    claim = old.claim(2)
    asleep = old.append(claim)
    new = lake.writer()
    with raises(WriterFenced, current=2, ours=1):
        old.publisher.publish(asleep, claim)
    new.write(2)
    assert lake.ids() == [0, 1, 2, 3, 4]


def test_a_take_over_is_seen_by_a_commit_already_on_its_way(lake: PublishedTable) -> None:
    """The old writer has read the table, and only sends its commit after the other took over: the guard must
    see that.
    """
    old_catalog = Faulty(lake.catalog, [lambda commit: commit()])
    old = lake.writer(catalog=old_catalog)

    def overtaken(commit: Callable[[], None]) -> None:
        lake.writer().write(1)
        commit()

    old_catalog.plan.append(overtaken)
    with pytest.raises(WriterFenced):
        old.write(3)
    assert lake.ids() == [0]


def test_of_two_that_take_over_at_once_one_wins_even_if_a_reply_is_lost(lake: PublishedTable) -> None:
    """The hole that a generation alone would leave: both wait for generation 1, and the loser would see it and think it
    its own.
    """
    winner: list[Writer] = []

    def other_is_first(commit: Callable[[], None]) -> None:
        winner.append(lake.writer())
        raise CommitUnknown("the reply was lost")

    second = lake.writer(catalog=Faulty(lake.catalog, [other_is_first]))
    assert (winner[0].progress.generation, second.progress.generation) == (1, 2)
    with pytest.raises(WriterFenced):
        winner[0].write(1)
    second.write(1)
    assert lake.ids() == [0]


def test_a_first_commit_that_takes_over_is_one_snapshot_and_is_proved(lake: PublishedTable) -> None:
    first = lake.planner()
    assert lake.table().snapshots() == []
    first.write(3)
    second = lake.planner()
    second.write(2)
    second.write(1)
    assert (lake.ids(), len(lake.table().snapshots())) == ([0, 1, 2, 3, 4, 5], 3)
    assert read_progress(lake.table().metadata).part("s/0") == PartProgress(2, second.token, 3, {"p": 6})
    assert audit(lake.table().metadata).problems == ()
    with pytest.raises(WriterFenced):
        first.write(1)


def test_a_first_commit_that_takes_over_survives_lost_requests_and_replies(lake: PublishedTable) -> None:
    lake.planner(catalog=Faulty(lake.catalog, [lose_request, lose_reply])).write(3)
    assert (lake.ids(), len(lake.table().snapshots())) == ([0, 1, 2], 1)


@pytest.mark.parametrize("rival", ["planner", "writer"])
def test_of_two_that_planned_from_the_same_progress_the_first_to_commit_wins(lake: PublishedTable, rival: str) -> None:
    late = lake.planner()
    winner = getattr(lake, rival)()
    winner.write(2)
    with raises(WriterFenced, outrun=True) as caught:
        late.write(5)
    assert (caught.value.outrun, lake.ids()) == (True, [0, 1])
    winner.write(1)
    assert (lake.ids(), audit(lake.table().metadata).problems) == ([0, 1, 2], ())


def test_a_build_without_the_fence_lets_a_late_planner_repeat_rows(lake: PublishedTable) -> None:
    """So that the tests around it can fail: nothing else refuses the second commit."""
    late = lake.planner()
    lake.planner().write(2)
    with without("fence"):
        late.write(2)
    assert lake.ids() == [0, 0, 1, 1]


def test_a_takeover_without_rows_outruns_who_planned_before_it(lake: PublishedTable) -> None:
    late = lake.planner()
    newer = lake.writer()
    with pytest.raises(WriterFenced):
        late.write(1)
    newer.write(2)
    assert lake.ids() == [0, 1]


def test_a_rival_is_seen_by_a_first_commit_already_on_its_way(lake: PublishedTable) -> None:
    def outrun(commit: Callable[[], None]) -> None:
        lake.planner().write(1)
        commit()

    with pytest.raises(WriterFenced):
        lake.planner(catalog=Faulty(lake.catalog, [outrun])).write(3)
    assert lake.ids() == [0]


def test_a_fence_that_is_seen_after_an_unknown_outcome_is_unknown(lake: PublishedTable) -> None:
    """The commit is in, its reply was lost, and a newer writer took over before the writer looked: its files must not
    be deleted.
    """

    def lose_and_be_replaced(commit: Callable[[], None]) -> None:
        commit()
        lake.writer().write(1)
        raise CommitUnknown("the reply was lost")

    with pytest.raises(CommitUnknown):
        lake.planner(catalog=Faulty(lake.catalog, [lose_and_be_replaced])).write(3)
    assert lake.ids() == [0, 1, 2, 3]


def test_a_table_that_was_made_anew_takes_no_rows_of_one_that_planned_before(
    rest_lake: PublishedTable, ours: FrazilCatalog
) -> None:
    """Neither table knows the part, so that the progress alone does not tell them apart."""
    planner = rest_lake.planner()
    claim = planner.claim(1)
    append = planner.append(claim)
    ours.drop_table(rest_lake.name)
    rest_lake.create()
    with pytest.raises(WriterFenced) as caught:
        planner.publisher.publish(append, claim)
    assert (caught.value.made_anew, rest_lake.ids()) == (True, [])


def test_a_first_commit_on_a_branch_goes_on_where_the_branch_left_main(rest_lake: PublishedTable) -> None:
    rest_lake.writer().write(3)
    table = rest_lake.table()
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "dev").commit()  # type: ignore[union-attr]
    planner = rest_lake.planner(ref="dev")
    rest_lake.writer().write(1)
    planner.write(2)
    assert (rest_lake.ids("dev"), rest_lake.ids()) == ([0, 1, 2, 3, 4], [0, 1, 2, 3])


def test_where_older_commits_are_expired_a_first_commit_that_takes_over_is_the_base(rest_lake: PublishedTable) -> None:
    for _ in range(3):
        rest_lake.planner().write(2)
    table = rest_lake.table()
    table.maintenance.expire_snapshots().by_ids([snapshot.snapshot_id for snapshot in table.snapshots()[:-1]]).commit()
    report = audit(rest_lake.table().metadata)
    assert (report.problems, report.parts[0].base, report.parts[0].reached) == ((), {"p": 4}, {"p": 6})


def test_progress_outlives_the_expiry_of_its_snapshots(rest_lake: PublishedTable) -> None:
    writer = rest_lake.writer(catalog=Faulty(rest_lake.catalog, [lambda commit: commit(), lambda commit: commit()]))
    writer.write(3)
    claim = writer.claim(2)
    append = writer.append(claim)
    writer.publisher.publish(append, claim)  # and here the writer is killed, before it can note the reply
    lake_table = rest_lake.table()
    old = [snapshot.snapshot_id for snapshot in lake_table.snapshots()[:-1]]
    lake_table.maintenance.expire_snapshots().by_ids(old).commit()
    again = rest_lake.writer()
    assert again.progress.offsets == {"p": 5}
    again.write(1)
    assert rest_lake.ids() == [0, 1, 2, 3, 4, 5]


def test_several_tables_change_together_or_not_at_all(rest_lake: PublishedTable) -> None:
    other = PublishedTable(rest_lake.catalog, ("lake", rest_lake.name[1] + "_q"))
    other.create()
    faulty = Faulty(rest_lake.catalog)
    writer = rest_lake.writer(catalog=faulty)

    def other_table_moves(commit: Callable[[], None]) -> None:
        other.table().append(pa.table({"id": [-1]}, schema=TableLayout.of(other.table()).arrow))
        with pytest.raises(CommitConflict):
            commit()
        assert (rest_lake.ids(), other.ids()) == ([], [-1])
        raise CommitConflict("as the catalog said")

    faulty.plan.append(other_table_moves)
    claim = writer.claim(2)
    files = Writer(writer.publisher, other, "", "", writer.progress).files([7])
    writer.publisher.publish(writer.append(claim), claim, also=[Append(other.name, files)])  # type: ignore[arg-type]
    assert (rest_lake.ids(), other.ids()) == ([0, 1], [-1, 7])


def test_a_catalog_of_single_tables_says_that_it_cannot(theirs: SingleTableCatalog) -> None:
    lake = PublishedTable(theirs)
    lake.create()
    lake.create(("lake", lake.name[1] + "_q"))
    writer = lake.writer()
    claim = writer.claim(1)
    with raises(SinkError, problem="single-table"):
        writer.publisher.publish(
            writer.append(claim), claim, also=[Append(("lake", lake.name[1] + "_q"), writer.files([1]))]
        )  # type: ignore[arg-type]
    assert lake.ids() == []


def test_progress_belongs_to_its_branch(rest_lake: PublishedTable) -> None:
    rest_lake.writer().write(2)
    table = rest_lake.table()
    table.manage_snapshots().create_branch(
        table.current_snapshot().snapshot_id, "audit", max_ref_age_ms=10**12
    ).commit()  # type: ignore[union-attr]
    branch = rest_lake.writer(ref="audit")
    branch.write(3, base=50)
    metadata = rest_lake.table().metadata
    assert (rest_lake.ids(), rest_lake.ids("audit")) == ([0, 1], [0, 1, 52, 53, 54])  # it goes on where main stood
    assert (read_progress(metadata).part("s/0").offsets, read_progress(metadata, "audit").part("s/0").offsets) == (
        {"p": 2},
        {"p": 5},
    )
    assert metadata.refs["audit"].max_ref_age_ms == 10**12


def test_a_branch_goes_on_where_it_left_main_though_main_has_moved_since(rest_lake: PublishedTable) -> None:
    rest_lake.writer().write(2)
    table = rest_lake.table()
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "audit").commit()  # type: ignore[union-attr]
    rest_lake.writer().write(5)
    rest_lake.writer("other/0").write(1, base=90)
    branch = rest_lake.writer(ref="audit")
    assert branch.progress.offsets == {"p": 2}
    branch.write(3)
    assert (rest_lake.ids("audit"), rest_lake.writer(ref="audit").progress.offsets) == ([0, 1, 2, 3, 4], {"p": 5})
    assert set(read_progress(rest_lake.table().metadata, "audit").parts) == {"s/0"}
    assert audit(rest_lake.table().metadata, "audit").problems == ()


def test_a_branch_whose_beginning_has_expired_takes_no_part_on_that_main_knows(rest_lake: PublishedTable) -> None:
    rest_lake.writer().write(2)
    table = rest_lake.table()
    table.append(pa.table({"id": [7]}, schema=TableLayout.of(table).arrow))
    left = rest_lake.table().current_snapshot()
    assert left is not None
    table.refresh().manage_snapshots().create_branch(left.snapshot_id, "audit").commit()
    rest_lake.writer().write(1)
    kept = [snapshot.snapshot_id for snapshot in rest_lake.table().snapshots()]
    rest_lake.table().maintenance.expire_snapshots().by_ids(kept[: kept.index(left.snapshot_id)]).commit()
    with raises(ProgressMismatch, problem="expired"):
        rest_lake.writer(ref="audit")
    assert rest_lake.writer("new/0", ref="audit").progress.offsets == {}


def test_a_staged_snapshot_is_published_with_its_progress(rest_lake: PublishedTable) -> None:
    writer = rest_lake.writer()
    writer.write(2)
    table = rest_lake.table()
    base = table.current_snapshot()
    assert base is not None
    table.manage_snapshots().create_branch(base.snapshot_id, "stage").commit()
    table.refresh().append(pa.table({"id": [2]}, schema=TableLayout.of(table).arrow), branch="stage")
    staged = rest_lake.table().snapshot_by_name("stage")
    assert staged is not None
    claim = writer.claim(1)
    move = Move(rest_lake.name, staged.snapshot_id, base.snapshot_id, "stage")
    assert writer.publisher.publish(move, claim).progress.offsets == {"p": 3}
    assert (rest_lake.ids(), set(rest_lake.table().metadata.refs)) == ([0, 1, 2], {"main"})
    assert writer.publisher.publish(move, claim).snapshot_id is None


def test_a_stage_that_was_overtaken_is_not_published(rest_lake: PublishedTable) -> None:
    writer = rest_lake.writer()
    writer.write(2)
    base = rest_lake.table().current_snapshot()
    assert base is not None
    rest_lake.writer("s/1").write(1, base=100)
    with raises(Overtaken, ref="main"):
        writer.publisher.publish(Move(rest_lake.name, base.snapshot_id, base.snapshot_id, "stage"), writer.claim(1))


def test_small_manifests_are_merged_and_lose_no_file(ours: FrazilCatalog) -> None:
    lake = PublishedTable(ours)
    lake.create(**{"commit.manifest.min-count-to-merge": "4"})
    writer = lake.writer()
    most = 0
    for _ in range(11):
        writer.write(1)
        snapshot = lake.table().current_snapshot()
        assert snapshot is not None
        most = max(most, len(snapshot.manifests(lake.table().io)))
    assert (lake.ids(), most) == (list(range(11)), 4)
    assert sorted(lake.table().inspect.entries()["sequence_number"].to_pylist()) == list(range(2, 13))


def test_manifests_of_a_partitioning_whose_column_was_dropped_are_merged(ours: FrazilCatalog) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "region", LongType()))
    lake = PublishedTable(ours)
    ours.create_table(lake.name, schema, partition_spec=partition_spec(schema, ["region"]))
    for number in range(2):
        with open_sink(lake.name, name="s", catalog=ours) as sink:
            sink.write(pa.table({"id": [number], "region": [number]}), position=number + 1)
    lake.table().update_spec().remove_field("region").commit()
    lake.table().update_schema().delete_column("region").commit()
    lake.table().transaction().set_properties({"commit.manifest.min-count-to-merge": "2"}).commit_transaction()
    with open_sink(lake.name, name="s", catalog=ours) as sink:
        sink.write(pa.table({"id": [2]}), position=3)
    snapshot = lake.table().current_snapshot()
    assert snapshot is not None
    assert (lake.ids(), len(snapshot.manifests(lake.table().io))) == ([0, 1, 2], 2)


def test_a_table_that_was_dropped_and_made_again_takes_no_rows_of_an_old_writer(
    rest_lake: PublishedTable, ours: FrazilCatalog
) -> None:
    writer = rest_lake.writer()
    writer.write(1)
    claim = writer.claim(1)
    append = writer.append(claim)
    ours.drop_table(rest_lake.name)
    rest_lake.create()
    with pytest.raises(WriterFenced):
        writer.publisher.publish(append, claim)


def test_the_retry_policy_ends_with_the_last_error(rest_lake: PublishedTable) -> None:
    writer = rest_lake.writer()
    times = iter(range(0, 10_000, 100))
    retry = RetryPolicy(give_up_seconds=250, sleep=lambda _: None, clock=lambda: float(next(times)))
    publisher = Publisher(Faulty(rest_lake.catalog, [lose_request] * 50), rest_lake.name, retry=retry)
    claim = writer.claim(1)
    with pytest.raises(CommitUnknown, match="the request was lost"):
        publisher.publish(writer.append(claim), claim)
    assert rest_lake.ids() == []


@pytest.mark.parametrize("last", [CommitConflict("refused"), Unavailable("away"), OSError("away")])
def test_giving_up_after_an_unknown_outcome_is_unknown(last: Exception) -> None:
    """The try that was refused says nothing of the one before, whose reply was lost."""
    ends, seconds = [CommitUnknown("lost"), last], itertools.count()

    def attempt(number: int) -> None:
        raise ends[number - 1]

    retry = RetryPolicy(give_up_seconds=1.5, sleep=lambda _: None, clock=lambda: next(seconds))
    with pytest.raises(CommitUnknown, match="lost"):
        until_decided(attempt, name="t", retry=retry)


DENIED = "When uploading to 'm.avro' in bucket 'b': AWS Error ACCESS_DENIED during PutObject operation: Access Denied."
LASTING = [
    OSError(DENIED),
    PermissionError(13, "Permission denied"),
    Unavailable("no keys", lasting=True),
    CommitConflict(
        f"the commit to t was refused: Nothing was committed: the object store failed for s3://b/m: {DENIED}"
    ),
    OSError("AWS Error NO_SUCH_BUCKET during CreateMultipartUpload operation: The specified bucket does not exist"),
]


@pytest.mark.parametrize("error", LASTING, ids=["put", "local", "ours", "catalog", "bucket"])
@pytest.mark.parametrize("unknown_before", [False, True])
def test_a_fault_that_waiting_does_not_end_is_not_tried_again(error: Exception, unknown_before: bool) -> None:
    ends = [*([CommitUnknown("lost")] if unknown_before else []), error]
    tried: list[int] = []

    def attempt(number: int) -> None:
        tried.append(number)
        raise ends[number - 1]

    with pytest.raises(CommitUnknown if unknown_before else Unavailable) as ended:
        until_decided(attempt, name="t", retry=RetryPolicy(sleep=lambda _: None))
    assert len(tried) == len(ends)
    assert unknown_before or getattr(ended.value, "lasting", False)


def test_an_unknown_outcome_is_looked_at_once_more_where_waiting_does_not_help() -> None:
    ends: list[Exception] = [CommitUnknown(f"answered 503: {DENIED}"), CommitUnknown(f"answered 503: {DENIED}")]

    def attempt(number: int) -> None:
        raise ends[number - 1]

    with pytest.raises(CommitUnknown):
        until_decided(attempt, name="t", retry=RetryPolicy(sleep=lambda _: None))


def test_a_snapshot_ref_type_is_a_branch(rest_lake: PublishedTable) -> None:
    rest_lake.writer()
    assert rest_lake.table().metadata.refs["main"].snapshot_ref_type == SnapshotRefType.BRANCH


def test_every_file_of_a_failed_attempt_lies_in_the_tables_folder(rest_lake: PublishedTable) -> None:
    """Orphans are for the sweeper: it looks there, and only there."""
    writer = rest_lake.writer(catalog=Faulty(rest_lake.catalog, [lambda commit: commit(), lose_request]))
    writer.write(1)
    folder = Path(rest_lake.table().location().removeprefix("file://"))
    assert len(list((folder / "metadata").glob("snap-*.avro"))) == 3
    assert len(list((folder / "metadata").glob("*-m0.avro"))) == 1
