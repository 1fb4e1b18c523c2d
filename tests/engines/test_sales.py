"""The sales example on real Spark: rows arrive once, whatever happens in between."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog, connect
from frazil.config import Settings, load_settings
from frazil.errors import PipelineError
from frazil.pipelines.run import RunResult, run_pipeline
from frazil.pipelines.session import spark_session
from frazil.project import Project, load_project
from frazil.tables.apply import apply_steps, plan

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/sales"
SECRET = "hunter2-of-the-tests"
HEADER = "order_id,customer_id,amount,country,ingestion_date\n"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    folder = tmp_path_factory.mktemp("catalog")
    with running_catalog(folder) as server:
        flags = {"catalog.uri": server.uri, "catalog.token": SECRET, "spark.master": "local[2]", "spark.conf.spark.my.password": SECRET}
        yield load_settings(flags=flags, folder=folder, environ={})


@pytest.fixture(scope="module")
def spark(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(settings, app_name="tests", log=tmp_path_factory.mktemp("spark") / "spark.log") as session:
        yield session


@pytest.fixture
def catalog(settings: Settings) -> FrazilCatalog:
    return connect(settings)


@pytest.fixture
def project(tmp_path: Path, catalog: FrazilCatalog) -> Iterator[Project]:
    """A fresh copy of the example, with its table made and no landing files."""
    shutil.copytree(EXAMPLE, tmp_path, ignore=shutil.ignore_patterns(".frazil", "landing", "__pycache__"), dirs_exist_ok=True)
    (tmp_path / "landing").mkdir()
    project = load_project(tmp_path)
    for table in project.tables:
        list(apply_steps(plan(table, catalog), catalog))
    yield project
    for identifier in catalog.list_tables("lakehouse"):
        catalog.drop_table(identifier)


def land(project: Project, name: str, *rows: str) -> None:
    (project.folder / "landing" / name).write_text(HEADER + "".join(f"{row}\n" for row in rows))


def run(project: Project, spark: SparkSession, catalog: FrazilCatalog) -> RunResult:
    return run_pipeline(project.pipeline("daily_sales"), spark=spark, catalog=catalog, folder=project.folder)


def ids(catalog: FrazilCatalog) -> list[str]:
    return sorted(catalog.load_table("lakehouse.sales").scan(selected_fields=("order_id",)).to_arrow()["order_id"].to_pylist())


def test_rows_arrive_typed_and_transformed(project: Project, spark: SparkSession, catalog: FrazilCatalog) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,12.50,ch,2024-01-15", "ORD-2,CUST-2,7.00,,2024-01-16")
    run(project, spark, catalog)
    rows = catalog.load_table("lakehouse.sales").scan().to_arrow().sort_by("order_id").to_pylist()
    assert [(r["order_id"], str(r["amount"]), r["country"], str(r["ingestion_date"])) for r in rows] == [
        ("ORD-1", "12.50", "CH", "2024-01-15"),
        ("ORD-2", "7.00", None, "2024-01-16"),
    ]


def test_a_second_run_loads_only_what_is_new(project: Project, spark: SparkSession, catalog: FrazilCatalog) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,12.50,ch,2024-01-15")
    first = run(project, spark, catalog)
    again = run(project, spark, catalog)
    land(project, "b.csv", "ORD-2,CUST-2,7.00,de,2024-01-16")
    third = run(project, spark, catalog)
    assert [(r.files, r.rows) for r in (first, again, third)] == [(1, 1), (0, 0), (1, 1)]
    assert ids(catalog) == ["ORD-1", "ORD-2"]


def test_a_run_that_died_after_staging_is_repeated_without_doubling(project: Project, spark: SparkSession, catalog: FrazilCatalog) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,12.50,ch,2024-01-15")
    dying = FrazilCatalogThatDies(catalog)
    with pytest.raises(KeyboardInterrupt):
        run(project, spark, dying)  # type: ignore[arg-type]
    assert ids(catalog) == []
    assert run(project, spark, catalog).rows == 1
    assert ids(catalog) == ["ORD-1"]


def test_of_two_runs_with_one_base_the_second_finds_its_files_loaded(project: Project, spark: SparkSession, catalog: FrazilCatalog) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,12.50,ch,2024-01-15")
    slow = FrazilCatalogThatWaits(catalog, meanwhile=lambda: run(project, spark, catalog))
    result = run(project, spark, slow)  # type: ignore[arg-type]
    assert (result.rows, ids(catalog)) == (0, ["ORD-1"])


def test_an_append_by_another_writer_is_kept_and_the_stage_is_built_again(
    project: Project, spark: SparkSession, catalog: FrazilCatalog
) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,12.50,ch,2024-01-15")

    def other_writer() -> None:
        spark.sql("INSERT INTO lake.lakehouse.sales VALUES ('ORD-9', 'CUST-9', 1.00, NULL, DATE'2024-01-15')")

    result = run(project, spark, FrazilCatalogThatWaits(catalog, meanwhile=other_writer))  # type: ignore[arg-type]
    assert (result.rows, ids(catalog)) == (1, ["ORD-1", "ORD-9"])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("ORD-1,CUST-1,much,ch,2024-01-15", r"CAST_INVALID_INPUT.*'much'"),
        ("ORD-1,CUST-1,12345678901.00,ch,2024-01-15", r"NUMERIC_VALUE_OUT_OF_RANGE|CAST_INVALID_INPUT|cannot be represented"),
        (",CUST-1,1.00,ch,2024-01-15", r"lakehouse.sales.order_id is NULL, but the column is required"),
    ],
)
def test_a_bad_row_stops_the_run_by_name_and_commits_nothing(
    project: Project, spark: SparkSession, catalog: FrazilCatalog, row: str, message: str
) -> None:
    land(project, "a.csv", "ORD-0,CUST-0,1.00,ch,2024-01-15", row)
    with pytest.raises(PipelineError, match=message):
        run(project, spark, catalog)
    assert ids(catalog) == []


def test_a_failed_run_leaves_no_stage_branch(project: Project, spark: SparkSession, catalog: FrazilCatalog) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,much,ch,2024-01-15")
    with pytest.raises(PipelineError):
        run(project, spark, catalog)
    assert list(catalog.load_table("lakehouse.sales").refs()) == []


def test_files_whose_columns_are_in_another_order_stop_the_run(project: Project, spark: SparkSession, catalog: FrazilCatalog) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,1.00,ch,2024-01-15")
    (project.folder / "landing/b.csv").write_text("customer_id,order_id,amount,country,ingestion_date\nCUST-2,ORD-2,1.00,ch,2024-01-15\n")
    with pytest.raises(PipelineError, match=r"CSV header does not conform to the schema"):
        run(project, spark, catalog)
    assert ids(catalog) == []


def test_a_hidden_file_is_loaded_once_it_is_renamed(project: Project, spark: SparkSession, catalog: FrazilCatalog) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,1.00,ch,2024-01-15")
    land(project, "_b.csv", "ORD-2,CUST-2,1.00,ch,2024-01-15")
    assert run(project, spark, catalog).files == 1
    (project.folder / "landing/_b.csv").rename(project.folder / "landing/b [1].csv")
    run(project, spark, catalog)
    assert ids(catalog) == ["ORD-1", "ORD-2"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return undefined", r"failed at .*lakehouse.py:\d+: NameError: name 'undefined' is not defined"),
        ("orders.select('x')", r"UNRESOLVED_COLUMN"),
        ("pass", r"returned NoneType, not a Spark DataFrame"),
    ],
)
def test_a_fault_in_the_users_function_names_its_line(
    project: Project, spark: SparkSession, catalog: FrazilCatalog, body: str, message: str
) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,1.00,ch,2024-01-15")
    declared = (EXAMPLE / "lakehouse.py").read_text()
    (project.folder / "lakehouse.py").write_text(declared.partition("    return orders")[0] + f"    {body}\n")
    with pytest.raises(PipelineError, match=message):
        run(load_project(project.folder), spark, catalog)


def test_no_secret_is_on_a_command_line(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.catalog.lake.token") == SECRET  # it did arrive
    assert spark.conf.get("spark.my.password") == SECRET
    running = [child for child in psutil.Process().children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]
    arguments = [argument for child in running for argument in child.cmdline()]
    assert "org.apache.spark.deploy.SparkSubmit" in arguments
    assert not [argument for argument in arguments if SECRET in argument]


def test_a_catalog_that_goes_away_in_the_middle_is_named(project: Project, spark: SparkSession, catalog: FrazilCatalog) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,1.00,ch,2024-01-15")
    for key in ("", ".type", ".uri"):
        value = "http://127.0.0.1:1" if key == ".uri" else spark.conf.get(f"spark.sql.catalog.lake{key}")
        spark.conf.set(f"spark.sql.catalog.gone{key}", value)
    gone = FrazilCatalogThatDies(catalog)
    gone.name = "gone"  # what Spark calls it
    with pytest.raises(PipelineError, match=r"pipeline 'daily_sales': .*Connect to http://127.0.0.1:1 .*failed: Connection refused"):
        run(project, spark, gone)  # type: ignore[arg-type]


def test_make_runs_job_ends_well_and_a_second_one_adds_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "frazil", "demo", str(tmp_path / "demo")]
    first, second = (subprocess.run(command, capture_output=True, text=True, check=False) for _ in range(2))
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "daily_sales: 100,000 rows from 5 files are in lakehouse.sales" in first.stdout
    assert "daily_sales: no new files; lakehouse.sales is unchanged" in second.stdout
    assert first.stdout.count("20,000") == second.stdout.count("20,000") == 5


def test_an_interrupt_while_spark_starts_ends_quickly_and_leaves_no_jvm(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "frazil", "demo", str(tmp_path / "demo")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as demo:
        jvm = wait_for_jvm(psutil.Process(demo.pid))
        demo.send_signal(signal.SIGINT)
        said = demo.communicate(timeout=60)[1]
    assert (demo.returncode, said.splitlines()[-1]) == (1, "Aborted!")
    assert psutil.wait_procs([jvm], timeout=20)[1] == []


def wait_for_jvm(parent: psutil.Process) -> psutil.Process:
    """The JVM of Spark below a process, as soon as it is there."""
    while parent.is_running() and parent.status() != psutil.STATUS_ZOMBIE:
        for child in parent.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if child.name() == "java" and "org.apache.spark.deploy.SparkSubmit" in child.cmdline():
                    return child
        time.sleep(0.02)
    raise AssertionError("no JVM was started")


class FrazilCatalogThatDies:
    """The catalog, but the process dies where the commit would begin."""

    def __init__(self, catalog: FrazilCatalog) -> None:
        self.catalog = catalog

    def __getattr__(self, name: str) -> object:
        return getattr(self.catalog, name)

    def transaction(self) -> object:
        raise KeyboardInterrupt


class FrazilCatalogThatWaits(FrazilCatalogThatDies):
    """The catalog, but something else happens before the first commit."""

    def __init__(self, catalog: FrazilCatalog, meanwhile: object) -> None:
        super().__init__(catalog)
        self.meanwhile = [meanwhile]

    def transaction(self) -> object:
        if self.meanwhile:
            self.meanwhile.pop()()  # type: ignore[operator]
        return self.catalog.transaction()
