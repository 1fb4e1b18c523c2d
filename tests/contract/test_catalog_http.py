"""The edges of HTTP: bodies that are wrong, long, slow or packed; names and places that try to be something else."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.config import Limits
from tests.kit.catalog_databases import SCHEMA, Client

LIMITS = Limits(body_bytes=200_000)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCatalog]:
    folder = tmp_path_factory.mktemp("http")
    with running_catalog(folder, limits=LIMITS, allow_locations=[str(folder / "allowed")]) as running:
        Client(running.uri).create()
        yield running


def post(server: EmbeddedCatalog, path: str, content: bytes, **headers: str) -> requests.Response:
    return requests.post(
        f"{server.uri}/v1/default{path}",
        data=content,
        headers={"Content-Type": "application/json", **headers},
        timeout=30,
    )


def kind_of(reply: requests.Response) -> tuple[int, str]:
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "code"}
    return reply.status_code, error["type"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"nonsense",
        b"[]",
        b'"text"',
        b"null",
        b"{\xff}",
        b'{"namespace": ["\\ud800"]}',
        b"[" * 100_000,
        b'{"a":' * 5000,
    ],
)
def test_a_body_that_is_no_json_object_is_400(server: EmbeddedCatalog, content: bytes) -> None:
    assert kind_of(post(server, "/namespaces", content)) == (400, "BadRequestException")


def test_unknown_fields_are_ignored(server: EmbeddedCatalog) -> None:
    body = {"namespace": ["unknown-fields"], "x-new": {"a": [1]}}
    assert post(server, "/namespaces", json.dumps(body).encode()).status_code == 200


def test_a_huge_body_is_413_whether_it_says_so_or_not(server: EmbeddedCatalog) -> None:
    huge = b'{"namespace": ["' + b"x" * 300_000 + b'"]}'

    def chunks() -> Iterator[bytes]:
        yield from (huge[i : i + 10_000] for i in range(0, len(huge), 10_000))

    assert kind_of(post(server, "/namespaces", huge)) == (413, "PayloadTooLargeException")
    assert kind_of(post(server, "/namespaces", chunks())) == (413, "PayloadTooLargeException")  # type: ignore[arg-type]


def test_a_body_in_gzip_is_read_and_a_bomb_is_413(server: EmbeddedCatalog) -> None:
    packed = gzip.compress(b'{"namespace": ["packed"]}')
    assert post(server, "/namespaces", packed, **{"Content-Encoding": "gzip"}).status_code == 200
    bomb = gzip.compress(b" " * 50_000_000)
    assert kind_of(post(server, "/namespaces", bomb, **{"Content-Encoding": "gzip"})) == (
        413,
        "PayloadTooLargeException",
    )
    assert kind_of(post(server, "/namespaces", packed[:-9], **{"Content-Encoding": "gzip"})) == (
        400,
        "BadRequestException",
    )
    assert kind_of(post(server, "/namespaces", packed, **{"Content-Encoding": "br"})) == (
        415,
        "UnsupportedMediaTypeException",
    )


def test_a_body_that_does_not_arrive_is_408() -> None:
    with running_catalog(limits=Limits(body_seconds=0.5)) as hasty:
        host, port = hasty.uri.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(
                b"POST /v1/default/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: 1000\r\n\r\n{"
            )
            assert connection.recv(100).startswith(b"HTTP/1.1 408")


def test_long_replies_are_packed_for_clients_that_accept_it(server: EmbeddedCatalog) -> None:
    client = Client(server.uri)
    client.create("long", properties={f"key-{n}": "value" * 20 for n in range(200)})
    url = f"{server.uri}/v1/default/namespaces/ns/tables/long"
    plain = requests.get(url, headers={"Accept-Encoding": "identity"}, timeout=30)
    packed = [requests.get(url, headers={"Accept-Encoding": "gzip"}, timeout=30) for _ in range(2)]
    assert "content-encoding" not in plain.headers
    assert {r.headers["content-encoding"] for r in packed} == {"gzip"}
    assert {r.headers["etag"] for r in (plain, *packed)} == {plain.headers["etag"]}
    assert int(packed[0].headers["content-length"]) < len(plain.content) / 5
    assert packed[0].json() == packed[1].json() == plain.json()


# --- names and places that try to be something else ------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["..", ".", "a/b", "../../etc/passwd", "a\\b", "%2e%2e", "-", "a b", "ünï", "名前", "a'b", 'a"b', "a;b"]
)
def test_a_table_of_any_name_lives_inside_its_warehouse(server: EmbeddedCatalog, name: str) -> None:
    client = Client(server.uri)
    answer = client.post("/namespaces/ns/tables", {"name": name, "schema": SCHEMA})
    assert answer.status == 200
    written = Path(answer.body["metadata-location"].removeprefix("file://")).resolve()
    assert written.is_relative_to(server.folder.resolve() / "warehouse" / "ns")
    quoted = requests.utils.quote(name, safe="")
    if name not in (".", ".."):  # requests itself removes these from a path
        assert client.get(f"/namespaces/ns/tables/{quoted}").body == answer.body


@pytest.mark.parametrize(
    ("location", "status"),
    [
        ("{folder}/elsewhere", 403),
        ("file:///etc/frazil", 403),
        ("file:{folder}/warehouse-2/t", 403),
        ("{folder}/warehouse/../elsewhere", 400),
        ("{folder}/warehouse/%2e%2e/elsewhere", 400),
        ("file://{folder}/warehouse/a%2Fb", 400),
        ("s3://bucket/t", 403),
        ("gs://bucket/t", 400),
        ("warehouse/t", 400),
        ("{folder}/allowed/t", 200),
        ("file:{folder}/warehouse/anywhere/t/", 200),
    ],
)
def test_a_table_is_not_written_outside_its_warehouse(server: EmbeddedCatalog, location: str, status: int) -> None:
    client, place = Client(server.uri), location.format(folder=server.folder)
    body: dict[str, Any] = {"name": f"l{abs(hash(location))}", "schema": SCHEMA, "location": place}
    assert client.post("/namespaces/ns/tables", {**body, "stage-create": True}).status == status
    assert client.post("/namespaces/ns/tables", body).status == status
    client.delete(f"/namespaces/ns/tables/{body['name']}")  # no two tables have one place
    assert client.commit({"action": "set-location", "location": place}).status == status
    moved = client.commit({"action": "set-properties", "updates": {"write.metadata.path": place}})
    assert moved.status == status
    client.commit({"action": "remove-properties", "removals": ["write.metadata.path"]})
    assert not (server.folder / "elsewhere").exists()


def test_a_metadata_file_outside_cannot_be_registered(server: EmbeddedCatalog, tmp_path: Path) -> None:
    client = Client(server.uri)
    result = client.create("inside")
    (tmp_path / "x.metadata.json").write_text(json.dumps(result["metadata"]))
    outside = {"name": "r", "metadata-location": f"file://{tmp_path}/x.metadata.json"}
    assert client.post("/namespaces/ns/register", outside).error[:2] == (403, "ForbiddenException")
    lying = server.folder / "warehouse" / "lying.metadata.json"
    lying.write_text(json.dumps({**result["metadata"], "location": f"file://{tmp_path}"}))
    answer = client.post("/namespaces/ns/register", {"name": "r", "metadata-location": f"file://{lying}"})
    assert answer.error[:2] == (403, "ForbiddenException")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"format-version": 9}', '{"format-version": 2, "table-uuid": "x"}']
)
def test_a_file_that_is_no_metadata_cannot_be_registered(server: EmbeddedCatalog, content: str) -> None:
    file = server.folder / "warehouse" / "wrong.metadata.json"
    file.write_text(content)
    answer = Client(server.uri).post(
        "/namespaces/ns/register", {"name": "wrong", "metadata-location": f"file://{file}"}
    )
    assert answer.error[:2] == (400, "BadRequestException")


def test_a_missing_file_cannot_be_registered(server: EmbeddedCatalog) -> None:
    body = {"name": "gone", "metadata-location": f"file://{server.folder}/warehouse/gone.metadata.json"}
    assert Client(server.uri).post("/namespaces/ns/register", body).error[:2] == (400, "BadRequestException")


def test_metrics_count_requests_and_how_commits_ended(server: EmbeddedCatalog) -> None:
    client = Client(server.uri)
    client.create("counted")
    client.commit({"action": "set-properties", "updates": {"a": "b"}}, table="counted")
    client.append(2, parent=1, sequence=2, table="counted")
    text = requests.get(f"{server.uri}/metrics", timeout=30).text
    series = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(series['frazil_commits_total{outcome="committed"}']) >= 2
    assert float(series['frazil_commits_total{outcome="conflict"}']) >= 1
    assert float(series['frazil_requests_total{operation="updateTable",status="409"}']) >= 1
    assert (
        series['frazil_request_seconds_bucket{operation="updateTable",le="+Inf"}']
        == series['frazil_request_seconds_count{operation="updateTable"}']
    )
    assert float(series["frazil_cache_bytes"]) > 0
