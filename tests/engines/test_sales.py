"""The sales example on real Spark: rows arrive once, whatever happens in between."""

from __future__ import annotations

import datetime as dt
import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyspark.sql import DataFrame, SparkSession

from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog, connect
from frazil.client.changes import Change
from frazil.config import Settings, load_settings
from frazil.errors import PipelineError, SourceChanged, SourceDrift, TooManyBadRows
from frazil.pipelines import sources
from frazil.pipelines.batch.run import plan_run, run_pipeline
from frazil.pipelines.ledger import ledger_rows
from frazil.pipelines.runs import RunResult, read_runs
from frazil.project import Project, load_project
from frazil.services import ports
from frazil.services.object_store import ObjectStore
from frazil.sinks.audit import audit
from frazil.spark.session import spark_session
from frazil.tables.apply import apply_steps, plan
from tests.kit.raising import raises

# PySpark leaves the sockets of `collect` to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples/sales"
SECRET = "hunter2-of-the-tests"
HEADER = "order_id,customer_id,amount,country,ingestion_date,updated_at\n"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    folder = tmp_path_factory.mktemp("catalog")
    with running_catalog(folder) as server:
        flags = {
            "catalog.uri": server.uri,
            "catalog.token": SECRET,
            "spark.master": "local[2]",
            "spark.conf.spark.my.password": SECRET,
        }
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
    shutil.copytree(
        EXAMPLE, tmp_path, ignore=shutil.ignore_patterns(".frazil", "landing", "__pycache__"), dirs_exist_ok=True
    )
    (tmp_path / "landing").mkdir()
    project = load_project(tmp_path)
    for table in project.tables:
        list(apply_steps(plan(table, catalog), catalog))
    yield project
    for identifier in catalog.list_tables("lakehouse"):
        catalog.drop_table(identifier)


def land(project: Project, name: str, *rows: str, header: str = HEADER) -> None:
    (project.folder / "landing" / name).write_text(header + "".join(f"{row}\n" for row in rows))


def run(project: Project, spark: SparkSession, catalog: FrazilCatalog, **changes: object) -> RunResult:
    """Runs the example's pipeline, with some of its rules changed."""
    pipeline = replace(project.pipeline("daily_sales"), **changes)  # type: ignore[arg-type]
    return run_pipeline(pipeline, spark=spark, catalog=catalog, folder=project.folder)


def read(catalog: FrazilCatalog, table: str = "sales") -> list[dict[str, Any]]:
    return catalog.load_table(f"lakehouse.{table}").scan().to_arrow().to_pylist()


def ids(catalog: FrazilCatalog) -> list[str]:
    return sorted(row["order_id"] for row in read(catalog))


def snapshots(catalog: FrazilCatalog) -> list[int]:
    return [snapshot.snapshot_id for snapshot in catalog.load_table("lakehouse.sales").snapshots()]


def data_files(catalog: FrazilCatalog) -> set[Path]:
    return set(Path(catalog.load_table("lakehouse.sales").location().removeprefix("file://")).glob("data/**/*.parquet"))


def quarantined(catalog: FrazilCatalog) -> list[tuple[Any, ...]]:
    """Where each bad row stood, and what is wrong with it."""
    rows = [(json.loads(row["position"]), row["reason"]) for row in read(catalog, "sales__quarantine")]
    return sorted((where["file"], where["row"], reason) for where, reason in rows)


@pytest.mark.requirement("spark.batch")
def test_rows_arrive_typed_and_transformed(project: Project, spark: SparkSession, catalog: FrazilCatalog) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,12.50,ch,2024-01-15,1", "ORD-2,CUST-2,7,,2024-01-16,1")
    run(project, spark, catalog)
    rows = sorted(read(catalog), key=lambda row: row["order_id"])
    assert [(r["order_id"], str(r["amount"]), r["country"], str(r["ingestion_date"])) for r in rows] == [
        ("ORD-1", "12.50", "CH", "2024-01-15"),
        ("ORD-2", "7.00", None, "2024-01-16"),
    ]


