"""Spark and Trino on the local stack with vended credentials, and no keys of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from frazil.services.trino import Trino, run_query
from tests.engines.spark_sql import SparkProcess
from tests.kit.stack import Project, keep_logs, make_project

KEY_LINES = ("s3.aws-access-key=", "s3.aws-secret-key=")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """An object store and a catalog, as `frazil up` starts them."""
    project = make_project(tmp_path_factory.mktemp("vending") / "project")
    project.frazil("up")
    url = f"{project.settings.catalog.uri}/v1/namespaces"
    requests.post(url, json={"namespace": ["ns"]}, timeout=30).raise_for_status()
    yield project
    project.frazil("down")
    keep_logs(project)
    project.frazil("down", "--purge", "--yes")


class KeylessTrino(Trino):
    """Trino that asks the catalog for credentials."""

    def _iceberg(self) -> str:
        lines = [line for line in super()._iceberg().splitlines() if not line.startswith(KEY_LINES)]
        return "\n".join([*lines, "iceberg.rest-catalog.vended-credentials-enabled=true", ""])


def test_the_check_passes_on_the_stack(stack: Project) -> None:
    done = stack.frazil("warehouse", "check")
    assert "role arn:aws:iam::role/frazil-vending: credentials work inside and fail outside" in done.stdout


def test_spark_reads_and_writes_without_keys_of_its_own(stack: Project, tmp_path: Path) -> None:
    flags = {
        "catalog.uri": stack.settings.catalog.uri,
        "catalog.name": "lake",
        "s3.endpoint": f"http://127.0.0.1:{stack.settings.stack.ports.object_store}",
        "spark.conf.spark.sql.catalog.lake.header.X-Iceberg-Access-Delegation": "vended-credentials",
    }
    spark = SparkProcess(flags, tmp_path)
    try:
        spark.sql("CREATE TABLE lake.ns.spark (id BIGINT) USING iceberg")
        spark.sql("INSERT INTO lake.ns.spark VALUES (1), (2), (3)")
        spark.sql("DELETE FROM lake.ns.spark WHERE id = 2")
        assert spark.sql("SELECT id FROM lake.ns.spark ORDER BY id") == [(1,), (3,)]
    finally:
        spark.close()


def test_trino_reads_and_writes_without_keys_of_its_own(stack: Project) -> None:
    trino = KeylessTrino(stack.settings)
    trino.start()
    try:
        run_query(trino.port, "CREATE TABLE iceberg.ns.trino AS SELECT CAST(1 AS BIGINT) AS id")
        run_query(trino.port, "INSERT INTO iceberg.ns.trino VALUES 2, 3")
        assert run_query(trino.port, "SELECT id FROM iceberg.ns.trino ORDER BY id") == [[1], [2], [3]]
    finally:
        trino.stop()
