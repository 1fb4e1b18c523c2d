"""Upkeep on a real S3 server (SeaweedFS): what is removed is gone, without a trace, and everything else is there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from pyiceberg.table import Table

from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from frazil.config import load_settings
from frazil.services import ports
from frazil.services.object_store import ObjectStore
from frazil.upkeep.policy import DAY_MS
from frazil.upkeep.steps import STEPS, Keeper, now_ms
from tests.contract.upkeep_lake import Kept, during

BUCKET = "lakehouse"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A running object store: the properties that reach it."""
    folder = tmp_path_factory.mktemp("s3")
    flags = {"stack.folder": str(folder), "stack.ports.object_store": str(ports.free_port()), "stack.bucket": BUCKET}
    service = ObjectStore(load_settings(flags=flags, environ={}, folder=folder))
    service.start()
    stack = service.settings.stack
    secret = stack.secret_access_key.get_secret_value()
    yield {
        "s3.endpoint": f"http://{ports.HOST}:{service.port}",
        "s3.access-key-id": stack.access_key_id,
        "s3.secret-access-key": secret,
    }
    service.stop()
    for path in service.purge_paths():
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def bucket(store: dict[str, str]) -> Any:
    keys = {"aws_access_key_id": store["s3.access-key-id"], "aws_secret_access_key": store["s3.secret-access-key"]}
    return boto3.resource("s3", endpoint_url=store["s3.endpoint"], region_name="us-east-1", **keys).Bucket(BUCKET)


@pytest.fixture
def s3_catalog(store: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FrazilCatalog]:
    names = {
        "s3.endpoint": "AWS_ENDPOINT_URL",
        "s3.access-key-id": "AWS_ACCESS_KEY_ID",
        "s3.secret-access-key": "AWS_SECRET_ACCESS_KEY",
    }
    for key, name in names.items():
        monkeypatch.setenv(name, store[key])
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    with running_catalog(tmp_path, warehouses={"default": f"s3://{BUCKET}/{tmp_path.name}"}) as running:
        client = FrazilCatalog("lake", **{**running.properties, **store, "s3.region": "us-east-1"})
        client.create_namespace("lake")
        yield client


def reached_by(table: Table) -> set[str]:
    """Every file that the table leads to, as PyIceberg reads it."""
    reached = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    for snapshot in table.metadata.snapshots:
        manifests = snapshot.manifests(table.io)
        reached |= {snapshot.manifest_list, *(manifest.manifest_path for manifest in manifests)}
        reached |= {
            entry.data_file.file_path for manifest in manifests for entry in manifest.fetch_manifest_entry(table.io)
        }
    return reached


def test_nothing_is_left_in_the_bucket_but_what_the_table_leads_to(s3_catalog: FrazilCatalog, bucket: Any) -> None:
    kept = Kept(s3_catalog).create("day", "name")
    for number in range(5):
        kept.append(*[number % 2] * 3)
    kept.delete(1)
    prefix = kept.live.location().removeprefix(f"s3://{BUCKET}/")
    for name in ("data/day=1/a b%3A+c/left.parquet", "metadata/left-m0.avro", "data/left.parquet"):
        bucket.put_object(Key=f"{prefix}/{name}", Body=b"left")
    keeper = Keeper(s3_catalog, kept.identifier, clock_ms=lambda: now_ms() + 10 * DAY_MS)
    reports = [keeper.perform(keeper.plan(step)) for step in STEPS]
    assert [report.problems for report in reports] == [()] * 5
    assert reports[-1].files == 3
    assert {f"s3://{BUCKET}/{item.key}" for item in bucket.objects.filter(Prefix=f"{prefix}/")} == reached_by(kept.live)
    assert kept.ids() == [0] * 9


def test_files_of_a_group_that_was_left_out_leave_no_trace(s3_catalog: FrazilCatalog, bucket: Any) -> None:
    """Removed one by one, and not as the last one of a folder: Arrow would leave an empty object in its place."""
    kept = Kept(s3_catalog).create("day", properties={"write.object-storage.enabled": "true"})
    for number in range(5):
        kept.append(number)
    kept.compact(retry=during(lambda: kept.live.delete("day == 1")))
    prefix = kept.live.location().removeprefix(f"s3://{BUCKET}/")
    assert {f"s3://{BUCKET}/{item.key}" for item in bucket.objects.filter(Prefix=f"{prefix}/data/")} <= reached_by(
        kept.live
    )
