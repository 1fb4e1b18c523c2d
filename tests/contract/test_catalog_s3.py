"""Warehouses on a real S3 server (SeaweedFS), on both databases: the walk-through with PyIceberg, and files that
vanish.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import obstore
import pyarrow as pa
import pytest
from botocore.config import Config
from deltalake import DeltaTable
from obstore.store import S3Store
from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, TableAlreadyExistsError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import FloatType, ListType, LongType, NestedField, StringType

import frazil.sinks
from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.catalog.files.access import S3Access
from frazil.client import FrazilCatalog
from frazil.config import load_settings
from frazil.errors import Unavailable, WriteFailed
from frazil.lake import Lake
from frazil.scan.reading.removals import reading
from frazil.services import ports
from frazil.services.object_store import ObjectStore
from frazil.storage_errors import StorageFault, classify
from frazil.write.commit.publish import RetryPolicy
from tests.kit.catalog_databases import SCHEMA, Client

EMBEDDINGS = Schema(
    NestedField(11, "id", LongType(), required=True),
    NestedField(12, "text", StringType()),
    NestedField(13, "embedding", ListType(14, FloatType(), element_required=True)),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A running object store: the environment that reaches it."""
    folder = tmp_path_factory.mktemp("s3")
    flags = {
        "stack.folder": str(folder),
        "stack.ports.object_store": str(ports.free_port()),
        "stack.bucket": "lakehouse",
    }
    service = ObjectStore(load_settings(flags=flags, environ={}, folder=folder))
    service.start()
    stack = service.settings.stack
    yield {
        "AWS_ENDPOINT_URL": f"http://{ports.HOST}:{service.port}",
        "AWS_ACCESS_KEY_ID": stack.access_key_id,
        "AWS_SECRET_ACCESS_KEY": stack.secret_access_key.get_secret_value(),
        "AWS_REGION": "us-east-1",
    }
    service.stop()
    for path in service.purge_paths():
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def bucket(store: dict[str, str]) -> Any:
    keys = {"aws_access_key_id": store["AWS_ACCESS_KEY_ID"], "aws_secret_access_key": store["AWS_SECRET_ACCESS_KEY"]}
    return boto3.resource("s3", endpoint_url=store["AWS_ENDPOINT_URL"], region_name="us-east-1", **keys).Bucket(
        "lakehouse"
    )


@pytest.fixture
def server(
    database: str, store: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[EmbeddedCatalog]:
    for name, value in store.items():
        monkeypatch.setenv(name, value)
    with running_catalog(
        tmp_path, database=database, warehouses={"default": f"s3://lakehouse/{tmp_path.name}"}
    ) as running:
        yield running


@pytest.fixture
def lake(server: EmbeddedCatalog, store: dict[str, str]) -> Catalog:
    """PyIceberg, with the location of the warehouse as its name, as in the walk-through."""
    keys = {"s3.access-key-id": store["AWS_ACCESS_KEY_ID"], "s3.secret-access-key": store["AWS_SECRET_ACCESS_KEY"]}
    return load_catalog("lake", type="rest", uri=server.uri, warehouse=server.warehouse, **keys)


def rows(count: int) -> pa.Table:
    columns = {
        "id": range(count),
        "text": [f"t{n}" for n in range(count)],
        "embedding": [[float(n)] * 128 for n in range(count)],
    }
    fields = [pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())]
    fields.append(pa.field("embedding", pa.list_(pa.field("element", pa.float32(), nullable=False))))
    return pa.table(columns, schema=pa.schema(fields))


@pytest.mark.requirement("flow.namespace")
def test_a_namespace_is_created_once_and_nothing_is_written_to_storage(
    lake: Catalog, bucket: Any, tmp_path: Path
) -> None:
    lake.create_namespace("docs")
    with pytest.raises(NamespaceAlreadyExistsError):
        lake.create_namespace("docs")
    assert lake.list_namespaces() == [("docs",)]
    assert list(bucket.objects.filter(Prefix=tmp_path.name)) == []


