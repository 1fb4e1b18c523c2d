"""One project on this machine's cores and on a Spark cluster: the same rows, by settings alone, and when a worker is
lost.
"""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from frazil.catalog.embedded import running_catalog
from frazil.client import connect
from frazil.config import load_settings
from frazil.processes import wait_until
from frazil.project import load_project
from frazil.tables.apply import apply_steps, plan_all
from tests.engines.spark_cluster import SHORT_LIVED, WITH_PARENT, SparkCluster

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/sales"
SECRET = "hunter2-of-the-cluster"
DAYS = 5  # 7 MB, which are two tasks
# A module next to lakehouse.py that tasks import: they say where they run, and wait until they may go on.
PACE = """
import time
from pathlib import Path

def pace(batches):
    from pyspark import TaskContext

    number = TaskContext.get().partitionId()
    gate = Path({gate!r})
    # Renamed when it is whole: the test reads it as soon as it is there.
    (gate / f"{{number}}.writing").write_text(str(Path.cwd()))
    (gate / f"{{number}}.writing").rename(gate / f"{{number}}.at")
    while not (gate / f"{{number}}.open").exists():
        time.sleep(0.05)
    yield from batches
    (gate / f"{{number}}.done").touch()
"""


@dataclass(frozen=True)
class SalesProject:
    """A copy of the sales project, with a catalog of its own."""

    folder: Path
    uri: str

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "FRAZIL_CATALOG__URI": self.uri, "FRAZIL_CATALOG__TOKEN": SECRET}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [*WITH_PARENT, sys.executable, "-m", "frazil", *arguments]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def frazil(self, *arguments: str) -> str:
        with self.start(*arguments) as process:
            said = process.communicate()[0]
        assert process.returncode == 0, said
        return said

    def rows(self, table: str = "sales") -> list[tuple[Any, ...]]:
        """The rows in an order of their own; of the quarantine, without the times."""
        settings = load_settings(flags={"catalog.uri": self.uri}, folder=self.folder, environ={})
        result = connect(settings).load_table(f"lakehouse.{table}").scan().to_arrow()
        kept = [name for name in result.column_names if name != "quarantined_at"]
        return sorted(tuple(row.values()) for row in result.select(kept).to_pylist())


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[SalesProject]:
    with making_lake(tmp_path) as result:
        yield result


@contextmanager
def making_lake(folder: Path) -> Iterator[SalesProject]:
    project = folder / "project"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns(".frazil", "landing", "__pycache__"))
    subprocess.run([sys.executable, "landing.py", "--days", str(DAYS)], cwd=project, check=True, capture_output=True)
    with running_catalog(folder / "catalog") as server:
        catalog = connect(load_settings(flags={"catalog.uri": server.uri}, folder=folder, environ={}))
        list(apply_steps(plan_all(load_project(project).tables, catalog), catalog))
        yield SalesProject(project, server.uri)


@pytest.fixture(scope="module")
def local_rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Any, ...]]]:
    """What the pipeline gives on the cores of this machine."""
    with making_lake(tmp_path_factory.mktemp("local")) as lake:
        lake.frazil("--set", "spark.master=local[*]", "run", "daily_sales")
        return {table: lake.rows(table) for table in ("sales", "sales__quarantine")}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    spark_cluster = SparkCluster(tmp_path_factory.mktemp("cluster"))
    try:
        spark_cluster.start(workers=2)
        yield spark_cluster
    finally:
        spark_cluster.stop()


def settings_for(cluster: SparkCluster, lake: SalesProject, **more: str) -> Path:
    """A frazil.toml whose profile `cluster` names the master; returns the folder of Spark's events."""
    events = lake.folder / "events"
    events.mkdir()
    settings = {"master": cluster.master, "executor_memory": "512m", "driver_memory": "512m", **more}
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    spark = {"spark.eventLog.enabled": True, "spark.eventLog.compress": False, "spark.eventLog.dir": str(events)}
    spark |= {f"spark.{role}.extraJavaOptions": SHORT_LIVED for role in ("driver", "executor")}
    conf = [f'"{key}" = {json.dumps(value)}' for key, value in spark.items()]
    counts = ["executors = 2", "executor_cores = 1"]
    text = ["[profiles.cluster.spark]", *lines, *counts, "[profiles.cluster.spark.conf]", *conf]
    (lake.folder / "frazil.toml").write_text("\n".join(text) + "\n")
    return events


