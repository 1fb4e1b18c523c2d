"""Remote signing on a real S3 server (SeaweedFS): what is signed opens the files of a table, and nothing else."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from frazil.catalog import Operator, create_warehouse
from frazil.catalog.files.access import S3Access
from frazil.catalog.locations import Place
from frazil.catalog.storage import open_signer
from frazil.catalog.storage.signer import StoreChecks
from frazil.catalog.storage.signing import EMPTY_SHA256, Signable
from frazil.catalog.store import audit
from frazil.config import StorageProfile, load_settings
from frazil.errors import WarehouseError
from frazil.processes import wait_until
from frazil.services import ports
from frazil.services.object_store import ROLE_ARN, ObjectStore
from frazil.services.service import Launch
from tests.kit.access import Guarded, guarded_catalog, namespace, table
from tests.kit.catalog_databases import SCHEMA, Answer, Client
from tests.kit.raising import raises

BUCKET, REGION, DOMAIN = "lakehouse", "us-east-1", "store.test"
ASKS = {"X-Iceberg-Access-Delegation": "remote-signing"}
ENDPOINT = "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/sign"
PLACES = {"default": f"s3://{BUCKET}/w", "both": f"s3://{BUCKET}/both", "trusting": f"s3://{BUCKET}/trusting"}
PROFILES = {
    "default": StorageProfile(remote_signing=True),
    "both": StorageProfile(remote_signing=True, role_arn=ROLE_ARN),
    "trusting": StorageProfile(remote_signing=True, unchecked_batch_deletes=True),
}


class VirtualHosts(ObjectStore):
    """A store that takes the first part of a host as a bucket, too."""

    def launch(self) -> Launch:
        launch = super().launch()
        return replace(launch, argv=[*launch.argv, f"-s3.domainName={DOMAIN}"])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    folder = tmp_path_factory.mktemp("s3")
    flags = {"stack.folder": str(folder), "stack.ports.object_store": str(ports.free_port()), "stack.bucket": BUCKET}
    service = VirtualHosts(load_settings(flags=flags, environ={}, folder=folder))
    service.start()
    yield service
    service.stop()


@dataclass(frozen=True)
class Lake:
    """A catalog that signs, and asks for keys."""

    guarded: Guarded
    store: ObjectStore = field(repr=False)

    @property
    def admin(self) -> Client:
        return self.guarded.admin

    def url(self, key: str, query: str = "") -> str:
        return f"{self.store.endpoint}/{BUCKET}/{key}{query}"

    def folder_of(self, name: str, *, client: Client | None = None, **more: Any) -> str:
        """The key of the folder of a new table."""
        location = (client or self.admin).create(name, **more)["metadata"]["location"]
        return str(location).removeprefix(f"s3://{BUCKET}/")

    def sign(
        self,
        name: str,
        method: str,
        uri: str,
        *,
        client: Client | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Answer:
        described = {key: [value] for key, value in (headers or {}).items()}
        body = {"method": method, "region": REGION, "uri": uri, "headers": described, "provider": "s3", **more}
        return (client or self.admin).post(f"/namespaces/ns/tables/{name}/sign", body)

    def keys(self) -> Credentials:
        stack = self.store.settings.stack
        return Credentials(stack.access_key_id, stack.secret_access_key.get_secret_value())

    def own_get(self, key: str) -> bytes | None:
        """The object by the owner's keys; None if there is none."""
        answer = self.own("GET", self.url(key))
        return answer.content if answer.ok else None

    def own(self, method: str, url: str, body: bytes = b"") -> requests.Response:
        """What the store answers to its owner."""
        request = AWSRequest(method, url, data=body)
        S3SigV4Auth(self.keys(), "s3", REGION).add_auth(request)
        return requests.request(method, url, headers=dict(request.headers.items()), data=body, timeout=30)


@contextmanager
def lake_in(folder: Path, store: ObjectStore, **options: Any) -> Iterator[Lake]:
    options = {"warehouses": PLACES | {"local": str(folder / "local")}, "storage": PROFILES, **options}
    with guarded_catalog(folder, f"sqlite:///{folder / 'catalog.db'}", **options) as guarded:
        yield Lake(guarded, store)