@pytest.mark.requirement("flow.create")
def test_a_table_with_embeddings_gets_ids_place_and_metadata_from_the_server(
    lake: Catalog, server: EmbeddedCatalog
) -> None:
    lake.create_namespace("docs")
    spec = PartitionSpec(PartitionField(11, 1000, BucketTransform(4), "id_bucket"))
    order = SortOrder(SortField(11, transform=IdentityTransform()))
    table = lake.create_table(
        "docs.embeddings", EMBEDDINGS, partition_spec=spec, sort_order=order, properties={"owner": "docs"}
    )
    assert [(field.field_id, field.name) for field in table.schema().fields] == [
        (1, "id"),
        (2, "text"),
        (3, "embedding"),
    ]
    assert [(f.source_id, f.field_id) for f in table.spec().fields] == [(1, 1000)]
    assert table.sort_order().fields[0].source_id == 1
    assert table.location() == f"{server.warehouse}/docs/embeddings"
    assert table.metadata_location.startswith(f"{table.location()}/metadata/00000-")
    assert table.properties["owner"] == "docs"
    with pytest.raises(TableAlreadyExistsError):
        lake.create_table("docs.embeddings", EMBEDDINGS)


@pytest.mark.requirement("flow.stage")
def test_a_staged_table_appears_with_its_commit_and_its_rows(lake: Catalog) -> None:
    lake.create_namespace("docs")
    with lake.create_table_transaction("docs.staged", EMBEDDINGS) as transaction:
        transaction.append(rows(3))
        assert not lake.table_exists("docs.staged")
    assert lake.load_table("docs.staged").scan().to_arrow().num_rows == 3


def test_rows_are_appended_and_scanned_with_a_filter_and_a_projection(lake: Catalog) -> None:
    lake.create_namespace("docs")
    table = lake.create_table("docs.embeddings", EMBEDDINGS)
    table.append(rows(10))
    table.append(rows(10))
    result = lake.load_table("docs.embeddings").scan(row_filter="id >= 8", selected_fields=("id", "text")).to_arrow()
    assert sorted(result.to_pylist(), key=str) == sorted([{"id": n, "text": f"t{n}"} for n in (8, 9)] * 2, key=str)


def test_the_server_plans_a_scan_from_manifests_in_the_store(lake: Catalog) -> None:
    lake.create_namespace("docs")
    lake.create_table("docs.planned", EMBEDDINGS)
    lake.load_table("docs.planned").append(rows(10))
    lake.properties["scan-planning-mode"] = "server"
    table = lake.load_table("docs.planned")
    assert table.scan(row_filter="id >= 8", selected_fields=("id",)).to_arrow().column("id").to_pylist() == [8, 9]
    assert list(table.scan(row_filter="id >= 10").plan_files()) == []


def test_the_server_tells_where_the_store_is_and_never_its_keys(server: EmbeddedCatalog, store: dict[str, str]) -> None:
    body = Client(server.uri).raw("GET", "/v1/config").body
    assert body["defaults"]["s3.endpoint"] == store["AWS_ENDPOINT_URL"]
    assert store["AWS_SECRET_ACCESS_KEY"] not in str(body)


def test_a_file_that_vanishes_from_the_bucket_is_noticed_within_seconds(server: EmbeddedCatalog, bucket: Any) -> None:
    client = Client(server.uri)
    result = client.create()
    bucket.Object(result["metadata-location"].removeprefix("s3://lakehouse/")).delete()
    server.app.ctx.files.cache.get(result["metadata-location"]).checked_at -= 60  # as if the last look was a minute ago
    assert client.get("/namespaces/ns/tables/t").error[:2] == (404, "NotFoundException")


@pytest.mark.requirement("flow.layout")
def test_metadata_and_data_lie_in_their_folders_and_a_purge_takes_them_all(
    lake: Catalog, server: EmbeddedCatalog, bucket: Any
) -> None:
    lake.create_namespace("docs")
    table = lake.create_table("docs.gone", EMBEDDINGS)
    table.append(rows(5))
    table.overwrite(rows(2))
    prefix = table.location().removeprefix("s3://lakehouse/") + "/"
    folders = {item.key.removeprefix(prefix).split("/")[0] for item in bucket.objects.filter(Prefix=prefix)}
    assert folders == {"metadata", "data"}
    # what the overwrite replaced stays for time travel
    assert len(list(bucket.objects.filter(Prefix=f"{prefix}data/"))) == 2
    lake.purge_table("docs.gone")
    server.app.ctx.background.submit(int).result()
    assert list(bucket.objects.filter(Prefix=prefix)) == []