def read_events(events: Path, name: str) -> list[dict[str, Any]]:
    """What Spark wrote down of a run, of one kind."""
    lines = [json.loads(line) for file in events.rglob("events_*") for line in file.read_text().splitlines()]
    return [line for line in lines if line["Event"] == name]


def executors_with_tasks(events: Path) -> set[str]:
    return {event["Task Info"]["Executor ID"] for event in read_events(events, "SparkListenerTaskEnd")}


@pytest.mark.requirement("spark.cluster")
def test_settings_alone_bring_a_run_to_a_cluster_with_the_same_rows(
    cluster: SparkCluster, lake: SalesProject, local_rows: dict[str, list[tuple[Any, ...]]]
) -> None:
    events = settings_for(cluster, lake)
    said = lake.frazil("--profile", "cluster", "run", "daily_sales")
    assert f"daily_sales: {cluster.master}: 2 executors on " in said
    assert {table: lake.rows(table) for table in local_rows} == local_rows
    assert executors_with_tasks(events) == {"0", "1"}


@pytest.mark.soak
@pytest.mark.requirement("spark.cluster")
def test_a_worker_lost_in_the_middle_of_a_submitted_run_costs_no_row_and_doubles_none(
    cluster: SparkCluster, lake: SalesProject, local_rows: dict[str, list[tuple[Any, ...]]]
) -> None:
    gate = lake.folder / ".gate"
    gate.mkdir()
    pace_tasks(lake, gate)
    events = settings_for(cluster, lake, environment=str(pack_environment(lake.folder / ".packed")))
    with lake.start("--profile", "cluster", "submit", "daily_sales") as run:
        try:
            assert wait_until(lambda: len(list(gate.glob("*.at"))) == 2 or run.poll() is not None, 400)
            assert [
                process.pid for process in psutil.process_iter(["cmdline"]) if SECRET in str(process.info["cmdline"])
            ] == []
            lost = cluster.worker_of(Path((gate / "0.at").read_text()))
            (gate / "0.open").touch()
            assert wait_until((gate / "0.done").exists, 240)
            cluster.kill_worker(lost)  # its task has read all rows, and what it made of them is gone
            (gate / "1.open").touch()
            said = run.communicate(timeout=400)[0]
        finally:
            run.terminate()
    assert run.returncode == 0, said
    assert "/environment/bin/python" in said
    assert {table: lake.rows(table) for table in local_rows} == local_rows
    assert executors_with_tasks(events) == {"0", "1"}
    assert len(read_events(events, "SparkListenerExecutorRemoved")) == 1


def pace_tasks(lake: SalesProject, gate: Path) -> None:
    (lake.folder / "pacing.py").write_text(PACE.format(gate=str(gate)))
    declared = (lake.folder / "lakehouse.py").read_text()
    call = 'return orders.mapInArrow(pacing.pace, orders.schema).withColumn("country", F.upper("country"))'
    changed = declared.replace('return orders.withColumn("country", F.upper("country"))', call)
    assert changed != declared
    (lake.folder / "lakehouse.py").write_text(
        changed.replace("from frazil import", "import pacing\nfrom frazil import")
    )


def pack_environment(folder: Path) -> Path:
    """An environment of a few files, in an archive; the packages are those of this one."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    own = next(path for path in site.getsitepackages() if path.endswith("site-packages"))
    (packages / "own.pth").write_text(f"import site; site.addsitedir({own!r})\n")
    archive = folder.with_suffix(".tar.gz")
    with tarfile.open(archive, "w:gz") as target:
        target.add(folder, arcname=".")
    return archive