@pytest.mark.requirement("spark.batch")
def test_a_second_run_loads_only_what_is_new(project: Project, spark: SparkSession, catalog: FrazilCatalog) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,12.50,ch,2024-01-15,1")
    first = run(project, spark, catalog)
    again = run(project, spark, catalog)
    land(project, "b.csv", "ORD-2,CUST-2,7.00,de,2024-01-16,1")
    third = run(project, spark, catalog)
    assert [(r.files, r.rows) for r in (first, again, third)] == [(1, 1), (0, 0), (1, 1)]
    assert ids(catalog) == ["ORD-1", "ORD-2"]


@pytest.mark.requirement("spark.batch")
def test_a_run_that_died_before_its_commit_is_repeated_without_doubling(
    project: Project, spark: SparkSession, catalog: FrazilCatalog
) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,12.50,ch,2024-01-15,1", "ORD-2,CUST-2,much,ch,2024-01-15,1")
    with pytest.raises(KeyboardInterrupt):
        run(project, spark, CatalogThatDies(catalog), max_bad_share=0.5)  # type: ignore[arg-type]
    assert (read(catalog), read(catalog, "sales__quarantine")) == ([], [])
    assert run(project, spark, catalog, max_bad_share=0.5).rows == 1
    assert (ids(catalog), len(read(catalog, "sales__quarantine"))) == (["ORD-1"], 1)


def test_failed_runs_leave_no_snapshot_and_a_load_leaves_one(
    project: Project, spark: SparkSession, catalog: FrazilCatalog
) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,12.50,ch,2024-01-15,1", "ORD-2,CUST-2,much,ch,2024-01-15,1")
    for _ in range(2):
        with pytest.raises(PipelineError, match="cuntry"):
            run(project, spark, catalog, transform=misspelled)
        with pytest.raises(TooManyBadRows):
            run(project, spark, catalog)
    assert snapshots(catalog) == []
    result = run(project, spark, catalog, max_bad_share=0.5)
    land(project, "b.csv", "ORD-3,CUST-3,7.00,de,2024-01-16,1")
    second = run(project, spark, catalog)
    assert snapshots(catalog) == [result.snapshot_id, second.snapshot_id]
    assert audit(catalog.load_table("lakehouse.sales").metadata).problems == ()


@pytest.mark.parametrize("mode", ["append", "replace-partition"])
def test_of_two_runs_at_once_the_first_to_commit_wins_and_the_other_says_so(
    project: Project, spark: SparkSession, catalog: FrazilCatalog, mode: str
) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,12.50,ch,2024-01-15,1")
    before = data_files(catalog)  # of tables that other tests have dropped
    slow = CatalogThatWaits(catalog, meanwhile=lambda: run(project, spark, catalog, mode=mode))
    with raises(PipelineError, problem="overtaken"):
        run(project, spark, slow, mode=mode)  # type: ignore[arg-type]
    assert (ids(catalog), len(data_files(catalog) - before)) == (["ORD-1"], 1)
    assert len(snapshots(catalog)) == 1
    assert run(project, spark, catalog, mode=mode).files == 0


def test_files_that_the_other_run_has_not_seen_are_loaded_by_the_next_one(
    project: Project, spark: SparkSession, catalog: FrazilCatalog
) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,12.50,ch,2024-01-15,1")
    land(project, "b.csv", "ORD-2,CUST-2,7.00,de,2024-01-16,1")
    only_a = replace(project.pipeline("daily_sales").files, pattern="landing/a.csv")
    slow = CatalogThatWaits(catalog, meanwhile=lambda: run(project, spark, catalog, source=only_a))
    with raises(PipelineError, problem="overtaken"):
        run(project, spark, slow)  # type: ignore[arg-type]
    assert (ids(catalog), run(project, spark, catalog).files, ids(catalog)) == (["ORD-1"], 1, ["ORD-1", "ORD-2"])