def test_orphans_are_swept_from_the_bucket(server: EmbeddedCatalog, bucket: Any, tmp_path: Path) -> None:
    from frazil.catalog.sweep import delete_orphans, find_orphans

    Client(server.uri).create()
    key = f"{tmp_path.name}/ns/t/metadata/00001-orphan.metadata.json"
    bucket.put_object(Key=key, Body=b"{}")
    orphans = find_orphans(server.app.ctx, older_than_ms=-60_000)
    assert [orphan.location for orphan in orphans] == [f"s3://lakehouse/{key}"]
    assert delete_orphans(server.app.ctx, orphans) == 1
    assert Client(server.uri).load()["metadata"]["current-snapshot-id"] == -1


def test_a_store_that_is_away_is_a_clear_error_and_a_commit_a_conflict(
    server: EmbeddedCatalog, store: dict[str, str], tmp_path: Path
) -> None:
    Client(server.uri).create()
    away = f"http://{ports.HOST}:{ports.free_port()}"
    with pytest.MonkeyPatch.context() as patch:
        moved = S3Access(endpoint=away, path_style=True)
        patch.setattr(server.app.ctx.files, "_access_to", lambda place: moved)
        client = Client(server.uri)
        created = client.post("/namespaces/ns/tables", {"name": "u", "schema": SCHEMA})
        committed = client.commit({"action": "set-properties", "updates": {"a": "b"}})
    assert created.error[:2] == (503, "ServiceUnavailableException")
    assert committed.error[:2] == (409, "CommitFailedException")
    assert "Nothing was committed: the object store failed" in committed.error[2]


def without_keys(environment: pytest.MonkeyPatch, store: dict[str, str]) -> None:
    """The environment of a user who knows where the store is, and has no keys for it."""
    for name in store:
        environment.delenv(name)
    environment.setenv("AWS_ENDPOINT_URL", store["AWS_ENDPOINT_URL"])
    environment.setenv("AWS_EC2_METADATA_DISABLED", "true")


