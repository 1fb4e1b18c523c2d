"""Engines on the local stack's object store with vended credentials or signed requests, and no keys of their own.

The catalog has authentication on, and each engine is a principal with the privilege `create` on one namespace. It is
configured by what `frazil connect` prints to this principal, and by nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
import requests
from botocore.config import Config
from botocore.exceptions import ClientError
from pyiceberg.catalog import load_catalog
from trino.exceptions import TrinoExternalError, TrinoUserError

from frazil.processes import Launch, wait_until
from frazil.services.catalog import Catalog
from frazil.services.trino import Trino
from tests.engines.test_connect import Spark
from tests.engines.test_trino import ask
from tests.kit.access import Operator, namespace, operator, table
from tests.kit.stack import Project, keep_logs, make_project
from tests.kit.stack_lake import s3_client, s3_endpoint
from tools.own_server import own_server

TOKEN, CREDENTIAL = "FRAZIL_CATALOG__TOKEN", "FRAZIL_CATALOG__PROPERTIES__CREDENTIAL"
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """An object store and a catalog, as `frazil up` starts them."""
    project = make_project(tmp_path_factory.mktemp("vending") / "project")
    project.frazil("up")
    url = f"{project.settings.catalog.uri}/v1/namespaces"
    requests.post(url, json={"namespace": ["ns"]}, timeout=30).raise_for_status()
    yield project
    project.frazil("down")
    keep_logs(project)
    project.frazil("down", "--purge", "--yes")


def test_the_check_passes_on_the_stack(stack: Project) -> None:
    done = stack.frazil("warehouse", "check")
    assert "role arn:aws:iam::role/frazil-vending: credentials work inside and fail outside" in done.stdout


# --- a catalog with keys, on the same object store -------------------------------------------------------------------


@dataclass(frozen=True)
class Guarded:
    """A catalog with authentication that vends; its tables `hidden.secret`, which no engine may see, and
    `lab.shared`, which all may read.
    """

    uri: str
    owner: Operator
    stack: Project
    folder: Path
    users: dict[str, User] = field(default_factory=dict, repr=False)

    def user(self, name: str, *, oauth: bool) -> User:
        """A principal that may create tables in `lab`, with an API key or an OAuth2 credential."""
        key = self.owner.token(name)
        self.owner.grant("create", namespace("lab"), name)
        self.owner.grant("read", table("shared", "lab"), name)
        folder = self.folder / name
        folder.mkdir()
        pair = ":".join(key.split("_")[1:])
        settings = f'[catalog]\nuri = "{self.uri}"\n'
        settings += f'[catalog.properties]\noauth2-server-uri = "{self.uri}/oauth/token"\n' if oauth else ""
        (folder / "frazil.toml").write_text(settings)
        own = {CREDENTIAL: pair, "PYICEBERG_CATALOG__LAKE__CREDENTIAL": pair} if oauth else {TOKEN: key}
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "FRAZIL_"))}
        self.users[name] = User(self, key, folder, {**clean, **own})
        return self.users[name]

    def s3(self, config: dict[str, str]) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=s3_endpoint(self.stack),
            region_name="us-east-1",
            aws_access_key_id=config["s3.access-key-id"],
            aws_secret_access_key=config["s3.secret-access-key"],
            aws_session_token=config["s3.session-token"],
            config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
        )


@dataclass(frozen=True)
class User:
    """A principal on its own machine: a folder, and an environment with the key of the catalog alone."""

    guarded: Guarded
    key: str = field(repr=False)
    folder: Path
    environment: dict[str, str] = field(repr=False)

    def connect(self, engine: str, file: str) -> Path:
        """What `frazil connect` writes; it asks the catalog where the object store is, and whether it vends."""
        self.run(sys.executable, "-m", "frazil", "connect", engine, "--output", file)
        written = (self.folder / file).read_text()
        assert "AWS_" not in written
        assert self.key.split("_")[2] not in written
        return self.folder / file

    def run(self, *command: str, text: str | None = None, **environment: str) -> str:
        done = self.attempt(*command, text=text, **environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def attempt(self, *command: str, text: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        env = {**self.environment, **environment}
        return subprocess.run(
            command, cwd=self.folder, env=env, input=text, capture_output=True, text=True, check=False
        )

    def load(self, namespace_key: str, name: str) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.key}", "X-Iceberg-Access-Delegation": "vended-credentials"}
        url = f"{self.guarded.uri}/v1/default/namespaces/{namespace_key}/tables/{name}"
        return requests.get(url, headers=headers, timeout=30)

    def assert_closed(self, own: str) -> None:
        """Another table is 404 in the catalog, and 403 in the object store with the credentials of the own one."""
        assert self.load("hidden", "secret").status_code == self.load("hidden", "missing").status_code == 404
        loaded, bucket = self.load("lab", own).json(), self.guarded.stack.settings.stack.bucket
        client = self.guarded.s3(loaded["config"])
        inside = loaded["metadata"]["location"].removeprefix(f"s3://{bucket}/")
        whole = s3_client(self.guarded.stack).list_objects_v2(Bucket=bucket, Prefix="guarded/hidden/secret/")
        [file] = [entry["Key"] for entry in whole["Contents"] if entry["Key"].endswith(".parquet")]
        metadata = loaded["metadata-location"].removeprefix(f"s3://{bucket}/")

        def copy(source: str, target: str) -> int:
            where = {"Bucket": bucket, "Key": source}
            return status(lambda: client.copy_object(Bucket=bucket, Key=target, CopySource=where))

        assert status(lambda: client.get_object(Bucket=bucket, Key=metadata)) == 200
        assert status(lambda: client.list_objects_v2(Bucket=bucket, Prefix=f"{inside}/")) == 200
        refused = {
            "GET": status(lambda: client.get_object(Bucket=bucket, Key=file)),
            "HEAD": status(lambda: client.head_object(Bucket=bucket, Key=file)),
            "PUT": status(lambda: client.put_object(Bucket=bucket, Key=f"{file}.new", Body=b"x")),
            "overwrite": status(lambda: client.put_object(Bucket=bucket, Key=file, Body=b"x")),
            "DELETE": status(lambda: client.delete_object(Bucket=bucket, Key=file)),
            "LIST": status(lambda: client.list_objects_v2(Bucket=bucket, Prefix="guarded/hidden/secret/")),
            "LIST all": status(lambda: client.list_objects_v2(Bucket=bucket)),
            "COPY from": copy(file, f"{inside}/data/stolen"),
            "COPY to": copy(metadata, f"{file}.new"),
        }
        assert refused == dict.fromkeys(refused, 403)


def status(action: Callable[[], object]) -> int:
    try:
        action()
    except ClientError as exc:
        return int(exc.response["ResponseMetadata"]["HTTPStatusCode"])
    return 200


@pytest.fixture(scope="module")
def guarded(stack: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    service = Catalog(stack.settings)
    variables = {**service.s3_place(), **service.s3_keys(), **service.role()}
    variables["FRAZIL_SERVER__PEPPER_FILE"] = str(folder / "pepper")
    variables["FRAZIL_SERVER__STORAGE__DEFAULT__REMOTE_SIGNING"] = "true"
    variables["FRAZIL_SERVER__STORAGE__DEFAULT__UNCHECKED_BATCH_DELETES"] = "true"
    place = f"s3://{stack.settings.stack.bucket}/guarded"
    options = ["--authentication", "keys"]
    with operator(f"sqlite:///{folder / 'catalog.db'}", folder / "pepper") as owner:
        token = owner.token("root", roles=["admin"])
        with own_server(folder, warehouse=place, options=options, variables=variables) as (uri, _):
            root = load_catalog("root", type="rest", uri=uri, token=token)
            for name in ("hidden.secret", "lab.shared"):
                root.create_namespace(name.partition(".")[0])
                root.create_table(name, ROWS.schema).append(ROWS)
            yield Guarded(uri, owner, stack, folder)


# --- engines in Python -----------------------------------------------------------------------------------------------


PYICEBERG = """\
import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError

