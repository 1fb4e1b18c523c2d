"""The ledger and the runs, on a real catalog: which files are new, and what runs have done."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator

import pytest

from frazil import Table, column
from frazil.client import FrazilCatalog
from frazil.pipelines.ledger import ledger_of, ledger_rows, not_loaded, open_beside
from frazil.pipelines.runs import RunResult, note_run, read_runs, tell_error
from frazil.pipelines.sources import SourceFile
from tests.lake import lake_catalog

TARGET = Table("lake.t", column("id", "long"))


@pytest.fixture(scope="module")
def catalog() -> Iterator[FrazilCatalog]:
    with lake_catalog() as made:
        yield made


def test_files_are_new_by_path_size_and_tag_and_by_pipeline(catalog: FrazilCatalog) -> None:
    ledger = open_beside(ledger_of(TARGET), catalog)
    seen = [SourceFile("a", 1, "x"), SourceFile("b", 1, "x")]
    ledger.append(ledger_rows(seen, pipeline="p", run_id="1", ledger=ledger))
    ledger.append(ledger_rows([SourceFile("z", 1, "x")], pipeline="other", run_id="2", ledger=ledger))
    now = [SourceFile("a", 1, "x"), SourceFile("a", 2, "x"), SourceFile("b", 1, "y"), SourceFile("z", 1, "x")]
    assert not_loaded(now, ledger, "p") == now[1:]
    assert not_loaded([], ledger, "p") == []


def test_ten_thousand_files_are_looked_up_in_a_moment(catalog: FrazilCatalog) -> None:
    ledger = open_beside(ledger_of(Table("lake.many", column("id", "long"))), catalog)
    files = [SourceFile(f"landing/2024/sales-{number:06}.csv", number, str(number)) for number in range(10_000)]
    ledger.append(ledger_rows(files[:-1], pipeline="p", run_id="1", ledger=ledger))
    begun = time.process_time()
    assert not_loaded(files, ledger, "p") == files[-1:]
    assert time.process_time() - begun < 5


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


def test_errors_are_told_without_secrets() -> None:
    told = tell_error(OSError("403 for key hunter2 at http://s3"), {"s3.secret-access-key": "hunter2", "s3.endpoint": "http://s3"})
    assert told == "OSError: 403 for key ********** at http://s3"
