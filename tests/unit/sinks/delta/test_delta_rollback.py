"""A Delta table that goes back: with its progress the rows come again, once; without, they stay out."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

import frazil.sinks
from frazil.errors import ProgressMismatch, SinkError, WriterFenced
from frazil.sinks import ArrowSink
from frazil.sinks.delta.rollback import roll_back_delta
from frazil.sinks.delta.target import create_delta_table
from tests.kit.raising import raises

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True))


@pytest.fixture
def uri(tmp_path: Path) -> str:
    place = str(tmp_path / "t")
    create_delta_table(place, SCHEMA)
    return place


def open_sink(uri: str) -> ArrowSink:
    return frazil.sinks.open(uri, name="s", bad_rows="quarantine", checks=["id <> 3"])


def write(uri: str, *ends: int) -> list[int]:
    """Commits the rows up to each end; gives the versions that the table had after each."""
    versions = []
    with open_sink(uri) as sink:
        for end in ends:
            rows = range(sink.position.get("e", 0), end)
            sink.write_with_offsets([{"id": number} for number in rows], source="e", offsets=list(rows))
            sink.commit()
            versions.append(DeltaTable(uri).version())
    return versions


def ids(uri: str, column: str = "id") -> list[int]:
    return sorted(DeltaTable(uri).to_pyarrow_table()[column].to_pylist())


def test_with_its_progress_the_rows_come_again_once(uri: str) -> None:
    first, _ = write(uri, 2, 6)
    roll_back_delta(uri, first, with_progress=True)
    assert ids(uri) == [0, 1]
    write(uri, 8)
    assert ids(uri) == [0, 1, 2, 4, 5, 6, 7]
    assert len(ids(f"{uri}__quarantine", "raw")) == 1


def test_without_it_they_stay_out(uri: str) -> None:
    first, _ = write(uri, 2, 6)
    roll_back_delta(uri, first, with_progress=False)
    write(uri, 8)
    assert ids(uri) == [0, 1, 6, 7]


def test_a_writer_of_the_time_that_is_undone_is_fenced(uri: str) -> None:
    sink = open_sink(uri)
    for number in range(2):
        sink.write({"id": number}, position=number + 1)
        sink.commit()
    sink.write({"id": 2}, position=3)
    roll_back_delta(uri, DeltaTable(uri).version() - 1, with_progress=True)
    with pytest.raises(WriterFenced):
        sink.commit()
    assert ids(uri) == [0]


def test_a_version_ahead_of_the_progress_is_refused(uri: str) -> None:
    first, second = write(uri, 2, 6)
    roll_back_delta(uri, first, with_progress=True)
    with raises(ProgressMismatch, snapshot=second, source="e", expected=2, got=6):
        roll_back_delta(uri, second, with_progress=False)
    roll_back_delta(uri, second, with_progress=True)
    write(uri, 7)
    assert ids(uri) == [0, 1, 2, 4, 5, 6]


def test_a_version_that_is_not_there_or_too_old_is_refused(uri: str) -> None:
    versions = write(uri, *range(1, 14))
    with raises(SinkError, snapshot=99):
        roll_back_delta(uri, 99, with_progress=False)
    with raises(SinkError, problem="nothing-to-undo"):
        roll_back_delta(uri, versions[-1], with_progress=False)
    with raises(ProgressMismatch, problem="expired"):
        roll_back_delta(uri, versions[0], with_progress=True)
    roll_back_delta(uri, versions[0], with_progress=False)
    assert ids(uri) == [0]


def test_a_version_whose_files_were_vacuumed_is_refused_and_the_table_stays_as_it_is(uri: str) -> None:
    first, _ = write(uri, 2, 6)
    table = DeltaTable(uri)
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with raises(SinkError, snapshot=first, problem="not-restorable"):
        roll_back_delta(uri, first, with_progress=True)
    assert ids(uri) == [0, 1, 2, 4, 5]