def test_a_file_that_somebody_enters_in_the_ledger_during_a_run_is_not_loaded(
    project: Project, spark: SparkSession, catalog: FrazilCatalog
) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,12.50,ch,2024-01-15,1")
    run(project, spark, catalog)
    land(project, "b.csv", "ORD-2,CUST-2,7.00,de,2024-01-16,1")
    (new,) = plan_run(project.pipeline("daily_sales"), catalog, project.folder).arrived.files

    def enter(rows: DataFrame) -> DataFrame:
        ledger = catalog.load_table("lakehouse.sales__ledger")
        ledger.append(ledger_rows([new], pipeline="daily_sales", run_id="by hand", ledger=ledger))
        return project.pipeline("daily_sales").transform(rows)

    before = data_files(catalog)
    with raises(PipelineError, problem="overtaken"):
        run(project, spark, catalog, transform=enter)
    assert (ids(catalog), data_files(catalog) - before, len(snapshots(catalog))) == (["ORD-1"], set(), 1)


def test_an_append_by_another_writer_in_the_middle_of_a_run_is_kept(
    project: Project, spark: SparkSession, catalog: FrazilCatalog
) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,12.50,ch,2024-01-15,1")

    def other_writer() -> None:
        spark.sql("INSERT INTO lake.lakehouse.sales VALUES ('ORD-9', 'CUST-9', 1.00, NULL, DATE'2024-01-15')")

    result = run(project, spark, CatalogThatWaits(catalog, meanwhile=other_writer))  # type: ignore[arg-type]
    assert (result.rows, ids(catalog)) == (1, ["ORD-1", "ORD-9"])


def test_bad_rows_are_in_the_quarantine_with_reason_and_place(
    project: Project, spark: SparkSession, catalog: FrazilCatalog
) -> None:
    land(
        project,
        "a.csv",
        "ORD-1,CUST-1,1.00,ch,2024-01-15,1",
        "ORD-2,CUST-2,much,ch,2024-01-15,1",
        "ORD-3,CUST-3",
        "ORD-4,,1.00,ch,2024-01-15,1",
        "ORD-5,CUST-5,-1.00,ch,2024-01-15,1",
        "ORD-6,CUST-6,1.00,ch,2024-02-30,1",
    )
    result = run(project, spark, catalog, max_bad_share=1.0)
    assert (result.rows_in, result.rows, result.quarantined, ids(catalog)) == (6, 1, 5, ["ORD-1"])
    assert quarantined(catalog) == [
        ("landing/a.csv", 3, "field 'amount': expected decimal(12, 2), got 'much'"),
        ("landing/a.csv", 4, "expected 6 columns, got 2"),
        ("landing/a.csv", 5, "field 'customer_id': expected a value, got NULL"),
        ("landing/a.csv", 6, "check 'amount >= 0' failed"),
        ("landing/a.csv", 7, "field 'ingestion_date': expected date, got '2024-02-30'"),
    ]
    raw = [json.loads(row["raw"]) for row in read(catalog, "sales__quarantine")]
    assert {"line": "ORD-3,CUST-3"} in raw
    assert [row["amount"] for row in raw if row.get("order_id") == "ORD-2"] == ["much"]


def test_too_many_bad_rows_stop_the_run_and_commit_nothing(
    project: Project, spark: SparkSession, catalog: FrazilCatalog
) -> None:
    land(project, "a.csv", "ORD-0,CUST-0,1.00,ch,2024-01-15,1", "ORD-1,CUST-1,much,ch,2024-01-15,1")
    before = data_files(catalog)
    with raises(TooManyBadRows, bad=1, rows=2, limit=0.05) as raised:
        run(project, spark, catalog)
    assert raised.value.reasons == {"field 'amount': expected decimal(12, 2)": 1}
    assert [read(catalog, name) for name in ("sales", "sales__quarantine")] == [[], []]
    assert not catalog.table_exists("lakehouse.sales__ledger")  # no file is loaded
    assert data_files(catalog) == before
    assert [(row["status"], row["error"].splitlines()[0]) for row in read(catalog, "sales__runs")] == [
        ("failed", "pipeline 'daily_sales': 1 of 2 rows are bad (50.00%), expected at most 5.00%:")
    ]


