"""The Spark that `frazil up --with spark` keeps, and the commands that use it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from frazil.client import connect
from frazil.processes import wait_until
from frazil.project import load_project
from frazil.spark import KAFKA_JARS, read_record
from frazil.spark.warm_record import WarmRecord
from tests.kit.lineage_events import check_event, receiver
from tests.kit.stack import Project, keep_logs, make_project

ROOT = Path(__file__).parents[2]
HEADER = "order_id,customer_id,amount,country,ingestion_date,updated_at\n"
CUSTOMERS = """
name: names are capitalised
model: silver.customers
given: {lakehouse.customers: [{customer_id: C1, name: " ada lovelace", country: uk}]}
expect: [{customer_id: C1, name: Ada Lovelace, country: UK}]
"""


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The sales example with a warm Spark: started once, since a start takes longer than all tests."""
    project = make_project(tmp_path_factory.mktemp("warm") / "project", PYTHONPATH=str(ROOT))
    shutil.copy(ROOT / "examples/sales/lakehouse.py", project.folder)
    shutil.copytree(ROOT / "examples/sales/models", project.folder / "models")
    try:
        project.frazil("up", "--with", "spark")
        yield project
    finally:
        keep_logs(project)
        project.frazil("down", "--purge", "--yes")
    assert project.processes() == []


def record(project: Project) -> WarmRecord:
    written = read_record(project.folder / ".frazil" / "spark")
    assert written is not None
    return written


def start(project: Project, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.engines.warm_client", *arguments]
    environment = {**os.environ, **project.environment}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=project.folder, env=environment, stdout=pipe, stderr=pipe, text=True)


def answer(client: subprocess.Popen[str]) -> dict[str, Any]:
    said, errors = client.communicate()
    assert client.returncode == 0, said + errors
    result: dict[str, Any] = json.loads(said.splitlines()[-1])
    return result


def write_orders(project: Project, name: str, orders: int) -> None:
    (project.folder / "landing").mkdir(exist_ok=True)
    lines = (f"{name}-{number},CUST-1,1.50,ch,2024-01-15,2024-01-15T08:00:00\n" for number in range(orders))
    (project.folder / "landing" / f"{name}.csv").write_text(HEADER + "".join(lines))


def test_runs_and_tests_use_the_warm_spark_and_leave_it_running(warm: Project) -> None:
    warm.frazil("apply", "--yes")
    runs = []
    for name in ("a", "b"):
        write_orders(warm, name, 500)
        runs.append(json.loads(warm.frazil("run", "daily_sales", "--output", "json").stdout))
    assert [run["rows"] for run in runs] == [500, 500]
    (warm.folder / "tests").mkdir()
    (warm.folder / "tests" / "customers.yml").write_text(CUSTOMERS)
    assert json.loads(warm.frazil("test", "--output", "json").stdout)["passed"] == 1
    assert warm.status()["spark"]["state"] == "ready"
    log = warm.folder / ".frazil/spark/spark.log"
    assert not log.exists() or not log.read_text()  # no Spark was started by a command


def test_models_side_by_side_find_the_catalog_in_the_warm_spark(warm: Project) -> None:
    """Their sessions are made from the command's own, which alone has the catalog's settings."""
    warm.frazil("apply", "--yes")
    write_orders(warm, "c", 10)
    warm.frazil("run", "daily_sales")
    done = json.loads(warm.frazil("run", "silver.*", "--threads", "2", "--output", "json").stdout)
    assert {result["table"]: result["status"] for result in done["results"]} == {
        "silver.orders": "committed",
        "silver.customers": "committed",
    }


