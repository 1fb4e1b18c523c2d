"""The audit of a Delta table, out of its log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

import frazil.sinks
from frazil.quarantine.replay import Rules
from frazil.quarantine.replay_delta import DeltaQuarantine
from frazil.sinks import ArrowSink
from frazil.sinks.audit import AuditReport, PartReport, audit_delta
from frazil.sinks.delta.rollback import roll_back_delta
from frazil.sinks.delta.target import create_delta_table

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True))


@pytest.fixture
def uri(tmp_path: Path) -> str:
    create_delta_table(str(tmp_path / "t"), SCHEMA)
    return str(tmp_path / "t")


def sink(uri: str, part: int = 0, **options: Any) -> ArrowSink:
    return frazil.sinks.open(uri, name="s", part=part, **options)


def fill(sink: ArrowSink, *ends: int) -> None:
    for end in ends:
        sink.write(pa.table({"id": range(sink.offset or 0, end)}), position=end)
        sink.commit()


def notes(report: AuditReport) -> list[str]:
    return [text.split(": ", 1)[1] for text in report.notes]


def test_commits_that_follow_each_other_are_proved_down_to_the_first(uri: str) -> None:
    fill(sink(uri), 3, 7)
    fill(sink(uri, 1), 4)
    fill(sink(uri), 9)
    report = audit_delta(uri)
    assert (report.problems, report.from_first, report.commits) == ((), True, 7)
    assert report.parts == (PartReport("s/part-0", 3, {}, {"0": 9}), PartReport("s/part-1", 1, {}, {"0": 4}))


def test_rows_of_others_and_rows_out_of_quarantine_are_said(uri: str) -> None:
    with sink(uri, bad_rows="quarantine", checks=["id <> 1"]) as opened:
        fill(opened, 3)
    write_deltalake(uri, pa.table({"id": pa.array([100], pa.int64())}), mode="append")
    DeltaQuarantine(uri).replay(Rules(checks=()))
    DeltaTable(uri).delete("id = 100")
    report = audit_delta(uri)
    assert (report.problems, report.parts) == ((), (PartReport("s/part-0", 1, {}, {"0": 3}),))
    assert notes(report) == [
        "1 row added outside the sinks",
        "1 row came out of quarantine",
        "1 row removed and 0 added outside the sinks (delete)",
    ]


def test_where_the_log_is_kept_in_part_the_base_is_what_the_oldest_entry_found(uri: str) -> None:
    opened = sink(uri)
    fill(opened, 3, 7)
    DeltaTable(uri).create_checkpoint()
    fill(opened, 9)
    for old in sorted(Path(uri, "_delta_log").glob("*.json"))[:3]:
        old.unlink()
    report = audit_delta(uri)
    assert (report.problems, report.from_first, report.parts) == (
        (),
        False,
        (PartReport("s/part-0", 2, {"0": 3}, {"0": 9}),),
    )


def test_parts_whose_commits_are_all_gone_are_the_base_and_go_on_from_it(uri: str) -> None:
    DeltaTable(uri).alter.set_table_properties(
        {"delta.logRetentionDuration": "interval 0 seconds"}, raise_if_not_exists=False
    )
    first, second = sink(uri), sink(uri, 1)
    fill(first, 3)
    fill(second, 4)
    DeltaTable(uri).create_checkpoint()
    DeltaTable(uri).cleanup_metadata()
    assert (audit_delta(uri).problems, audit_delta(uri).from_first) == ((), False)
    fill(second, 6)
    fill(first, 5, 7)
    report = audit_delta(uri)
    assert (report.problems, [(part.base, part.reached) for part in report.parts]) == (
        (),
        [({"0": 3}, {"0": 7}), ({}, {"0": 6})],
    )


@pytest.mark.parametrize(("with_progress", "again"), [(True, 3), (False, 7)])
def test_a_rollback_goes_on_where_the_progress_stands(uri: str, with_progress: bool, again: int) -> None:
    fill(sink(uri), 3, 7)
    roll_back_delta(uri, 2, with_progress=with_progress)
    opened = sink(uri)
    assert opened.offset == again
    fill(opened, 9)
    report = audit_delta(uri)
    assert (report.problems, len(report.notes), report.parts[0].reached) == ((), 1, {"0": 9})


def test_a_commit_that_the_log_does_not_tell_is_missed(uri: str) -> None:
    fill(sink(uri), 3, 7)
    entry = sorted(Path(uri, "_delta_log").glob("*.json"))[3]
    entry.write_text(entry.read_text().replace('\\"to\\":{\\"0\\":7}', '\\"to\\":{\\"0\\":6}'))
    assert [text.split(": ", 1)[1] for text in audit_delta(uri).problems] == [
        "part 's/part-0' says that it reached 0: 7, but its commit leads to 0: 6"
    ]
