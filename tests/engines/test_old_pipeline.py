"""A pipeline whose tables and ledger were made by commit 6cefdda goes on with this version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from frazil.config import load_settings
from frazil.pipelines.batch.run import run_pipeline
from frazil.project import load_project
from frazil.spark.session import spark_session
from tests.kit.old_lake import serving_old_lake

# PySpark leaves the sockets of `collect` to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
NEW = "order_id,amount,day,version\nORD-4,1.00,2024-01-17,1\nORD-5,much,2024-01-17,1\n"


def test_a_run_loads_the_new_file_only_and_a_second_one_nothing(tmp_path: Path) -> None:
    with serving_old_lake() as lake:
        project = load_project(lake.folder / "project")
        (project.folder / "landing/c.csv").write_text(NEW)
        flags = {"catalog.uri": lake.uri, "spark.master": "local[2]"}
        settings = load_settings(flags=flags, folder=tmp_path, environ={})
        with spark_session(settings, app_name="tests", log=tmp_path / "spark.log") as spark:
            results = [
                run_pipeline(project.pipeline("daily_sales"), spark=spark, catalog=lake.catalog, folder=project.folder)
                for _ in range(2)
            ]
        assert [(result.files, result.rows, result.quarantined) for result in results] == [(1, 1, 1), (0, 0, 0)]
        assert sorted(row["order_id"] for row in lake.rows("sales")) == ["ORD-1", "ORD-3", "ORD-4"]
        paths = sorted(row["path"] for row in lake.rows("sales__ledger"))
        assert paths == ["landing/a.csv", "landing/b.csv", "landing/c.csv"]
        assert len(lake.rows("sales__quarantine")) == 2
        assert [row["status"] for row in lake.rows("sales__runs")] == ["committed"] * 3
        assert json.loads(lake.frazil("audit", "lake.sales", "--output", "json"))["problems"] == []
