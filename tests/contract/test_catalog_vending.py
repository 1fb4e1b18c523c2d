"""Vended credentials on a real S3 server (SeaweedFS) with STS: what they open, and what they do not."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import boto3
import daft
import duckdb
import pyarrow as pa
import pytest
import requests
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from duckdb_extensions import import_extension
from pyiceberg.catalog import load_catalog

import frazil.sinks
from frazil.client import FrazilCatalog
from frazil.config import load_settings
from frazil.processes import wait_until
from frazil.services import ports
from frazil.services.object_store import ROLE_ARN, ObjectStore
from tests.kit.serving import serving

BUCKET = "lakehouse"
PAGE = Path(__file__).parents[2] / "docs" / "cli-json.md"
ASKS = {"X-Iceberg-Access-Delegation": "vended-credentials"}
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
PARTITION_SPEC: dict[str, Any] = {"spec-id": 0, "fields": []}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    folder = tmp_path_factory.mktemp("s3")
    flags = {"stack.folder": str(folder), "stack.ports.object_store": str(ports.free_port()), "stack.bucket": BUCKET}
    service = ObjectStore(load_settings(flags=flags, environ={}, folder=folder))
    service.start()
    yield service
    service.stop()


def server_environment(store: ObjectStore) -> dict[str, str]:
    """The variables with which a server uses the store, and vends credentials for it."""
    return {
        "AWS_ENDPOINT_URL": store.endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": store.settings.stack.access_key_id,
        "AWS_SECRET_ACCESS_KEY": store.settings.stack.secret_access_key.get_secret_value(),
        "FRAZIL_SERVER__STORAGE__DEFAULT__ROLE_ARN": ROLE_ARN,
        "FRAZIL_SERVER__WAREHOUSES__DEFAULT": f"s3://{BUCKET}/w",
    }


@dataclass(frozen=True)
class Lake:
    """A catalog that vends, and the keys of its owner."""

    uri: str
    folder: Path
    environment: Mapping[str, str] = field(repr=False)  # of the server
    store: ObjectStore = field(repr=False)

    def url(self, path: str) -> str:
        return f"{self.uri}/v1/default/namespaces/{path}"

    def create(self, name: str, **body: Any) -> dict[str, Any]:
        whole = {"name": name, "schema": SCHEMA, "partition-spec": PARTITION_SPEC, **body}
        response = requests.post(self.url("ns/tables"), json=whole, headers=ASKS, timeout=30)
        assert response.status_code == 200, response.text
        return response.json()

    def load(self, name: str, **headers: str) -> requests.Response:
        return requests.get(self.url(f"ns/tables/{name}"), headers={**ASKS, **headers}, timeout=30)

    def s3(self, config: dict[str, str] | None = None) -> Any:
        """S3 with vended credentials, else with the owner's keys."""
        stack = self.store.settings.stack
        config = config or {
            "s3.access-key-id": stack.access_key_id,
            "s3.secret-access-key": stack.secret_access_key.get_secret_value(),
        }
        return boto3.client(
            "s3",
            endpoint_url=self.store.endpoint,
            region_name="us-east-1",
            aws_access_key_id=config["s3.access-key-id"],
            aws_secret_access_key=config["s3.secret-access-key"],
            aws_session_token=config.get("s3.session-token"),
            config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
        )


