"""Vector search by the catalog: the rows that the client's own search gives, within limits, and no longer than its
client waits.
"""

from __future__ import annotations

import datetime
import json
import threading
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pytest
import requests
from pyiceberg.expressions import EqualTo, GreaterThan
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
    UUIDType,
)

from frazil import Lake
from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.catalog.files.local import LocalFiles
from frazil.client import FrazilCatalog
from frazil.config import Limits
from frazil.errors import NoSuchTable, TooBusy, VectorError
from frazil.lake import LakeTable
from frazil.processes import wait_until
from frazil.vector.codebook import BLOB
from tests.contract.hostile_clients import NAMESPACES, post
from tests.contract.test_catalog_limits import all_over, counted, target_of
from tests.kit.catalog_databases import Client
from tests.kit.delete_files import delete_equal
from tests.kit.raising import raises

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "kind", StringType()),
    NestedField(3, "embedding", ListType(4, FloatType(), element_required=False)),
)
DIMENSION, KINDS = 8, ("red", "green", "blue")
SEARCH = "/namespaces/lake/tables/points/search"
ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCatalog]:
    with running_catalog(tmp_path_factory.mktemp("search")) as running:
        yield running


@pytest.fixture(scope="module")
def catalog(server: EmbeddedCatalog) -> FrazilCatalog:
    catalog = FrazilCatalog("lake", **server.properties)
    catalog.create_namespace("lake")
    return catalog


@pytest.fixture(scope="module")
def points(catalog: FrazilCatalog) -> LakeTable:
    """Three appends of 50 rows, with deletes of two kinds in between."""
    catalog.create_table("lake.points", SCHEMA)
    table = Lake(catalog=catalog).table("lake.points")
    for start in (0, 50, 100):
        table.append(vectors_from(start, 50))
    delete_equal(catalog, "lake.points", "id", [3, 60])
    table.delete("id IN (10, 110)")
    return table


def vectors_from(start: int, count: int) -> list[dict[str, Any]]:
    numbers = np.random.default_rng(start).standard_normal((count, DIMENSION)).astype(np.float32)
    return [{"id": start + n, "kind": KINDS[n % 3], "embedding": vector.tolist()} for n, vector in enumerate(numbers)]


def query(seed: int = 7) -> list[float]:
    vector: list[float] = np.random.default_rng(seed).standard_normal(DIMENSION).tolist()
    return vector


@pytest.fixture
def client(server: EmbeddedCatalog) -> Iterator[Client]:
    client = Client(server.uri)
    yield client
    client.session.close()


# --- the same rows as in the client ----------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["cosine", "l2", "ip"])
def test_the_server_finds_what_the_client_finds(points: LakeTable, client: Client, metric: str) -> None:
    body = client.post(SEARCH, {"column": "embedding", "vector": query(), "k": 7, "metric": metric}).body
    expected = points.scan().nearest("embedding", query(), k=7, metric=metric).to_arrow()
    assert body["rows"] == expected.to_pylist()
    assert body["snapshot-id"] == points.load().metadata.current_snapshot_id
    assert (body["search"]["files-indexed"], body["search"]["rows-exact"]) == (0, 146)


def test_an_arrow_stream_has_the_same_rows(points: LakeTable, server: EmbeddedCatalog) -> None:
    body = {"column": "embedding", "vectors": [query(1), query(2)], "k": 3}
    reply = requests.post(f"{server.uri}/v1/default{SEARCH}", json=body, headers={"Accept": ARROW}, timeout=60)
    assert (reply.status_code, reply.headers["content-type"]) == (200, ARROW)
    expected = points.scan().nearest("embedding", [query(1), query(2)], k=3).to_arrow()
    assert pa.ipc.open_stream(reply.content).read_all().equals(expected)


