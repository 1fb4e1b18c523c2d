"""`frazil runs` and `frazil run --dry-run`, on a real catalog and without Spark."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from frazil.catalog.embedded import running_catalog
from frazil.cli.main import cli
from frazil.client import FrazilCatalog
from frazil.errors import SourceChanged
from frazil.pipelines.batch.arrivals import local_digest, with_content
from frazil.pipelines.ledger import ledger_of, ledger_rows, open_companion
from frazil.pipelines.runs import RunResult, note_run
from frazil.project import load_project

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/sales/lakehouse.py"


@pytest.fixture
def sales_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FrazilCatalog]:
    """A catalog with the sales table, and the project's folder as the current one."""
    shutil.copy(EXAMPLE, tmp_path)
    monkeypatch.chdir(tmp_path)
    with running_catalog() as server:
        monkeypatch.setenv("FRAZIL_CATALOG__URI", server.uri)
        client = FrazilCatalog("lake", **server.properties)
        client.create_namespace("lakehouse")
        sales = load_project(tmp_path).pipeline("daily_sales").target
        client.create_table(sales.identifier, sales.schema(), partition_spec=sales.partition_spec())
        yield client


def frazil(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def note(catalog: FrazilCatalog, pipeline: str, hour: int) -> None:
    target = load_project(Path.cwd()).pipeline("daily_sales").target
    began = dt.datetime(2024, 1, 15, hour, tzinfo=dt.UTC)
    note_run(
        RunResult(pipeline, target.name, files=3, bytes=2_500, run_id=str(hour), started_at=began, error="no disk"),
        target,
        catalog,
    )


def test_runs_are_listed_the_latest_first_with_their_errors(sales_catalog: FrazilCatalog) -> None:
    note(sales_catalog, "daily_sales", 1)
    note(sales_catalog, "other", 2)
    shown, of_one = frazil("runs"), frazil("runs", "daily_sales")
    assert [line.split("│")[2].strip() for line in shown.output.splitlines() if "failed" in line] == [
        "other",
        "daily_sales",
    ]
    assert [line for line in of_one.output.splitlines() if "no disk" in line] == [
        "2024-01-15 01:00:00 daily_sales: no disk"
    ]
    assert "2.5 kB" in of_one.output


def test_runs_are_given_as_json_and_by_the_name_of_a_table(
    sales_catalog: FrazilCatalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    note(sales_catalog, "daily_sales", 1)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert json.loads(frazil("runs", "lakehouse.never", "--output", "json").output) == []
    monkeypatch.chdir(tmp_path)
    (row,) = json.loads(frazil("runs", "lakehouse.sales", "--output", "json").output)
    assert (row["pipeline"], row["status"], row["started_at"], row["snapshot_id"]) == (
        "daily_sales",
        "failed",
        "2024-01-15T01:00:00+00:00",
        None,
    )


def test_a_pipeline_that_is_not_declared_is_an_error_that_names_those_that_are(sales_catalog: FrazilCatalog) -> None:
    assert frazil("runs").output == "no runs are remembered\n"
    assert str(frazil("runs", "nightly").exception).startswith(
        "there is no pipeline 'nightly'; declared are: daily_sales, daily_customers"
    )


def test_a_dry_run_names_the_files_that_are_new_and_loads_none(sales_catalog: FrazilCatalog, tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    for name in ("a.csv", "b.csv"):
        (tmp_path / "landing" / name).write_text("order_id\n")
    pipeline = load_project(tmp_path).pipeline("daily_sales")
    ledger = open_companion(ledger_of(pipeline.target), sales_catalog)
    loaded, new = pipeline.source.list_files(tmp_path)
    ledger.append(ledger_rows([loaded], pipeline="daily_sales", run_id="1", ledger=ledger))
    assert frazil("run", "daily_sales", "--dry-run").stdout == (
        "daily_sales: would load 1 file (9 B) into lakehouse.sales\n        9 B  landing/b.csv\n"
    )
    ledger.refresh().append(ledger_rows([new], pipeline="daily_sales", run_id="2", ledger=ledger))
    assert frazil("run", "daily_sales").stdout == "daily_sales: no new files; lakehouse.sales is unchanged\n"


@pytest.fixture
def loaded(sales_catalog: FrazilCatalog, tmp_path: Path) -> Path:
    """A landing file that is loaded, by its content."""
    path = tmp_path / "landing/a.csv"
    path.parent.mkdir()
    path.write_text("order_id\n")
    pipeline = load_project(tmp_path).pipeline("daily_sales")
    ledger = open_companion(ledger_of(pipeline.target), sales_catalog)
    files = with_content(pipeline.files.list_files(tmp_path), local_digest(tmp_path))
    ledger.append(ledger_rows(files, pipeline="daily_sales", run_id="1", ledger=ledger))
    return path


def test_a_touched_file_is_not_loaded_again_and_the_result_says_so(loaded: Path) -> None:
    os.utime(loaded, ns=(1, 1))
    said = "daily_sales: no new files (1 file was touched, its content is loaded); lakehouse.sales is unchanged\n"
    assert (frazil("run", "daily_sales").stdout, frazil("run", "daily_sales", "--dry-run").stdout) == (said, said)


def test_a_loaded_file_with_other_content_is_named_and_refused(loaded: Path) -> None:
    loaded.write_text("order_id\nORD-1\n")
    error = frazil("run", "daily_sales").exception
    assert isinstance(error, SourceChanged)
    assert error.paths == ("landing/a.csv",)
    (row,) = json.loads(frazil("runs", "daily_sales", "--output", "json").output)
    assert (row["status"], "landing/a.csv" in row["error"]) == ("failed", True)
    assert frazil("run", "daily_sales", "--dry-run").stdout == (
        "daily_sales: would refuse to load 1 file (15 B) into lakehouse.sales\n"
        "       15 B  landing/a.csv\n  landing/a.csv was loaded before with other content\n"
    )


def test_of_a_file_that_an_older_release_loaded_only_what_is_known_is_said(
    sales_catalog: FrazilCatalog, tmp_path: Path
) -> None:
    """Its ledger row has no hash: a touched file of the same size may have the same content."""
    path = tmp_path / "landing/a.csv"
    path.parent.mkdir()
    path.write_text("order_id\n")
    pipeline = load_project(tmp_path).pipeline("daily_sales")
    ledger = open_companion(ledger_of(pipeline.target), sales_catalog)
    ledger.append(ledger_rows(pipeline.files.list_files(tmp_path), pipeline="daily_sales", run_id="1", ledger=ledger))
    os.utime(path, ns=(1, 1))
    error = frazil("run", "daily_sales").exception
    assert isinstance(error, SourceChanged)
    assert (error.unverified, "different content" in error.message) == (("landing/a.csv",), False)
    assert "other content" not in frazil("run", "daily_sales", "--dry-run").stdout
    path.write_text("order_id\nORD-1\n")  # another size: that is other content for sure
    changed = frazil("run", "daily_sales").exception
    assert isinstance(changed, SourceChanged)
    assert (changed.unverified, "different content" in changed.message) == ((), True)


def test_a_dry_run_names_the_path_that_the_content_of_a_copy_was_loaded_from(loaded: Path) -> None:
    loaded.with_name("b.csv").write_bytes(loaded.read_bytes())
    said = "daily_sales: would load 1 file (9 B) into lakehouse.sales\n        9 B  landing/b.csv\n"
    note = "  landing/b.csv has the same content as landing/a.csv\n"
    assert frazil("run", "daily_sales", "--dry-run").stdout == said + note
    loaded.unlink()  # renamed
    assert frazil("run", "daily_sales", "--dry-run").stdout == said + note
