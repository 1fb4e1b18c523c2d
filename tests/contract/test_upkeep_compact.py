"""Compaction on a real catalog: what is rewritten, what writers may do meanwhile, and what a kill leaves."""

from __future__ import annotations

import datetime as dt
import pickle
import uuid
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

import frazil.sinks
from frazil.client import FrazilCatalog
from frazil.errors import CommitUnknown, UpkeepError
from frazil.sinks.audit import audit
from frazil.upkeep.compact import LISTED_TWICE
from frazil.write.files.schema import arrow_schema
from tests.contract.upkeep_lake import HURRIED, Kept, as_path, during, rows


@pytest.fixture
def kept(catalog: FrazilCatalog) -> Kept:
    """Six small files on day 1, two on day 2."""
    kept = Kept(catalog).create("day")
    for number in range(6):
        kept.append(number, number + 10)
    kept.append(100, day=2)
    kept.append(101, day=2)
    return kept


ALL = [*range(6), *range(10, 16), 100, 101]


def test_small_files_of_a_partition_become_one_and_others_stay(kept: Kept) -> None:
    before = set(kept.paths())
    result = kept.compact()
    assert (result.files_before, result.files_after, result.rows) == (6, 1, 12)
    assert kept.ids() == ALL
    after = set(kept.paths())
    assert (len(after), len(after & before)) == (3, 2)
    summary = kept.summary()
    names = ("operation", "added-records", "deleted-records", "total-records", "total-data-files", "frazil.upkeep")
    assert [summary[name] for name in names] == ["replace", "12", "12", "14", "3", "compact"]


def test_a_compacted_table_needs_nothing_more(kept: Kept) -> None:
    kept.compact()
    assert kept.plan().groups == ()


def test_a_file_that_is_listed_twice_is_left_alone(kept: Kept) -> None:
    twice = kept.paths()[0]
    kept.live.add_files([twice], check_duplicate_files=False)
    before = kept.ids()
    assert kept.plan().left == {LISTED_TWICE: 2}
    assert kept.compact().problems == ()
    assert kept.ids() == before
    assert kept.paths().count(twice) == 2


def test_an_append_meanwhile_is_no_conflict(kept: Kept) -> None:
    result = kept.compact(retry=during(lambda: kept.append(55), "before commit"))
    assert (result.groups, result.overtaken) == (1, 0)
    assert kept.ids() == sorted([*ALL, 55])


def test_only_the_group_whose_files_are_gone_is_left_out(kept: Kept) -> None:
    for number in range(200, 206):
        kept.append(number, day=3)
    plan = kept.plan()
    assert len(plan.groups) == 2
    result = kept.compact(plan, retry=during(lambda: kept.live.delete(EqualTo("day", 3))))
    assert (result.groups, result.files_before) == (1, 6)
    assert kept.ids() == ALL


def test_a_group_whose_rows_were_deleted_meanwhile_is_planned_anew(kept: Kept) -> None:
    result = kept.compact(retry=during(lambda: kept.delete(3)))
    assert (result.groups, result.overtaken) == (1, 0)
    assert kept.ids() == [item for item in ALL if item != 3]
    assert not kept.delete_files()


def test_the_files_of_a_group_that_was_left_out_are_removed(kept: Kept) -> None:
    before = len(list(kept.folder.rglob("data/**/*.parquet")))
    kept.compact(retry=during(lambda: kept.live.delete(EqualTo("day", 1))))
    assert len(list(kept.folder.rglob("data/**/*.parquet"))) == before


def test_of_two_upkeeps_at_once_one_learns_that_the_work_is_done(kept: Kept) -> None:
    before = len(list(kept.folder.rglob("data/**/*.parquet")))
    result = kept.compact(retry=during(kept.compact))
    assert (result.groups, result.overtaken, kept.ids()) == (0, 0, ALL)
    assert len(list(kept.folder.rglob("data/**/*.parquet"))) == before + 1  # the other one's


def test_deleted_rows_leave_with_the_compaction(kept: Kept) -> None:
    kept.delete(0, 10, 100, 101)
    result = kept.compact()
    assert (result.groups, result.rows, result.files_after) == (2, 10, 1)  # of day 2 no row is left, and no file
    assert kept.ids() == [item for item in ALL if item not in (0, 10, 100, 101)]
    assert kept.summary()["deleted-records"] == "14"


