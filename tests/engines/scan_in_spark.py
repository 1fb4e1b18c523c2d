"""What the tests of scans do inside Spark's process: called with the session, by name."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any
from unittest import mock

from frazil import Lake
from frazil.config import load_settings
from frazil.lake.engines import prepare
from frazil.project import load_project
from frazil.scan.engines.spark import run_sql
from tests.kit.lineage_events import receiver
from tests.kit.notebooks import KernelShell, open_shell


def read_scan(spark: Any, flags: dict[str, str], name: str, where: str | None, columns: list[str]) -> list[Any]:
    """The rows of a scan as Spark has them, in order."""
    scan = Lake(load_settings(flags=flags)).table(name).scan(where, columns)
    return sorted([list(row) for row in scan.to_spark(spark).collect()], key=repr)


def read_scan_in_active_session(_: Any, flags: dict[str, str], name: str, where: str) -> list[Any]:
    """The same rows without a session in the call: the active one reads them."""
    scan = Lake(load_settings(flags=flags)).table(name).scan(where, ["id"])
    return sorted(row.id for row in scan.to_spark().collect())


def run_twice(spark: Any, flags: dict[str, str], folder: str) -> list[Any]:
    """What `lake.run` says of a pipeline with new files, and of its second run: rows, files and snapshot; the
    events of OpenLineage that it sends; and what a notebook shows of the first run.
    """
    lake, home = Lake(load_settings(flags=flags)), Path(folder)
    with contextlib.chdir(home), receiver() as (url, events), mock.patch.dict(os.environ, OPENLINEAGE_URL=url):
        lake.apply(load_project(home).tables)
        with open_shell(KernelShell, home) as pages:
            results = [lake.run("load", spark=spark)]
        results.append(lake.run("load", spark=spark))
    rows = lake.table("zoo.landed").scan().to_arrow().sort_by("id").to_pylist()
    sent = [(event["eventType"], event["job"]["name"]) for event in events]
    counts = [(result.rows, result.files, result.snapshot_id) for result in results]  # type: ignore[union-attr]
    return [counts, rows, sent, pages.sent[-1][0]["text/plain"]]


def explain_scan(spark: Any, flags: dict[str, str], name: str, where: str, columns: list[str]) -> list[Any]:
    """What Spark pushes down, keeps to itself, and which columns it asks for."""
    engine = (
        Lake(load_settings(flags=flags)).table(name).scan(where, columns).explain(engine="spark", session=spark).engine
    )
    assert engine is not None
    return [list(engine.pushed), list(engine.kept), list(engine.columns), engine.plan]


def query(spark: Any, flags: dict[str, str], sql: str, at: Any) -> list[Any]:
    """The rows of a query on Spark at a point."""
    lake = Lake(load_settings(flags=flags))
    return [
        list(row.values())
        for row in run_sql(spark, prepare(lake, sql, "spark", at=at), catalog=lake.settings.catalog.name).to_pylist()
    ]
