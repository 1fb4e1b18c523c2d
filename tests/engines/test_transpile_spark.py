"""The transpile example on Spark, queries and tables on the live SeaweedFS: the rows of plain Python, each once, killed
or not.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import psutil
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from frazil.client import FrazilCatalog
from frazil.config import Settings, load_settings
from frazil.spark.session import spark_session
from tests.engines.test_transpile import EXAMPLE, TABLE, Queries
from tests.kit.stack import Project
from tests.kit.stack_lake import connection, environment

# PySpark's collect() leaves the socket to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
ORDER = [("source_file", "ascending"), ("position", "ascending")]
FLUSH_ROWS = 400


class Stop(Exception):
    """The process ends here."""


@dataclass
class Counting:
    """A watcher that counts, and stops the run after a number of rows."""

    stop_after: int | None = None
    rows: int = 0
    errors: int = 0

    def begin(self, rows: int) -> None:
        """Does not wait."""

    def advance(self, rows: int, errors: int) -> None:
        self.rows, self.errors = self.rows + rows, self.errors + errors
        if self.stop_after is not None and self.rows >= self.stop_after:
            raise Stop


@dataclass
class Hosts:
    """The example's two programs in this process, as if started with the same arguments."""

    plain: ModuleType
    on_spark: ModuleType
    spark: SparkSession
    settings: Settings
    queries: Queries

    def run_plain(self, delta: str | None = None, *, stop_after: int | None = None) -> None:
        sink, ledger = (
            (self.plain.open_delta(delta, self.settings, flush_rows=FLUSH_ROWS), None)
            if delta
            else self.plain.open_iceberg(self.settings, flush_rows=FLUSH_ROWS)
        )
        loop = self.plain.Loop(self._files(), sink, self.plain.Dialects(), Counting(stop_after), ledger, 100)
        try:
            loop.run()
            sink.close()
        except Stop:
            pass  # nothing is said to the sink: it is as dead as the process

    def run_spark(self, delta: str | None = None) -> Counting:
        sink, ledger = self.on_spark.open_sink(delta, self.settings)
        watcher = Counting()
        self.on_spark.Job(self.spark, self._files(), sink, self.plain.Dialects(), watcher, ledger, FLUSH_ROWS).run()
        return watcher

    def rows(self, delta: str | None = None) -> pa.Table:
        """Every column of the table, in the order of the queries."""
        if delta is None:
            return self.queries.catalog.load_table(TABLE).scan().to_arrow().sort_by(ORDER)
        options = sys.modules["tables"].delta_options(self.settings)
        return DeltaTable(delta, storage_options=options).to_pyarrow_table().sort_by(ORDER)

    def _files(self) -> object:
        bucket = self.queries.project.settings.stack.bucket
        return self.plain.QueryFiles.at(f"s3://{bucket}/{self.queries.prefix}", self.settings)


@pytest.fixture(scope="module")
def settings(live_stack: Project) -> Settings:
    return load_settings(
        environ=environment(live_stack) | {"FRAZIL_SPARK__MASTER": "local[2]"}, folder=live_stack.folder
    )


@pytest.fixture(scope="module")
def spark(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_session(settings, app_name="tests", log=tmp_path_factory.mktemp("spark") / "spark.log") as session:
        yield session


@pytest.fixture(scope="module")
def programs() -> Iterator[tuple[ModuleType, ModuleType]]:
    """`run.py` and `on_spark.py`; what they imported by plain names is forgotten afterwards."""
    sys.path.insert(0, str(EXAMPLE))
    try:
        yield importlib.import_module("run"), importlib.import_module("on_spark")
    finally:
        sys.path.remove(str(EXAMPLE))
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(str(EXAMPLE)):
                del sys.modules[name]


@pytest.fixture
def hosts(
    programs: tuple[ModuleType, ModuleType],
    spark: SparkSession,
    settings: Settings,
    live_stack: Project,
    tmp_path: Path,
) -> Iterator[Hosts]:
    catalog = FrazilCatalog("lake", **connection(live_stack))
    yield Hosts(*programs, spark, settings, Queries(live_stack, tmp_path, catalog))
    drop_tables(catalog)


def drop_tables(catalog: FrazilCatalog) -> None:
    for identifier in (TABLE, ("lakehouse", "transpiled__ledger")):
        if catalog.table_exists(identifier):
            catalog.purge_table(identifier)


@pytest.mark.requirement("spark.transpile")
@pytest.mark.requirement("arrow.transpile")
def test_spark_writes_the_rows_of_plain_python_into_iceberg(hosts: Hosts) -> None:
    hosts.queries.upload("a.parquet", 900, seed=1)
    hosts.queries.upload("b.parquet", 0, seed=2)
    hosts.queries.upload("c.parquet", 150, seed=3)
    hosts.run_plain()
    plain = hosts.rows()
    drop_tables(hosts.queries.catalog)
    watcher = hosts.run_spark()
    assert hosts.rows().equals(plain)
    assert (watcher.rows, watcher.errors) == (1050, 1050 - plain["error"].null_count)
    assert watcher.errors > 0
    added = [
        snapshot.summary["added-records"]
        for snapshot in hosts.queries.catalog.load_table(TABLE).snapshots()
        if snapshot.summary
    ]
    assert added == [None, "400", "400", "250"]  # the take-over, and the commits


@pytest.mark.requirement("arrow.delta")
def test_spark_writes_the_rows_of_plain_python_into_delta(hosts: Hosts) -> None:
    hosts.queries.upload("a.parquet", 500, seed=1)
    bucket = hosts.queries.project.settings.stack.bucket
    plain, spark = (f"s3://{bucket}/delta-{host}-{hosts.queries.prefix}" for host in ("plain", "spark"))
    hosts.run_plain(plain)
    hosts.run_spark(spark)
    assert hosts.rows(spark).equals(hosts.rows(plain))
    assert hosts.run_spark(spark).rows == 0


@pytest.mark.parametrize("delta", [False, True])
def test_new_files_only_are_loaded_and_a_run_begun_in_plain_python_goes_on_on_spark(hosts: Hosts, delta: bool) -> None:
    uri = f"s3://{hosts.queries.project.settings.stack.bucket}/delta-{hosts.queries.prefix}" if delta else None
    hosts.queries.upload("a.parquet", 700, seed=1)
    hosts.run_plain(uri, stop_after=600)
    assert hosts.run_spark(uri).rows == 300  # 400 are in
    hosts.queries.upload("b.parquet", 50, seed=2)
    assert hosts.run_spark(uri).rows == 50
    assert hosts.rows(uri)["query_id"].to_pylist() == [f"q-1-{n:08}" for n in range(700)] + [
        f"q-2-{n:08}" for n in range(50)
    ]


@pytest.mark.requirement("arrow.transpile")
def test_a_killed_run_on_spark_goes_on_where_it_stopped(hosts: Hosts) -> None:
    queries = hosts.queries
    queries.upload("a.parquet", 2000, seed=1)
    with queries.running("--flush-rows", "100", program="on_spark.py") as process:
        queries.wait_for(100, process)
        below = psutil.Process(process.pid).children(recursive=True)
        assert process.poll() is None
    assert psutil.wait_procs(below, timeout=120)[1] == []  # the JVM may outlive the driver for a moment
    before = len(queries.ids())
    assert 100 <= before < 2000
    assert hosts.run_spark().rows == 2000 - before
    assert queries.ids() == [f"q-1-{number:08}" for number in range(2000)]