catalog, rows = load_catalog("lake"), pa.table({"id": pa.array([1, 2, 3], pa.int64())})
table = catalog.create_table("lab.pyiceberg", rows.schema)
table.append(rows)
table.delete("id = 2")
print(sorted(catalog.load_table("lab.pyiceberg").scan().to_arrow()["id"].to_pylist()))
shared = catalog.load_table("lab.shared")
print(shared.scan().to_arrow().num_rows)
for action in (lambda: catalog.load_table("hidden.secret"), lambda: shared.append(rows)):
    try:
        action()
    except (NoSuchTableError, OSError) as exc:
        print(type(exc).__name__, "ACCESS_DENIED" in str(exc))
"""


def test_pyiceberg_reads_and_writes_its_own_table_and_no_other(guarded: Guarded) -> None:
    user = guarded.user("pyiceberg", oauth=True)
    user.connect("pyiceberg", ".pyiceberg.yaml")
    lines = user.run(sys.executable, "-c", PYICEBERG, PYICEBERG_HOME=str(user.folder)).splitlines()
    assert lines == ["[1, 3]", "3", "NoSuchTableError False", "OSError True"]
    user.assert_closed("pyiceberg")


DAFT = """\
import daft
from lake_daft import catalog, io_config, read
from pyiceberg.exceptions import NoSuchTableError