@pytest.fixture
def lineage(warm: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """The events of OpenLineage that commands of the project send."""
    with receiver() as (url, events):
        for name, value in {**warm.environment, "OPENLINEAGE_URL": url}.items():
            monkeypatch.setenv(name, value)
        yield events


@pytest.mark.filterwarnings("ignore")  # Dagster's own
def test_dagster_materialises_the_graph_and_every_run_sends_its_events(
    warm: Project, lineage: list[dict[str, Any]]
) -> None:
    import dagster

    from frazil.dagster import project_assets

    warm.frazil("apply", "--yes")
    write_orders(warm, "d", 20)
    done = dagster.materialize([project_assets(load_project(warm.folder))])
    events = [event.step_materialization_data.materialization for event in done.get_asset_materialization_events()]
    shown = {".".join(event.asset_key.path): event.metadata for event in events}
    tables = ("lakehouse.sales", "silver.orders", "gold.revenue")
    snapshots = {name: int(shown[name]["frazil/snapshot_id"].value) for name in tables}
    catalog = connect(warm.settings)
    loaded = {name: catalog.load_table(name) for name in tables}
    assert {name: table.current_snapshot().snapshot_id for name, table in loaded.items()} == snapshots
    assert shown["lakehouse.sales"]["dagster/row_count_written"].value == 20
    assert shown["silver.orders"]["frazil/input_snapshots"].value == {
        "lakehouse.sales": str(snapshots["lakehouse.sales"])
    }
    for event in lineage:
        check_event(event)
    complete = {event["job"]["name"]: event for event in lineage if event["eventType"] == "COMPLETE"}
    assert {event["job"]["name"] for event in lineage if event["eventType"] == "START"} == set(complete)
    assert {"frazil run", "daily_sales", "silver.orders", "gold.revenue"} <= set(complete)
    (output,) = complete["silver.orders"]["outputs"]
    assert output["facets"]["version"]["datasetVersion"] == str(snapshots["silver.orders"])
    (source,) = complete["daily_sales"]["inputs"]
    assert source["name"] == str(warm.folder / "landing/d.csv")


@pytest.mark.filterwarnings("ignore")  # Dagster's own
def test_a_run_that_fails_fails_its_asset_and_sends_an_event(warm: Project, lineage: list[dict[str, Any]]) -> None:
    import dagster

    from frazil.dagster import project_assets

    warm.frazil("apply", "--yes")
    bad = warm.folder / "landing" / "bad.csv"
    bad.parent.mkdir(exist_ok=True)
    bad.write_text(HEADER + "1,CUST-1,much,ch,2024-01-15,2024-01-15T08:00:00\n")
    assets = project_assets(load_project(warm.folder))
    done = dagster.materialize([assets], selection=["lakehouse/sales"], raise_on_error=False)
    bad.unlink()
    (failure,) = [event.step_failure_data.user_failure_data for event in done.all_events if event.is_step_failure]
    assert "daily_sales" in failure.description
    for event in lineage:
        check_event(event)
    assert [(event["eventType"], event["job"]["name"]) for event in lineage] == [
        ("START", "frazil run"),
        ("START", "daily_sales"),
        ("FAIL", "daily_sales"),
        ("FAIL", "frazil run"),
    ]
    assert lineage[2]["run"]["facets"]["errorMessage"]["message"] in failure.description


def test_two_clients_at_once_have_accumulators_and_callbacks_of_their_own(warm: Project) -> None:
    clients = [start(warm, "count_in_tasks") for _ in range(2)]
    first, second = map(answer, clients)
    assert first == second
    assert first["result"] == {"counted": 100, "seen": [1, 2]}
    assert first["jvm"] in [child.pid for child in psutil.Process(record(warm).pid).children(recursive=True)]


def test_workers_see_the_projects_modules_as_they_are_now(warm: Project) -> None:
    words = []
    for word in ("old", "new"):
        (warm.folder / "rules.py").write_text(f"WORD = '{word}'\n")
        words += answer(start(warm, "apply_rules"))["result"]
    assert words == [f"old in {warm.folder}", f"new in {warm.folder}"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_jobs_of_a_client_that_ends_are_cancelled(warm: Project, tmp_path: Path, number: signal.Signals) -> None:
    started, log = tmp_path / "started", Path(warm.status()["spark"]["log"])
    client = start(warm, "work_for_ever", str(started))
    assert wait_until(started.exists, 120)
    client.send_signal(number)
    client.communicate()
    gone = f"(pid {client.pid}) is gone"
    assert wait_until(lambda: gone in log.read_text(), 60)
    assert answer(start(warm, "count_in_tasks"))["result"]["counted"] == 100
    assert wait_until(lambda: _python_workers(record(warm).pid) == 0, 60)


def _python_workers(pid: int) -> int:
    """Processes that were forked from the one that forks workers."""
    daemons = [process for process in _family(pid) if "frazil.spark.worker_daemon" in process.cmdline()]
    return len([process for process in daemons if process.ppid() in {daemon.pid for daemon in daemons}])


def test_other_settings_and_other_jars_are_named(warm: Project) -> None:
    (memory,) = answer(start(warm, "reasons", "3g", *KAFKA_JARS))["result"]
    (jar,) = answer(start(warm, "reasons", "2g", "org.example:x:1"))["result"]
    assert "setting spark.driver.memory is '3g' here and '2g' there" in memory
    assert "it has no jar org.example:x:1" in jar


def test_the_secret_is_in_no_command_line_and_no_log_and_the_file_is_private(warm: Project) -> None:
    driver, file = record(warm), warm.folder / ".frazil/spark/driver.json"
    family = _family(driver.pid)
    texts = [" ".join(process.cmdline()) for process in family] + [Path(warm.status()["spark"]["log"]).read_text()]
    assert not any(driver.secret in text for text in texts)
    assert file.stat().st_mode & 0o777 == 0o600
    listening = [each.laddr.ip for each in _connections(family) if each.status == psutil.CONN_LISTEN]
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}


def _family(pid: int) -> list[psutil.Process]:
    """A process and all that it started, without those that have ended."""
    driver = psutil.Process(pid)
    family = [driver, *driver.children(recursive=True)]
    return [process for process in family if process.status() != psutil.STATUS_ZOMBIE]


def _connections(family: list[psutil.Process]) -> list[Any]:
    return [connection for process in family for connection in process.net_connections("inet")]


def test_a_stranger_without_the_secret_gets_nothing(warm: Project) -> None:
    with socket.create_connection(("127.0.0.1", record(warm).port), timeout=30) as line:
        line.sendall(b'{"secret": "guess", "attach": "me"}\n')
        assert json.loads(line.makefile("rb").readline()) == {"error": "another secret"}


def test_a_warm_spark_that_died_is_reported(warm: Project) -> None:
    dead = record(warm)
    os.kill(dead.pid, signal.SIGKILL)
    assert wait_until(lambda: not dead.is_alive, 60)
    (reason,) = answer(start(warm, "reasons", "2g"))["result"]
    assert reason.startswith("the warm Spark is not used, a new one is started: it has ended")
    assert wait_until(lambda: warm.status()["spark"]["state"] == "failed", 60)  # the JVM ends with its parent