def test_a_scan_without_keys_says_so_and_does_not_blame_the_files(
    lake: Catalog, server: EmbeddedCatalog, store: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create_namespace("docs")
    lake.create_table("docs.locked", EMBEDDINGS).append(rows(2))
    without_keys(monkeypatch, store)
    table = load_catalog("open", type="rest", uri=server.uri, warehouse=server.warehouse).load_table("docs.locked")
    with pytest.raises(Unavailable) as of_manifests:
        Lake(catalog=FrazilCatalog("open", uri=server.uri, warehouse=server.warehouse)).table(
            "docs.locked"
        ).scan().to_arrow()
    assert of_manifests.value.lasting
    assert "AWS_ACCESS_KEY_ID" in str(of_manifests.value.hint)
    assert "older snapshot" not in str(of_manifests.value)
    with pytest.raises(Unavailable) as of_rows, reading("s3://lakehouse/x.parquet"):
        table.io.new_input("s3://lakehouse/x.parquet").open().read()
    assert "AWS_ACCESS_KEY_ID" in str(of_rows.value.hint)


def test_a_server_whose_keys_are_refused_says_so(server: EmbeddedCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    Client(server.uri).create()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    server.app.ctx.files._s3.clear()  # as a server that starts now
    created = Client(server.uri).post("/namespaces/ns/tables", {"name": "u", "schema": SCHEMA})
    assert created.error[:2] == (503, "ServiceUnavailableException")
    assert "AWS_SECRET_ACCESS_KEY" in created.error[2]


REFUSALS = {
    "unknown key": {"AWS_ACCESS_KEY_ID": "unknown"},
    "wrong secret": {"AWS_SECRET_ACCESS_KEY": "wrong"},
    "nothing listens": {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"},
}


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("library", ["pyarrow", "obstore", "botocore", "deltalake"])
def test_every_library_is_understood_when_the_store_refuses_it(
    library: str, refusal: str, store: dict[str, str]
) -> None:
    with pytest.raises(Exception) as refused:
        read_with(library, store | REFUSALS[refusal])
    fault = classify(refused.value)
    if refusal == "nothing listens":
        assert fault is StorageFault.UNAVAILABLE
    else:
        assert fault.lasting, f"{fault}: {refused.value}"


def read_with(library: str, access: dict[str, str]) -> None:
    endpoint, keys = access["AWS_ENDPOINT_URL"], (access["AWS_ACCESS_KEY_ID"], access["AWS_SECRET_ACCESS_KEY"])
    if library == "pyarrow":
        once = AwsStandardS3RetryStrategy(max_attempts=1)
        known = {"access_key": keys[0], "secret_key": keys[1], "endpoint_override": endpoint, "region": "us-east-1"}
        store = S3FileSystem(**known, retry_strategy=once)
        store.open_input_file("lakehouse/x").read()
    elif library == "obstore":
        known = {"access_key_id": keys[0], "secret_access_key": keys[1], "endpoint": endpoint, "region": "us-east-1"}
        obstore.get(
            S3Store("lakehouse", **known, client_options={"allow_http": True}, retry_config={"max_retries": 0}), "x"
        ).bytes()
    elif library == "botocore":
        known = {
            "aws_access_key_id": keys[0],
            "aws_secret_access_key": keys[1],
            "endpoint_url": endpoint,
            "region_name": "us-east-1",
        }
        boto3.client("s3", config=Config(retries={"max_attempts": 0}), **known).get_object(Bucket="lakehouse", Key="x")
    else:
        DeltaTable("s3://lakehouse/x", storage_options=access | {"AWS_ALLOW_HTTP": "true", "max_retries": "0"})


def no_pause(_: float) -> None:
    raise AssertionError("it waits, and tries again")


def test_a_sink_with_wrong_keys_ends_at_once_and_names_them(lake: Catalog, server: EmbeddedCatalog) -> None:
    lake.create_namespace("docs")
    lake.create_table("docs.denied", EMBEDDINGS)
    wrong = FrazilCatalog(
        "lake", **{**server.properties, "s3.access-key-id": "frazil", "s3.secret-access-key": "wrong"}
    )
    with pytest.raises((WriteFailed, Unavailable)) as ended:
        write_a_row(wrong, "docs.denied")
    assert ended.value.lasting
    assert "AWS_ACCESS_KEY_ID" in str(ended.value.hint)


def write_a_row(catalog: FrazilCatalog, table: str) -> None:
    sink = frazil.sinks.open(table, name="s", catalog=catalog, retry=RetryPolicy(sleep=no_pause))
    sink.write(rows(1), position={"s": 1})
    sink.commit()


def test_a_sink_ends_at_once_when_the_catalog_may_not_use_its_store(lake: Catalog, server: EmbeddedCatalog) -> None:
    lake.create_namespace("docs")
    lake.create_table("docs.refused", EMBEDDINGS)
    keys = {key: value for key, value in lake.properties.items() if key.startswith("s3.")}
    sink = frazil.sinks.open(
        "docs.refused",
        name="s",
        catalog=FrazilCatalog("lake", **{**server.properties, **keys}),
        retry=RetryPolicy(sleep=no_pause),
    )
    sink.write(rows(1), position={"s": 1})
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
        server.app.ctx.files._s3.clear()  # as a server that starts now
        with pytest.raises(Unavailable) as ended:
            sink.commit()
    server.app.ctx.files._s3.clear()
    assert (ended.value.lasting, "AWS_ACCESS_KEY_ID" in str(ended.value.hint)) == (True, True)


def test_a_delta_sink_with_wrong_keys_ends_at_once(store: dict[str, str]) -> None:
    options = {**store, "AWS_SECRET_ACCESS_KEY": "wrong", "AWS_ALLOW_HTTP": "true", "conditional_put": "etag"}
    with pytest.raises(Unavailable) as ended:
        frazil.sinks.open(
            "s3://lakehouse/delta-denied", name="s", storage_options=options, retry=RetryPolicy(sleep=no_pause)
        )
    assert (ended.value.lasting, "AWS_ACCESS_KEY_ID" in str(ended.value.hint)) == (True, True)