def test_the_last_row_of_a_key_wins_and_a_bad_one_does_not(
    project: Project, spark: SparkSession, catalog: FrazilCatalog
) -> None:
    land(
        project,
        "a.csv",
        "ORD-1,CUST-1,3.00,ch,2024-01-15,9",
        "ORD-1,CUST-1,1.00,ch,2024-01-15,10",
        "ORD-2,C,5.00,ch,2024-01-15,1",
    )
    land(
        project,
        "b.csv",
        "ORD-1,CUST-1,2.00,ch,2024-01-15,10",
        "ORD-2,C,much,ch,2024-01-15,2",
        "ORD-3,C,1.00,ch,2024-01-15,1",
    )
    result = run(project, spark, catalog, max_bad_share=0.5)
    amounts = {row["order_id"]: str(row["amount"]) for row in read(catalog)}
    assert (result.rows, result.duplicates, result.quarantined) == (3, 2, 1)
    assert amounts == {"ORD-1": "3.00", "ORD-2": "5.00", "ORD-3": "1.00"}  # as text, 9 comes after 10


def test_a_load_replaces_the_partitions_that_it_has_rows_of(
    project: Project, spark: SparkSession, catalog: FrazilCatalog
) -> None:
    land(project, "a.csv", "ORD-1,C,1.00,ch,2024-01-15,1", "ORD-2,C,1.00,ch,2024-01-16,1")
    run(project, spark, catalog, mode="replace-partition")
    land(project, "b.csv", "ORD-3,C,1.00,ch,2024-01-16,1")
    run(project, spark, catalog, mode="replace-partition")
    assert ids(catalog) == ["ORD-1", "ORD-3"]
    assert [row["order_id"] for row in spark.sql("SELECT order_id FROM lake.lakehouse.sales ORDER BY 1").collect()] == [
        "ORD-1",
        "ORD-3",
    ]


def test_a_file_that_was_touched_or_copied_over_itself_adds_no_rows(
    project: Project, spark: SparkSession, catalog: FrazilCatalog
) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,1.00,ch,2024-01-15,1")
    run(project, spark, catalog)
    (project.folder / "landing/a.csv").touch()
    assert run(project, spark, catalog).touched == ("landing/a.csv",)
    shutil.copy(project.folder / "landing/a.csv", project.folder / "landing/b.csv")
    result = run(project, spark, catalog)  # another path may bring the same rows; it is named
    assert (result.files, result.copies, ids(catalog)) == (1, {"landing/b.csv": "landing/a.csv"}, ["ORD-1", "ORD-1"])
    assert run(project, spark, catalog).touched == ()  # the load before has noted it


def without_times(orders: DataFrame) -> DataFrame:
    return orders.drop("updated_at")


@pytest.mark.parametrize(
    ("rules", "rows"),
    [
        ({"on_change": "append"}, ["ORD-1", "ORD-1", "ORD-2"]),
        ({"on_change": "replace", "mode": "replace-partition"}, ["ORD-1", "ORD-2"]),
        (
            {
                "on_change": "replace",
                "mode": "upsert",
                "key": ("order_id",),
                "order_by": (),
                "transform": lambda orders: orders.drop("updated_at"),
            },
            ["ORD-1", "ORD-2"],
        ),
    ],
)
def test_a_file_with_other_content_is_loaded_as_the_pipeline_says(
    project: Project, spark: SparkSession, catalog: FrazilCatalog, rules: dict[str, Any], rows: list[str]
) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,1.00,ch,2024-01-15,1")
    run(project, spark, catalog)
    land(project, "a.csv", "ORD-1,CUST-1,1.00,ch,2024-01-15,2", "ORD-2,CUST-1,1.00,ch,2024-01-15,2")
    with pytest.raises(SourceChanged) as refused:
        run(project, spark, catalog)
    assert (refused.value.paths, ids(catalog)) == (("landing/a.csv",), ["ORD-1"])
    assert run(project, spark, catalog, **rules).changed == ("landing/a.csv",)
    assert (ids(catalog), run(project, spark, catalog, **rules).files) == (rows, 0)


