"""Warehouses in the database on a real S3 server (SeaweedFS): one server without keys of its own, two identities."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
import requests
from botocore.config import Config
from botocore.exceptions import ClientError
from pyiceberg.catalog import load_catalog

from frazil.config import load_settings
from frazil.processes import wait_until
from frazil.services import ports
from frazil.services.object_store import ROLE_ARN, ObjectStore
from tests.kit.serving import serving

pytestmark = pytest.mark.long
BUCKET, SECOND = "lakehouse", "second"
SECOND_SECRET = "a-secret-of-the-second-identity"
ASKS = {"X-Iceberg-Access-Delegation": "vended-credentials"}
SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}


class TwoIdentities(ObjectStore):
    """A store with a second identity, which reaches one bucket alone."""

    def _identities(self) -> str:
        document = json.loads(super()._identities())
        keys = {"accessKey": SECOND, "secretKey": SECOND_SECRET}
        actions = [f"{action}:{SECOND}" for action in ("Read", "Write", "List")]
        document["identities"].append({"name": SECOND, "credentials": [keys], "actions": actions})
        return json.dumps(document)


@dataclass(frozen=True)
class Site:
    """A server without keys in its environment, whose warehouses are in its database."""

    uri: str
    folder: Path
    environment: Mapping[str, str] = field(repr=False)
    store: ObjectStore = field(repr=False)

    def frazil(self, *words: str, **variables: str) -> str:
        command = [sys.executable, "-m", "frazil", *words]
        environment = {**self.environment, **variables}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def post(self, path: str, body: dict[str, Any], **headers: str) -> requests.Response:
        return requests.post(f"{self.uri}/v1/{path}", json=body, headers=headers, timeout=30)

    def set_owner(self, warehouse: str) -> requests.Response:
        """A commit, which writes a metadata file."""
        body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"owner": "ana"}}]}
        return self.post(f"{warehouse}/namespaces/ns/tables/t", body)


def s3(store: ObjectStore, key: str, secret: str) -> Any:
    keys = {"aws_access_key_id": key, "aws_secret_access_key": secret}
    config = Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1})
    return boto3.client("s3", endpoint_url=store.endpoint, region_name="us-east-1", config=config, **keys)


def own_secret(store: ObjectStore) -> str:
    return store.settings.stack.secret_access_key.get_secret_value()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    flags = {"stack.folder": str(folder / "s3"), "stack.ports.object_store": str(ports.free_port())}
    store = TwoIdentities(load_settings(flags=flags, environ={}, folder=folder))
    store.start()
    key = store.settings.stack.access_key_id
    s3(store, key, own_secret(store)).create_bucket(Bucket=SECOND)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= {"FRAZIL_SERVER__SECRET_KEY_FILE": "key"}
    try:
        subprocess.run([sys.executable, "-m", "frazil", "warehouse", "new-key", "key"], cwd=folder, check=True)
        with serving(folder, environment, {"default": "local"}, "--workers", "2") as uri:
            site = Site(uri, folder, environment, store)
            place = ("--endpoint", store.endpoint, "--secret-from-env", "SECRET")
            vended = ("vended", f"s3://{BUCKET}/w", "--access-key-id", key, "--role-arn", ROLE_ARN)
            plain = ("plain", f"s3://{SECOND}/w", "--access-key-id", SECOND)
            site.frazil("warehouse", "create", *vended, *place, SECRET=own_secret(store))
            site.frazil("warehouse", "create", *plain, *place, SECRET=SECOND_SECRET)
            for warehouse in ("vended", "plain"):
                site.post(f"{warehouse}/namespaces", {"namespace": ["ns"]}).raise_for_status()
            yield site
    finally:
        store.stop()


def test_two_identities_serve_tables_from_one_server_and_one_of_them_vends(site: Site) -> None:
    lake = load_catalog("lake", type="rest", uri=site.uri, warehouse="vended")
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
    lake.create_table("ns.t", rows.schema).append(rows)
    table = lake.load_table("ns.t")
    assert table.scan().to_arrow() == rows  # with vended credentials: this process has no keys
    created = site.post("plain/namespaces/ns/tables", {"name": "t", "schema": SCHEMA}, **ASKS)
    assert (created.status_code, created.json()["config"]) == (200, {})
    assert requests.get(f"{site.uri}/v1/plain/namespaces/ns/tables/t/credentials", timeout=30).status_code == 406
    second = s3(site.store, SECOND, SECOND_SECRET)
    key = created.json()["metadata-location"].removeprefix(f"s3://{SECOND}/")
    assert second.get_object(Bucket=SECOND, Key=key)["ContentLength"] > 0
    with pytest.raises(ClientError) as refused:  # the keys are really different
        second.get_object(Bucket=BUCKET, Key=table.metadata_location.removeprefix(f"s3://{BUCKET}/"))
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


def test_every_worker_uses_changed_keys_without_a_restart_and_others_go_on(site: Site) -> None:
    for warehouse in ("vended", "plain"):
        site.post(f"{warehouse}/namespaces/ns/tables", {"name": "t", "schema": SCHEMA})
    update = ("warehouse", "update", "plain", "--secret-from-env", "SECRET")
    site.frazil(*update, SECRET="wrong")
    assert wait_until(lambda: {site.set_owner("plain").status_code for _ in range(8)} == {409}, 30)
    assert {site.set_owner("vended").status_code for _ in range(8)} == {200}
    site.frazil(*update, SECRET=SECOND_SECRET)
    assert wait_until(lambda: {site.set_owner("plain").status_code for _ in range(8)} == {200}, 30)


def test_the_check_proves_the_credentials_of_a_warehouse_in_the_database(site: Site) -> None:
    outcome = json.loads(site.frazil("warehouse", "check", "--output", "json"))["warehouses"]
    assert (list(outcome), outcome["vended"]["passed"]) == (["vended"], True)


def test_no_secret_is_in_the_database_the_log_the_metrics_or_what_commands_print(site: Site) -> None:
    printed = site.frazil("warehouse", "list", "--output", "json") + site.frazil("warehouse", "show", "plain")
    printed += requests.get(f"{site.uri}/metrics", timeout=30).text
    files = [path for path in site.folder.rglob("*") if path.is_file() and "s3" not in path.parts]
    contents = [printed.encode(), *(path.read_bytes() for path in files if path.name != "key")]
    assert {"catalog.db", "server.log"} <= {path.name for path in files}
    for secret in (own_secret(site.store), SECOND_SECRET, (site.folder / "key").read_text().strip()):
        assert not any(secret.encode() in content for content in contents)
