"""What `frazil connect` prints for other clients is run as it stands, on a catalog whose warehouse is in an object
store.

Polars is part of the development environment. The others are installed from the registry into an environment of their
own, by `make soak`.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from frazil import Lake, Table, column, sinks
from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from frazil.config import load_settings
from frazil.engine_config.connection import S3, Connection
from frazil.engine_config.known import ENGINES
from frazil.services import ports
from frazil.services.object_store import ObjectStore
from tools.engine_pages import GUIDES

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
DUCKDB_PACKAGES = (
    "duckdb",
    "duckdb-extensions",
    "duckdb-extension-httpfs",
    "duckdb-extension-avro",
    "duckdb-extension-iceberg",
)
DUCKDB = [f"{name}==1.5.5" for name in DUCKDB_PACKAGES]
# DuckDB finds its extensions in the home folder when they were imported once.
EXTENSIONS = (
    "import duckdb, duckdb_extensions as d; [d.import_extension(n, con=duckdb.connect()) for n in ('httpfs', "
    "'avro', 'iceberg')]"
)


@dataclass(frozen=True)
class Stage:
    """A catalog on an object store, with the table `ns.items` of two rows; and a folder in which clients run."""

    connection: Connection
    environment: dict[str, str]
    folder: Path

    def write(self, engine: str, file: str, *, show_secrets: bool = False) -> Path:
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(ENGINES[engine](self.connection, show_secrets=show_secrets))
        return path

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def python(self, packages: Sequence[str]) -> str:
        """An interpreter with these packages, in an environment of its own."""
        home = self.folder / "venv"
        venv.create(home, with_pip=False)
        python = str(home / "bin" / "python")
        self.run(sys.executable, "-m", "uv", "pip", "install", "-q", "--python", python, *packages)
        return python

    def ids(self, table: str = "ns.items") -> list[int]:
        catalog = FrazilCatalog("lake", uri=self.connection.uri, **_keys(self.environment))
        rows: list[int] = sorted(catalog.load_table(table).scan().to_arrow()["id"].to_pylist())
        return rows


def _keys(environment: dict[str, str]) -> dict[str, str]:
    return {
        "s3.access-key-id": environment["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": environment["AWS_SECRET_ACCESS_KEY"],
    }


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    folder = tmp_path_factory.mktemp("s3")
    flags = {
        "stack.folder": str(folder),
        "stack.ports.object_store": str(ports.free_port()),
        "stack.bucket": "lakehouse",
    }
    service = ObjectStore(load_settings(flags=flags, environ={}, folder=folder))
    service.start()
    stack = service.settings.stack
    yield S3(
        f"http://{ports.HOST}:{service.port}",
        "us-east-1",
        True,
        stack.access_key_id,
        stack.secret_access_key.get_secret_value(),
    )
    service.stop()
    for path in service.purge_paths():
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def stage(store: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    keys = {"AWS_ACCESS_KEY_ID": store.key or "", "AWS_SECRET_ACCESS_KEY": store.secret or ""}
    place = {"AWS_ENDPOINT_URL": store.endpoint or "", "AWS_REGION": store.region}
    with monkeypatch.context() as ours:
        for name, value in {**keys, **place}.items():
            ours.setenv(name, value)
        with running_catalog(tmp_path / "catalog", warehouses={"default": f"s3://lakehouse/{tmp_path.name}"}) as server:
            catalog = FrazilCatalog("lake", **server.properties)
            catalog.create_namespace("ns")
            catalog.create_table("ns.items", SCHEMA)
            with sinks.open("ns.items", name="s", catalog=catalog) as sink:
                sink.write([{"id": 1, "name": "a"}, {"id": 2, "name": None}], position=2)
            (tmp_path / "work").mkdir()
            clean = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTHON"))}
            yield Stage(Connection("lake", server.uri, s3=store), {**clean, **keys}, tmp_path / "work")


def test_polars_reads_with_the_module(stage: Stage) -> None:
    stage.write("polars", "lake_polars.py")
    asked = "from lake_polars import scan; print(scan('ns.items').sort('id').collect().rows())"
    assert stage.run(sys.executable, "-W", "ignore", "-c", asked) == "[(1, 'a'), (2, None)]\n"


# --- the first query of a page in docs/engines, as it stands there --------------------------------------------------

ORDERS = [
    {"order_id": "A-1", "product": "boots", "amount": Decimal("129.00")},
    {"order_id": "A-2", "product": "tent", "amount": Decimal("99.00")},
    {"order_id": "A-3", "product": "boots", "amount": Decimal("150.00")},
]
FIRST_QUERIES = {  # what is shown of the last expression, and what that is
    "pyiceberg": ("result['order_id'].to_pylist()", "['A-1', 'A-3']"),
    "daft": ("result['order_id']", "['A-1', 'A-3']"),
    "polars": ("result['order_id'].to_list()", "['A-1', 'A-3']"),
}


@pytest.fixture
def shop(stage: Stage) -> Stage:
    """The table that these pages read."""
    catalog = FrazilCatalog("lake", uri=stage.connection.uri, **_keys(stage.environment))
    catalog.create_namespace("shop")
    columns = (column("order_id", "string"), column("product", "string"), column("amount", "decimal(9, 2)"))
    Lake(load_settings(flags={"catalog.uri": stage.connection.uri}), catalog=catalog).apply(
        Table("shop.orders", *columns)
    )
    with sinks.open("shop.orders", name="s", catalog=catalog) as sink:
        sink.write(ORDERS, position=3)
    return stage


def first_query(engine: str) -> str:
    """The block below "Use it"."""
    page = (ROOT / f"docs/engines/{engine}.md").read_text(encoding="utf-8")
    mark = "<!-- run by: tests/contract/test_connect_clients.py -->\n"
    (block,) = re.findall(rf"{re.escape(mark)}```\w+\n(.*?)```", page.partition("## Use it")[2], re.DOTALL)
    return str(block)


@pytest.mark.parametrize("engine", FIRST_QUERIES)
def test_the_first_query_of_the_page_runs(shop: Stage, engine: str) -> None:
    (guide,) = (guide for guide in GUIDES if guide.engine == engine)
    shop.write(engine, guide.file)
    show, expected = FIRST_QUERIES[engine]
    program = ast.parse(first_query(engine))
    assert isinstance(program.body[-1], ast.Expr)
    program.body[-1] = ast.Assign([ast.Name("result", ast.Store())], program.body[-1].value)
    text = f"{ast.unparse(ast.fix_missing_locations(program))}\nprint({show}, flush=True)"
    if engine == "daft":  # its threads sometimes crash an interpreter that ends (0.7.26)
        text += "\nimport os\nos._exit(0)"
    shop.environment.update(PYICEBERG_HOME=str(shop.folder), DAFT_PROGRESS_BAR="0")
    assert shop.run(sys.executable, "-W", "ignore", "-c", text).strip() == expected


def test_the_first_query_of_the_page_of_duckdb_runs(shop: Stage) -> None:
    import duckdb
    from duckdb_extensions import import_extension

    extensions = shop.folder / "extensions"
    with duckdb.connect(config={"extension_directory": str(extensions)}) as con:
        for name in ("httpfs", "avro", "iceberg"):
            import_extension(name, con=con)
    shop.write("duckdb", "lake.sql")
    (shop.folder / "first.sql").write_text(
        f"SET extension_directory = '{extensions}';\n.read lake.sql\n{first_query('duckdb')}"
        "SELECT product, orders FROM lake.shop.totals ORDER BY product;\n"
    )
    shell = str(Path(sys.executable).with_name("duckdb"))
    shown = shop.run(shell, "-bail", "-csv", "-noheader", "-f", "first.sql").splitlines()
    assert sorted(shown[-4:-2]) == ["boots,279.00", "tent,99.00"]
    assert shown[-2:] == ["boots,2", "tent,1"]


def test_the_printed_variables_are_all_that_a_client_needs(stage: Stage) -> None:
    lines = stage.write("env", "env.sh", show_secrets=True)
    asked = (
        "import os; from pyiceberg.catalog import load_catalog; "
        "c = load_catalog('lake', type='rest', uri=os.environ['FRAZIL_CATALOG__URI']); "
        "print(len(c.load_table('ns.items').scan().to_arrow()))"
    )
    shell = f'. {lines}; exec {sys.executable} -W ignore -c "{asked}"'
    assert stage.run("/bin/sh", "-c", shell) == "2\n"


@pytest.mark.soak
def test_ibis_reads_with_the_module(stage: Stage) -> None:
    python = stage.python(["ibis-framework[duckdb]==12.0.0", *DUCKDB])
    stage.write("ibis", "lake_ibis.py")
    stage.run(python, "-c", EXTENSIONS)
    asked = "from lake_ibis import table; print(table('ns.items').order_by('id').to_pyarrow().to_pylist())"
    assert stage.run(python, "-c", asked) == "[{'id': 1, 'name': 'a'}, {'id': 2, 'name': None}]\n"


@pytest.mark.soak
def test_dlt_loads_with_the_configuration(stage: Stage) -> None:
    python = stage.python(["dlt[s3,pyiceberg]==1.31.0", "pyiceberg==0.12.0", "pyiceberg-core<0.11"])
    written = stage.write("dlt", ".dlt/secrets.toml")
    written.write_text(
        written.read_text().replace("<location of the warehouse>", f"s3://lakehouse/{stage.folder.parent.name}")
    )
    load = (
        "import dlt\nrows = dlt.resource([{'id': 1, 'name': 'a'}], name='people', table_format='iceberg')\n"
        "dlt.pipeline('p', destination='filesystem', dataset_name='loaded').run(rows)\n"
    )
    stage.run(python, "-c", load)
    assert stage.ids("loaded.people") == [1]


@pytest.mark.soak
def test_clickhouse_reads_and_writes_with_the_statements(stage: Stage) -> None:
    python = stage.python(["chdb==4.4.0"])
    statements = stage.write("clickhouse", "lake.sql", show_secrets=True)
    statements.write_text(statements.read_text().replace("<bucket of the warehouse>", "lakehouse"))
    ask = (
        "import re; from chdb.session import Session; s = Session()\n"
        "for q in re.sub('--.*', '', open('lake.sql').read()).split(';'):\n    q.strip() and s.query(q)\n"
        "s.query('INSERT INTO lake.`ns.items` VALUES (5, \\'x\\')')\n"
        "print(s.query('SELECT id FROM lake.`ns.items` ORDER BY id', 'CSV'))\n"
    )
    assert stage.run(python, "-c", ask).split() == ["1", "2", "5"]
    assert stage.ids() == [1, 2, 5]


@pytest.mark.soak
def test_sail_reads_and_writes_with_the_variables_and_we_read_its_tables(stage: Stage) -> None:
    python = stage.python(["pysail==0.7.2", "pyspark-client>=4,<4.2"])
    lines = stage.write("sail", "sail.sh")
    (stage.folder / "ask.py").write_text(
        "from pysail.spark import SparkConnectServer\nfrom pyspark.sql import SparkSession\n"
        "server = SparkConnectServer(port=0)\nserver.start(background=True)\n"
        "spark = SparkSession.builder.remote('sc://localhost:%d' % server.listening_address[1]).getOrCreate()\n"
        "spark.sql('CREATE TABLE lake.ns.sailed (id BIGINT, name STRING) USING iceberg PARTITIONED BY (name)')\n"
        "spark.sql('INSERT INTO lake.ns.sailed SELECT * FROM lake.ns.items').collect()\n"
    )
    stage.run("/bin/sh", "-c", f". {lines}; exec {python} ask.py")
    assert stage.ids("ns.sailed") == [1, 2]


@pytest.mark.soak
def test_dbt_builds_incremental_models_with_the_profile_and_no_tables(stage: Stage) -> None:
    python = stage.python(["dbt-duckdb==1.11.1", "dbt-core<1.12", *DUCKDB])
    profile = stage.write("dbt", "profiles.yml")
    profile.write_text(profile.read_text().replace("schema: dbt", "schema: ns"))
    (stage.folder / "dbt_project.yml").write_text("name: lake\nversion: '1.0'\nprofile: lake\n")
    (stage.folder / "models").mkdir()
    for name, kind in (("copied", "incremental"), ("rebuilt", "table")):
        (stage.folder / "models" / f"{name}.sql").write_text(
            f"{{{{ config(materialized='{kind}') }}}} select * from lake.ns.items"
        )
    stage.run(python, "-c", EXTENSIONS)
    (stage.folder / "run.py").write_text(
        "import sys\nfrom dbt.cli.main import dbtRunner\nprint(dbtRunner().invoke(['run', '--select', "
        "sys.argv[1]]).success)\n"
    )
    assert stage.run(python, "run.py", "copied").split()[-1] == "True"
    assert stage.ids("ns.copied") == [1, 2]
    # DuckDB cannot rename a table that was made in the transaction
    assert stage.run(python, "run.py", "rebuilt").split()[-1] == "False"