def test_filters_snapshots_and_columns_hold(points: LakeTable, client: Client) -> None:
    first = points.load().metadata.snapshots[0].snapshot_id
    body = {
        "column": "embedding",
        "vector": query(),
        "k": 4,
        "select": ["kind", "id"],
        "filter": {"type": "eq", "term": "kind", "value": "red"},
        "snapshot-id": first,
    }
    expected = points.scan("kind = 'red'", ["kind", "id"], at=first).nearest("embedding", query(), k=4).to_arrow()
    assert client.post(SEARCH, body).body["rows"] == expected.to_pylist()
    assert {row["kind"] for row in expected.to_pylist()} == {"red"}


def test_the_client_has_a_method_for_it(points: LakeTable, catalog: FrazilCatalog) -> None:
    chosen = GreaterThan("id", 20) & EqualTo("kind", "blue")
    asked = np.array([query(1), query(2)], np.float32)
    result = catalog.search_table("lake.points", "embedding", asked, k=3, filter=chosen, select=["id"], metric="l2")
    expected = points.scan(chosen, "id").nearest("embedding", asked, k=3, metric="l2").to_arrow()
    assert result.equals(expected)
    assert catalog.search_table("lake.points", "embedding", query(), k=1).num_rows == 1
    with raises(VectorError, table="lake.points"):
        catalog.search_table("lake.points", "embedding", [1.0])
    with raises(NoSuchTable):
        catalog.search_table("lake.nothing", "embedding", [1.0])


def test_an_empty_table_has_no_nearest_rows(catalog: FrazilCatalog, client: Client) -> None:
    catalog.create_table("lake.empty", SCHEMA)
    answer = client.post("/namespaces/lake/tables/empty/search", {"column": "embedding", "vector": [1.0]})
    assert (answer.status, answer.body["rows"], answer.body["snapshot-id"]) == (200, [], None)


def test_values_of_all_types_are_json(catalog: FrazilCatalog, client: Client) -> None:
    schema = Schema(
        NestedField(1, "amount", DecimalType(9, 2)),
        NestedField(2, "day", DateType()),
        NestedField(3, "at", TimestamptzType()),
        NestedField(4, "raw", BinaryType()),
        NestedField(5, "key", UUIDType()),
        NestedField(6, "ratio", DoubleType()),
        NestedField(7, "embedding", ListType(8, DoubleType(), element_required=False)),
    )
    catalog.create_table("lake.typed", schema)
    moment, key = datetime.datetime(2024, 1, 18, 9, 30, tzinfo=datetime.UTC), uuid.uuid4()
    row = {"amount": Decimal("1.50"), "day": moment.date(), "at": moment, "raw": b"ab", "key": key.bytes}
    row |= {"ratio": float("nan"), "embedding": [1.0, 2.0]}
    Lake(catalog=catalog).table("lake.typed").append([row])
    body = client.post("/namespaces/lake/tables/typed/search", {"column": "embedding", "vector": [1, 2]}).body
    (shown,) = body["rows"]
    assert (shown["amount"], shown["day"], shown["raw"], shown["ratio"]) == ("1.50", "2024-01-18", "6162", None)
    assert (shown["at"], shown["key"]) == ("2024-01-18T09:30:00+00:00", str(key))


def test_the_operation_is_advertised_unless_it_is_turned_off(client: Client, tmp_path: Path) -> None:
    endpoint = f"POST /v1/{{prefix}}{SEARCH.replace('lake', '{namespace}').replace('points', '{table}')}"
    assert endpoint in client.raw("GET", "/v1/config").body["endpoints"]
    with running_catalog(tmp_path, limits=Limits(searches=0)) as other:
        assert endpoint not in Client(other.uri).raw("GET", "/v1/config").body["endpoints"]
        lake = FrazilCatalog("lake", **other.properties)
        lake.create_namespace("lake")
        lake.create_table("lake.points", SCHEMA)
        assert Client(other.uri).post(SEARCH, {"column": "embedding", "vector": [1]}).status == 406
        with pytest.raises(NotImplementedError):
            lake.search_table("lake.points", "embedding", [1.0])


