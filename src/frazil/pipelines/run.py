"""A batch run: the files that are new -> the user's function -> the table, in one commit with the ledger.

Spark writes to a stage branch, which no reader sees. The driver then moves the table's main ref to the staged snapshot and appends to the
ledger in one `/transactions/commit`, guarded by the snapshots it started from. So a run that is killed at any moment has done either
all of it or nothing, and the next one takes up exactly the files that are missing.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from frazil.errors import CommitConflict, CommitUnknown, PipelineError
from frazil.pipelines.declare import Pipeline
from frazil.pipelines.ledger import holds_run, ledger_of, ledger_rows, loaded_files
from frazil.pipelines.sources import SourceFile
from frazil.pipelines.stage import Stage, publish_stage, write_stage
from frazil.tables.apply import apply_steps, plan

if TYPE_CHECKING:
    from pyiceberg.table import Table as LiveTable
    from pyspark.sql import SparkSession

    from frazil.client import FrazilCatalog

ATTEMPTS = 5


@dataclass(frozen=True)
class RunResult:
    """What a run did; no snapshot means that nothing was new."""

    pipeline: str
    table: str
    files: int = 0
    rows: int = 0
    snapshot_id: int | None = None


def run_pipeline(pipeline: Pipeline, *, spark: SparkSession, catalog: FrazilCatalog, folder: Path) -> RunResult:
    """Loads what is new since the last run. Safe to call again after any failure."""
    _load_target(pipeline, catalog)
    ledger = ledger_of(pipeline.target)
    list(apply_steps(plan(ledger, catalog), catalog))
    result = RunResult(pipeline.name, pipeline.target.name)
    run_id = str(uuid.uuid4())
    for _ in range(ATTEMPTS):
        live, live_ledger = _load_target(pipeline, catalog), catalog.load_table(ledger.identifier)
        if holds_run(live_ledger, run_id):  # the commit was in, though its answer was lost
            return result
        new = _new_files(pipeline, live_ledger, folder)
        if not new:
            return RunResult(pipeline.name, pipeline.target.name)
        stage = write_stage(pipeline, new, live=live, spark=spark, catalog_name=catalog.name, run_id=run_id, folder=folder)
        result = RunResult(pipeline.name, pipeline.target.name, len(new), stage.rows, stage.snapshot_id)
        try:
            _publish(stage, new, pipeline=pipeline, run_id=run_id, ledger=live_ledger, catalog=catalog)
        except (CommitConflict, CommitUnknown):
            continue  # the ledger decides: it is read again before anything is staged again
        return result
    raise PipelineError(
        f"pipeline '{pipeline.name}' gave up after {ATTEMPTS} attempts: other writers kept changing {pipeline.target.name}",
        hint=f"run it again when they are done: frazil run {pipeline.name}",
    )


def _load_target(pipeline: Pipeline, catalog: FrazilCatalog) -> LiveTable:
    from pyiceberg.exceptions import NoSuchTableError

    try:
        live: LiveTable = catalog.load_table(pipeline.target.identifier)
    except NoSuchTableError as exc:
        raise PipelineError(f"pipeline '{pipeline.name}': table {pipeline.target.name} does not exist", hint="frazil apply") from exc
    return live


def _new_files(pipeline: Pipeline, ledger: LiveTable, folder: Path) -> list[SourceFile]:
    done = loaded_files(ledger, pipeline.name)
    return [file for file in pipeline.source.list_files(folder) if file not in done]


def _publish(
    stage: Stage, files: Sequence[SourceFile], *, pipeline: Pipeline, run_id: str, ledger: LiveTable, catalog: FrazilCatalog
) -> None:
    target = catalog.load_table(pipeline.target.identifier)
    with catalog.transaction() as transaction:
        publish_stage(stage, transaction.table(target))
        transaction.table(ledger).append(ledger_rows(files, pipeline=pipeline.name, run_id=run_id, ledger=ledger))