@pytest.fixture(scope="module")
def lake(store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    stack = store.settings.stack
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", store.endpoint)
        patch.setenv("AWS_REGION", REGION)
        patch.setenv("AWS_ACCESS_KEY_ID", stack.access_key_id)
        patch.setenv("AWS_SECRET_ACCESS_KEY", stack.secret_access_key.get_secret_value())
        with lake_in(tmp_path_factory.mktemp("catalog"), store) as lake:
            yield lake


def send(answer: Answer, method: str, *, url: str | None = None, body: bytes = b"", **added: str) -> requests.Response:
    """The signed request by plain HTTP, as it is or with another URL and further headers."""
    assert answer.status == 200, answer.body
    headers = {name: value for name, (value,) in answer.body["headers"].items()}
    headers |= {name.replace("_", "-"): value for name, value in added.items()}
    return requests.request(method, url or answer.body["uri"], headers=headers, data=body, timeout=30)


def refusal(answer: Answer) -> str:
    status, kind, message = answer.error
    assert (status, kind) == (403, "ForbiddenException")
    return message


# --- what is answered ------------------------------------------------------------------------------------------------


def test_create_and_load_answer_with_what_signing_needs_and_no_etag(lake: Lake) -> None:
    lake.admin.create("answers")
    path = "/namespaces/ns/tables/answers"
    plain = lake.admin.get(path)
    loaded = lake.admin.call("GET", path, headers={**ASKS, "If-None-Match": plain.headers["etag"]})
    created = lake.admin.post("/namespaces/ns/tables", {"name": "answers2", "schema": SCHEMA}, headers=ASKS)
    assert loaded.body["config"] == {
        "s3.region": REGION,
        "client.region": REGION,
        "s3.endpoint": lake.store.endpoint,
        "s3.path-style-access": "true",
        "s3.remote-signing-enabled": "true",
        "s3.signer.endpoint": "v1/default/namespaces/ns/tables/answers/sign",
    }
    assert created.body["config"]["s3.signer.endpoint"].endswith("/answers2/sign")
    assert (loaded.status, loaded.headers["cache-control"], "etag" in loaded.headers) == (200, "no-store", False)
    assert "remote-signing-config" not in loaded.body
    assert (plain.body["config"], loaded.body["metadata"]) == ({}, plain.body["metadata"])


@pytest.mark.parametrize(
    ("asked", "vended", "signed"),
    [
        ("vended-credentials", True, False),
        ("remote-signing", False, True),
        ("remote-signing,vended-credentials", True, False),
        ("other", False, False),
    ],
)
def test_credentials_are_preferred_to_signing(lake: Lake, asked: str, vended: bool, signed: bool) -> None:
    client = Client(lake.admin.uri, "both", lake.admin.session)
    name = f"prefers{len(asked)}"
    client.create(name)
    config = client.call("GET", f"/namespaces/ns/tables/{name}", headers={"X-Iceberg-Access-Delegation": asked}).body
    answered = ("s3.session-token" in config["config"], "s3.remote-signing-enabled" in config["config"])
    assert answered == (vended, signed)


def test_only_a_warehouse_that_signs_says_so(lake: Lake) -> None:
    said = {
        name: ENDPOINT in lake.admin.raw("GET", "/v1/config", warehouse=name).body["endpoints"]
        for name in ("default", "both", "local")
    }
    assert said == {"default": True, "both": True, "local": False}
    local = Client(lake.admin.uri, "local", lake.admin.session)
    local.create("t")
    loaded = local.call("GET", "/namespaces/ns/tables/t", headers=ASKS)
    assert (loaded.body["config"], "etag" in loaded.headers) == ({}, True)
    assert lake.sign("t", "GET", lake.url("w/ns/t/a"), client=local).status == 406


def test_a_warehouse_of_the_database_signs_as_its_profile_says(lake: Lake) -> None:
    fields = {"endpoint": lake.store.endpoint, "delegation": ["remote-signing"]}
    by = Operator("test", 0, None, {}, allow_overlap=False)
    create_warehouse(lake.guarded.database, "stored", f"s3://{BUCKET}/stored", fields, None, by)
    client = Client(lake.admin.uri, "stored", lake.admin.session)
    assert ENDPOINT in client.raw("GET", "/v1/config", warehouse="stored").body["endpoints"]
    own = lake.folder_of("t", client=client)
    put = lake.sign("t", "PUT", lake.url(f"{own}/a"), client=client)
    assert send(put, "PUT", body=b"x").status_code == 200
    refusal(lake.sign("t", "PUT", lake.url("w/ns/t/a"), client=client))
    with raises(WarehouseError, option="endpoint"):
        fields["endpoint"] += "/path"
        create_warehouse(lake.guarded.database, "path", f"s3://{BUCKET}/path", fields, None, by)


@pytest.mark.parametrize(
    ("field", "value"),
    [("method", None), ("uri", 1), ("region", []), ("headers", {"a": "b"}), ("headers", None), ("provider", "gcs")],
)
def test_a_malformed_description_is_400(lake: Lake, field: str, value: object) -> None:
    lake.folder_of(f"malformed-{field}-{len(repr(value))}")
    body = {"method": "GET", "region": REGION, "uri": "x", "headers": {}} | {field: value}
    status, kind, message = lake.admin.post(
        f"/namespaces/ns/tables/malformed-{field}-{len(repr(value))}/sign", body
    ).error
    assert (status, kind, field in message) == (400, "BadRequestException", True)


# --- what a signature opens ------------------------------------------------------------------------------------------


def test_signed_requests_read_write_list_copy_and_delete(lake: Lake) -> None:
    own = lake.folder_of("works")
    file, copy = lake.url(f"{own}/data/a b=ü.parquet"), lake.url(f"{own}/data/copy")
    file = file.replace(" ", "%20").replace("ü", "%C3%BC")
    put = lake.sign("works", "PUT", file, headers={"Content-Length": "7", "User-Agent": "test"})
    assert (put.headers["cache-control"], send(put, "PUT", body=b"content").status_code) == ("no-store", 200)
    part = send(lake.sign("works", "GET", file, headers={"Range": "bytes=0-2"}), "GET")
    assert (part.status_code, part.content) == (206, b"con")
    assert send(lake.sign("works", "HEAD", file), "HEAD").headers["content-length"] == "7"
    source = {"x-amz-copy-source": f"/{BUCKET}/{own}/data/a%20b%3D%C3%BC.parquet"}
    assert send(lake.sign("works", "PUT", copy, headers=source), "PUT").status_code == 200
    listing = lake.url("", f"?list-type=2&prefix={own.replace('/', '%2F')}%2Fdata%2F")
    assert send(lake.sign("works", "GET", listing), "GET").text.count("<Key>") == 2
    assert send(lake.sign("works", "DELETE", copy), "DELETE").status_code == 204
    assert send(lake.sign("works", "GET", copy), "GET").status_code == 404


def test_a_large_file_is_written_in_parts(lake: Lake) -> None:
    file = lake.url(f"{lake.folder_of('parts')}/data/large")
    started = send(lake.sign("parts", "POST", f"{file}?uploads"), "POST").text
    upload = started.partition("<UploadId>")[2].partition("<")[0]
    content = b"x" * 5 * 2**20
    part = lake.sign("parts", "PUT", f"{file}?partNumber=1&uploadId={upload}")
    etag = send(part, "PUT", body=content).headers["etag"]
    xml = (
        f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
    )
    done = send(lake.sign("parts", "POST", f"{file}?uploadId={upload}"), "POST", body=xml.encode())
    assert done.status_code == 200, done.text
    assert send(lake.sign("parts", "HEAD", file), "HEAD").headers["content-length"] == str(len(content))


def test_nothing_outside_of_the_table_is_signed_and_each_refusal_is_recorded(lake: Lake) -> None:
    own, foreign = lake.folder_of("sales"), lake.folder_of("sales2")
    secret = f"{foreign}/secret"
    presigned = lake.url(secret, "?X-Amz-Security-Token=hunter2&X-Amz-Signature=hunter3")
    assert "hunter" not in refusal(lake.sign("sales", "GET", presigned))
    tries = [
        lake.sign("sales", "GET", lake.url(secret)),
        lake.sign("sales", "GET", lake.url(f"{own}/../sales2/secret")),
        lake.sign("sales", "GET", lake.url(f"{own}/..%2Fsales2%2Fsecret")),
        lake.sign("sales", "GET", lake.url(f"{own}/%252e%252e/sales2/secret")),
        lake.sign("sales", "GET", lake.url(f"{own.upper()}/a")),
        lake.sign("sales", "PUT", lake.url(f"{own}/x"), headers={"x-amz-copy-source": f"/{BUCKET}/{secret}"}),
        lake.sign("sales", "PUT", lake.url(f"{own}/x"), headers={"x-amz-acl": "public-read"}),
        lake.sign("sales", "GET", lake.url("", f"?list-type=2&prefix={own.replace('/', '%2F')}")),
        lake.sign("sales", "GET", lake.url("", "?list-type=2&prefix=")),
        lake.sign("sales", "PUT", lake.url("", "?policy")),
        lake.sign("sales", "GET", lake.url(f"{own}/a").replace("127.0.0.1", "127.0.0.2")),
        lake.sign("sales", "GET", lake.url(f"{own}/a"), region="eu-west-1"),
    ]
    assert all(refusal(answer) for answer in tries)
    # The answer is the same whether there is something at the other place or not.
    missing = lake.sign("sales", "GET", lake.url("w/ns/nothing/secret"))
    assert refusal(missing) == refusal(tries[0]).replace(secret, "w/ns/nothing/secret")

    def recorded() -> list[audit.Record]:
        rows = audit.newest_records(lake.guarded.database.read(), limit=100)
        return [row for row in rows if row.operation == "signRequest" and row.decision == "refused"]

    assert wait_until(lambda: len(recorded()) >= 5, 30)
    assert any(secret in row.note and "ns.sales" in row.objects for row in recorded())
    assert any("X-Amz-Signature=***" in row.note for row in recorded())
    assert not any("hunter" in row.note or "hunter" in row.objects for row in recorded())


def test_what_is_signed_depends_on_grants_and_ends_with_them(lake: Lake) -> None:
    own = lake.folder_of("granted")
    target = table("granted")
    users = {
        "reader": lake.guarded.user("reader", ("read", target)),
        "writer": lake.guarded.user("writer", ("write", target)),
        "keeper": lake.guarded.user("keeper", ("maintain", target)),
    }
    requests_ = [("GET", f"{own}/a"), ("PUT", f"{own}/a"), ("DELETE", f"{own}/a")]
    allowed = {
        who: [lake.sign("granted", method, lake.url(key), client=client).status for method, key in requests_]
        for who, client in users.items()
    }
    assert allowed == {"reader": [200, 403, 403], "writer": [200, 200, 403], "keeper": [200, 200, 200]}
    lake.guarded.revoke("write", target, "writer")
    lake.guarded.grant("read", target, "writer")
    assert lake.sign("granted", "PUT", lake.url(f"{own}/a"), client=users["writer"]).status == 403
    lake.guarded.revoke("read", target, "reader")
    revoked = lake.sign("granted", "GET", lake.url(f"{own}/a"), client=users["reader"])
    assert revoked.error[:2] == (404, "NoSuchWarehouseException")  # there is nothing left that it may see


def test_a_table_that_a_caller_may_not_see_is_as_one_that_does_not_exist(lake: Lake) -> None:
    own = lake.folder_of("hidden")
    lake.admin.create("seen")
    guest = lake.guarded.user("guest", ("read", table("seen")))
    hidden = lake.sign("hidden", "GET", lake.url(f"{own}/a"), client=guest)
    missing = lake.sign("missing", "GET", lake.url(f"{own}/a"), client=guest)
    through = lake.sign("seen", "GET", lake.url(f"{own}/a"), client=guest)
    nothing = lake.sign("seen", "GET", lake.url("w/ns/missing/a"), client=guest)
    assert hidden.error[:2] == missing.error[:2] == (404, "NoSuchTableException")
    assert hidden.error[2].replace("hidden", "missing") == missing.error[2]
    assert refusal(through).replace(own, "w/ns/missing") == refusal(nothing)
    unknown = requests.post(f"{lake.admin.uri}/v1/default/namespaces/ns/tables/seen/sign", json={}, timeout=30)
    assert unknown.status_code == 401


def creating_commit(staged: Mapping[str, Any]) -> dict[str, Any]:
    """The commit that creates a staged table."""
    return {
        "requirements": [{"type": "assert-create"}],
        "updates": [
            {"action": "assign-uuid", "uuid": staged["table-uuid"]},
            {"action": "upgrade-format-version", "format-version": 2},
            {"action": "add-schema", "schema": staged["schemas"][0]},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
            {"action": "set-default-sort-order", "sort-order-id": -1},
            {"action": "set-location", "location": staged["location"]},
        ],
    }


def test_the_files_of_a_staged_table_are_signed_for_who_staged_it(lake: Lake) -> None:
    lake.admin.create("first")
    creator = lake.guarded.user("creator", ("create", namespace("ns")))
    other = lake.guarded.user("other", ("create", namespace("ns")))
    body = {"name": "staged", "schema": SCHEMA, "stage-create": True}
    staged = creator.post("/namespaces/ns/tables", body, headers=ASKS).body
    properties = staged["remote-signing-config"]["properties"]
    location = staged["metadata"]["location"].removeprefix(f"s3://{BUCKET}/")

    def put(client: Client, key: str, sent_back: dict[str, str] = properties) -> Answer:
        return lake.sign("staged", "PUT", lake.url(key), client=client, properties=sent_back)

    assert send(put(creator, f"{location}/data/a"), "PUT", body=b"x").status_code == 200
    assert put(creator, f"{location}/data/a", {}).status == 404
    foreign = properties | {"frazil.staged-location": f"s3://{BUCKET}/w/ns/first"}
    refused = [put(creator, "w/ns/first/a"), put(other, f"{location}/data/a"), put(creator, "w/ns/first/a", foreign)]
    assert [answer.status for answer in refused] == [403, 403, 403]
    deleted = lake.sign("staged", "DELETE", lake.url(f"{location}/data/a"), client=creator, properties=properties)
    assert refusal(deleted)
    created = creator.post("/namespaces/ns/tables/staged", creating_commit(staged["metadata"]))
    assert created.status == 200, created.body
    assert (put(creator, f"{location}/data/b").status, put(other, f"{location}/data/b").status) == (200, 403)


@pytest.mark.parametrize("spelling", ["s3://lakehouse/w/ns/twice-", "s3a://lakehouse//w/ns/twice-"])
def test_a_place_that_was_staged_twice_is_not_signed_for_after_its_table_was_dropped(lake: Lake, spelling: str) -> None:
    suffix = f"{len(spelling):08x}"
    lake.admin.create(f"first-{suffix}")
    creator = lake.guarded.user(f"creator-{suffix}", ("create", namespace("ns")))
    body = {"name": "twice", "schema": SCHEMA, "stage-create": True, "location": f"{spelling}{suffix}"}
    first, second = (creator.post("/namespaces/ns/tables", body).body["metadata"] for _ in range(2))
    file = lake.url(f"w/ns/twice-{suffix}/data/a")

    def get(staged: Mapping[str, Any]) -> int:
        sent_back = {"frazil.staged-uuid": staged["table-uuid"], "frazil.staged-location": staged["location"]}
        return lake.sign("twice", "GET", file, client=creator, properties=sent_back).status

    assert (get(first), get(second)) == (200, 200)
    assert creator.post("/namespaces/ns/tables/twice", creating_commit(first)).status == 200
    lake.guarded.revoke("manage", table("twice"), f"creator-{suffix}")
    assert lake.admin.delete("/namespaces/ns/tables/twice").status == 204
    assert (get(first), get(second)) == (403, 403)


def test_a_table_whose_folder_overlaps_another_one_is_not_signed(
    store: ObjectStore, lake: Lake, tmp_path: Path
) -> None:
    with lake_in(
        tmp_path,
        store,
        allow_overlap=True,
        warehouses={"default": f"s3://{BUCKET}/overlap"},
        storage={"default": PROFILES["default"]},
    ) as overlapping:
        own = overlapping.folder_of("outer")
        overlapping.folder_of("inner", location=f"s3://{BUCKET}/{own}/inner")
        answers = [overlapping.sign(name, "GET", overlapping.url(f"{own}/inner/a")) for name in ("outer", "inner")]
    assert all("overlaps" in refusal(answer) for answer in answers)


# --- what can be done with a signature afterwards --------------------------------------------------------------------


def test_a_signature_is_good_for_nothing_but_its_request(lake: Lake) -> None:
    own, foreign = lake.folder_of("replayed"), lake.folder_of("victim")
    file, secret = lake.url(f"{own}/a"), lake.url(f"{foreign}/secret")
    assert send(lake.sign("victim", "PUT", secret), "PUT", body=b"secret").status_code == 200
    put = lake.sign("replayed", "PUT", file)
    assert send(put, "PUT", body=b"x").status_code == 200
    get = lake.sign("replayed", "GET", file, headers={"Range": "bytes=0-0"})
    assert send(get, "GET").status_code == 206
    replays = [
        send(get, "DELETE"),
        send(get, "GET", url=secret),
        send(get, "GET", url=f"{file}?acl"),
        send(get, "GET", Range="bytes=0-9"),
        send(get, "GET", x_amz_checksum_mode="ENABLED"),
        send(get, "GET", x_amz_date="20200101T000000Z"),
        send(put, "PUT", x_amz_copy_source=f"/{BUCKET}/{foreign}/secret"),
        send(put, "PUT", x_amz_acl="public-read"),
    ]
    assert [answer.status_code for answer in replays] == [403] * len(replays)


def test_a_prefix_that_a_client_adds_does_not_move_a_request(lake: Lake) -> None:
    """SeaweedFS puts X-Forwarded-Prefix before the path when it checks a signature."""
    own, foreign = lake.folder_of("moved"), lake.folder_of("target")
    secret = lake.url(f"{foreign}/secret")
    assert send(lake.sign("target", "PUT", secret), "PUT", body=b"secret").status_code == 200
    inside = lake.sign("moved", "GET", lake.url(f"{own}/{BUCKET}/{foreign}/secret"))
    assert send(inside, "GET").status_code == 404
    prefix = f"/{BUCKET}/{own}"
    assert send(inside, "GET", url=secret, **{"x-forwarded-prefix": prefix}).status_code == 403
    assert send(inside, "GET", url=secret, X_Forwarded_Prefix=prefix).status_code == 403


def test_a_host_that_a_client_adds_does_not_move_a_request_to_another_bucket(lake: Lake) -> None:
    """SeaweedFS checks a signature with X-Forwarded-Host, and looks for the bucket in Host."""
    key = f"{lake.folder_of('rehosted')}/a"
    file, backup = lake.url(key), f"{lake.store.endpoint}/backup"
    assert send(lake.sign("rehosted", "PUT", file), "PUT", body=b"own").status_code == 200
    assert lake.own("PUT", backup).status_code == 200
    assert lake.own("PUT", f"{backup}/{BUCKET}/{key}", b"foreign").status_code == 200
    get, host = lake.sign("rehosted", "GET", file), urlsplit(file).netloc
    assert (send(get, "GET").content, get.body["headers"]["x-forwarded-host"]) == (b"own", [""])
    moved = {"Host": f"backup.{DOMAIN}", "x-forwarded-host": host}
    assert send(get, "GET", **moved).status_code == 403
    assert send(get, "GET", Host=f"backup.{DOMAIN}").status_code == 403
    unprotected = AWSRequest("GET", file, headers={"x-forwarded-prefix": ""})
    S3SigV4Auth(lake.keys(), "s3", REGION).add_auth(unprotected)
    known = requests.get(file, headers={**dict(unprotected.headers.items()), **moved}, timeout=30)
    assert known.content == b"foreign"  # why it is signed


def test_a_header_that_a_proxy_fills_is_not_signed(lake: Lake) -> None:
    keys = lake.keys()

    class Proxy(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            signed = "x-forwarded-host" in self.headers["Authorization"]
            self.send_response(403 if signed else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_PUT = do_POST = answer

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Proxy) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        access = S3Access(REGION, f"http://127.0.0.1:{server.server_port}", True, keys.access_key, keys.secret_key)
        signer = open_signer(access, Place("s3", BUCKET, "w"))
        signed = signer.sign(Signable("GetObject", "GET", f"{access.endpoint}/{BUCKET}/w/a", {}, EMPTY_SHA256))
        server.shutdown()
    assert "x-forwarded-host" not in signed


def test_the_store_refuses_a_signature_of_another_time(lake: Lake) -> None:
    """What keeps a captured signature from being of use for longer than 15 minutes."""
    url = lake.url(f"{lake.folder_of('late')}/a")

    class Late(S3SigV4Auth):
        def _modify_request_before_signing(self, request: Any) -> None:
            request.context["timestamp"] = (datetime.now(UTC) - timedelta(minutes=16)).strftime("%Y%m%dT%H%M%SZ")
            super()._modify_request_before_signing(request)

    request = AWSRequest("GET", url)
    Late(lake.keys(), "s3", REGION).add_auth(request)
    late = requests.get(url, headers=dict(request.headers.items()), timeout=30)
    assert (late.status_code, "RequestTimeTooSkewed" in late.text) == (403, True)


# --- batch deletes ---------------------------------------------------------------------------------------------------


def delete_of(*keys: str) -> str:
    return f"<Delete>{''.join(f'<Object><Key>{key}</Key></Object>' for key in keys)}</Delete>"


def test_a_batch_delete_is_not_signed_for_a_store_that_does_not_hold_to_its_body(lake: Lake) -> None:
    own = lake.folder_of("batch")
    answer = lake.sign("batch", "POST", lake.url("", "?delete"), body=delete_of(f"{own}/a"))
    assert "does not compare the body" in refusal(answer)


def test_a_batch_delete_is_signed_with_its_body_where_the_operator_says_so(lake: Lake) -> None:
    client = Client(lake.admin.uri, "trusting", lake.admin.session)
    own, foreign = lake.folder_of("batch", client=client), lake.folder_of("other", client=client)
    keys = [f"{own}/a", f"{own}/b"]
    for key in (*keys, f"{foreign}/a"):
        name = "batch" if key.startswith(own) else "other"
        assert send(lake.sign(name, "PUT", lake.url(key), client=client), "PUT", body=b"x").status_code == 200
    url = lake.url("", "?delete")
    for body in (None, delete_of(keys[0], f"{foreign}/a"), "<!DOCTYPE d>" + delete_of(keys[0])):
        assert refusal(lake.sign("batch", "POST", url, client=client, body=body))
    body = delete_of(*keys)
    signed = lake.sign("batch", "POST", url, client=client, body=body)
    assert signed.body["headers"]["X-Amz-Content-SHA256"] == [hashlib.sha256(body.encode()).hexdigest()]
    assert send(signed, "POST", body=body.encode()).text.count("<Deleted>") == 2
    assert [lake.own_get(key) for key in (*keys, f"{foreign}/a")] == [None, None, b"x"]


def test_what_this_store_verifies(lake: Lake) -> None:
    """The limits that docs/catalog.md names: SeaweedFS 4.48 covers headers, and does not compare bodies."""
    keys = lake.keys()
    access = S3Access(REGION, lake.store.endpoint, True, keys.access_key, keys.secret_key)
    checks = open_signer(access, Place("s3", BUCKET, "w")).checks()
    assert checks == StoreChecks(headers=True, bodies=False, empty_host=True)


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ((404, 403, 200, 400, 200), StoreChecks(headers=True, bodies=True, empty_host=True)),
        # too many requests: the body was not looked at
        ((404, 403, 200, 429, 429), StoreChecks(headers=True, bodies=False, empty_host=True)),
        ((503, 403, 503, 400, 403), StoreChecks(headers=False, bodies=False, empty_host=False)),
        ((404, 404, 200, 200, 503), StoreChecks(headers=False, bodies=False, empty_host=True)),
    ],
)
def test_only_a_clear_answer_of_the_store_counts(statuses: tuple[int, ...], expected: StoreChecks) -> None:
    answers = iter(statuses)

    class Store(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            self.send_response(next(answers))
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_PUT = do_POST = answer

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Store) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        access = S3Access(REGION, f"http://127.0.0.1:{server.server_port}", True, "key", "secret")
        checks = open_signer(access, Place("s3", BUCKET, "w")).checks()
        server.shutdown()
    assert checks == expected


# --- frazil warehouse check ------------------------------------------------------------------------------------------


def test_the_check_proves_that_signed_requests_work_inside_and_fail_outside(lake: Lake, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "FRAZIL_SERVER__WAREHOUSES__DEFAULT": PLACES["default"],
        "FRAZIL_SERVER__STORAGE__DEFAULT__REMOTE_SIGNING": "true",
    }
    command = [sys.executable, "-m", "frazil", "warehouse", "check", "--output", "json"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    outcome = json.loads(done.stdout)["warehouses"]["default"]
    assert [attempt for attempt in outcome["attempts"] if not attempt["passed"]] == []
    assert (done.returncode, outcome["passed"], outcome["role"], outcome["batch_deletes"]) == (0, True, None, False)
    expected = [attempt["expected"] for attempt in outcome["attempts"]]
    assert (expected.count("allowed"), expected.count("denied")) == (5, 8)
