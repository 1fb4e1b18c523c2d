"""Stages on a real catalog, without Spark: files wait on a branch, are audited there, and come to main with their
progress, or not.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

import frazil.sinks
from frazil.client import FrazilCatalog
from frazil.errors import CommitUnknown, PipelineError, WriterFenced
from frazil.pipelines.publishing import Files, publish
from frazil.pipelines.stages import Stages
from frazil.sinks.audit import audit
from frazil.sinks.iceberg import IcebergTarget
from frazil.sinks.spark.driver import FrameResult, FrameSink, Staged, Takeover
from frazil.write.commit.publish import RetryPolicy, ignore
from frazil.write.commit.quarantine_table import QuarantinedRow, as_arrow
from frazil.write.commit.snapshots import Append
from frazil.write.files.parquet import write_files
from frazil.write.files.written import WrittenFile
from tests.kit.lake import LakeTable
from tests.kit.raising import raises

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True))


@dataclass
class Rejecting:
    """An audit that finds the ids in question."""

    lake: StagedTable
    unwanted: set[int]
    branch: str = "check"

    def check(self, snapshot_id: int, base_id: int | None) -> None:
        rows = self.lake.catalog.load_table(self.lake.name).scan(snapshot_id=snapshot_id).to_arrow()["id"].to_pylist()
        if self.unwanted & set(rows):
            raise PipelineError("no")


@dataclass
class StagedTable(LakeTable):
    """A table, and pipelines that stage rows for it."""

    def open(self, on_step: Callable[[str], None] = ignore) -> Driver:
        return Driver(self, on_step)

    def plan(self, on_step: Callable[[str], None] = ignore) -> Driver:
        """A driver whose first commit is its takeover."""
        return Driver(self, on_step, takeover="first commit")

    def stranger(self, number: int) -> None:
        with frazil.sinks.open(self.name, name="stranger", catalog=self.catalog) as sink:
            sink.write([{"id": number}])


class Driver:
    """A pipeline that has taken over, or will with its first commit."""

    def __init__(self, lake: StagedTable, on_step: Callable[[str], None], *, takeover: Takeover = "open") -> None:
        self.lake = lake
        retry = RetryPolicy(give_up_seconds=120, longest_pause_seconds=0.05, on_step=on_step)
        self.target = IcebergTarget(lake.catalog, lake.name, retry=retry)
        self.sink = FrameSink(self.target, "p/part-0", takeover=takeover)
        self.stages = Stages(lake.catalog, self.target, "p/part-0", self.sink.generation)

    def write(self, *ids: int, unwanted: set[int] | None = None) -> FrameResult:
        """Stages and publishes the rows, which end at the number of the first id in their source."""
        known = self.sink.position
        staged = Staged(self._files(ids), start=known, end={"s": ids[0] + 1})
        judge = Rejecting(self.lake, unwanted) if unwanted else None
        write = Files(self.stages, staged.files, Append)
        return publish(self.sink, staged, stages=self.stages, write=write, audit=judge)

    def _files(self, ids: tuple[int, ...]) -> tuple[WrittenFile, ...]:
        rows = pa.table({"id": ids}, schema=self.target.layout.arrow)
        return tuple(write_files(rows, self.target.layout))


@pytest.fixture
def lake(catalog: FrazilCatalog) -> StagedTable:
    staged_table = StagedTable(catalog)
    catalog.create_table(staged_table.name, SCHEMA)
    return staged_table


def test_what_passes_is_on_main_with_its_progress_and_leaves_no_branch(lake: StagedTable) -> None:
    driver = lake.open()
    driver.write(1, 2, unwanted={9})
    assert (lake.ids(), driver.sink.position, lake.branches(), lake.problems()) == ([1, 2], {"s": 2}, [], ())


def test_what_fails_its_audit_is_on_the_audits_branch_alone_and_goes_with_the_next_run(lake: StagedTable) -> None:
    lake.open().write(1)
    driver = lake.open()
    with pytest.raises(PipelineError, match="no"):
        driver.write(2, 9, unwanted={9})
    assert (lake.ids(), lake.ids("check"), lake.branches()) == ([1], [1, 2, 9], ["check"])
    assert (driver.sink.position, driver.stages.clean("check"), lake.branches(), lake.problems()) == (
        {"s": 2},
        ["check"],
        [],
        (),
    )


def test_the_branch_of_an_audit_that_failed_before_moves_to_what_has_failed_now(lake: StagedTable) -> None:
    driver = lake.open()
    for number in (8, 9):
        with pytest.raises(PipelineError, match="no"):
            driver.write(number, unwanted={8, 9})
    assert (lake.ids("check"), lake.branches()) == ([9], ["check"])


def test_rows_of_others_that_come_meanwhile_are_kept_and_audited_too(lake: StagedTable) -> None:
    strangers = iter([7, 9])

    def race(step: str) -> None:
        if step == "staged" and (number := next(strangers, None)) is not None:
            lake.stranger(number)

    driver = lake.open(race)
    with pytest.raises(PipelineError, match="no"):
        driver.write(1, unwanted={9})
    assert (lake.ids(), lake.ids("check"), lake.problems()) == ([7, 9], [1, 7, 9], ())


def test_a_driver_whose_branch_another_run_has_removed_fails_as_overtaken(lake: StagedTable) -> None:
    driver = lake.open()
    stage, _ = driver.stages.begin()
    driver.stages.drop(stage)
    with pytest.raises(PipelineError) as refused:
        driver.stages.table_at(stage)
    assert (refused.value.problem, lake.problems()) == ("overtaken", ())


def test_a_driver_that_is_taken_over_while_it_stages_publishes_nothing(lake: StagedTable) -> None:
    def overtake(step: str) -> None:
        if step == "staged":
            rival = lake.open()
            rival.stages.clean()
            rival.write(1, 2)

    with pytest.raises(WriterFenced):
        lake.open(overtake).write(1, 3)
    assert (lake.ids(), lake.branches(), lake.problems()) == ([1, 2], [], ())


def test_what_a_driver_that_was_taken_over_still_stages_is_not_in_what_its_successor_publishes(
    lake: StagedTable,
) -> None:
    old, new = lake.open(), lake.open()
    stage, _ = old.stages.begin()
    new.stages.clean()
    with raises(PipelineError, ref=stage):
        Files(old.stages, old._files((5,)), Append)(stage)
    new.write(1)
    assert (lake.ids(), lake.branches()) == ([1], [])


def test_a_driver_that_wakes_after_it_was_taken_over_removes_no_stage_of_its_successor(lake: StagedTable) -> None:
    old = lake.open()
    removed: list[str] = []

    def wake(step: str) -> None:
        if step == "staged":
            removed.extend(old.stages.clean())

    lake.open(wake).write(1)
    assert (removed, lake.ids(), lake.branches()) == ([], [1], [])


def test_a_killed_driver_leaves_a_branch_that_its_successor_removes(lake: StagedTable) -> None:
    def die(step: str) -> None:
        if step == "staged":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lake.open(die).write(1)
    assert len(lake.branches()) == 1
    driver = lake.open()
    assert (len(driver.stages.clean()), lake.branches(), dict(driver.sink.position)) == (1, [], {})
    driver.write(1)
    assert lake.ids() == [1]


def test_while_it_is_not_known_whether_a_commit_is_in_its_branch_stays(
    lake: StagedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = lake.open()

    def unknown(*_: object, **__: object) -> FrameResult:
        raise CommitUnknown("unknown outcome")

    monkeypatch.setattr(driver.sink, "publish", unknown)
    with pytest.raises(CommitUnknown):
        driver.write(1)
    assert len(lake.branches()) == 1


def test_a_first_run_stages_on_an_empty_table_and_takes_over_with_its_commit(lake: StagedTable) -> None:
    lake.plan().write(1, 2, unwanted={9})
    lake.plan().write(3)
    assert (lake.ids(), lake.branches(), lake.problems()) == ([1, 2, 3], [], ())
    assert audit(lake.catalog.load_table(lake.name).metadata).others == 0


def test_a_first_run_that_fails_its_audit_leaves_main_without_a_snapshot(lake: StagedTable) -> None:
    driver = lake.plan()
    with pytest.raises(PipelineError, match="no"):
        driver.write(9, unwanted={9})
    metadata = lake.catalog.load_table(lake.name).metadata
    assert (metadata.current_snapshot_id, lake.branches(), lake.ids("check")) == (None, ["check"], [9])


def test_rows_that_come_to_an_empty_table_meanwhile_are_kept(lake: StagedTable) -> None:
    strangers = iter([7])

    def race(step: str) -> None:
        if step == "staged" and (number := next(strangers, None)) is not None:
            lake.stranger(number)

    lake.plan(race).write(1)
    assert (lake.ids(), lake.branches(), lake.problems()) == ([1, 7], [], ())


def test_of_two_runs_that_stage_at_once_the_first_to_commit_wins(lake: StagedTable) -> None:
    def outrun(step: str) -> None:
        if step == "staged":
            rival = lake.plan()
            assert rival.stages.clean() == []  # it cannot know whether the other one is alive
            rival.write(1, 2)

    with raises(WriterFenced, outrun=True):
        lake.plan(outrun).write(1, 3)
    assert (lake.ids(), lake.branches(), lake.problems()) == ([1, 2], [], ())


def test_the_branch_of_a_killed_run_goes_when_another_one_has_committed(lake: StagedTable) -> None:
    killed = lake.plan(lambda step: die() if step == "staged" else None)
    with pytest.raises(KeyboardInterrupt):
        killed.write(1)
    assert len(lake.branches()) == 1
    driver = lake.plan()
    assert driver.stages.clean() == []
    driver.write(1)
    assert (len(driver.stages.clean_rivals()), lake.branches(), lake.ids()) == (1, [], [1])


def test_a_run_that_is_outrun_leaves_no_files_of_refused_rows(lake: StagedTable) -> None:
    driver = lake.plan()
    layout = driver.target.open_quarantine("p/part-0").layout
    values = {
        "raw": "{}",
        "reason": "why",
        "position": "1",
        "part": "p/part-0",
        "quarantined_at": dt.datetime.now(dt.UTC),
    }
    files = write_files(as_arrow([QuarantinedRow(values, {})], layout.arrow), layout)
    staged = Staged(driver._files((1,)), tuple(files), end={"s": 2})
    lake.plan().write(5)
    with pytest.raises(WriterFenced):
        publish(driver.sink, staged, stages=driver.stages, write=Files(driver.stages, staged.files, Append))
    assert [Path(file.path.removeprefix("file://")).exists() for file in files] == [False]


def die() -> None:
    raise KeyboardInterrupt