@pytest.fixture(scope="module")
def lake(store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A server with keys, in a process of its own: this one, and with it every client, has none."""
    folder = tmp_path_factory.mktemp("catalog")
    environment = {**os.environ, **server_environment(store)}
    places = {"default": f"s3://{BUCKET}/w", "local": str(folder / "local")}
    with serving(folder, environment, places) as uri:
        for warehouse in places:
            url = f"{uri}/v1/{warehouse}/namespaces"
            requests.post(url, json={"namespace": ["ns"]}, timeout=30).raise_for_status()
        yield Lake(uri, folder, environment, store)


def key_of(location: str) -> str:
    return location.removeprefix(f"s3://{BUCKET}/")


def status(action: Callable[[], object]) -> int:
    try:
        action()
    except ClientError as exc:
        return int(exc.response["ResponseMetadata"]["HTTPStatusCode"])
    return 200


# --- what is answered ------------------------------------------------------------------------------------------------


def test_create_load_and_refresh_answer_with_credentials_for_the_table(lake: Lake) -> None:
    created = lake.create("answers")
    loaded = lake.load("answers")
    refreshed = requests.get(lake.url("ns/tables/answers/credentials"), params={"planId": "p"}, timeout=30)
    location = created["metadata"]["location"]
    config = loaded.json()["config"]
    assert config["client.refresh-credentials-endpoint"] == "v1/default/namespaces/ns/tables/answers/credentials"
    assert loaded.json()["storage-credentials"] == [{"prefix": f"{location}/", "config": config}]
    assert created["config"] == config  # the same session: half of its life has not passed
    assert refreshed.json() == {"storage-credentials": [{"prefix": f"{location}/", "config": config}]}
    assert (loaded.headers["cache-control"], refreshed.headers["cache-control"]) == ("no-store", "no-store")


def test_a_staged_create_answers_with_credentials(lake: Lake) -> None:
    staged = lake.create("staged", **{"stage-create": True})
    key = f"{key_of(staged['metadata']['location'])}/data/x"
    assert status(lambda: lake.s3(staged["config"]).put_object(Bucket=BUCKET, Key=key, Body=b"x")) == 200


def test_a_repeated_create_answers_with_credentials_that_were_not_kept(lake: Lake) -> None:
    body = {"name": "twice", "schema": SCHEMA}
    headers = {**ASKS, "Idempotency-Key": "0197a5f0-0000-7000-8000-000000000001"}
    first, second = (requests.post(lake.url("ns/tables"), json=body, headers=headers, timeout=30) for _ in range(2))
    assert (first.status_code, second.json()) == (200, first.json())
    assert "s3.session-token" in second.json()["config"]
    secret = second.json()["config"]["s3.secret-access-key"].encode()
    assert not [path for path in lake.folder.rglob("*.db*") if secret in path.read_bytes()]


def test_an_answer_with_credentials_has_no_etag_and_others_have_no_credentials(lake: Lake) -> None:
    lake.create("tags")
    plain = requests.get(lake.url("ns/tables/tags"), timeout=30)
    vended = lake.load("tags", **{"If-None-Match": plain.headers["etag"]})
    again = requests.get(lake.url("ns/tables/tags"), headers={"If-None-Match": plain.headers["etag"]}, timeout=30)
    assert (vended.status_code, vended.headers.get("etag"), again.status_code) == (200, None, 304)
    assert plain.json()["config"] == {}
    assert "storage-credentials" not in plain.json()
    assert vended.json()["metadata"] == plain.json()["metadata"]


@pytest.mark.parametrize("asked", ["remote-signing", "", "vended-credentialsx"])
def test_a_client_that_does_not_ask_gets_no_credentials(lake: Lake, asked: str) -> None:
    name = f"silent{len(asked)}"
    lake.create(name)
    answer = lake.load(name, **{"X-Iceberg-Access-Delegation": asked})
    assert (answer.json()["config"], "etag" in answer.headers) == ({}, True)


def test_only_a_warehouse_that_vends_says_so(lake: Lake) -> None:
    endpoint = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials"
    said = {
        name: endpoint in requests.get(f"{lake.uri}/v1/config?warehouse={name}", timeout=30).json()["endpoints"]
        for name in ("default", "local")
    }
    assert said == {"default": True, "local": False}


def test_every_worker_vends(lake: Lake, tmp_path: Path) -> None:
    with serving(tmp_path, lake.environment, {"default": f"s3://{BUCKET}/workers"}, "--workers", "2") as uri:
        answers = [requests.get(f"{uri}/v1/config", timeout=30).json()["endpoints"] for _ in range(10)]
    assert all("tables/{table}/credentials" in " ".join(endpoints) for endpoints in answers)


@pytest.mark.parametrize(("name", "place"), [("default", "folder"), ("cold", f"s3://{BUCKET}/w")])
def test_a_server_with_a_role_for_a_warehouse_that_cannot_have_one_does_not_start(
    lake: Lake, tmp_path: Path, name: str, place: str
) -> None:
    command = [sys.executable, "-m", "frazil", "serve", "--port", "0", "--warehouse", f"{name}={place}"]
    done = subprocess.run(command, cwd=tmp_path, env=lake.environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "server.storage.default" in done.stderr) == (2, True)


def test_a_warehouse_that_does_not_vend_ignores_the_wish_and_refuses_the_request(lake: Lake) -> None:
    url = f"{lake.uri}/v1/local/namespaces/ns/tables"
    created = requests.post(url, json={"name": "t", "schema": SCHEMA}, headers=ASKS, timeout=30)
    assert (created.status_code, created.json()["config"]) == (200, {})
    assert requests.get(f"{url}/t/credentials", timeout=30).status_code == 406
    assert requests.get(f"{url}/missing/credentials", timeout=30).status_code == 404


# --- what the credentials open ---------------------------------------------------------------------------------------


def test_credentials_work_inside_their_table_and_nowhere_else(lake: Lake) -> None:
    own, sibling = lake.create("sales"), lake.create("sales2")
    inside, outside = key_of(own["metadata"]["location"]), key_of(sibling["metadata"]["location"])
    owner, client = lake.s3(), lake.s3(own["config"])
    owner.put_object(Bucket=BUCKET, Key=f"{outside}/data/secret", Body=b"secret")
    metadata = key_of(sibling["metadata-location"])

    def delete_many(*keys: str) -> list[str]:
        wanted = {"Objects": [{"Key": key} for key in keys]}
        return [error["Code"] for error in client.delete_objects(Bucket=BUCKET, Delete=wanted).get("Errors", [])]

    def put(key: str) -> int:
        return status(lambda: client.put_object(Bucket=BUCKET, Key=key, Body=b"x"))

    def get(key: str) -> int:
        return status(lambda: client.get_object(Bucket=BUCKET, Key=key))

    def listed(prefix: str) -> int:
        return status(lambda: client.list_objects_v2(Bucket=BUCKET, Prefix=prefix))

    def copy(source: str, target: str) -> int:
        wanted = {"Bucket": BUCKET, "Key": source}
        return status(lambda: client.copy_object(Bucket=BUCKET, Key=target, CopySource=wanted))

    assert [put(f"{inside}/data/a"), get(f"{inside}/data/a"), listed(f"{inside}/"), listed(f"{inside}/data/")] == [
        200
    ] * 4
    assert [copy(f"{inside}/data/a", f"{inside}/data/b"), len(delete_many(f"{inside}/data/b"))] == [200, 0]
    refused = [
        get(f"{outside}/data/secret"),
        get(metadata),
        put(f"{outside}/data/b"),
        put("w/ns/other"),
        copy(f"{outside}/data/secret", f"{inside}/data/stolen"),
        copy(f"{inside}/data/a", f"{outside}/data/a"),
        *(listed(prefix) for prefix in ("", "w/", inside, outside, f"{outside}/")),
        status(lambda: client.delete_object(Bucket=BUCKET, Key=f"{outside}/data/secret")),
        status(lambda: client.create_multipart_upload(Bucket=BUCKET, Key=f"{outside}/data/m")),
        status(lambda: client.put_bucket_policy(Bucket=BUCKET, Policy="{}")),
        status(lambda: client.put_object_acl(Bucket=BUCKET, Key=f"{inside}/data/a", ACL="public-read")),
        status(lambda: client.create_bucket(Bucket="another")),
    ]
    assert refused == [403] * len(refused)
    assert delete_many(f"{inside}/data/a", f"{outside}/data/secret") == ["AccessDenied"]
    assert owner.get_object(Bucket=BUCKET, Key=f"{outside}/data/secret")["Body"].read() == b"secret"


def test_a_path_that_leads_out_of_the_table_opens_nothing(lake: Lake) -> None:
    """As text it lies below the prefix of the policy. Libraries may tidy it up: it is signed and sent by hand."""
    own, foreign = lake.create("sales3"), lake.create("sales4")
    config, folder = own["config"], f"/{BUCKET}/{key_of(own['metadata']['location'])}"
    secret = f"{key_of(foreign['metadata']['location'])}/secret"
    lake.s3().put_object(Bucket=BUCKET, Key=secret, Body=b"secret")
    keys = Credentials(*(config[f"s3.{name}"] for name in ("access-key-id", "secret-access-key", "session-token")))

    def send(method: str, path: str, **headers: str) -> int:
        request = AWSRequest(method, lake.store.endpoint + path, headers=headers)
        S3SigV4Auth(keys, "s3", "us-east-1").add_auth(request)
        with closing(HTTPConnection(lake.store.endpoint.partition("://")[2], timeout=30)) as connection:
            connection.request(method, path, headers=dict(request.headers.items()))
            return connection.getresponse().status

    assert (send("PUT", f"{folder}/a"), send("GET", f"{folder}/a")) == (200, 200)
    for way in ("../sales4", "%2e%2e/sales4", "..%2Fsales4", "data/../../sales4", "/../sales4", "%252e%252e/sales4"):
        path = f"{folder}/{way}/secret"
        copied = send("PUT", f"{folder}/copy", **{"x-amz-copy-source": path})
        assert min(send("GET", path), send("HEAD", path), copied) >= 400, way
        send("PUT", path)
        send("DELETE", path)
        assert lake.s3().get_object(Bucket=BUCKET, Key=secret)["Body"].read() == b"secret"


def test_a_large_file_is_written_in_parts(lake: Lake) -> None:
    own = lake.create("parts")
    client, key = lake.s3(own["config"]), f"{key_of(own['metadata']['location'])}/data/large"
    upload = client.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
    wanted = {"Bucket": BUCKET, "Key": key, "UploadId": upload}
    etag = client.upload_part(**wanted, PartNumber=1, Body=b"x" * 5 * 2**20)["ETag"]
    client.complete_multipart_upload(**wanted, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]})
    assert client.head_object(Bucket=BUCKET, Key=key)["ContentLength"] == 5 * 2**20


def test_credentials_cannot_be_exchanged_for_more(lake: Lake) -> None:
    config = lake.create("chain")["config"]
    sts = boto3.client(
        "sts",
        endpoint_url=lake.store.endpoint,
        region_name="us-east-1",
        aws_access_key_id=config["s3.access-key-id"],
        aws_secret_access_key=config["s3.secret-access-key"],
        aws_session_token=config["s3.session-token"],
        config=Config(retries={"total_max_attempts": 1}),
    )
    assert status(lambda: sts.assume_role(RoleArn=ROLE_ARN, RoleSessionName="again")) == 403


def test_the_other_paths_of_a_table_are_inside(lake: Lake) -> None:
    data = f"s3://{BUCKET}/w/elsewhere/data"
    own = lake.create("paths", properties={"write.data.path": data})
    client = lake.s3(own["config"])
    keys = [f"{key_of(own['metadata']['location'])}/metadata/m", f"{key_of(data)}/d", "w/elsewhere/x"]
    assert [status(lambda key=key: client.put_object(Bucket=BUCKET, Key=key, Body=b"")) for key in keys] == [
        200,
        200,
        403,
    ]
    assert [entry["prefix"] for entry in own["storage-credentials"]] == [f"{own['metadata']['location']}/", f"{data}/"]


@pytest.mark.parametrize("name", ["st*r", "dollar${aws:username}"])
def test_a_location_with_a_pattern_is_served_without_credentials(lake: Lake, name: str) -> None:
    created = lake.create(f"pattern{len(name)}", location=f"s3://{BUCKET}/w/{name}")
    refreshed = requests.get(lake.url(f"ns/tables/pattern{len(name)}/credentials"), timeout=30)
    assert (created["config"], refreshed.status_code) == ({}, 406)


def test_tables_whose_folders_differ_in_case_only_are_not_created(lake: Lake) -> None:
    location = lake.create("orders")["metadata"]["location"]
    other = lake.create("Orders")  # SeaweedFS would open both with the credentials of either
    assert other["config"] != {}
    assert re.fullmatch(r".*/ns/Orders-[0-9a-f]{8}", other["metadata"]["location"])
    upper = location.replace("/ns/orders", "/NS/orders")
    body = {"name": "o", "schema": SCHEMA, "location": upper}
    assert requests.post(lake.url("ns/tables"), json=body, timeout=30).status_code == 403


def test_tables_of_older_lakes_that_differ_in_case_only_get_no_credentials(lake: Lake) -> None:
    location = lake.create("twin")["metadata"]["location"]
    assert lake.create("other_twin")["config"] != {}
    (database,) = lake.folder.rglob("catalog.db")
    place = location.replace("s3://", "s3:/").replace("/ns/twin", "/ns/Twin/")
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE places SET place = ?, folded = lower(?) WHERE name = 'other_twin'", (place, place))
    assert requests.get(lake.url("ns/tables/other_twin/credentials"), timeout=30).status_code == 406


# --- with authentication on ------------------------------------------------------------------------------------------


def test_credentials_follow_the_grants_of_the_caller(lake: Lake, tmp_path: Path) -> None:
    def frazil_(*arguments: str) -> str:
        command = [sys.executable, "-m", "frazil", *arguments]
        run = subprocess.run(command, cwd=tmp_path, env=lake.environment, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        return run.stdout

    frazil_("catalog", "migrate")
    callers = ("owner", "reader", "writer", "keeper", "stranger")
    keys = {who: json.loads(frazil_("token", "create", who, "--output", "json"))["token"] for who in callers}
    frazil_("grant", "manage", "--server", "--to", "user:owner")
    places = {"default": f"s3://{BUCKET}/guarded"}
    with serving(tmp_path, lake.environment, places, "--authentication", "keys") as uri:

        def ask(who: str, method: str, path: str, **more: Any) -> requests.Response:
            headers = {**ASKS, "Authorization": f"Bearer {keys[who]}"}
            return requests.request(method, f"{uri}/v1/default/namespaces{path}", headers=headers, timeout=30, **more)

        assert ask("owner", "POST", "", json={"namespace": ["ns"]}).status_code == 200
        table = ask("owner", "POST", "/ns/tables", json={"name": "t", "schema": SCHEMA}).json()
        for who, privilege in {"reader": "read", "writer": "write", "keeper": "maintain"}.items():
            frazil_("grant", privilege, "ns.t", "--to", f"user:{who}")
        key = key_of(table["metadata-location"])
        fresh = f"{key_of(table['metadata']['location'])}/data/new"
        allowed = {}
        for who in ("owner", "reader", "writer", "keeper"):
            client = lake.s3(ask(who, "GET", "/ns/tables/t").json()["config"])
            allowed[who] = (
                status(lambda client=client: client.get_object(Bucket=BUCKET, Key=key)),
                status(lambda client=client: client.put_object(Bucket=BUCKET, Key=fresh, Body=b"")),
                status(lambda client=client: client.delete_object(Bucket=BUCKET, Key=fresh)),
            )
        denied = [ask("stranger", "GET", f"/ns/tables/t{path}").status_code for path in ("", "/credentials")]
        unknown = requests.get(f"{uri}/v1/default/namespaces/ns/tables/t/credentials", timeout=30).status_code
        frazil_("revoke", "read", "ns.t", "--from", "user:reader")
        revoked = ask("reader", "GET", "/ns/tables/t/credentials").status_code
    assert allowed == {
        "owner": (200, 200, 200),
        "reader": (200, 403, 403),
        "writer": (200, 200, 403),
        "keeper": (200, 200, 200),
    }
    assert (denied, unknown, revoked) == ([404, 404], 401, 404)


def test_a_create_that_is_repeated_after_the_drop_opens_nothing(lake: Lake, tmp_path: Path) -> None:
    """Files of dropped tables stay closed: its answer is known, but the table is another one's, or none."""
    commands = (
        ("catalog", "migrate"),
        *(("token", "create", who) for who in ("owner", "writer")),
        ("grant", "manage", "--server", "--to", "user:owner"),
    )
    keys = {}
    for words in commands:
        command = [sys.executable, "-m", "frazil", *words, *(("--output", "json") if words[0] == "token" else ())]
        run = subprocess.run(command, cwd=tmp_path, env=lake.environment, capture_output=True, text=True, check=True)
        keys |= {words[2]: json.loads(run.stdout)["token"]} if words[0] == "token" else {}
    places = {"default": f"s3://{BUCKET}/repeated"}
    with serving(tmp_path, lake.environment, places, "--authentication", "keys") as uri:

        def ask(who: str, method: str, path: str, **more: Any) -> requests.Response:
            headers = {**ASKS, "Authorization": f"Bearer {keys[who]}", "Idempotency-Key": more.pop("key", "")}
            headers = {name: value for name, value in headers.items() if value}
            return requests.request(method, f"{uri}/v1/default/namespaces{path}", headers=headers, timeout=30, **more)

        def create(key: str) -> dict[str, Any]:
            answer = ask("writer", "POST", "/ns/tables", json={"name": "t", "schema": SCHEMA}, key=key)
            assert answer.status_code == 200
            return answer.json()

        assert ask("owner", "POST", "", json={"namespace": ["ns"]}).status_code == 200
        grants = [{"grantee": "user:writer", "privilege": privilege} for privilege in ("write", "create")]
        assert ask("owner", "POST", "/ns/grants", json={"grant": grants}).status_code == 200
        first, other = (f"0197a5f0-0000-7000-8000-00000000000{number}" for number in (2, 3))
        created, repeated = create(first), create(first)
        assert repeated == created
        assert "s3.session-token" in created["config"]
        assert ask("owner", "DELETE", "/ns/tables/t").status_code == 204
        after_drop = create(first)
        assert create(other)["metadata"]["location"] != created["metadata"]["location"]
        next_to_another = create(first)
    for answer in (after_drop, next_to_another):
        assert answer["metadata"] == created["metadata"]
        assert not [name for name in answer.get("config", {}) if name.startswith("s3.s")]
        assert "storage-credentials" not in answer


# --- clients ---------------------------------------------------------------------------------------------------------


def test_pyiceberg_reads_and_writes_without_keys_of_its_own(lake: Lake) -> None:
    catalog = load_catalog("vended", type="rest", uri=lake.uri)
    table = catalog.create_table("ns.pyiceberg", schema=ROWS.schema)
    table.append(ROWS)
    table.append(ROWS)
    table.delete("id = 2")
    loaded = load_catalog("again", type="rest", uri=lake.uri).load_table("ns.pyiceberg")
    assert sorted(loaded.scan().to_arrow()["id"].to_pylist()) == [1, 1, 3, 3]


def test_duckdb_reads_and_writes_without_keys_of_its_own(lake: Lake) -> None:
    with duckdb.connect() as duck:
        for name in ("httpfs", "avro", "iceberg"):
            import_extension(name, con=duck)
        options = f"TYPE iceberg, ENDPOINT '{lake.uri}', AUTHORIZATION_TYPE 'none'"
        duck.execute(f"ATTACH '' AS lake ({options}, ACCESS_DELEGATION_MODE 'vended_credentials')")
        duck.execute("CREATE TABLE lake.ns.duck AS SELECT 1::BIGINT AS id")
        duck.execute("INSERT INTO lake.ns.duck VALUES (2), (3)")
        assert duck.execute("SELECT id FROM lake.ns.duck ORDER BY id").fetchall() == [(1,), (2,), (3,)]


def test_daft_reads_and_writes_without_keys_of_its_own(lake: Lake) -> None:
    table = load_catalog("daft", type="rest", uri=lake.uri).create_table("ns.daft", schema=ROWS.schema)
    daft.from_arrow(ROWS).write_iceberg(table, mode="append")
    table.refresh()
    assert sorted(daft.read_iceberg(table).to_pydict()["id"]) == [1, 2, 3]


def test_a_frazil_lake_reads_and_writes_without_keys_of_its_own(lake: Lake) -> None:
    catalog = FrazilCatalog("lake", uri=lake.uri)
    catalog.create_table("ns.sink", schema=ROWS.schema)
    with frazil.sinks.open("ns.sink", name="s", catalog=catalog) as sink:
        sink.write(ROWS, position={"s": 1})
    assert sorted(catalog.load_table("ns.sink").scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_a_frazil_client_with_keys_keeps_them(lake: Lake) -> None:
    stack = lake.store.settings.stack
    keys = {
        "s3.access-key-id": stack.access_key_id,
        "s3.secret-access-key": stack.secret_access_key.get_secret_value(),
        "s3.endpoint": lake.store.endpoint,
    }
    catalog = FrazilCatalog("keys", **{"uri": lake.uri, **keys})
    lake.create("keys")
    properties = catalog.load_table("ns.keys").io.properties
    assert (properties["s3.access-key-id"], "s3.session-token" in properties) == (stack.access_key_id, False)


def test_no_secret_is_in_the_log_or_the_database_of_the_server(lake: Lake) -> None:
    config = lake.create("logged")["config"]
    lake.load("logged")
    requests.get(lake.url("ns/tables/logged/credentials"), timeout=30).raise_for_status()
    stack = lake.store.settings.stack
    secrets = [stack.secret_access_key.get_secret_value(), config["s3.secret-access-key"], config["s3.session-token"]]
    files = [path for path in lake.folder.rglob("*") if path.is_file()]
    assert wait_until(lambda: "logged/credentials" in (lake.folder / "server.log").read_text(), 30)
    assert not [(path.name, secret[:4]) for path in files for secret in secrets if secret.encode() in path.read_bytes()]


# --- frazil warehouse check ------------------------------------------------------------------------------------------


def check(lake: Lake, folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "frazil", "warehouse", "check", *arguments]
    env = {**lake.environment, **environment}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_the_check_proves_that_credentials_work_inside_and_fail_outside(lake: Lake, tmp_path: Path) -> None:
    done = check(lake, tmp_path, "--output", "json")
    outcome = json.loads(done.stdout)["warehouses"]["default"]
    assert [attempt for attempt in outcome["attempts"] if not attempt["passed"]] == []
    assert (done.returncode, outcome["passed"], outcome["ignores_case"]) == (0, True, True)
    expected = [attempt["expected"] for attempt in outcome["attempts"]]
    assert (expected.count("allowed"), expected.count("denied")) == (4, 13)
    left = lake.s3().list_objects_v2(Bucket=BUCKET, Prefix="w/frazil-check").get("Contents", [])
    assert [entry["Key"] for entry in left if not entry["Key"].endswith("/")] == []
    example = re.search(r"### `frazil warehouse check`.*?```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert example is not None
    documented = json.loads(example[1])["warehouses"]["default"]
    assert (documented.keys(), documented["attempts"][0].keys()) == (outcome.keys(), outcome["attempts"][0].keys())


def test_the_check_fails_if_the_role_can_be_assumed_again(tmp_path: Path) -> None:
    class Open(ObjectStore):
        def _roles(self) -> str:
            return super()._roles().replace("arn:aws:iam::000000000000:user/frazil", "*")

    flags = {"stack.folder": str(tmp_path), "stack.ports.object_store": str(ports.free_port()), "stack.bucket": BUCKET}
    service = Open(load_settings(flags=flags, environ={}, folder=tmp_path))
    service.start()
    try:
        environment = {**os.environ, **server_environment(service)}
        done = check(Lake("", tmp_path, environment, service), tmp_path)
    finally:
        service.stop()
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert done.returncode == 1
    assert failed == ["FAILED  assume the role again with vended credentials: allowed, expected denied"]


def test_the_check_says_which_role_cannot_be_assumed(lake: Lake, tmp_path: Path) -> None:
    role = "arn:aws:iam::role/another"
    done = check(lake, tmp_path, FRAZIL_SERVER__STORAGE__DEFAULT__ROLE_ARN=role)
    assert (done.returncode, role in done.stderr) == (1, True)
    assert lake.environment["AWS_SECRET_ACCESS_KEY"] not in done.stdout + done.stderr


def test_the_check_refuses_a_warehouse_that_does_not_vend(lake: Lake, tmp_path: Path) -> None:
    done = check(lake, tmp_path, "local")
    assert (done.returncode, "server.storage.local.role_arn" in done.stderr) == (2, True)


def test_secrets_of_the_stack_are_in_private_files_alone(store: ObjectStore) -> None:
    launch = store.launch()
    assert {path.name: path.stat().st_mode & 0o077 for path in launch.files} == {"s3.json": 0, "iam.json": 0}
    arguments = Path(f"/proc/{store.process().pid}/cmdline").read_bytes()  # type: ignore[union-attr]
    assert store.settings.stack.secret_access_key.get_secret_value().encode() not in arguments
