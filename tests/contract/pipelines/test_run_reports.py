"""What runs of pipelines report: log records and metrics, whatever the outcome."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from frazil import metrics
from frazil.metrics import Prometheus
from frazil.pipelines import RunResult, reported

PIPELINE = SimpleNamespace(name="daily")


@pytest.fixture
def report() -> Iterator[Prometheus]:
    prometheus = Prometheus()
    before = metrics.use(prometheus)
    yield prometheus
    metrics.use(before)


def counts(report: Prometheus) -> dict[str, float]:
    return {key: value for key, value in report.counts().items() if "seconds" not in key}


def test_a_run_is_logged_and_counted(report: Prometheus, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "frazil.pipelines")
    result = RunResult("daily", "l.sales", files=2, rows=1200, quarantined=3, snapshot_id=7, bytes=99)
    assert reported(lambda _, **__: result)(PIPELINE, spark=None) is result
    assert counts(report) == {
        'frazil_pipeline_runs_total{pipeline="daily",outcome="committed"}': 1,
        'frazil_pipeline_rows_total{pipeline="daily",outcome="written"}': 1200,
        'frazil_pipeline_rows_total{pipeline="daily",outcome="quarantined"}': 3,
    }
    fields = caplog.records[-1].fields  # type: ignore[attr-defined]  # set by the log call
    assert (fields["outcome"], fields["rows"], fields["files"], fields["snapshot_id"]) == ("committed", 1200, 2, 7)


def test_a_run_that_fails_is_counted_and_its_error_comes_out(report: Prometheus) -> None:
    def fail(_: object) -> RunResult:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        reported(fail)(PIPELINE)
    assert counts(report) == {'frazil_pipeline_runs_total{pipeline="daily",outcome="failed"}': 1}