# --- with an index ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def indexed(catalog: FrazilCatalog) -> LakeTable:
    """Two files that an index covers, and one that it does not."""
    catalog.create_table("lake.indexed", SCHEMA)
    table = Lake(catalog=catalog).table("lake.indexed")
    table.append(vectors_from(0, 400))
    table.append(vectors_from(400, 400))
    table.indexes.create("embedding", metric="l2", lists=16)
    table.append(vectors_from(800, 50))
    return table


def test_a_search_uses_the_index_of_the_column(indexed: LakeTable, client: Client) -> None:
    path, asked = "/namespaces/lake/tables/indexed/search", body_of(k=5, select=["id"])
    body = client.post(path, asked).body
    expected = indexed.scan(columns="id").nearest("embedding", query(), k=5).to_arrow()
    assert body["rows"] == expected.to_pylist()
    assert (body["search"]["files-indexed"], body["search"]["files-exact"], body["search"]["rows-exact"]) == (2, 1, 50)
    assert 0 < body["search"]["rows-scored"] <= 800
    exact = client.post(path, {**asked, "exact": True, "metric": "l2"}).body
    assert exact["search"]["rows-exact"] == 850


def test_rows_of_an_index_are_not_compared_one_by_one(server: EmbeddedCatalog, indexed: LakeTable) -> None:
    with running_catalog(server.folder, limits=Limits(search_rows=60)) as other:
        path = "/namespaces/lake/tables/indexed/search"
        assert Client(other.uri).post(path, body_of()).status == 200
        assert Client(other.uri).post(path, body_of(metric="cosine")).error[0] == 400


def test_an_index_is_found_by_its_copy_in_the_statistics(
    server: EmbeddedCatalog, indexed: LakeTable, client: Client
) -> None:
    catalog = FrazilCatalog("lake", **server.properties)
    (stored,) = catalog.list_indexes("lake.indexed") or []
    catalog.drop_index("lake.indexed", stored["name"])
    try:
        body = client.post("/namespaces/lake/tables/indexed/search", body_of(k=5)).body
        assert (body["search"]["files-indexed"], body["search"]["problem"]) == (2, None)
    finally:
        catalog.create_index("lake.indexed", stored["name"], stored["record"])


def test_an_index_that_would_not_fit_in_memory_is_not_read(catalog: FrazilCatalog, client: Client) -> None:
    """Its footer names a codebook of 3 GB, which the file has, as a hole."""
    catalog.create_table("lake.huge", SCHEMA)
    table = Lake(catalog=catalog).table("lake.huge")
    table.append(vectors_from(0, 100))
    record = table.indexes.create("embedding", lists=4)
    path = Path(record.codebook.removeprefix("file://"))
    lists = 3_000_000_000 // (4 * DIMENSION)
    size = 4 * (DIMENSION * DIMENSION + lists * DIMENSION)
    properties = {"dimension": str(DIMENSION), "metric": "cosine", "lists": str(lists)}
    blob = {"type": BLOB, "fields": [3], "snapshot-id": -1, "sequence-number": -1, "offset": 4, "length": size}
    footer = json.dumps({"blobs": [{**blob, "properties": properties}]}).encode()
    with path.open("wb") as file:
        file.write(b"PFA1")
        file.seek(size + 4)
        file.write(b"PFA1" + footer + len(footer).to_bytes(4, "little") + bytes(4) + b"PFA1")
    body = client.post("/namespaces/lake/tables/huge/search", body_of()).body
    assert (len(body["rows"]), body["search"]["rows-exact"]) == (10, 100)
    assert "in one read" in body["search"]["problem"]
    assert body["search"]["repair"] == "frazil index refresh lake.huge embedding_cosine"


# --- bad input -------------------------------------------------------------------------------------------------------


def body_of(**changes: Any) -> dict[str, Any]:
    return {"column": "embedding", "vector": query(), **changes}


