"""What the write path says while it works: attempts, conflicts, takeovers, and how much was written."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import frazil.sinks
from frazil import metrics
from frazil.client import FrazilCatalog
from frazil.errors import CommitUnknown, Unavailable, WriterFenced
from frazil.metrics import Prometheus
from frazil.sinks import ArrowSink
from frazil.sinks.delta import create_delta_table
from frazil.write.commit import RetryPolicy, until_decided
from tests.contract.history_lake import SCHEMA, Past, rows


@pytest.fixture
def report() -> Iterator[Prometheus]:
    """The metrics of one test."""
    prometheus = Prometheus()
    before = metrics.use(prometheus)
    yield prometheus
    metrics.use(before)


def fields(caplog: pytest.LogCaptureFixture, start: str) -> list[dict[str, Any]]:
    return [getattr(record, "fields", {}) for record in caplog.records if start in record.getMessage()]


def open_sink(past: Past, **retry: Any) -> ArrowSink:
    return frazil.sinks.open(past.name, name="s", catalog=past.catalog, retry=RetryPolicy(**retry))


def test_a_commit_logs_and_counts_what_it_wrote(
    past: Past, caplog: pytest.LogCaptureFixture, report: Prometheus
) -> None:
    caplog.set_level(logging.INFO, "frazil")
    with open_sink(past) as sink:
        sink.write(rows(1, 2, 3), position=3)
    snapshot = past.live.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    size = int(snapshot.summary.additional_properties["added-files-size"])
    (taken,), (done,) = fields(caplog, "took over"), fields(caplog, "committed snapshot")
    assert taken == {"table": past.name, "part": "s/part-0", "generation": 1}
    assert done.pop("seconds") >= 0
    assert done == {
        "table": past.name,
        "snapshot_id": snapshot.snapshot_id,
        "rows": 3,
        "files": 1,
        "bytes": size,
        "attempts": 1,
    }
    counts = {key: value for key, value in report.counts().items() if "seconds" not in key}
    label = f'{{table="{past.name}"'
    assert counts == {
        f"frazil_write_takeovers_total{label}}}": 1,
        f'frazil_write_commits_total{label},outcome="committed"}}': 1,
        f"frazil_write_rows_total{label}}}": 3,
        f"frazil_write_files_total{label}}}": 1,
        f"frazil_write_bytes_total{label}}}": size,
        'frazil_client_commits_total{outcome="committed"}': 2,
    }


def test_a_conflict_is_a_warning_with_the_wait_and_the_reason(
    past: Past, caplog: pytest.LogCaptureFixture, report: Prometheus
) -> None:
    raced: list[int] = []

    def race(step: str) -> None:
        if step == "before commit" and sink is not None and not raced:
            raced.append(past.append(99))

    sink: ArrowSink | None = None
    sink = open_sink(past, on_step=race)
    sink.write(rows(1), position=1)
    sink.close()
    (retry,) = fields(caplog, "next attempt in")
    assert (retry["table"], retry["attempt"], retry["reason"]) == (past.name, 1, "conflict")
    assert 0 <= retry["wait_seconds"] <= 2
    assert retry["cause"].startswith("CommitConflict: ")
    assert report.counts()[f'frazil_write_retries_total{{table="{past.name}",reason="conflict"}}'] == 1


def test_a_fenced_writer_is_logged(past: Past, caplog: pytest.LogCaptureFixture, report: Prometheus) -> None:
    old = open_sink(past)
    open_sink(past).close()
    old.write(rows(1), position=1)
    with pytest.raises(WriterFenced):
        old.commit()
    assert len(fields(caplog, "this writer is fenced")) == 1
    assert report.counts()[f'frazil_write_commits_total{{table="{past.name}",outcome="fenced"}}'] == 1


def test_a_delta_table_reports_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture, report: Prometheus) -> None:
    caplog.set_level(logging.INFO, "frazil")
    uri = str(tmp_path / "delta")
    create_delta_table(uri, SCHEMA)
    with frazil.sinks.open(uri, name="s") as sink:
        sink.write(rows(1, 2), position=2)
    (done,) = fields(caplog, "committed snapshot")
    assert (done["table"], done["rows"], done["files"], done["attempts"]) == (uri, 2, 1, 1)
    assert len(fields(caplog, "took over")) == 1
    assert report.counts()[f'frazil_write_rows_total{{table="{uri}"}}'] == 2


@pytest.mark.parametrize(
    ("error", "reason"), [(Unavailable("away"), "unavailable"), (CommitUnknown("lost"), "unknown")]
)
def test_every_retry_is_a_warning(error: Exception, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    waits: list[float] = []

    def attempt(number: int) -> str:
        if number < 4:
            raise error
        return "done"

    assert until_decided(attempt, name="l.t", retry=RetryPolicy(sleep=waits.append)) == "done"
    logged = fields(caplog, "next attempt in")
    assert [entry["attempt"] for entry in logged] == [1, 2, 3]
    assert [entry["wait_seconds"] for entry in logged] == [round(wait, 3) for wait in waits]
    assert {entry["reason"] for entry in logged} == {reason}


def test_no_secret_is_logged_while_the_catalog_is_away(
    past: Past, caplog: pytest.LogCaptureFixture, free_tcp_port: int
) -> None:
    caplog.set_level(logging.DEBUG, "frazil")
    secrets = {"token": "hunter2-token", "s3.access-key-id": "hunter2-id", "s3.secret-access-key": "hunter2-key"}
    catalog = FrazilCatalog("lake", **{**past.catalog.properties, **secrets})
    sink = frazil.sinks.open(past.name, name="s", catalog=catalog, retry=RetryPolicy(give_up_seconds=0))
    sink.write(rows(1), position=1)
    catalog.uri = f"http://user:hunter2-password@127.0.0.1:{free_tcp_port}"
    with pytest.raises(Unavailable):
        sink.commit()
    text = "\n".join(f"{record.getMessage()} {getattr(record, 'fields', '')}" for record in caplog.records)
    assert "again in" in text
    assert "hunter2" not in text


def test_a_sink_that_is_abandoned_logs_the_files_that_it_deletes(past: Past, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "frazil.sinks")
    sink = open_sink(past)
    sink.write(rows(1), position=1)
    sink.flush()
    sink.abandon()
    (opened,), (abandoned,) = fields(caplog, "opened"), fields(caplog, "abandoned")
    assert opened == {"table": past.name, "part": "s/part-0", "position": {}}
    assert len(abandoned["files"]) == 1
