"""Landing files as a stream: a run every few seconds. The ledger says what is new, so a run is a batch, and needs no checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from frazil.pipelines.declare import Pipeline
from frazil.pipelines.run import run_pipeline
from frazil.pipelines.stream import StreamOptions
from frazil.pipelines.stream_progress import StreamProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.client import FrazilCatalog


def watch_files(
    pipeline: Pipeline, *, spark: SparkSession, catalog: FrazilCatalog, folder: Path, options: StreamOptions, progress: StreamProgress
) -> StreamProgress:
    """Loads new files until it is asked to stop. A run under way is finished."""
    while not options.stop.is_set():
        result = run_pipeline(pipeline, spark=spark, catalog=catalog, folder=folder, owner=options.owner, before_write=options.before_write)
        if result.snapshot_id is not None:
            progress.count(result.rows, result.quarantined, result.seconds, result.snapshot_id)
        options.on_change(progress)
        options.stop.wait(options.interval_seconds)
    return progress
