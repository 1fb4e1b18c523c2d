"""The table of runs, on a real catalog: what runs have done."""

from __future__ import annotations

import datetime as dt

from frazil import Table, column
from frazil.client import FrazilCatalog
from frazil.pipelines.runs import RunResult, note_run, read_runs, tell_error

TARGET = Table("lake.t", column("id", "long"))


def test_failed_runs_are_noted_and_the_latest_comes_first(catalog: FrazilCatalog) -> None:
    for hour in (1, 2):
        began = dt.datetime(2024, 1, 15, hour, tzinfo=dt.UTC)
        note_run(RunResult("p", "lake.t", files=3, run_id=str(hour), started_at=began, error="no"), TARGET, catalog)
    assert [(row["run_id"], row["status"], row["files"], row["error"]) for row in read_runs(TARGET, catalog)] == [
        ("2", "failed", 3, "no"),
        ("1", "failed", 3, "no"),
    ]
    assert read_runs(TARGET, catalog, pipeline="other") == []
    assert read_runs(Table("lake.never", column("id", "long")), catalog) == []


def test_errors_are_reported_without_secrets() -> None:
    error = tell_error(
        OSError("403 for key hunter2 at http://s3"), {"s3.secret-access-key": "hunter2", "s3.endpoint": "http://s3"}
    )
    assert error == "OSError: 403 for key ********** at http://s3"
