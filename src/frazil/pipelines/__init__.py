"""Data pipelines on Spark: declared with `@pipeline`, run from files, Kafka or tables into tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.lazy import lazy_names

if TYPE_CHECKING:
    from frazil.pipelines.audited import Audit
    from frazil.pipelines.declare import Drift, Pipeline, pipeline
    from frazil.pipelines.function import failed, transform
    from frazil.pipelines.labels import check_labels
    from frazil.pipelines.ledger import append_rows, ledger_of, ledger_rows, open_companion, read_ledger
    from frazil.pipelines.observers import RunStart, observing, tell_aborted, tell_ended, tell_started
    from frazil.pipelines.publishing import Files, Judge, Kind, LoadPublisher, Write, check_staged, publish
    from frazil.pipelines.reports import report_batch, report_run, reported
    from frazil.pipelines.runs import RunResult, note_run, read_runs, run_rows, runs_of, tell_error
    from frazil.pipelines.stages import Stages

__all__ = [
    "Audit",
    "Drift",
    "Files",
    "Judge",
    "Kind",
    "LoadPublisher",
    "Pipeline",
    "RunResult",
    "RunStart",
    "Stages",
    "Write",
    "append_rows",
    "check_labels",
    "check_staged",
    "failed",
    "ledger_of",
    "ledger_rows",
    "note_run",
    "observing",
    "open_companion",
    "pipeline",
    "publish",
    "read_ledger",
    "read_runs",
    "report_batch",
    "report_run",
    "reported",
    "run_rows",
    "runs_of",
    "tell_aborted",
    "tell_ended",
    "tell_error",
    "tell_started",
    "transform",
]

__getattr__ = lazy_names(__name__)
