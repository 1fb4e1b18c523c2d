"""The audit proves what the commits have done, and sees what was done behind their back; rollback, and what becomes of
progress.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

import frazil.sinks
from frazil.client import FrazilCatalog
from frazil.errors import ProgressMismatch, SinkError, WriterFenced
from frazil.history.refs import perform_publish, plan_publish
from frazil.quarantine.replay import IcebergQuarantine, Rules
from frazil.sinks import ArrowSink
from frazil.sinks.audit import PartReport, audit
from frazil.write.commit.progress import Claim, property_key, read_progress
from frazil.write.commit.publish import Publisher
from frazil.write.commit.rollback import roll_back
from frazil.write.commit.snapshots import Move
from tests.kit.lake import LakeTable
from tests.kit.raising import raises

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True))
MAIN = property_key()


@dataclass
class SinkTable(LakeTable):
    def sink(self, part: int = 0) -> ArrowSink:
        return frazil.sinks.open(self.name, name="s", catalog=self.catalog, part=part)

    def fill(self, sink: ArrowSink, *ends: int) -> None:
        """Commits the numbers up to each end."""
        for end in ends:
            sink.write(pa.table({"id": range(sink.offset or 0, end)}), position=end)
            sink.commit()

    def problems(self) -> list[str]:
        return [text.split(": ", 1)[1] for text in audit(self.table().metadata).problems]


@pytest.fixture
def lake(catalog: FrazilCatalog) -> SinkTable:
    sink_table = SinkTable(catalog, ("lake", f"t{uuid.uuid4().hex[:8]}"))
    catalog.create_table(sink_table.name, SCHEMA)
    return sink_table


def test_commits_that_follow_each_other_are_proved_down_to_the_first(lake: SinkTable) -> None:
    lake.fill(lake.sink(), 3, 7)
    lake.fill(lake.sink(), 10)
    lake.fill(lake.sink(part=1), 4)
    report = audit(lake.table().metadata)
    assert (report.problems, report.commits, report.others, report.from_first) == ((), 7, 0, True)
    assert report.parts == (PartReport("s/part-0", 3, {}, {"0": 10}), PartReport("s/part-1", 1, {}, {"0": 4}))


def test_after_expiry_the_proof_reaches_down_to_the_oldest_kept_commit(lake: SinkTable) -> None:
    lake.fill(lake.sink(), 3, 7, 12)
    table = lake.table()
    table.maintenance.expire_snapshots().by_ids([snapshot.snapshot_id for snapshot in table.snapshots()[:2]]).commit()
    report = audit(lake.table().metadata)
    assert (report.problems, report.parts) == ((), (PartReport("s/part-0", 2, {"0": 3}, {"0": 12}),))


def test_rows_of_other_programs_in_between_are_no_problem(lake: SinkTable) -> None:
    sink = lake.sink()
    lake.fill(sink, 3)
    lake.table().append(pa.table({"id": [100]}, schema=SCHEMA.as_arrow()))
    lake.fill(sink, 5)
    assert (lake.problems(), lake.ids()) == ([], [0, 1, 2, 3, 4, 100])


def test_a_position_that_somebody_has_edited_is_seen(lake: SinkTable) -> None:
    lake.fill(lake.sink(), 3)
    edited = json.loads(lake.table().properties[MAIN])
    edited["parts"]["s/part-0"][3]["0"] = 5
    with lake.table().transaction() as change:
        change.set_properties({MAIN: json.dumps(edited)})
    assert lake.problems() == [
        "the progress of 'main' is generation 1, commit 1, 0: 5, but its last commit has left generation 1, commit 1, "
        "0: 3; "
        "was it edited, or the table rolled back by another tool?"
    ]
    lake.fill(lake.sink(), 9)
    assert lake.problems() == ["part 's/part-0' moved from 0: 3 to 0: 5 without a commit of its own"]


def test_a_rollback_by_another_tool_is_seen(lake: SinkTable) -> None:
    lake.fill(lake.sink(), 3, 7)
    table = lake.table()
    table.manage_snapshots().rollback_to_snapshot(table.snapshots()[1].snapshot_id).commit()
    assert (len(lake.problems()), lake.ids()) == (1, [0, 1, 2])


def test_rows_that_go_back_with_their_progress_come_again(lake: SinkTable) -> None:
    sink = lake.sink()
    lake.fill(sink, 3, 7)
    target = lake.table().snapshots()[1].snapshot_id
    roll_back(lake.catalog, lake.name, target, with_progress=True)
    assert lake.ids() == [0, 1, 2]
    with pytest.raises(WriterFenced):
        lake.fill(sink, 9)
    again = lake.sink()
    assert again.offset == 3
    lake.fill(again, 8)
    assert (lake.ids(), lake.problems()) == (list(range(8)), [])


def test_rows_that_go_back_without_their_progress_stay_out(lake: SinkTable) -> None:
    sink = lake.sink()
    lake.fill(sink, 3, 7)
    roll_back(lake.catalog, lake.name, lake.table().snapshots()[1].snapshot_id, with_progress=False)
    lake.fill(sink, 9)
    assert (lake.ids(), lake.problems()) == ([0, 1, 2, 7, 8], [])


def test_a_commit_on_its_way_does_not_slip_through_a_rollback(lake: SinkTable) -> None:
    """It was built on the snapshot that the rollback returns to: a ref that is only moved back would let it in."""
    sink = lake.sink()
    lake.fill(sink, 3)
    sink.write(pa.table({"id": [3, 4]}), position=5)
    base = lake.table().current_snapshot()
    assert base is not None
    lake.fill(lake.sink(), 7)
    roll_back(lake.catalog, lake.name, base.snapshot_id, with_progress=True)
    with pytest.raises(WriterFenced):
        sink.commit()
    assert lake.ids() == [0, 1, 2]


def test_a_rollback_to_what_is_not_known_is_refused(lake: SinkTable) -> None:
    with raises(SinkError, snapshot=7):
        roll_back(lake.catalog, lake.name, 7, with_progress=False)
    lake.table().append(pa.table({"id": [1]}, schema=SCHEMA.as_arrow()))
    lake.table().append(pa.table({"id": [2]}, schema=SCHEMA.as_arrow()))
    first, second = lake.table().snapshots()
    lake.table().maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
    with raises(ProgressMismatch, problem="expired"):
        roll_back(lake.catalog, lake.name, second.snapshot_id, with_progress=True)


def notes(lake: SinkTable, ref: str = "main") -> list[str]:
    return [text.split(": ", 1)[1] for text in audit(lake.table().metadata, ref).notes]


def test_files_that_are_finished_leave_no_entry_and_the_proof_holds(lake: SinkTable) -> None:
    sink = lake.sink()
    for name in ("a.csv", "b.csv"):
        sink.write(pa.table({"id": [1, 2]}), position={name: 2}, done=[name])
        sink.commit()
    report = audit(lake.table().metadata)
    assert (report.problems, report.parts) == ((), (PartReport("s/part-0", 2, {}, {}, 2),))
    sink.write(pa.table({"id": [1, 2]}), position={"a.csv": 2}, done=["a.csv"])
    sink.commit()
    assert lake.problems() == ["part 's/part-0', source partition 'a.csv': finished at 2 before, begins again"]


def test_after_expiry_a_source_partition_that_began_with_the_oldest_kept_commit_has_no_base(lake: SinkTable) -> None:
    sink = lake.sink()
    lake.fill(sink, 3)
    table = lake.table()
    table.maintenance.expire_snapshots().by_ids([table.snapshots()[0].snapshot_id]).commit()
    report = audit(lake.table().metadata)
    assert (report.problems, report.from_first, report.parts) == ((), False, (PartReport("s/part-0", 1, {}, {"0": 3}),))


def test_a_rollback_says_whether_rows_come_again(lake: SinkTable) -> None:
    lake.fill(lake.sink(), 3, 7)
    back = lake.table().snapshots()[1].snapshot_id
    roll_back(lake.catalog, lake.name, back, with_progress=True)
    assert (lake.problems(), notes(lake)) == ([], [f"back to {back}, with the progress: what was undone comes again"])
    lake.fill(lake.sink(), 9)
    roll_back(lake.catalog, lake.name, back, with_progress=False)
    assert (lake.problems(), notes(lake)) == (
        [],
        [f"back to {back}, without the progress: what was undone stays out (s/part-0 at 0: 9)"],
    )


def test_rows_that_another_program_removes_are_said(lake: SinkTable) -> None:
    lake.fill(lake.sink(), 3)
    lake.table().delete("id < 2")
    assert (lake.problems(), notes(lake)) == ([], ["3 rows removed and 1 added outside the sinks (overwrite)"])


def test_rows_out_of_quarantine_are_said(lake: SinkTable) -> None:
    with frazil.sinks.open(
        lake.name, name="s", catalog=lake.catalog, bad_rows="quarantine", checks=["id <> 1"]
    ) as sink:
        sink.write(pa.table({"id": [0, 1, 2]}), position=3)
    IcebergQuarantine(lake.catalog, lake.name).replay(Rules(checks=()))
    assert (lake.problems(), notes(lake), lake.ids()) == ([], ["1 row came out of quarantine"], [0, 1, 2])


def test_a_branch_is_proved_by_itself_and_after_it_was_published(lake: SinkTable) -> None:
    lake.fill(lake.sink(), 3)
    table = lake.table()
    current = table.current_snapshot()
    assert current is not None
    table.manage_snapshots().create_branch(current.snapshot_id, "b").commit()
    lake.fill(frazil.sinks.open(lake.name, name="other", catalog=lake.catalog, branch="b"), 4, 6)
    branch = audit(lake.table().metadata, "b")
    assert (branch.problems, branch.parts) == ((), (PartReport("other/part-0", 2, {}, {"0": 6}),))
    assert (lake.problems(), [part.part for part in audit(lake.table().metadata).parts]) == ([], ["s/part-0"])
    perform_publish(lake.catalog, lake.table(), plan_publish(lake.table(), "b"))
    assert (lake.problems(), [part.part for part in audit(lake.table().metadata).parts]) == (
        [],
        ["other/part-0", "s/part-0"],
    )
    lake.fill(lake.sink(), 5)
    assert lake.problems() == []


def test_a_stream_that_goes_on_on_a_branch_is_proved_there(lake: SinkTable) -> None:
    lake.fill(lake.sink(), 3)
    table = lake.table()
    current = table.current_snapshot()
    assert current is not None
    table.manage_snapshots().create_branch(current.snapshot_id, "b").commit()
    lake.fill(frazil.sinks.open(lake.name, name="s", catalog=lake.catalog, branch="b"), 4)
    report = audit(lake.table().metadata, "b")
    assert (report.problems, [(part.commits, part.reached) for part in report.parts]) == ((), [(2, {"0": 4})])


def test_a_snapshot_that_was_staged_is_part_of_the_proof(lake: SinkTable) -> None:
    sink = lake.sink()
    lake.fill(sink, 3)
    table = lake.table()
    base = table.current_snapshot()
    assert base is not None
    table.manage_snapshots().create_branch(base.snapshot_id, "stage").commit()
    table.refresh().append(pa.table({"id": [3, 4]}, schema=SCHEMA.as_arrow()), branch="stage")
    staged = lake.table().snapshot_by_name("stage")
    assert staged is not None
    progress = read_progress(lake.table().metadata).part("s/part-0")
    claim = Claim("s/part-0", progress.writer, 1, 2, start={"0": 3}, end={"0": 5})
    Publisher(lake.catalog, lake.name).publish(Move(lake.name, staged.snapshot_id, base.snapshot_id, "stage"), claim)
    assert (lake.problems(), lake.ids(), notes(lake)) == ([], [0, 1, 2, 3, 4], ["2 rows added outside the sinks"])


def test_a_tag_is_proved_up_to_where_it_is(lake: SinkTable) -> None:
    sink = lake.sink()
    lake.fill(sink, 3)
    table = lake.table()
    current = table.current_snapshot()
    assert current is not None
    table.manage_snapshots().create_tag(current.snapshot_id, "then").commit()
    lake.fill(sink, 9)
    report = audit(lake.table().metadata, "then")
    assert (report.problems, report.parts) == ((), (PartReport("s/part-0", 1, {}, {"0": 3}),))


def test_a_ref_that_is_not_there_is_refused(lake: SinkTable) -> None:
    lake.fill(lake.sink(), 3)
    with raises(SinkError, ref="mian"):
        audit(lake.table().metadata, "mian")


def test_progress_that_was_removed_is_missed(lake: SinkTable) -> None:
    lake.fill(lake.sink(), 3)
    with lake.table().transaction() as change:
        change.remove_properties(MAIN)
    assert len(lake.problems()) == 1
