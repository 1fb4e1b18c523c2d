"""Upkeep on a real S3 server (SeaweedFS): what is removed is gone, without a trace, and everything else is there."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from pyiceberg.table import Table

from frazil.client import FrazilCatalog
from frazil.upkeep.policy import DAY_MS, STEPS
from frazil.upkeep.steps import Keeper, now_ms
from tests.contract.upkeep_lake import Kept, during
from tests.kit.fixtures import BUCKET


@pytest.fixture
def bucket(s3_store: dict[str, str]) -> Any:
    user, secret = s3_store["s3.access-key-id"], s3_store["s3.secret-access-key"]
    keys = {"aws_access_key_id": user, "aws_secret_access_key": secret}
    return boto3.resource("s3", endpoint_url=s3_store["s3.endpoint"], region_name="us-east-1", **keys).Bucket(BUCKET)


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
    assert [report.problems for report in reports] == [()] * len(STEPS)
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