def test_files_of_an_older_partitioning_move_to_the_current_one(kept: Kept) -> None:
    with kept.live.update_spec() as update:
        update.add_field("id", "bucket[2]")
    kept.compact(kept.plan(everything=True))
    assert {task.file.spec_id for task in kept.live.scan().plan_files()} == {1}
    assert kept.ids() == ALL
    assert sorted(kept.live.scan(EqualTo("day", 2)).to_arrow()["id"].to_pylist()) == [100, 101]


def test_columns_that_came_went_or_were_renamed_keep_their_rows(kept: Kept) -> None:
    with kept.live.update_schema() as update:
        update.rename_column("name", "label").add_column("extra", StringType())
    kept.compact()
    result = kept.live.scan(EqualTo("id", 3)).to_arrow().to_pylist()
    assert result == [{"id": 3, "day": 1, "label": "n3", "extra": None}]


def test_rows_are_sorted_by_the_tables_order(catalog: FrazilCatalog) -> None:
    from pyiceberg.table.sorting import SortField, SortOrder
    from pyiceberg.transforms import IdentityTransform

    kept = Kept(catalog).create(sort_order=SortOrder(SortField(1, IdentityTransform())))
    for start in (40, 7, 23, 1, 60):
        kept.append(start + 3, start, start + 1)
    kept.compact()
    (path,) = kept.paths()
    assert kept.live.scan().to_arrow()["id"].to_pylist() == kept.ids()
    (task,) = kept.live.scan().plan_files()
    assert (task.file.sort_order_id, path) == (1, task.file.file_path)


def test_time_travel_and_tags_keep_their_rows(kept: Kept) -> None:
    old = kept.live.history()[2].snapshot_id
    kept.live.manage_snapshots().create_tag(old, "then").commit()
    kept.compact()
    assert kept.ids(old) == [0, 1, 2, 10, 11, 12]


def test_sinks_go_on_and_the_audit_agrees(catalog: FrazilCatalog) -> None:
    kept = Kept(catalog).create("day")
    with frazil.sinks.open(kept.name, name="s", catalog=catalog) as sink:
        for number in range(6):
            sink.write(rows([number]), position=number + 1)
            sink.commit()
        assert kept.compact().groups == 1
        sink.write(rows([6]), position=7)
    assert kept.ids() == list(range(7))
    report = audit(kept.live.metadata)
    assert (report.problems, list(report.parts[0].reached.values())) == ((), [7])


