"""The catalog's records of indexes: created once, replaced by compare-and-set, checked before they are kept."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from copy import copy
from typing import Any, cast

import pytest

from frazil.catalog.embedded import EmbeddedCatalog
from frazil.catalog.http import Request
from frazil.catalog.metadata import Version
from frazil.catalog.operations.indexes import create_index, replace_index
from frazil.catalog.warehouse import MetadataFiles
from frazil.errors import BadRequest
from tests.kit.catalog_databases import Client
from tests.kit.catalog_writers import run_together
from tests.kit.raising import raises

PATH = "/namespaces/ns/tables/t/indexes"


@pytest.fixture
def location(client: Client) -> str:
    """The location of a new table."""
    return str(client.create("t")["metadata"]["location"])


def record(location: str, *segments: str, **other: Any) -> dict[str, Any]:
    listed = [{"path": f"{location}/index/{name}", "size": 10, "vectors": 2, "files": 1} for name in segments]
    known = {"type": "frazil-vector-v1", "field-id": 2, "metric": "cosine", "dimension": 384, "probes": 20}
    return {**known, "codebook": {"path": f"{location}/index/codebook.puffin"}, "segments": listed, **other}


def create(client: Client, location: str, name: str = "i", **other: Any) -> Any:
    answer = client.post(PATH, {"name": name, "record": record(location, **other)})
    assert answer.status == 200, answer.body
    return answer.body


def test_an_index_is_recorded_replaced_and_dropped(client: Client, location: str) -> None:
    created = create(client, location)
    assert (created["name"], created["version"], created["record"]["dimension"]) == ("i", 1, 384)
    replaced = client.post(f"{PATH}/i", {"version": 1, "record": record(location, "a.puffin", "b.puffin")})
    assert (replaced.status, replaced.body["version"], replaced.body["uuid"]) == (200, 2, created["uuid"])
    assert client.get(f"{PATH}/i").body == replaced.body
    assert client.get(PATH).body == {"indexes": [replaced.body]}
    assert client.delete(f"{PATH}/i").status == 204
    assert client.get(PATH).body == {"indexes": []}
    assert client.get(f"{PATH}/i").error[:2] == (404, "NoSuchIndexException")
    assert client.delete(f"{PATH}/i").error[:2] == (404, "NoSuchIndexException")


def test_a_name_is_taken_once_and_a_version_replaced_once(client: Client, location: str) -> None:
    create(client, location)
    assert client.post(PATH, {"name": "i", "record": record(location)}).error[:2] == (409, "AlreadyExistsException")
    statuses: list[int] = []

    def replace() -> None:
        statuses.append(client.post(f"{PATH}/i", {"version": 1, "record": record(location)}).status)

    run_together([replace] * 4)
    assert sorted(statuses) == [200, 409, 409, 409]
    assert client.get(f"{PATH}/i").body["version"] == 2


def test_a_renamed_table_keeps_its_indexes(client: Client, location: str) -> None:
    created = create(client, location)
    names = ({"namespace": ["ns"], "name": name} for name in ("t", "renamed"))
    assert client.post("/tables/rename", dict(zip(("source", "destination"), names, strict=True))).status == 204
    assert client.get("/namespaces/ns/tables/renamed/indexes").body == {"indexes": [created]}
    assert client.get(PATH).error[:2] == (404, "NoSuchTableException")


def test_the_same_key_creates_one_index(client: Client, location: str) -> None:
    body, key = {"name": "i", "record": record(location)}, {"Idempotency-Key": str(uuid.uuid4())}
    first, second = (client.post(PATH, body, headers=key) for _ in range(2))
    assert (first.status, first.body) == (second.status, second.body) == (200, first.body)


@pytest.mark.parametrize(
    ("field", "value", "status"),
    [
        ("type", "other", 400),
        ("metric", "manhattan", 400),
        ("metric", None, 400),
        ("dimension", 0, 400),
        ("dimension", 2**20, 400),
        ("dimension", True, 400),
        ("field-id", "2", 400),
        ("probes", -1, 400),
        ("seed", "seven", 400),
        ("seed", None, 400),
        ("segments", {}, 400),
        ("segments", [{"path": "x"}], 400),
        ("codebook", {}, 400),
        ("codebook", {"path": "/etc/passwd"}, 400),
        ("codebook", {"path": "s3://other/bucket"}, 400),
        ("codebook", {"path": "file:///a/../b"}, 400),
        ("unknown", "x" * 2_000_000, 400),
    ],
)
def test_a_record_that_is_wrong_is_refused(client: Client, location: str, field: str, value: Any, status: int) -> None:
    answer = client.post(PATH, {"name": "i", "record": record(location, **{field: value})})
    assert answer.status == status
    assert client.get(PATH).body == {"indexes": []}


@pytest.mark.parametrize("path", ["/../other", "", "/"])
def test_a_file_outside_of_the_table_is_refused(client: Client, location: str, path: str) -> None:
    answer = client.post(PATH, {"name": "i", "record": record(location, codebook={"path": location + path})})
    assert answer.status == 400


class Moving:
    """The metadata files of a catalog, whose table moves right after its metadata was loaded first."""

    def __init__(self, files: MetadataFiles, move: Callable[[], None]) -> None:
        self.files, self.move = files, iter([move])

    def load(self, location: str, **options: Any) -> Version:
        version = self.files.load(location, **options)
        for move in self.move:
            move()
        return version


@pytest.mark.parametrize("name", ["i", "other"])
def test_a_table_that_moves_meanwhile_has_no_files_of_an_index_elsewhere(
    client: Client, server: EmbeddedCatalog, location: str, name: str
) -> None:
    created = create(client, location)

    def move() -> None:
        assert client.commit({"action": "set-location", "location": f"{location}-moved"}).status == 200

    ctx = copy(server.app.ctx)
    ctx.files = cast("MetadataFiles", Moving(ctx.files, move))
    wanted = {"name": name, "version": 1, "record": record(location, "new.puffin")}
    variables = {"prefix": "default", "namespace": "ns", "table": "t", "index": name}
    request = Request("POST", PATH, variables, body=json.dumps(wanted).encode())
    with raises(BadRequest):
        (replace_index if name == "i" else create_index)(ctx, request)
    assert client.get(PATH).body == {"indexes": [created]}


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 200, "ä", ".", "-x"])
def test_an_index_has_a_plain_name(client: Client, location: str, name: str) -> None:
    assert client.post(PATH, {"name": name, "record": record(location)}).status == 400


def test_a_table_has_at_most_16_indexes(client: Client, location: str) -> None:
    for number in range(16):
        create(client, location, f"i{number}")
    assert client.post(PATH, {"name": "more", "record": record(location)}).status == 400
