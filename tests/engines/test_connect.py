"""What `frazil connect` prints is used as it stands, by each engine; and a table's history is the same to all
of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import pyspark
import pytest

from frazil import Lake
from frazil.artifacts.jars import resolve_jars
from frazil.artifacts.java import JavaNeed, find_java
from frazil.client import FrazilCatalog
from frazil.config import load_settings
from frazil.errors import QueryError
from frazil.lake import LakeTable
from frazil.spark.session import ICEBERG_AWS, ICEBERG_RUNTIME
from tests.contract.history_lake import SCHEMA, rows, tick
from tests.engines.test_trino import ask
from tests.kit.raising import raises
from tests.kit.stack import Project
from tests.kit.stack_lake import connection

DOCUMENT = """\
connector.name=iceberg
iceberg.catalog.type=rest
iceberg.rest-catalog.uri=http://127.0.0.1:{catalog}
iceberg.file-format=PARQUET
fs.native-s3.enabled=true
s3.endpoint=http://127.0.0.1:{object_store}
s3.region=us-east-1
s3.path-style-access=true
"""


class Stage:
    """The live stack as a client sees it that has its address and its keys."""

    def __init__(self, project: Project, folder: Path) -> None:
        self.project, self.folder, self.stack = project, folder, project.settings.stack
        uri = f"http://127.0.0.1:{self.stack.ports.catalog}"
        keys = {
            "AWS_ACCESS_KEY_ID": self.stack.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.stack.secret_access_key.get_secret_value(),
        }
        self.environment = {**os.environ, **keys, "FRAZIL_CATALOG__URI": uri}
        self.catalog = FrazilCatalog("lake", **connection(project))
        flags = {
            "catalog.uri": uri,
            "s3.access_key_id": keys["AWS_ACCESS_KEY_ID"],
            "s3.secret_access_key": keys["AWS_SECRET_ACCESS_KEY"],
        }
        self.lake = Lake(load_settings(flags=flags, environ={}, folder=folder))

    def connect(self, engine: str, file: str) -> Path:
        """What `frazil connect` writes; it asks the catalog where the object store is."""
        self.run(sys.executable, "-m", "frazil", "connect", engine, "--output", file)
        assert self.environment["AWS_SECRET_ACCESS_KEY"] not in (self.folder / file).read_text()
        return self.folder / file

    def run(self, *command: str, text: str | None = None, **environment: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**self.environment, **environment},
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def trino(self, sql: str) -> list[list[Any]]:
        return ask(self.stack.ports.trino, sql)

    def table(self, name: str) -> LakeTable:
        return self.lake.table(f"connected.{name}")


@pytest.fixture(scope="module")
def stage(live_stack: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A namespace with a table of three rows."""
    stage = Stage(live_stack, tmp_path_factory.mktemp("connect"))
    stage.catalog.create_namespace("connected")
    stage.catalog.create_table("connected.items", SCHEMA).append(rows(1, 2, 3))
    yield stage
    for identifier in stage.catalog.list_tables("connected"):
        stage.catalog.purge_table(identifier)
    stage.catalog.drop_namespace("connected")


class Started(Protocol):
    """Where a Spark is started: a folder, an environment, and what `frazil connect` writes there."""

    @property
    def folder(self) -> Path: ...
    @property
    def environment(self) -> dict[str, str]: ...
    def connect(self, engine: str, file: str) -> Path: ...