frame = daft.from_pydict({"id": [1, 2, 3]})
table = catalog.create_table("lab.daft", frame.to_arrow().schema)
frame.write_iceberg(table, mode="append", io_config=io_config)
print(sorted(read("lab.daft").to_pydict()["id"]), read("lab.shared").count_rows())
try:
    read("hidden.secret")
except NoSuchTableError as exc:
    print(type(exc).__name__)
try:
    frame.write_iceberg(catalog.load_table("lab.shared"), mode="append", io_config=io_config)
except OSError as exc:
    print("ACCESS_DENIED" in str(exc))
"""


def test_daft_reads_and_writes_its_own_table_and_no_other(guarded: Guarded) -> None:
    user = guarded.user("daft", oauth=False)
    user.connect("daft", "lake_daft.py")
    lines = user.run(sys.executable, "-c", DAFT, PYTHONPATH=str(user.folder), DAFT_PROGRESS_BAR="0").splitlines()
    assert lines == ["[1, 2, 3] 3", "NoSuchTableError", "True"]
    user.assert_closed("daft")


def test_duckdb_reads_and_writes_its_own_table_and_no_other(guarded: Guarded) -> None:
    import duckdb
    from duckdb_extensions import import_extension

    user = guarded.user("duckdb", oauth=False)
    extensions = user.folder / "extensions"
    with duckdb.connect(config={"extension_directory": str(extensions)}) as con:
        for name in ("httpfs", "avro", "iceberg"):
            import_extension(name, con=con)
    statements = user.connect("duckdb", "lake.sql").read_text()
    script = f"SET extension_directory = '{extensions}';\n{statements}"
    script += "CREATE TABLE lake.lab.duckdb AS SELECT 1::BIGINT AS id;\nINSERT INTO lake.lab.duckdb VALUES (2), (3);\n"
    script += "SELECT sum(id) FROM lake.lab.duckdb;\nSELECT sum(id) FROM lake.lab.shared;\n"
    shell = [str(Path(sys.executable).with_name("duckdb")), "-csv", "-noheader"]
    assert user.run(*shell, text=script).splitlines()[-2:] == ["6", "6"]
    user.assert_closed("duckdb")
    refused = {
        "SELECT * FROM lake.hidden.secret;": "does not exist",
        "INSERT INTO lake.lab.shared VALUES (4);": "403",
    }
    for statement, reason in refused.items():
        done = user.attempt(*shell, text=f"SET extension_directory = '{extensions}';\n{statements}{statement}\n")
        assert (done.returncode, reason in done.stderr) == (1, True), done.stderr


# --- engines in Java -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spark(guarded: Guarded) -> Iterator[Spark]:
    """Spark as its user starts it, with what `frazil connect` wrote, and no keys."""
    started = Spark(guarded.user("spark", oauth=True))
    yield started
    started.close()


def test_spark_reads_and_writes_its_own_table_and_no_other(guarded: Guarded, spark: Spark) -> None:
    spark.sql("CREATE TABLE lake.lab.spark (id BIGINT) USING iceberg")
    spark.sql("INSERT INTO lake.lab.spark VALUES (1), (2), (3)")
    spark.sql("DELETE FROM lake.lab.spark WHERE id = 2")
    assert spark.sql("SELECT id FROM lake.lab.spark ORDER BY id") == [[1], [3]]
    assert spark.sql("SELECT sum(id) FROM lake.lab.shared") == [[6]]
    assert "TABLE_OR_VIEW_NOT_FOUND" in spark.error("SELECT * FROM lake.hidden.secret")
    assert "Status Code: 403" in spark.error("INSERT INTO lake.lab.shared VALUES (4)")
    guarded.users["spark"].assert_closed("spark")


def test_spark_reads_and_writes_where_authentication_is_off(stack: Project, spark: Spark) -> None:
    properties = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "rest",
        ".uri": stack.settings.catalog.uri,
        ".io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        ".header.X-Iceberg-Access-Delegation": "vended-credentials",
    }
    for name, value in properties.items():
        spark.sql(f"SET `spark.sql.catalog.open{name}`={value}")
    spark.sql("CREATE TABLE open.ns.spark (id BIGINT) USING iceberg")
    spark.sql("INSERT INTO open.ns.spark VALUES (1), (2), (3)")
    assert spark.sql("SELECT sum(id) FROM open.ns.spark") == [[6]]


def test_spark_reads_writes_and_expires_with_signed_requests(guarded: Guarded, spark: Spark) -> None:
    user = guarded.user("signed", oauth=True)
    lines = user.run(sys.executable, "-m", "frazil", "connect", "spark", "--signed").splitlines()
    properties = dict(line.split(maxsplit=1) for line in lines if line.startswith("spark.sql.catalog.lake"))
    properties["spark.sql.catalog.lake.credential"] = user.environment[CREDENTIAL]  # Spark has another user's variable
    assert not [name for name in properties if "key" in name]
    for name, value in properties.items():
        spark.sql(f"SET `{name.replace('catalog.lake', 'catalog.signed')}`=`{value}`")
    spark.sql("CREATE TABLE signed.lab.sales (id BIGINT, v STRING) USING iceberg")
    spark.sql("INSERT INTO signed.lab.sales VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    spark.sql(
        "MERGE INTO signed.lab.sales t USING (SELECT 2 AS id, 'x' AS v UNION ALL SELECT 4, 'd') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
    spark.sql("DELETE FROM signed.lab.sales WHERE id = 1")
    assert spark.sql("SELECT * FROM signed.lab.sales ORDER BY id") == [[2, "x"], [3, "c"], [4, "d"]]
    # staged: it has files before it exists; and names of folders with encoded slashes
    query = "SELECT id, concat('a//', v) AS v FROM signed.lab.sales WHERE id > 2"
    spark.sql(f"CREATE TABLE signed.lab.made USING iceberg PARTITIONED BY (v) AS {query}")
    assert spark.sql("SELECT v FROM signed.lab.made ORDER BY v") == [["a//c"], ["a//d"]]
    assert "The request is not signed" in spark.error("INSERT INTO signed.lab.shared VALUES (4)")
    assert "TABLE_OR_VIEW_NOT_FOUND" in spark.error("SELECT * FROM signed.hidden.secret")
    until = "older_than => TIMESTAMP '2099-01-01 00:00:00', retain_last => 1"
    [[data_files, *_]] = spark.sql(f"CALL signed.system.expire_snapshots(table => 'lab.sales', {until})")
    assert data_files > 0  # by batch deletes
    spark.sql("DROP TABLE signed.lab.sales PURGE")
    bucket = guarded.stack.settings.stack.bucket
    store = s3_client(guarded.stack)

    def left() -> list[str]:
        entries = store.list_objects_v2(Bucket=bucket, Prefix="guarded/lab/sales/").get("Contents", [])
        return [entry["Key"] for entry in entries if not entry["Key"].endswith("/")]

    assert wait_until(lambda: left() == [], 60), left()  # the server purges after its answer


class KeylessTrino(Trino):
    """Trino with the catalog file of a user, and in its environment nothing but the user's credential."""

    def __init__(self, user: User) -> None:
        super().__init__(user.guarded.stack.settings)
        self.catalog_file = user.connect("trino", "iceberg.properties").read_text()
        self.credential = user.environment[CREDENTIAL]

    def _iceberg(self) -> str:
        return self.catalog_file

    def launch(self) -> Launch:
        return replace(super().launch(), secrets={CREDENTIAL: self.credential})


def test_trino_reads_and_writes_its_own_table_and_no_other(guarded: Guarded) -> None:
    user = guarded.user("trino", oauth=True)
    trino = KeylessTrino(user)
    trino.start()
    try:
        ask(trino.port, "CREATE TABLE iceberg.lab.trino AS SELECT CAST(1 AS BIGINT) AS id")
        ask(trino.port, "INSERT INTO iceberg.lab.trino VALUES 2, 3")
        assert ask(trino.port, "SELECT id FROM iceberg.lab.trino ORDER BY id") == [[1], [2], [3]]
        assert ask(trino.port, "SELECT sum(id) FROM iceberg.lab.shared") == [[6]]
        with pytest.raises(TrinoUserError, match="does not exist"):
            ask(trino.port, "SELECT * FROM iceberg.hidden.secret")
        with pytest.raises(TrinoExternalError):
            ask(trino.port, "INSERT INTO iceberg.lab.shared VALUES 4")
        assert ask(trino.port, "SELECT sum(id) FROM iceberg.lab.shared") == [[6]]
    finally:
        trino.stop()
    user.assert_closed("trino")
