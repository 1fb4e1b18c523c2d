"""What pipelines report while they work: log records of `frazil.pipelines`, and metrics."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from frazil import metrics
from frazil.logs import describe_error

if TYPE_CHECKING:
    from frazil.pipelines.runs import RunResult

Run = TypeVar("Run", bound=Callable[..., Any])
log = logging.getLogger("frazil.pipelines")


def reported(run: Run) -> Run:
    """A function that runs a pipeline, which logs and counts how the run ended."""

    @functools.wraps(run)
    def wrapper(pipeline: Any, **options: Any) -> RunResult:
        start = time.monotonic()
        log.info("%s: run starts", pipeline.name, extra={"fields": {"pipeline": pipeline.name}})
        try:
            result: RunResult = run(pipeline, **options)
        except BaseException as exc:
            _end_run(pipeline.name, "failed", time.monotonic() - start)
            log.info("%s: run failed: %s", pipeline.name, describe_error(exc))
            raise
        _report_result(result, time.monotonic() - start)
        return result

    return wrapper  # type: ignore[return-value]  # the same signature


def report_batch(pipeline: str, table: str, *, rows: int, quarantined: int, seconds: float) -> None:
    """A micro-batch of a stream is committed."""
    metrics.current().count("frazil_pipeline_batches_total", pipeline=pipeline)
    _count_rows(pipeline, rows, quarantined)
    facts = {"pipeline": pipeline, "table": table, "rows": rows, "quarantined": quarantined}
    log.info(
        "%s: micro-batch of %d rows, %d quarantined, in %.2f s",
        *(pipeline, rows, quarantined, seconds),
        extra={"fields": {**facts, "seconds": round(seconds, 3)}},
    )


def report_run(result: RunResult) -> None:
    """A run has ended, as its result says."""
    if result.error is not None:
        _end_run(result.pipeline, "failed", result.seconds)
        log.info("%s: run failed: %s", result.pipeline, result.error)
    else:
        _report_result(result, result.seconds)


def _report_result(result: RunResult, seconds: float) -> None:
    outcome = "unchanged" if result.snapshot_id is None else "committed"
    _end_run(result.pipeline, outcome, seconds)
    _count_rows(result.pipeline, result.rows, result.quarantined)
    facts = {"pipeline": result.pipeline, "table": result.table, "outcome": outcome, "files": result.files}
    facts |= {"rows": result.rows, "quarantined": result.quarantined, "bytes": result.bytes}
    log.info(
        "%s: run %s: %d files, %d rows, %d quarantined, in %.1f s",
        *(result.pipeline, outcome, result.files, result.rows, result.quarantined, seconds),
        extra={"fields": {**facts, "snapshot_id": result.snapshot_id, "seconds": round(seconds, 3)}},
    )


def _end_run(pipeline: str, outcome: str, seconds: float) -> None:
    metrics.current().count("frazil_pipeline_runs_total", pipeline=pipeline, outcome=outcome)
    metrics.current().observe("frazil_pipeline_run_seconds", seconds, pipeline=pipeline)


def _count_rows(pipeline: str, rows: int, quarantined: int) -> None:
    metrics.current().count("frazil_pipeline_rows_total", rows, pipeline=pipeline, outcome="written")
    metrics.current().count("frazil_pipeline_rows_total", quarantined, pipeline=pipeline, outcome="quarantined")