def test_a_lost_reply_is_found_out(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, lost = kept.catalog.commit_changes, [True]

    def lose(changes: object) -> None:
        commit(changes)  # type: ignore[arg-type]
        if lost:
            lost.pop()
            raise CommitUnknown("the reply was lost")

    monkeypatch.setattr(kept.catalog, "commit_changes", lose)
    result = kept.compact()
    assert (result.groups, result.overtaken, len(result.snapshots)) == (1, 0, 1)
    assert kept.ids() == ALL


def test_files_of_a_commit_in_doubt_are_never_removed(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit has happened, its reply was lost, and before anybody looks its snapshot has expired: no file of it may
    go.
    """
    commit, lost = kept.catalog.commit_changes, [True]

    def lose(changes: object) -> None:
        commit(changes)  # type: ignore[arg-type]
        if lost:
            lost.pop()
            done = kept.head()
            kept.append(77)
            kept.live.maintenance.expire_snapshots().by_id(done).commit()
            raise CommitUnknown("the reply was lost")

    monkeypatch.setattr(kept.catalog, "commit_changes", lose)
    kept.compact()
    assert kept.ids() == sorted([*ALL, 77])


@pytest.mark.parametrize("step", ["files written", "before commit", "after commit"])
def test_killed_between_two_steps_the_rows_are_the_same(kept: Kept, step: str) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept.compact(retry=during(stop, step))
    assert kept.ids() == ALL
    kept.compact()
    assert (kept.ids(), kept.plan().groups) == (ALL, ())


def test_a_file_with_other_rows_than_its_manifest_says_is_left_alone(kept: Kept) -> None:
    from dataclasses import replace

    plan = kept.plan()
    (group,) = plan.groups
    lying = replace(group, files=(replace(group.files[0], rows=7), *group.files[1:]))
    before = kept.paths()
    result = kept.compact(replace(plan, groups=(lying,)), retry=HURRIED)
    assert "17 rows" in result.problems[0]
    assert kept.paths() == before


def test_tables_of_format_1_are_kept_as_well(catalog: FrazilCatalog) -> None:
    kept = Kept(catalog).create("day", properties={"format-version": "1"})
    for number in range(5):
        kept.append(number)
    kept.compact()
    assert (kept.live.metadata.format_version, kept.ids(), len(kept.paths())) == (1, list(range(5)), 1)


def test_an_older_partitioning_by_a_column_that_is_gone_is_no_obstacle(kept: Kept) -> None:
    with kept.live.update_spec() as update:
        update.remove_field("day")
    with kept.live.update_schema(allow_incompatible_changes=True) as update_schema:
        update_schema.delete_column("day")
    kept.compact()
    assert (kept.ids(), len(kept.paths())) == (ALL, 1)


def test_a_damaged_file_keeps_its_group_from_being_rewritten_and_no_other(kept: Kept) -> None:
    for number in range(200, 205):
        kept.append(number, day=3)
    damaged = next(path for path in kept.paths() if "day=3" in path)
    Path(as_path(damaged)).write_bytes(b"PAR1 no more")
    result = kept.compact()
    assert (result.groups, len(result.problems)) == (1, 1)
    assert damaged in result.problems[0]
    assert kept.live.scan(EqualTo("day", 1)).to_arrow().num_rows == 12


def test_a_task_of_spark_reports_files_or_what_is_wrong(kept: Kept) -> None:
    """What the executors run, without Spark around it; tests/engines runs it there."""
    from pyspark import cloudpickle

    from frazil.upkeep.rewriting import Rewriter
    from frazil.upkeep.spark import _read_report, _task

    for number in range(200, 205):
        kept.append(number, day=3)
    Path(as_path(next(path for path in kept.paths() if "day=3" in path))).write_bytes(b"PAR1 no more")
    groups = kept.plan().groups
    task = pickle.loads(cloudpickle.dumps(_task(Rewriter.of(kept.live), groups)))
    reports = [
        _read_report(batch["report"][0].as_py()) for batch in task([pa.record_batch([pa.array([0, 1])], names=["id"])])
    ]
    failed = [report for report in reports if isinstance(report, UpkeepError)]
    (files,) = [report for report in reports if not isinstance(report, UpkeepError)]
    assert ([file.rows for file in files], len(failed)) == ([12], 1)


def test_values_of_every_type_come_out_as_they_went_in(catalog: FrazilCatalog) -> None:
    name = "lake.types"
    arrow = arrow_schema(catalog.create_table(name, EVERY_TYPE).schema())
    for number in range(6):
        nothing = dict.fromkeys(arrow.names) | {"id": 100 + number}
        catalog.load_table(name).append(pa.Table.from_pylist([every_value(number), nothing], arrow))
    before = sorted(catalog.load_table(name).scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    kept = Kept(catalog, name)
    assert kept.compact().files_after == 1
    after = sorted(catalog.load_table(name).scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert str(after) == str(before)  # NaN is not itself


EVERY_TYPE = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "flag", BooleanType()),
    NestedField(3, "small", IntegerType()),
    NestedField(4, "real", FloatType()),
    NestedField(5, "wide", DoubleType()),
    NestedField(6, "price", DecimalType(20, 3)),
    NestedField(7, "day", DateType()),
    NestedField(8, "time", TimeType()),
    NestedField(9, "at", TimestampType()),
    NestedField(10, "zoned", TimestamptzType()),
    NestedField(11, "name", StringType()),
    NestedField(12, "key", UUIDType()),
    NestedField(13, "code", FixedType(3)),
    NestedField(14, "raw", BinaryType()),
    NestedField(
        15, "place", StructType(NestedField(16, "site", StringType()), NestedField(17, "level", IntegerType()))
    ),
    NestedField(18, "tags", ListType(19, StringType(), element_required=False)),
    NestedField(20, "more", MapType(21, StringType(), 22, LongType(), value_required=False)),
)


def every_value(number: int) -> dict[str, object]:
    at = dt.datetime(2024, 1, 18, 9, 30, number)
    return {
        "id": number,
        "flag": number % 2 == 0,
        "small": number - 3,
        "real": float("nan") if number == 1 else number / 4,
        "wide": float("inf") if number == 2 else -number / 8,
        "price": Decimal(number) / 8,
        "day": at.date(),
        "time": at.time(),
        "at": at,
        "zoned": at.replace(tzinfo=dt.UTC),
        "name": f"näme {number}",
        "key": uuid.UUID(int=number).bytes,
        "code": bytes([number] * 3),
        "raw": bytes(range(number)),
        "place": {"site": f"s{number}", "level": None if number == 3 else number},
        "tags": [None, f"t{number}"],
        "more": [("a", number), ("b", None)],
    }
