"""The way back: what is shown before, what is there after, what becomes of progress, and when it is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

import frazil.sinks
from frazil.cli.rollback import describe
from frazil.client import FrazilCatalog
from frazil.client.changes import Change
from frazil.errors import CommitConflict, CommitUnknown, HistoryError, ProgressMismatch, Unavailable, WriterFenced
from frazil.history.rollback import LedgerChange, PartChange, perform_rollback
from frazil.sinks.audit import audit
from frazil.write.commit.rollback import roll_back
from tests.contract.history_lake import ARROW, Past, rows, tick
from tests.kit.raising import raises

# --- there and back --------------------------------------------------------------------------------------------------


def test_a_rollback_ends_in_a_new_snapshot_and_a_second_one_brings_it_back(past: Past) -> None:
    first, second = past.append(1), past.append(2)
    back = past.table.rollback(first)
    assert (past.ids(), past.head(), back in (first, second)) == ([1], back, False)
    past.table.rollback(second)
    assert past.ids() == [1, 2]
    past.append(3)
    assert past.ids() == [1, 2, 3]


def test_a_rollback_by_time_goes_to_what_was_there_then(past: Past) -> None:
    from datetime import UTC, datetime

    past.append(1)
    tick()
    then = datetime.now(UTC)
    tick()
    past.append(2)
    past.table.rollback(then.isoformat())
    assert past.ids() == [1]


def test_a_plan_tells_what_goes_and_what_comes_back_and_changes_nothing(past: Past) -> None:
    first = past.append(1, 2)
    second = past.append(3)
    past.live.delete("id = 1")
    head = past.head()
    plan = past.table.plan_rollback(first)
    assert [entry.snapshot_id for entry in plan.undone] == [head, second]
    assert (plan.diff.sum("-").rows, plan.diff.sum("+").rows, plan.has_progress) == (2, 2, False)
    assert (past.head(), past.ids()) == (head, [2, 3])


def test_the_undone_is_no_ancestor_of_the_new_snapshot(past: Past) -> None:
    """Expiry by others deletes what an ancestor had removed: the files of `first`, which the rollback has
    brought back.
    """
    first = past.append(1, 2)
    past.live.overwrite(rows(7))
    past.table.rollback(first)
    assert [entry.snapshot_id for entry in past.table.history()] == [past.head(), first]


def test_a_branch_goes_back_by_itself(past: Past) -> None:
    past.append(1)
    past.table.create_branch("dev")
    on_dev = past.append(2, branch="dev")
    past.append(3, branch="dev")
    past.table.rollback(on_dev, ref="dev")
    assert (past.ids(), past.ids("dev")) == ([1], [1, 2])


def test_a_tag_and_the_present_are_no_way_back(past: Past) -> None:
    first = past.append(1)
    past.table.create_tag("v1")
    with raises(HistoryError, snapshot=first, ref="main", problem="nothing-to-undo"):
        past.table.rollback(first)
    with raises(HistoryError, ref="v1"):
        past.table.rollback(first, ref="v1")
    with pytest.raises(TypeError, match="at"):
        past.table.rollback()  # type: ignore[call-arg]


def test_an_expired_snapshot_is_no_way_back(past: Past) -> None:
    first = past.append(1)
    past.append(2)
    past.expire([first])
    with raises(HistoryError, snapshot=first, hint=re.compile("expired")):
        past.table.rollback(first)


# --- tables that have changed since ----------------------------------------------------------------------------------


def test_the_schema_stays_and_old_rows_are_read_with_it(past: Past) -> None:
    first = past.append(1)
    with past.live.update_schema() as update:
        update.rename_column("name", "label")
        update.add_column("extra", IntegerType())
    past.live.overwrite(pa.table({"id": [2], "label": ["x"], "extra": [5]}, schema=past.live.schema().as_arrow()))
    plan = past.table.plan_rollback(first)
    assert plan.schema_since == ("~ column label: renamed from name", "+ column extra int")
    past.table.rollback(first)
    assert past.table.scan().to_arrow().to_pylist() == [{"id": 1, "label": "n1", "extra": None}]
    assert past.table.scan(at=first).to_arrow().to_pylist() == [{"id": 1, "name": "n1"}]


def test_files_of_several_partition_specs_come_back(past: Past) -> None:
    past.append(1)
    with past.live.update_spec() as spec:
        spec.add_identity("name")
    both = past.append(2)
    with past.live.update_spec() as spec:
        spec.remove_field("name")
    past.live.overwrite(rows(9))
    past.table.rollback(both)
    assert past.ids() == [1, 2]
    past.append(3)
    assert past.ids() == [1, 2, 3]


def test_a_table_of_format_1_goes_back_before_and_after_its_upgrade(catalog: FrazilCatalog) -> None:
    past = Past(catalog)
    past.create(properties={"format-version": "1"})
    first, second = past.append(1), past.append(2)
    past.table.rollback(first)
    assert (past.live.format_version, past.ids()) == (1, [1])
    with past.live.transaction() as change:
        change.upgrade_table_version(2)
    past.append(3)
    past.table.rollback(second)
    assert (past.live.format_version, past.ids()) == (2, [1, 2])
    past.append(4)
    past.live.delete("id = 1")
    assert past.ids() == [2, 4]


# --- writers at work -------------------------------------------------------------------------------------------------


def test_a_plan_that_a_writer_has_outrun_is_refused(past: Past) -> None:
    first, _ = past.append(1), past.append(2)
    plan = past.table.plan_rollback(first)
    past.append(3)
    with raises(CommitConflict, ref="main"):
        perform_rollback(past.catalog, plan, with_progress=False)
    assert past.ids() == [1, 2, 3]


@dataclass
class Line:
    """A connection to the catalog on which the commit of a snapshot meets a fault, or every commit."""

    catalog: FrazilCatalog
    fault: Callable[[Callable[[], None]], None]
    always: bool = False

    def load_table(self, identifier: object) -> Table:
        return self.catalog.load_table(identifier)  # type: ignore[arg-type]

    def create_table(self, identifier: object, schema: Schema, *, properties: dict[str, str]) -> Table:
        raise NotImplementedError

    def commit_changes(self, changes: Sequence[Change]) -> None:
        if self.always or any(change.snapshot_ids for change in changes):
            self.fault(lambda: self.catalog.commit_changes(changes))
        else:
            self.catalog.commit_changes(changes)


def test_a_writer_that_comes_between_load_and_commit_is_not_undone_unseen(past: Past) -> None:
    first, _ = past.append(1), past.append(2)

    def overtaken(commit: Callable[[], None]) -> None:
        past.append(3)
        commit()

    with pytest.raises(CommitConflict):
        roll_back(Line(past.catalog, overtaken), tuple(past.name.split(".")), first, with_progress=False)
    assert past.ids() == [1, 2, 3]


def test_after_a_lost_reply_the_table_tells_what_happened(past: Past) -> None:
    first, _ = past.append(1), past.append(2)

    def lose_reply(commit: Callable[[], None]) -> None:
        commit()
        raise CommitUnknown("the reply was lost")

    def lose_request(commit: Callable[[], None]) -> None:
        raise CommitUnknown("the request was lost")

    name = tuple(past.name.split("."))
    with pytest.raises(CommitUnknown):
        roll_back(Line(past.catalog, lose_request), name, first, with_progress=False)
    assert past.ids() == [1, 2]
    back = roll_back(Line(past.catalog, lose_reply), name, first, with_progress=False)
    assert (past.ids(), past.head()) == ([1], back)


def test_a_reply_that_is_lost_before_the_rollback_is_sent_changes_nothing_or_goes_on(past: Past) -> None:
    first, _ = past.append(1), past.append(2)
    name = tuple(past.name.split("."))

    def lose_reply(commit: Callable[[], None]) -> None:
        commit()
        raise CommitUnknown("the reply was lost")

    def lose_request(commit: Callable[[], None]) -> None:
        raise CommitUnknown("the request was lost")

    with pytest.raises(Unavailable):
        roll_back(Line(past.catalog, lose_request, always=True), name, first, with_progress=False)
    assert past.ids() == [1, 2]
    back = roll_back(Line(past.catalog, lose_reply, always=True), name, first, with_progress=False)
    assert (past.ids(), past.head(), set(past.live.metadata.refs)) == ([1], back, {"main"})


# --- progress --------------------------------------------------------------------------------------------------------


def test_rollback_requires_a_decision_about_progress(past: Past) -> None:
    with past.sink() as sink:
        first, _ = past.fill(sink, 3, 7)
    plan = past.table.plan_rollback(first)
    assert plan.parts == (PartChange("s/part-0", {"0": 7}, {"0": 3}),)
    assert (plan.repeats, plan.resumes) == (True, False)
    with raises(HistoryError, problem="progress-undecided"):
        past.table.rollback(first)
    assert past.ids() == list(range(7))


def test_a_pipeline_over_files_is_known_by_its_ledger_and_each_flag_once(past: Past) -> None:
    first = past.append(1)
    past.append(2)
    plan = past.table.plan_rollback(first)
    ledger = LedgerChange("lake.t__ledger", 2, 0, past.live, None)
    plan = replace(plan, parts=(PartChange("daily/part-0", {}, {}),), ledger=ledger)
    said = [line.strip() for line in describe(plan)]
    assert (plan.repeats, plan.resumes) == (True, False)
    assert [line for line in said if "the beginning" in line or "part-0" in line] == []
    assert [line.partition(":")[0] for line in said if line.startswith("--")] == ["--with-progress", "--keep-progress"]


def test_with_progress_the_rows_come_again_and_the_old_writer_is_fenced(past: Past) -> None:
    sink = past.sink()
    first, _ = past.fill(sink, 3, 7)
    past.table.rollback(first, with_progress=True)
    with pytest.raises(WriterFenced):
        past.fill(sink, 9)
    with past.sink() as again:
        assert again.offset == 3
        past.fill(again, 9)
    assert (past.ids(), audit(past.live.metadata).problems) == (list(range(9)), ())


def test_there_and_back_with_progress_repeats_and_loses_nothing(past: Past) -> None:
    with past.sink() as sink:
        first, last = past.fill(sink, 3, 7)
    past.table.rollback(first, with_progress=True)
    plan = past.table.plan_rollback(last)
    assert (plan.repeats, plan.resumes) == (False, True)
    past.table.rollback(last, with_progress=True)
    with past.sink() as sink:
        past.fill(sink, 9)
    assert (past.ids(), audit(past.live.metadata).problems) == (list(range(9)), ())


@pytest.mark.parametrize("with_progress", [True, False])
def test_rows_that_were_quarantined_since_are_quarantined_once(past: Past, with_progress: bool) -> None:
    def write(*ends: int) -> list[int]:
        options = {"bad_rows": "quarantine", "checks": ["id <> 1"]}
        with frazil.sinks.open(past.name, name="s", catalog=past.catalog, **options) as sink:
            return past.fill(sink, *ends)

    first, _ = write(1, 3)
    plan = past.table.plan_rollback(first)
    assert plan.quarantine
    assert (plan.quarantine.forgets, plan.quarantine.remembers) == (1, 0)
    perform_rollback(past.catalog, plan, with_progress=with_progress)
    write(5)
    assert past.ids() == sorted({0, 3, 4} | ({2} if with_progress else set()))
    assert len(past.catalog.load_table(f"{past.name}__quarantine").scan().to_arrow()) == 1


def test_progress_that_is_not_known_any_more_can_only_stay(past: Past) -> None:
    with past.sink() as sink:
        (first,) = past.fill(sink, 3)
    middle, _ = past.append(100), past.append(101)
    past.expire([snapshot.snapshot_id for snapshot in past.live.snapshots()[:2]])
    assert first not in [entry.snapshot_id for entry in past.table.history()]
    plan = past.table.plan_rollback(middle)
    assert (plan.progress_known, plan.has_progress) == (False, True)
    with raises(ProgressMismatch, problem="expired"):
        perform_rollback(past.catalog, plan, with_progress=True)
    perform_rollback(past.catalog, plan, with_progress=False)
    assert past.ids() == [0, 1, 2, 100]


# --- ledgers of pipelines --------------------------------------------------------------------------------------------

LEDGER = Schema(NestedField(1, "path", StringType(), required=True), NestedField(2, "size", LongType(), required=True))


@dataclass
class Loads:
    """A table that is loaded from files, with the ledger that a pipeline keeps for it."""

    past: Past
    staged: bool

    def load(self, number: int) -> int:
        """Loads file `number`, which holds one row, in one commit with the ledger."""
        tick()
        catalog, ledger = self.past.catalog, f"{self.past.name}__ledger"
        lines = pa.table({"path": [f"{number}.csv"], "size": [number]}, schema=LEDGER.as_arrow())
        if self.staged and self.past.live.current_snapshot():
            self._stage(number)
        with catalog.transaction() as tx:
            if self.staged and "stage" in self.past.live.metadata.refs:
                staged = self.past.head("stage")
                move = SetSnapshotRefUpdate.model_validate(
                    {"ref-name": "main", "type": "branch", "snapshot-id": staged}
                )
                tx.table(self.past.name)._stage((move,))
            else:
                tx.table(self.past.name).append(rows(number))
            tx.table(ledger).append(lines)
        if "stage" in self.past.live.metadata.refs:
            self.past.live.manage_snapshots().remove_branch("stage").commit()
        return self.past.head()

    def _stage(self, number: int) -> None:
        self.past.live.manage_snapshots().create_branch(self.past.head(), "stage").commit()
        self.past.live.append(pa.table({"id": [number], "name": [f"n{number}"]}, schema=ARROW), branch="stage")
        tick()

    def files(self) -> list[str]:
        ledger = self.past.catalog.load_table(f"{self.past.name}__ledger")
        return sorted(ledger.scan().to_arrow()["path"].to_pylist())


@pytest.fixture(params=["appended", "staged"])
def loads(request: pytest.FixtureRequest, past: Past) -> Loads:
    past.catalog.create_table(f"{past.name}__ledger", LEDGER)
    return Loads(past, request.param == "staged")


def test_a_ledger_goes_back_with_its_rows_in_one_commit_and_forth_again(loads: Loads) -> None:
    first, _, third = (loads.load(number) for number in (1, 2, 3))
    plan = loads.past.table.plan_rollback(first)
    assert plan.ledger is not None
    assert (plan.ledger.forgets, plan.ledger.remembers) == (2, 0)
    loads.past.table.rollback(first, with_progress=True)
    assert (loads.past.ids(), loads.files()) == ([1], ["1.csv"])
    loads.past.table.rollback(third, with_progress=True)
    assert (loads.past.ids(), loads.files()) == ([1, 2, 3], ["1.csv", "2.csv", "3.csv"])
    loads.load(4)
    assert loads.files() == ["1.csv", "2.csv", "3.csv", "4.csv"]


def test_a_ledger_that_keeps_its_lines_is_left_alone(loads: Loads) -> None:
    first, _ = loads.load(1), loads.load(2)
    loads.past.table.rollback(first, with_progress=False)
    assert (loads.past.ids(), loads.files()) == ([1], ["1.csv", "2.csv"])


def test_rows_from_before_the_first_load_leave_an_empty_ledger(loads: Loads) -> None:
    by_hand = loads.past.append(100)
    loads.load(1)
    loads.past.table.rollback(by_hand, with_progress=True)
    assert (loads.past.ids(), loads.files()) == ([100], [])
    loads.load(1)
    assert (loads.past.ids(), loads.files()) == ([1, 100], ["1.csv"])


def test_a_load_that_comes_after_the_plan_stops_the_rollback_of_both(loads: Loads) -> None:
    first, _ = loads.load(1), loads.load(2)
    plan = loads.past.table.plan_rollback(first)
    loads.load(3)
    with pytest.raises(CommitConflict):
        perform_rollback(loads.past.catalog, plan, with_progress=True)
    assert (loads.past.ids(), loads.files()) == ([1, 2, 3], ["1.csv", "2.csv", "3.csv"])


# --- branches --------------------------------------------------------------------------------------------------------


def test_the_progress_of_a_branch_goes_back_to_what_it_was_on_that_branch(past: Past) -> None:
    with past.sink() as sink:
        past.fill(sink, 2)
    past.table.create_branch("dev")
    at_start = past.head("dev")
    with past.sink(ref="dev") as sink:
        past.fill(sink, 5)
    past.table.rollback(at_start, ref="dev", with_progress=True)
    with past.sink(ref="dev") as again:
        assert (again.offset, past.ids("dev")) == (None, [0, 1])
        past.fill(again, 3)
    with past.sink() as on_main:
        assert (on_main.offset, past.ids()) == (2, [0, 1])
    assert (audit(past.live.metadata).problems, audit(past.live.metadata, "dev").problems) == ((), ())


def test_main_goes_back_to_a_published_state_with_the_progress_of_that_branch(past: Past) -> None:
    past.append(100)
    past.table.create_branch("dev")
    with past.sink(ref="dev") as sink:
        past.fill(sink, 2)
    published = past.table.publish("dev").head_id
    with past.sink("other") as sink:
        past.fill(sink, 4)
    past.table.rollback(published, with_progress=True)
    with past.sink() as result, past.sink("other") as other:
        assert (result.offset, other.offset) == (2, None)
    assert past.ids() == [0, 1, 100]
