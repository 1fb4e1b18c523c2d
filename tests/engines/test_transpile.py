"""The transpile example with queries on the live SeaweedFS: killed and started again, every query is a row, once."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import boto3
import pytest

from examples.transpile.queries import write_queries
from frazil.client import FrazilCatalog
from tests.conftest import Campaign
from tests.kit.stack import Project
from tests.kit.stack_lake import connection, environment, s3_endpoint

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/transpile"
TABLE = ("lakehouse", "transpiled")


@dataclass
class Queries:
    """A prefix of the bucket with files of queries, and the program that reads them."""

    project: Project
    folder: Path
    catalog: FrazilCatalog
    prefix: str = field(default_factory=lambda: f"queries-{uuid.uuid4().hex[:8]}")

    def upload(self, name: str, count: int, *, seed: int) -> None:
        stack = self.project.settings.stack
        keys = {
            "aws_access_key_id": stack.access_key_id,
            "aws_secret_access_key": stack.secret_access_key.get_secret_value(),
        }
        client = boto3.client("s3", endpoint_url=s3_endpoint(self.project), region_name="us-east-1", **keys)
        client.upload_file(
            str(write_queries(self.folder / name, count, seed=seed)), stack.bucket, f"{self.prefix}/{name}"
        )

    @contextmanager
    def running(self, *arguments: str, program: str = "run.py") -> Iterator[subprocess.Popen[str]]:
        """The program as a user starts it; killed, if it still runs when the block ends."""
        source = f"s3://{self.project.settings.stack.bucket}/{self.prefix}"
        command = [sys.executable, str(EXAMPLE / program), source, "--flush-rows", "1000", *arguments]
        process = subprocess.Popen(
            command, cwd=self.folder, env=environment(self.project), stderr=subprocess.PIPE, text=True
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def ids(self) -> list[str]:
        if not self.catalog.table_exists(TABLE):
            return []
        return sorted(
            self.catalog.load_table(TABLE).scan(selected_fields=("query_id",)).to_arrow()["query_id"].to_pylist()
        )

    def wait_for(self, rows: int, process: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + 240
        while len(self.ids()) < rows and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.fixture
def queries(live_stack: Project, tmp_path: Path) -> Iterator[Queries]:
    catalog = FrazilCatalog("lake", **connection(live_stack))
    yield Queries(live_stack, tmp_path, catalog)
    for identifier in (TABLE, ("lakehouse", "transpiled__ledger")):
        catalog.purge_table(identifier)


@pytest.mark.requirement("arrow.transpile")
@pytest.mark.requirement("arrow.buffer")
def test_queries_on_s3_are_transpiled_once_though_the_run_is_killed(queries: Queries, campaign: Campaign) -> None:
    count = campaign.size(short=4000, full=100_000)
    queries.upload("a.parquet", count, seed=1)
    for share in (0.2, 0.6):
        with queries.running() as process:
            queries.wait_for(int(count * share), process)
    before = len(queries.ids())
    with queries.running() as process:
        _, said = process.communicate(timeout=240)
    assert queries.ids() == [f"q-1-{number:08}" for number in range(count)]
    assert f"{count - before:,} queries at " in said.replace("\n", " ")  # what was in is not done again
    errors = queries.catalog.load_table(TABLE).scan(row_filter="error is not null").to_arrow()
    assert 0 < len(errors) < count / 10
    snapshots = queries.catalog.load_table(TABLE).snapshots()
    assert {snapshot.summary["added-records"] for snapshot in snapshots if snapshot.summary} == {"1000", None}


@pytest.mark.requirement("arrow.continuous")
def test_new_files_are_picked_up_while_it_runs(queries: Queries) -> None:
    queries.upload("a.parquet", 50, seed=1)
    with queries.running("--follow", "0.2", "--read", "snowflake", "--write", "duckdb") as process:
        queries.wait_for(50, process)
        queries.upload("b.parquet", 70, seed=2)
        queries.wait_for(120, process)
    assert queries.ids() == [f"q-1-{n:08}" for n in range(50)] + [f"q-2-{n:08}" for n in range(70)]


@pytest.mark.requirement("arrow.delta")
def test_a_delta_table_on_s3_takes_every_query_once_though_the_run_is_killed(
    live_stack: Project, tmp_path: Path
) -> None:
    from deltalake import DeltaTable

    queries = Queries(live_stack, tmp_path, FrazilCatalog("lake", **connection(live_stack)))
    uri = f"s3://{live_stack.settings.stack.bucket}/delta-{queries.prefix}"
    stack = live_stack.settings.stack
    options = {
        "AWS_ENDPOINT_URL": s3_endpoint(live_stack),
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": stack.access_key_id,
        "AWS_SECRET_ACCESS_KEY": stack.secret_access_key.get_secret_value(),
    }

    def ids() -> list[str]:
        pyarrow_table = (
            DeltaTable(uri, storage_options=options).to_pyarrow_table(columns=["query_id"])
            if DeltaTable.is_deltatable(uri, options)
            else None
        )
        return sorted(pyarrow_table["query_id"].to_pylist()) if pyarrow_table is not None else []

    queries.upload("a.parquet", 3000, seed=1)
    # thirty commits: there is time to see the first ones
    with queries.running("--delta", uri, "--flush-rows", "100") as process:
        deadline = time.monotonic() + 240
        while not ids() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
    assert 0 < len(ids()) < 3000
    with queries.running("--delta", uri) as process:
        assert process.wait(240) == 0
    assert ids() == [f"q-1-{number:08}" for number in range(3000)]