def misspelled(orders: DataFrame) -> DataFrame:
    return orders.select(orders["cuntry"])


def with_udf(orders: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return orders.withColumn("country", F.udf(lambda text: int(text), "string")("country"))


def test_a_wrong_column_in_the_function_is_reported_once(
    project: Project, spark: SparkSession, catalog: FrazilCatalog, capfd: pytest.CaptureFixture[str]
) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,1.00,ch,2024-01-15,1")
    with pytest.raises(PipelineError, match="cuntry"):
        run(project, spark, catalog, transform=misspelled)
    assert '"logger"' not in capfd.readouterr().err


def test_an_error_in_a_udf_names_its_line(project: Project, spark: SparkSession, catalog: FrazilCatalog) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,1.00,ch,2024-01-15,1")
    line = with_udf.__code__.co_firstlineno + 3
    with pytest.raises(
        PipelineError, match=rf"failed at {re.escape(__file__)}:{line}: ValueError: invalid literal .* 'ch'"
    ):
        run(project, spark, catalog, transform=with_udf)


WIDER = HEADER.strip() + ",channel\n"


def test_an_unknown_column_stops_a_frozen_pipeline_by_name(
    project: Project, spark: SparkSession, catalog: FrazilCatalog
) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,1.00,ch,2024-01-15,1,web", header=WIDER)
    with raises(SourceDrift, table="lakehouse.sales", columns=("channel",)):
        run(project, spark, catalog)
    assert read(catalog) == []


def test_an_unknown_column_is_added_if_the_pipeline_evolves(
    project: Project, spark: SparkSession, catalog: FrazilCatalog
) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,1.00,ch,2024-01-15,1,web", header=WIDER)
    land(project, "b.csv", "ORD-2,CUST-2,1.00,ch,2024-01-15,1")
    run(project, spark, catalog, drift="evolve")
    assert {row["order_id"]: row["channel"] for row in read(catalog)} == {"ORD-1": "web", "ORD-2": None}


def test_rows_of_files_with_unknown_columns_are_quarantined(
    project: Project, spark: SparkSession, catalog: FrazilCatalog
) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,1.00,ch,2024-01-15,1,web", "ORD-2", header=WIDER)
    land(project, "b.csv", "ORD-3,CUST-2,1.00,ch,2024-01-15,1")
    result = run(project, spark, catalog, drift="quarantine", max_bad_share=0.7)
    assert (result.rows_in, result.quarantined, ids(catalog)) == (3, 2, ["ORD-3"])
    assert quarantined(catalog) == [
        ("landing/a.csv", 2, "the file has column 'channel', which the table does not have"),
        ("landing/a.csv", 3, "expected 7 columns, got 1"),
    ]


def test_columns_are_found_by_the_header_of_each_file(
    project: Project, spark: SparkSession, catalog: FrazilCatalog
) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,1.00,ch,2024-01-15,1")
    land(
        project,
        "b.csv",
        "CUST-2,ORD-2,1,1.00,ch,2024-01-15",
        header="customer_id,order_id,updated_at,amount,country,ingestion_date\n",
    )
    run(project, spark, catalog)
    assert {row["order_id"]: row["customer_id"] for row in read(catalog)} == {"ORD-1": "CUST-1", "ORD-2": "CUST-2"}


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_json_lines_and_parquet_give_the_same_rows(
    project: Project, spark: SparkSession, catalog: FrazilCatalog, kind: str
) -> None:
    rows = [
        {
            "order_id": "ORD-1",
            "customer_id": "C",
            "amount": 12.5,
            "country": "ch",
            "ingestion_date": "2024-01-15",
            "updated_at": 1,
        },
        {
            "order_id": "ORD-2",
            "customer_id": "C",
            "amount": 7.25,
            "country": None,
            "ingestion_date": "2024-01-15",
            "updated_at": 1,
        },
    ]
    path = project.folder / f"landing/a.{kind}"
    if kind == "json":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows) + "no json\n")
    else:
        table = pa.Table.from_pylist(
            [row | {"ingestion_date": dt.date(2024, 1, 15), "amount": Decimal(str(row["amount"]))} for row in rows]
        )
        pq.write_table(table, path)
    result = run(project, spark, catalog, source=getattr(sources, kind)(f"landing/*.{kind}"), max_bad_share=0.5)
    assert result.quarantined == (1 if kind == "json" else 0)
    assert {row["order_id"]: (str(row["amount"]), row["country"]) for row in read(catalog)} == {
        "ORD-1": ("12.50", "CH"),
        "ORD-2": ("7.25", None),
    }