BAD: dict[str, tuple[Any, str]] = {
    "no column": (body_of(column=None), "'column' is missing"),
    "a number for a column": (body_of(column=3), "'column' must be text"),
    "an unknown column": (body_of(column="embeding"), "no column 'embeding'"),
    "a column of text": (body_of(column="kind"), "expected a list of float or double"),
    "no vector": (body_of(vector=None), "either 'vector' or 'vectors'"),
    "a vector and vectors": (body_of(vectors=[query()]), "either 'vector' or 'vectors'"),
    "text for a vector": (body_of(vector="north"), "must be a list of 1 to 65,536 numbers"),
    "an empty vector": (body_of(vector=[]), "must be a list of 1 to 65,536 numbers"),
    "a vector that is too long": (body_of(vector=[1] * 65_537), "must be a list of 1 to 65,536 numbers"),
    "text in a vector": (body_of(vector=["a"] * DIMENSION), "must have numbers only"),
    "null in a vector": (body_of(vector=[None] * DIMENSION), "must have numbers only"),
    "true in a vector": (body_of(vector=[True] * DIMENSION), "must have numbers only"),
    "lists in a vector": (body_of(vector=[[1.0]] * DIMENSION), "must have numbers only"),
    "another dimension": (body_of(vector=[1.0] * 3), "expected a vector of 8 numbers"),
    "a zero vector": (body_of(vector=[0] * DIMENSION), "has no cosine"),
    "numbers that are too large": (body_of(vector=[1e300] * DIMENSION), "not finite, or too large"),
    "no vectors": (body_of(vector=None, vectors=[]), "a list of 1 to 100 vectors"),
    "too many vectors": (body_of(vector=None, vectors=[query()] * 101), "a list of 1 to 100 vectors"),
    "vectors of several lengths": (body_of(vector=None, vectors=[query(), [1.0]]), "the same dimension"),
    "k is zero": (body_of(k=0), "'k' must be from 1 to 10,000"),
    "k is negative": (body_of(k=-1), "'k' must be from 1 to 10,000"),
    "k is no integer": (body_of(k=1.5), "'k' must be an integer"),
    "k is true": (body_of(k=True), "'k' must be an integer"),
    "k is too large": (body_of(k=10_001), "'k' must be from 1 to 10,000"),
    "k for many vectors": (body_of(vector=None, vectors=[query()] * 50, k=201), "'k' must be from 1 to 200"),
    "an unknown metric": (body_of(metric="manhattan"), "'metric' must be one of"),
    "a number for a metric": (body_of(metric=1), "'metric' must be text"),
    "an unknown column to select": (body_of(select=["idd"]), "no column 'idd'"),
    "a select that is no list": (body_of(select="id"), "'select' must be a list of text"),
    "an unknown column in the filter": (body_of(filter={"type": "is-null", "term": "x"}), "no column 'x'"),
    "a filter that is none": (body_of(filter=5), "an expression must be true, false or an object"),
    "a filter that cannot be applied": (
        body_of(
            filter={
                "type": "eq",
                "term": {"type": "transform", "transform": "bucket[4]", "term": "id"},
                "value": 1,
            }
        ),
        "transform or function",
    ),
    "exact is text": (body_of(exact="yes"), "'exact' must be true or false"),
    "an unknown snapshot": (body_of(**{"snapshot-id": 42}), "no snapshot 42"),
    "a snapshot that is text": (body_of(**{"snapshot-id": "main"}), "'snapshot-id' must be an integer"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_request_names_what_is_wrong(points: LakeTable, client: Client, case: str) -> None:
    body, said = BAD[case]
    status, kind, message = client.post(SEARCH, body).error
    assert (status, kind) == (400, "BadRequestException"), message
    assert said in message


def test_tables_that_are_not_there(client: Client, points: LakeTable) -> None:
    assert client.post("/namespaces/lake/tables/none/search", body_of()).error[:2] == (404, "NoSuchTableException")


def test_a_data_file_that_is_missing_or_elsewhere_is_refused(
    catalog: FrazilCatalog, client: Client, tmp_path: Path
) -> None:
    catalog.create_table("lake.gone", SCHEMA)
    table = Lake(catalog=catalog).table("lake.gone")
    table.append(vectors_from(0, 3))
    (task,) = table.load().scan().plan_files()
    path = Path(task.file.file_path.removeprefix("file://"))
    content = path.read_bytes()
    path.unlink()
    status, kind, message = client.post("/namespaces/lake/tables/gone/search", body_of()).error
    assert (status, kind) == (422, "UnprocessableEntityException")
    assert path.name in message
    (tmp_path / "elsewhere").write_bytes(content)
    path.symlink_to(tmp_path / "elsewhere")
    assert client.post("/namespaces/lake/tables/gone/search", body_of()).error[:2] == (403, "ForbiddenException")


# --- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [{"search_rows": 99}, {"search_bytes": 4000}])
def test_a_search_compares_no_more_rows_than_the_limit(
    server: EmbeddedCatalog, points: LakeTable, limits: dict[str, int]
) -> None:
    with running_catalog(server.folder, limits=Limits(**limits)) as other:
        client = Client(other.uri)
        status, _, message = client.post(SEARCH, body_of()).error
        assert (status, "would compare more than" in message) == (400, True)
        first = points.load().metadata.snapshots[0].snapshot_id
        assert client.post(SEARCH, body_of(**{"snapshot-id": first})).status == 200


def test_an_answer_has_no_more_bytes_than_the_limit(catalog: FrazilCatalog, client: Client) -> None:
    catalog.create_table("lake.wide", SCHEMA)
    wide = [{**row, "kind": "x" * 1_000_000} for row in vectors_from(0, 20)]
    Lake(catalog=catalog).table("lake.wide").append(wide)
    path = "/namespaces/lake/tables/wide/search"
    status, _, message = client.post(path, body_of(k=20)).error
    assert (status, "select fewer columns" in message) == (400, True)
    assert client.post(path, body_of(k=20, select=["id"])).status == 200
    assert client.post(path, body_of(k=2)).status == 200


class SlowFiles(LocalFiles):
    """Files whose opening waits for the test."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.opening, self.go_on = threading.Event(), threading.Event()

    def open(self, place: Any) -> IO[bytes]:
        self.opened.append(place.path)
        self.opening.set()
        assert self.go_on.wait(60)
        return super().open(place)


def test_searches_over_the_limit_are_refused_while_others_run(
    server: EmbeddedCatalog, points: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_catalog(server.folder, limits=Limits(searches=1)) as other:
        files = SlowFiles()
        monkeypatch.setattr(other.app.ctx.files, "_local", files)
        statuses: list[int] = []
        thread = threading.Thread(target=lambda: statuses.append(Client(other.uri).post(SEARCH, body_of()).status))
        thread.start()
        assert files.opening.wait(60)
        answer = Client(other.uri).post(SEARCH, body_of())
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        with raises(TooBusy):
            FrazilCatalog("lake", **other.properties).search_table("lake.points", "embedding", query())
        assert Client(other.uri).raw("GET", "/readyz").status == 200
        files.go_on.set()
        thread.join(60)
        assert statuses == [200]
        assert Client(other.uri).post(SEARCH, body_of()).status == 200


def test_a_search_stops_when_the_client_leaves(
    server: EmbeddedCatalog, points: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_catalog(server.folder) as other:
        files = SlowFiles()
        monkeypatch.setattr(other.app.ctx.files, "_local", files)
        with target_of(other) as (_, connection):
            body = json.dumps(body_of()).encode()
            connection.sendall(post(f"{NAMESPACES}/lake/tables/points/search", body))
            assert files.opening.wait(60)
        assert wait_until(lambda: all_over(other), 60)
        files.go_on.set()
        assert wait_until(lambda: counted(other, "searchTable", 499) == 1, 60)
        assert len({*files.opened}) == 1  # the first file, and no other after it
        assert Client(other.uri).post(SEARCH, body_of()).status == 200
