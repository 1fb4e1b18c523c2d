"""The cost model: what it assumes to grow in a straight line does, and what it promises follows from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.sizing import DAYS, Growth, Sizes, grow, measure

SIZES = Sizes(
    landing_row=70,
    row=10,
    metadata=1500,
    snapshot=1000,
    manifest_list=1800,
    manifest_entry=40,
    manifest=4700,
    file_entry=27,
)


def growth(rows: int, way: str, **changed: float) -> Growth:
    model = {"interval": 60, "kafka_partitions": 8, "keep_days": 5, "target_bytes": 512 << 20, **changed}
    return grow(rows, way, SIZES, **model)  # type: ignore[arg-type]


def test_each_commit_adds_the_same_to_what_is_measured(tmp_path: Path) -> None:
    few, many = (measure(tmp_path / str(commits), rows=2000, commits=commits, days=20) for commits in (4, 16))
    assert many.snapshot == pytest.approx(few.snapshot, rel=0.05)
    assert many.metadata == pytest.approx(few.metadata, rel=0.01)
    assert many.manifest == pytest.approx(few.manifest, rel=0.05)
    assert 10 < many.file_entry < 100  # packed with its neighbours
    assert many.row < many.landing_row


def test_a_year_of_a_stream_has_a_commit_an_interval_and_files_of_every_kafka_partition() -> None:
    year = growth(10**9, "stream", interval=30, kafka_partitions=4)
    assert (year.commits, year.files_written) == (DAYS * 2880, DAYS * 2880 * 4)
    assert year.metadata_bytes == 1500 + 1000 * 2880 * 5


def test_rows_decide_over_the_files_of_a_compacted_table_and_commits_over_its_metadata() -> None:
    small, large = growth(10**6, "batch"), growth(10**12, "batch")
    assert (small.files, large.files) == (DAYS, DAYS * 52)  # at most 512 MB each
    assert small.metadata_bytes == large.metadata_bytes
    assert large.files_written == DAYS * 1429  # a task reads 128 MB


def test_fewer_commits_and_a_shorter_past_write_less_metadata() -> None:
    written = [
        growth(10**9, "stream", **changed).written_bytes for changed in ({}, {"keep_days": 1}, {"interval": 300})
    ]
    assert sorted(written, reverse=True) == written