def test_a_file_of_nothing_but_bad_lines_is_in_the_quarantine_whole(
    project: Project, spark: SparkSession, catalog: FrazilCatalog
) -> None:
    (project.folder / "landing/a.json").write_text("no\nnor this\n")
    (project.folder / "landing/empty.json").touch()
    result = run(project, spark, catalog, source=sources.json("landing/*.json"), max_bad_share=1.0)
    assert (result.files, result.rows_in, result.rows, result.quarantined) == (2, 2, 0, 2)
    assert sorted(json.loads(row["raw"])["line"] for row in read(catalog, "sales__quarantine")) == ["no", "nor this"]


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[dict[str, str]]:
    """How a bucket on a SeaweedFS of this test is reached, in PyIceberg's words."""
    flags = {"stack.folder": str(tmp_path / "store"), "stack.ports.object_store": str(ports.free_port())}
    store = ObjectStore(load_settings(flags=flags, environ={}, folder=tmp_path))
    store.start()
    stack = store.settings.stack
    secret = stack.secret_access_key.get_secret_value()
    yield {"s3.endpoint": store.endpoint, "s3.access-key-id": stack.access_key_id, "s3.secret-access-key": secret}
    store.stop()


@pytest.mark.requirement("spark.batch")
def test_files_on_s3_are_loaded_once_by_path_and_etag(
    project: Project, spark: SparkSession, settings: Settings, bucket: dict[str, str]
) -> None:
    catalog, source = connect(settings, **bucket), sources.csv("s3://lakehouse/landing/**/*.csv")
    filesystem = PyArrowFileIO({**bucket, "s3.region": "us-east-1"}).fs_by_scheme("s3", "lakehouse")

    def put(name: str, *rows: str) -> None:
        with filesystem.open_output_stream(f"lakehouse/landing/{name}") as stream:
            stream.write((HEADER + "".join(f"{row}\n" for row in rows)).encode())

    put("2024/a.csv", "ORD-1,CUST-1,1.00,ch,2024-01-15,1", "ORD-2,CUST-2,much,ch,2024-01-15,1")
    put("_tmp/b.csv", "ORD-9,CUST-9,1.00,ch,2024-01-15,1")
    first = run(project, spark, catalog, source=source, max_bad_share=0.5)
    again = run(project, spark, catalog, source=source, max_bad_share=0.5)
    # rewritten: another file
    put("2024/a.csv", "ORD-3,CUST-3,1.00,ch,2024-01-15,1", "ORD-4,CUST-4,1.00,ch,2024-01-15,1")
    with pytest.raises(SourceChanged):
        run(project, spark, catalog, source=source)
    run(project, spark, catalog, source=source, on_change="append")
    assert [(item.files, item.rows, item.quarantined) for item in (first, again)] == [(1, 1, 1), (0, 0, 0)]
    assert ids(catalog) == ["ORD-1", "ORD-3", "ORD-4"]
    assert quarantined(catalog) == [
        ("s3://lakehouse/landing/2024/a.csv", 3, "field 'amount': expected decimal(12, 2), got 'much'")
    ]


def test_a_bucket_that_cannot_be_listed_is_named(
    project: Project, spark: SparkSession, settings: Settings, bucket: dict[str, str]
) -> None:
    catalog = connect(settings, **{**bucket, "s3.secret-access-key": "wrong"})
    with raises(PipelineError, path="s3://lakehouse/landing/*.csv"):
        run(project, spark, catalog, source=sources.csv("s3://lakehouse/landing/*.csv"))


