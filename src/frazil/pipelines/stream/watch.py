"""Landing files as a stream: a run every few seconds. The ledger says what is new, so a run is a batch, and needs no
checkpoint.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from frazil.pipelines import Pipeline, RunResult
from frazil.pipelines.batch import run_pipeline
from frazil.pipelines.stream.progress import OUTCOMES, StreamProgress
from frazil.pipelines.stream.run import StreamOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.client import FrazilCatalog


def watch_files(
    pipeline: Pipeline,
    *,
    spark: SparkSession,
    catalog: FrazilCatalog,
    folder: Path,
    options: StreamOptions,
    progress: StreamProgress,
) -> StreamProgress:
    """Loads new files until it is asked to stop. A run under way is finished."""
    adopt = options.adopt
    while not options.stop.is_set():
        result = run_pipeline(pipeline, spark=spark, catalog=catalog, folder=folder, owner=options.owner, adopt=adopt)
        if result.snapshot_id is not None:
            adopt = False  # the tables are the project's now; if another one takes them, this stream stops
            merged = _merged(result)
            rows = result.rows if merged is None else sum(merged[name] for name in OUTCOMES)
            progress.count(rows, result.quarantined, result.seconds, result.snapshot_id, merged=merged)
        options.on_change(progress)
        options.stop.wait(options.interval_seconds)
    return progress


def _merged(result: RunResult) -> dict[str, int] | None:
    """What became of the changes of an upsert.

    >>> _merged(RunResult("crm", "l.crm", rows=3, inserted=1, updated=2, deleted=4, unchanged=0, duplicates=5))
    {'inserted': 1, 'updated': 2, 'deleted': 4, 'unchanged': 0, 'duplicates': 5, 'rows': 3}
    >>> _merged(RunResult("daily", "l.sales", rows=3))
    """
    return {name: getattr(result, name) for name in (*OUTCOMES, "rows")} if result.inserted is not None else None