class Spark:
    """Spark as `spark-submit --properties-file` starts it; the jars come from our cache instead of being resolved once
    more.
    """

    def __init__(self, stage: Started) -> None:
        conf = stage.connect("spark", "spark-defaults.conf")
        assert f"spark.jars.packages                  {ICEBERG_RUNTIME},{ICEBERG_AWS}\n" in conf.read_text()
        jars = ",".join(map(str, resolve_jars([ICEBERG_RUNTIME, ICEBERG_AWS])))
        submit = Path(pyspark.__path__[0]) / "bin" / "spark-submit"
        init = {
            "spark.jars.packages": "",
            "spark.jars": jars,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
        init |= {"spark.ui.enabled": "false", "spark.master": "local[2]", "spark.sql.session.timeZone": "UTC"}
        options = [part for key, value in init.items() for part in ("--conf", f"{key}={value}")]
        java = str(find_java(JavaNeed.SPARK).home)
        script, pipes = (
            str(Path(__file__).with_name("spark_lines.py")),
            [stage.folder / name for name in ("questions", "answers")],
        )
        for pipe in pipes:
            os.mkfifo(pipe)
        with (stage.folder / "spark.log").open("w") as log:
            self.process = subprocess.Popen(
                [str(submit), "--properties-file", str(conf), *options, script, *map(str, pipes)],
                env={
                    **stage.environment,
                    "JAVA_HOME": java,
                    "PYSPARK_PYTHON": sys.executable,
                    "PYSPARK_DRIVER_PYTHON": sys.executable,
                },
                cwd=stage.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        # each waits until Spark has opened the other end
        self.questions, self.answers = pipes[0].open("w"), pipes[1].open()

    def sql(self, statement: str) -> list[list[Any]]:
        answer = self._ask(statement)
        assert "rows" in answer, answer
        result: list[list[Any]] = answer["rows"]
        return result

    def error(self, statement: str) -> str:
        """Why a statement is refused."""
        return str(self._ask(statement)["error"])

    def _ask(self, statement: str) -> dict[str, Any]:
        self.questions.write(json.dumps(statement) + "\n")
        self.questions.flush()
        answer: dict[str, Any] = json.loads(self.answers.readline())
        return answer

    def close(self) -> None:
        self.questions.close()
        self.answers.close()
        self.process.wait(60)


@pytest.fixture(scope="module")
def spark(stage: Stage) -> Iterator[Spark]:
    started = Spark(stage)
    yield started
    started.close()


# --- what connect prints ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("sales.trino-config")
def test_trino_runs_with_the_file_and_it_holds_every_line_of_the_document(stage: Stage) -> None:
    written = stage.connect("trino", "iceberg.properties").read_text()
    assert set(DOCUMENT.format(**stage.stack.ports.model_dump()).splitlines()) <= set(written.splitlines())
    running = (stage.project.folder / ".frazil" / "trino" / "etc" / "catalog" / "iceberg.properties").read_text()
    assert running.replace("FRAZIL_TRINO_S3_", "AWS_").startswith(written)
    assert stage.trino("SELECT sum(id) FROM iceberg.connected.items") == [[6]]


def test_spark_submit_runs_with_the_properties_file(spark: Spark) -> None:
    assert spark.sql("SELECT sum(id) FROM lake.connected.items") == [[6]]


def test_pyiceberg_finds_the_lake_in_the_yaml_file(stage: Stage) -> None:
    stage.connect("pyiceberg", ".pyiceberg.yaml")
    load = "from pyiceberg.catalog import load_catalog; table = load_catalog('lake').load_table('connected.items')"
    program = f"{load}; print(table.scan().to_arrow()['id'].to_pylist())"
    assert stage.run(sys.executable, "-c", program, PYICEBERG_HOME=str(stage.folder)) == "[1, 2, 3]\n"


def test_duckdbs_shell_runs_the_statements(stage: Stage) -> None:
    import duckdb
    from duckdb_extensions import import_extension

    extensions = stage.folder / "extensions"
    with duckdb.connect(config={"extension_directory": str(extensions)}) as con:
        for name in ("httpfs", "avro", "iceberg"):
            import_extension(name, con=con)
    statements = stage.connect("duckdb", "lake.sql").read_text()
    script = f"SET extension_directory = '{extensions}';\n{statements}SELECT sum(id) FROM lake.connected.items;"
    shell = str(Path(sys.executable).with_name("duckdb"))
    assert stage.run(shell, "-csv", "-noheader", text=script).splitlines()[-1] == "6"


def test_daft_reads_through_the_module(stage: Stage) -> None:
    stage.connect("daft", "lake_daft.py")
    program = "from lake_daft import read; print(read('connected.items').sum('id').to_pydict())"
    assert (
        stage.run(sys.executable, "-c", program, PYTHONPATH=str(stage.folder), DAFT_PROGRESS_BAR="0").strip()
        == "{'id': [6]}"
    )


# --- history, as others see it ---------------------------------------------------------------------------------------


@pytest.mark.requirement("sales.version-as-of")
@pytest.mark.requirement("sales.timestamp-as-of")
def test_a_snapshot_and_a_time_are_the_same_rows_in_every_engine(stage: Stage, spark: Spark) -> None:
    live = stage.catalog.create_table("connected.travel", SCHEMA)
    live.append(rows(1, 2))
    tick()
    then = datetime.now(UTC)
    tick()
    live.append(rows(3))
    first, time, name = live.snapshots()[0].snapshot_id, f"TIMESTAMP '{then:%Y-%m-%d %H:%M:%S.%f}", "connected.travel"
    assert spark.sql(f"SELECT sum(id) FROM lake.{name} VERSION AS OF {first}") == [[3]]
    assert spark.sql(f"SELECT sum(id) FROM lake.{name} TIMESTAMP AS OF {time}'") == [[3]]
    assert stage.trino(f"SELECT sum(id) FROM iceberg.{name} FOR VERSION AS OF {first}") == [[3]]
    assert stage.trino(f"SELECT sum(id) FROM iceberg.{name} FOR TIMESTAMP AS OF {time} UTC'") == [[3]]
    for point in (first, then):
        assert stage.table("travel").scan(at=point).to_arrow()["id"].to_pylist() == [1, 2]
        assert stage.lake.sql(f"SELECT sum(id) AS s FROM {name}", at=point).to_arrow().to_pylist() == [{"s": 3}]
    assert live.scan(snapshot_id=first).to_arrow()["id"].to_pylist() == [1, 2]


@pytest.mark.requirement("sales.rollback")
def test_files_that_a_rollback_brought_back_outlive_the_expiry_of_what_it_undid(stage: Stage) -> None:
    """Trino's expiry deletes the files that an expired ancestor had removed. The undone rewrite must not be one."""
    stage.trino("CREATE TABLE iceberg.connected.kept AS SELECT * FROM (VALUES BIGINT '1', BIGINT '2') AS t (id)")
    good = stage.catalog.load_table("connected.kept").current_snapshot()
    assert good is not None
    stage.trino("DELETE FROM iceberg.connected.kept WHERE id = 1")
    # the good snapshot's file is removed, a bad one takes its place
    stage.trino("ALTER TABLE iceberg.connected.kept EXECUTE optimize")
    stage.table("kept").rollback(good.snapshot_id)
    with_zero = "SET SESSION iceberg.expire_snapshots_min_retention = '0s'"
    expire(stage, with_zero, "ALTER TABLE iceberg.connected.kept EXECUTE expire_snapshots(retention_threshold => '0s')")
    assert len(stage.catalog.load_table("connected.kept").snapshots()) == 1
    assert stage.trino("SELECT id FROM iceberg.connected.kept ORDER BY id") == [[1], [2]]


def expire(stage: Stage, *statements: str) -> None:
    """Statements of one session."""
    import trino

    with trino.dbapi.connect(host="127.0.0.1", port=stage.stack.ports.trino, user="test") as session:
        for statement in statements:
            session.cursor().execute(statement).fetchall()


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_of_merge_on_read_are_shown_and_come_and_go_with_a_rollback(
    version: int, stage: Stage, spark: Spark
) -> None:
    """Format 2 has position deletes, format 3 deletion vectors and row ids: of a row that comes back, the id stays the
    same.
    """
    name, row_id = f"merge{version}", "_row_id" if version == 3 else "id"
    properties = f"'format-version'='{version}', 'write.delete.mode'='merge-on-read'"
    spark.sql(f"CREATE TABLE lake.connected.{name} (id BIGINT, name STRING) USING iceberg TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO lake.connected.{name} SELECT /*+ COALESCE(1) */ id, concat('n', id) FROM range(10)")
    spark.sql(f"DELETE FROM lake.connected.{name} WHERE id IN (3, 5)")
    table = stage.table(name)
    whole, deleted = (entry.snapshot_id for entry in reversed(table.history()))
    diff_rows = table.diff_rows(whole, deleted, key=["id"])
    assert ([row.key["id"] for row in diff_rows.rows], diff_rows.removed, diff_rows.added) == ([3, 5], 2, 0)
    assert (table.diff(whole, deleted).sum("+", deletes=True).rows, table.history()[0].total_deletes) == (2, 2)
    spark.sql(f"INSERT INTO lake.connected.{name} VALUES (10, 'n10')")
    ids = f"SELECT id, {row_id} FROM lake.connected.{name}"
    before = (
        spark.sql(f"{ids} VERSION AS OF {deleted} ORDER BY id")
        if version == 2
        else spark.sql(f"{ids} WHERE id < 10 ORDER BY id")
    )
    table.rollback(deleted)
    spark.sql(f"REFRESH TABLE lake.connected.{name}")
    assert spark.sql(f"{ids} ORDER BY id") == before
    table.rollback(whole)
    spark.sql(f"REFRESH TABLE lake.connected.{name}")
    assert [row[0] for row in spark.sql(f"{ids} ORDER BY id")] == list(range(10))
    spark.sql(f"INSERT INTO lake.connected.{name} VALUES (11, 'n11')")
    spark.sql(f"DELETE FROM lake.connected.{name} WHERE id = 0")
    expected = [*range(1, 10), 11]
    assert [row[0] for row in spark.sql(f"{ids} ORDER BY id")] == expected
    assert len({row[1] for row in spark.sql(ids)}) == len(expected)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == expected
    assert stage.lake.sql(f"SELECT sum(id) AS s FROM connected.{name}").to_arrow().to_pylist() == [{"s": sum(expected)}]


def test_a_query_on_trino_travels_in_time_and_writes_only_on_request(stage: Stage) -> None:
    columns = "BIGINT '1' AS id, DATE '2024-01-18' AS day, CAST(1.5 AS decimal(12, 2)) AS amount"
    stage.trino(f"CREATE TABLE iceberg.connected.asked AS SELECT {columns}")
    lake = Lake(stage.project.settings, catalog=stage.catalog)
    first = stage.table("asked").load().snapshots()[-1].snapshot_id
    with raises(QueryError, problem="read-only"):
        lake.sql("INSERT INTO connected.asked VALUES (2, NULL, NULL)", engine="trino")
    lake.sql("INSERT INTO connected.asked VALUES (2, NULL, NULL)", engine="trino", write=True).to_arrow()
    asked = [
        lake.sql("SELECT * FROM connected.asked ORDER BY id", engine="trino", at=at).to_arrow() for at in (None, first)
    ]
    assert [item["id"].to_pylist() for item in asked] == [[1, 2], [1]]
    assert asked[1].to_pylist() == stage.table("asked").scan(at=first).to_arrow().to_pylist()
    with pytest.raises(QueryError, match=r"Trino says: .*'idd' cannot be resolved"):
        lake.sql("SELECT idd FROM connected.asked", engine="trino")