def test_a_hidden_file_is_loaded_once_it_is_renamed(
    project: Project, spark: SparkSession, catalog: FrazilCatalog
) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,1.00,ch,2024-01-15,1")
    land(project, "_b.csv", "ORD-2,CUST-2,1.00,ch,2024-01-15,1")
    assert run(project, spark, catalog).files == 1
    (project.folder / "landing/_b.csv").rename(project.folder / "landing/b [1].csv")
    run(project, spark, catalog)
    assert ids(catalog) == ["ORD-1", "ORD-2"]


def test_a_file_that_changes_while_it_is_read_stops_the_run(
    project: Project, spark: SparkSession, catalog: FrazilCatalog
) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,1.00,ch,2024-01-15,1")

    def grow(frame: DataFrame) -> DataFrame:
        land(project, "a.csv", "ORD-1,CUST-1,1.00,ch,2024-01-15,1", "ORD-2,CUST-2,1.00,ch,2024-01-15,1")
        return frame

    with raises(PipelineError, path=re.compile("landing/a.csv$")):
        run(project, spark, catalog, transform=grow)
    assert read(catalog) == []


def test_runs_are_remembered_with_the_rows_that_they_wrote(
    project: Project, spark: SparkSession, catalog: FrazilCatalog
) -> None:
    land(
        project,
        "a.csv",
        "ORD-1,CUST-1,1.00,ch,2024-01-15,1",
        "ORD-1,CUST-1,2.00,ch,2024-01-15,2",
        "ORD-2,CUST-1,x,ch,2024-01-15,2",
    )
    done = run(project, spark, catalog, max_bad_share=0.5)
    (row,) = read_runs(project.pipeline("daily_sales").target, catalog)
    size = (project.folder / "landing/a.csv").stat().st_size
    wanted = {
        "status": "committed",
        "files": 1,
        "bytes": size,
        "rows_in": 3,
        "rows": 1,
        "duplicates": 1,
        "quarantined": 1,
    }
    assert {name: row[name] for name in wanted} == wanted
    live = catalog.load_table("lakehouse.sales").current_snapshot()
    assert live is not None
    assert (row["snapshot_id"], row["run_id"]) == (live.snapshot_id, done.run_id)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return undefined", r"failed at .*lakehouse.py:\d+: NameError: name 'undefined' is not defined"),
        ("orders.select('x')", r"UNRESOLVED_COLUMN"),
        ("pass", r"returned NoneType, not a Spark DataFrame"),
        ("return orders.drop('order_id')", r"gives no column 'order_id', which decides over duplicates"),
    ],
)
def test_a_fault_in_the_users_function_names_its_line(
    project: Project, spark: SparkSession, catalog: FrazilCatalog, body: str, message: str
) -> None:
    land(project, "a.csv", "ORD-1,CUST-1,1.00,ch,2024-01-15,1")
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


class CatalogThatDies:
    """The catalog, but the process dies where the commit of the rows would begin."""

    def __init__(self, catalog: FrazilCatalog) -> None:
        self.catalog = catalog

    def __getattr__(self, name: str) -> object:
        return getattr(self.catalog, name)

    def commit_changes(self, changes: Sequence[Change]) -> None:
        if len(changes) > 1:  # the first one alone is the take-over
            raise KeyboardInterrupt
        self.catalog.commit_changes(changes)


class CatalogThatWaits(CatalogThatDies):
    """The catalog, but something else happens before the first commit of rows."""

    def __init__(self, catalog: FrazilCatalog, meanwhile: Callable[[], object]) -> None:
        super().__init__(catalog)
        self.meanwhile = [meanwhile]

    def commit_changes(self, changes: Sequence[Change]) -> None:
        if len(changes) > 1 and self.meanwhile:
            self.meanwhile.pop()()
        self.catalog.commit_changes(changes)
